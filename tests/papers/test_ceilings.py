"""Ceilings against the exact best guess from what a level sees of a word, counted over all words of one length."""

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest

from statewise.machines import Machine, machine
from statewise.papers import ceiling

SMALL = [
    "modular_addition(2)",
    "modular_addition(3)",
    "modular_addition(4)",
    "cyclic(6, generators=standard)",
    "cycle_navigation(6)",
    "symmetric(3, generators=standard)",
    "symmetric(4, generators=standard, states=points)",
    "dihedral(4, generators=standard)",
    "quaternion(generators=standard)",
    "alternating(4, generators=standard)",
    *(f"random_machine({m}, seed={seed}, kind=permutation)" for m in (2, 3, 4) for seed in range(4)),
    *(f"random_machine(6, symbols=2, seed={seed}, kind=permutation)" for seed in range(8)),
]
Seen = tuple[int, ...]


def best_guess(built: Machine, length: int, see: Callable[[Seen, int], Seen]) -> float:
    """The share of words of a length that the best guess gets right, by what is seen of a word."""
    ways: dict[Seen, np.ndarray] = {(): np.eye(built.states)[built.start]}
    for _ in range(length):
        following: dict[Seen, np.ndarray] = defaultdict(lambda: np.zeros(built.states))
        for seen, share in ways.items():
            for a in range(built.symbols):
                np.add.at(following[see(seen, a)], built.delta[:, a], share / built.symbols)
        ways = dict(following)
    return float(sum(share.max() for share in ways.values()))


def counts(symbols: int, modulus: int) -> Callable[[Seen, int], Seen]:
    def see(seen: Seen, a: int) -> Seen:
        before = list(seen or (0,) * symbols)
        before[a] = (before[a] + 1) % modulus if modulus else before[a] + 1
        return tuple(before)

    return see


def nothing(seen: Seen, a: int) -> Seen:
    return ()


def normalised(share: float, states: int) -> float:
    return (share - 1 / states) / (1 - 1 / states)


@pytest.mark.parametrize("task", SMALL)
def test_real_and_positive_diagonals_score_what_parities_and_nothing_tell(task: str) -> None:
    built = machine(task)
    for level, see in (("diagonal", counts(built.symbols, 2)), ("positive", nothing)):
        found = ceiling(level, task, 64).value
        # long enough to mix, and even, as 500 and 10,000 are
        exact = normalised(best_guess(built, 120, see), built.states)
        assert found == pytest.approx(exact, abs=2e-3), level


@pytest.mark.parametrize("task", [task for task in SMALL if machine(task).symbols <= 2])
def test_rotations_score_what_counts_of_symbols_tell(task: str) -> None:
    built = machine(task)
    found = ceiling("rotation", task, 64).value
    shares = [normalised(best_guess(built, length, counts(built.symbols, 0)), built.states) for length in (40, 160)]
    # where one symbol hardly occurs, order is known: a share of words that shrinks with length
    assert found is not None
    assert all(share >= found - 1e-9 for share in shares)
    assert shares[1] - found <= 0.02


@pytest.mark.parametrize(("m", "score"), [(2, 1), (3, 0), (5, 0), (10, 1 / 9), (25, 0), (50, 1 / 49)])
def test_real_diagonals_see_of_sums_whether_they_are_odd(m: int, score: float) -> None:
    assert ceiling("diagonal", f"modular_addition({m})", 64).value == pytest.approx(score)
    assert ceiling("rotation", f"modular_addition({m})", 64).value == pytest.approx(1)
    assert ceiling("positive", f"modular_addition({m})", 64).value == pytest.approx(0)
    for level in ("full", "block(2)", "block(8)", "cp(64)"):
        assert ceiling(level, f"modular_addition({m})", 64).value == 1


def test_random_permutations_are_hidden_from_commuting_levels() -> None:
    for level in ("rotation", "diagonal", "positive"):
        assert ceiling(level, "random_machine(10, seed=0, kind=permutation)", 64).value == pytest.approx(0)


def test_what_is_not_known_is_none_with_a_reason() -> None:
    unknown = [
        ceiling("lstm", "modular_addition(5)", 64),
        ceiling("mamba(4)", "modular_addition(5)", 64),
        ceiling("full", "modular_addition(50)", 32),
        ceiling("full", "modular_addition(5)", 64, "input"),
        ceiling("block(2)", "random_machine(10, seed=0, kind=permutation)", 64),
        ceiling("rotation", "modular_arithmetic(5)", 64),
        ceiling("block(2)", "modular_arithmetic(5)", 64),
        ceiling("diagonal", "random_machine(10, seed=0, kind=map)", 64),
        ceiling("cp(8)", "random_machine(10, seed=0, kind=permutation)", 64),
    ]
    for found in unknown:
        assert found.value is None
        assert found.reason


def test_one_hot_states_of_legal_words_need_no_entry_for_errors() -> None:
    assert ceiling("full", "modular_arithmetic(5)", 20).value == 1
    assert ceiling("full", "modular_arithmetic(5)", 19).value is None
    assert ceiling("block(8)", "modular_arithmetic(2)", 64).value == 1


@pytest.mark.parametrize("task", ["flip_flop(2)", "tomita(1)", 'regex("a*")'])
def test_a_ceiling_is_never_above_one(task: str) -> None:
    for level in ("full", "cp(64)", "block(2)", "rotation", "diagonal", "positive"):
        value = ceiling(level, task, 64).value
        assert value is None or 0 <= value <= 1
        assert value is None or math.isfinite(value)
