"""Exact decisions: equality of a network and a machine on all words, in whole numbers.

A positive factor of a hidden state changes no answer, so a state is kept as a direction: a vector of whole numbers
without a common divisor. If words lead to finitely many pairs (direction, machine state), checking each pair once
decides all words; breadth first, the first wrong pair gives a shortest counterexample.

Where directions are infinitely many, the logits may still be a function of the machine's state: U h_w = L[q_w] for all
words w. For each machine state q let B_q be the affine hull of the hidden states that lead there. The hulls grow along
symbols and are finite-dimensional, so they are known after finitely many steps, and U must be constant on each
(Schuetzenberger's equality of rational series, in the form of Tzeng).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Bool

from statewise.machines import Machine
from statewise.theory.network import Network

MAX_PAIRS = 20_000
# whole-number weights beyond this come from training: their directions never repeat
_LARGEST_WEIGHT = 1 << 20
# which symbols may follow which states
Legal = Bool[np.ndarray, "state symbol"]
# float64 adds whole numbers below this without rounding
_EXACT = 1 << 53
# entries of directions that come back stay far below this
_LARGEST_ENTRY = 1 << 400


@dataclass(frozen=True)
class Decided:
    """An exact decision.

    Args:
        equal: whether the two answer alike on every word that is long enough.
        word: a shortest word on which they differ; None if they do not.
        checked: how many pairs or vectors were checked.
    """

    equal: bool
    word: tuple[int, ...] | None
    checked: int


def decide_by_orbit(
    network: Network, machine: Machine, shortest: int = 0, limit: int = MAX_PAIRS, legal: Legal | None = None
) -> Decided | None:
    """Decide by all reachable directions; None where there are too many, or weights are not small whole numbers.

    Args:
        network: the network under test.
        machine: the machine that it should be; the same symbols in the same order.
        shortest: words of fewer symbols do not count.
        limit: how many pairs to check at most.
        legal: which symbols may follow which states: sequences of others are not judged; None judges all.
    """
    matrices, initial, readout = network.integers
    if abs(matrices).max() > _LARGEST_WEIGHT:
        return None
    as_floats = matrices.astype(np.float64)
    largest = int(abs(matrices).max()) * network.hidden
    first = (tuple(initial.tolist()), machine.start, 0)
    reached: dict[tuple[tuple[int, ...], int, int], tuple[int, int]] = {first: (-1, -1)}
    order: list[tuple[tuple[int, ...], int, int]] = [first]
    for here, (direction, state, length) in enumerate(order):
        if length >= shortest and not _correct(readout, direction, int(machine.outputs[state])):
            return Decided(False, _word(order, reached, here), len(order))
        for symbol, there in enumerate(_move(matrices, as_floats, largest, direction)):
            if legal is not None and not legal[state, symbol]:
                continue
            following = (there, int(machine.delta[state, symbol]), min(length + 1, shortest))
            if following not in reached:
                if len(order) >= limit or max(map(abs, there)) > _LARGEST_ENTRY:
                    return None
                reached[following] = (here, symbol)
                order.append(following)
    return Decided(True, None, len(order))


def decide_by_series(
    network: Network, machine: Machine, shortest: int = 0, legal: Legal | None = None
) -> Decided | None:
    """Decide by affine hulls; None where logits are no function of the machine's state.

    That is no refutation: the largest logit may still be the correct one.
    """
    matrices = [_fractions(matrix) for matrix in network.matrices]
    readout, initial = _fractions(network.readout), _fractions(network.initial)
    hulls: dict[int, _Hull] = {}
    waiting: deque[tuple[int, np.ndarray]] = deque([(machine.start, initial)])
    checked = 0
    while waiting:
        state, h = waiting.popleft()
        checked += 1
        if state not in hulls:
            hulls[state] = _Hull(h)
            grown = h
        else:
            hull = hulls[state]
            if any((readout @ (h - hull.point)).tolist()):
                return None
            grown = h if hull.add(h - hull.point) else None
        if grown is not None:
            waiting.extend(
                (int(machine.delta[state, a]), matrix @ h)
                for a, matrix in enumerate(matrices)
                if legal is None or legal[state, a]
            )
    wrong = [q for q, hull in hulls.items() if not _largest((readout @ hull.point).tolist(), int(machine.outputs[q]))]
    # a wrong state is wrong on every word that leads there
    words = [word for q in wrong if (word := _word_to(machine, q, shortest, legal)) is not None]
    return Decided(not words, min(words, key=len, default=None), checked)


class _Hull:
    """An affine space: a point, and an echelon basis of differences."""

    def __init__(self, point: np.ndarray) -> None:
        self.point = point
        self.rows: list[tuple[int, np.ndarray]] = []

    def add(self, difference: np.ndarray) -> bool:
        """Widen the space by a difference; return whether it was new."""
        for pivot, row in self.rows:
            if difference[pivot]:
                difference = difference - difference[pivot] * row
        pivot = next((i for i, entry in enumerate(difference.tolist()) if entry), None)
        if pivot is None:
            return False
        self.rows.append((pivot, difference / difference[pivot]))
        return True


def _move(
    matrices: np.ndarray, as_floats: np.ndarray, largest: int, direction: tuple[int, ...]
) -> list[tuple[int, ...]]:
    """Return the direction after each symbol; in float64 where every sum is below 2^53, so that nothing is rounded."""
    if largest * max(map(abs, direction)) < _EXACT:
        moved = (as_floats @ np.array(direction, dtype=np.float64)).astype(np.int64)
        divisors = np.maximum(np.gcd.reduce(moved, axis=1, keepdims=True), 1)
        return [tuple(row) for row in (moved // divisors).tolist()]
    vector = np.array(direction, dtype=object)
    return [_primitive(matrix @ vector) for matrix in matrices]


def _primitive(vector: np.ndarray) -> tuple[int, ...]:
    divisor = int(np.gcd.reduce(vector)) or 1
    return tuple(value // divisor for value in vector.tolist())


def _correct(readout: np.ndarray, direction: tuple[int, ...], output: int) -> bool:
    """Return whether an output's logit is the largest, without rounding."""
    if int(abs(readout).max()) * len(direction) * max(1, *map(abs, direction)) < _EXACT:
        logits = (readout.astype(np.float64) @ np.array(direction, dtype=np.float64)).tolist()
    else:
        logits = (readout @ np.array(direction, dtype=object)).tolist()
    return _largest(logits, output)


def _largest(logits: Sequence[Any], output: int) -> bool:
    """Return whether an output's logit is larger than all others; an output beyond the readout has none."""
    if output >= len(logits):
        return False
    return all(logit < logits[output] for c, logit in enumerate(logits) if c != output)


def _word(order: list, reached: dict, place: int) -> tuple[int, ...]:
    """Return the word by which a pair was first reached."""
    symbols: list[int] = []
    while place >= 0:
        place, symbol = reached[order[place]]
        symbols.append(symbol)
    return tuple(reversed(symbols[:-1]))


def _word_to(machine: Machine, state: int, shortest: int, legal: Legal | None) -> tuple[int, ...] | None:
    """Return a shortest word of at least so many symbols that leads from the start to a state; None if none does."""
    first: tuple[int, int] = (machine.start, 0)
    words: dict[tuple[int, int], tuple[int, ...]] = {first: ()}
    waiting: deque[tuple[int, int]] = deque([first])
    while waiting:
        here = waiting.popleft()
        if here == (state, shortest):
            return words[here]
        for symbol in range(machine.symbols):
            there = (int(machine.delta[here[0], symbol]), min(here[1] + 1, shortest))
            if there not in words and (legal is None or legal[here[0], symbol]):
                words[there] = (*words[here], symbol)
                waiting.append(there)
    return None


def _fractions(values: np.ndarray) -> np.ndarray:
    made = np.empty(values.shape, dtype=object)
    made.ravel()[:] = [Fraction(value) for value in values.ravel().tolist()]
    return made
