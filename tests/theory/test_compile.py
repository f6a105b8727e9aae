"""Every machine, written at its level, is right at all lengths; at the level below there is an obstruction."""

import numpy as np
import pytest
import torch

import statewise.theory.compile as compiling
from statewise.errors import CompileError, ExpressionError
from statewise.machines import Machine, analyse, machine, minimise
from statewise.theory import classify, compile_machine, network_of
from statewise.theory.certify import decide_by_counts, decide_by_orbit, prove_horizon
from tests.catalogues import MACHINES

KNOWN_BLOCKS = {
    "symmetric(3)": 2,
    "symmetric(4)": 3,
    "alternating(4)": 3,
    "alternating(5)": 3,
    "dihedral(4)": 2,
    "dihedral(5)": 2,
    "quaternion": 4,
    "symmetric(4, states=points)": 3,
}


def proven(compiled, m):
    """Whether exact arithmetic says that a network is a machine on all words."""
    network = network_of(compiled.model)
    decided = decide_by_orbit(network, minimise(m)) or decide_by_counts(network, m)
    return decided is not None and decided.equal


def runs_right(model, m, length=300, words=8):
    sample = np.random.default_rng(1).integers(0, m.symbols, (words, length))
    with torch.no_grad():
        answers = model(torch.from_numpy(sample)).argmax(-1).numpy()
    return (answers == m.outputs[m.track(sample)]).all()


@pytest.mark.parametrize("expression", MACHINES)
def test_auto_is_exact_for_every_machine_of_the_catalogue(expression):
    m = machine(expression)
    compiled = compile_machine(m)
    assert compiled.exact
    assert proven(compiled, m)
    assert runs_right(compiled.model, m)


@pytest.mark.parametrize("expression", MACHINES)
def test_the_stated_level_suffices_and_the_one_below_does_not(expression):
    check_level(machine(expression))


def test_the_stated_level_of_500_random_machines():
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        states, symbols, classes = random.integers(2, 6), random.integers(1, 4), random.integers(2, 6)
        delta = random.integers(0, states, (states, symbols))
        if random.random() < 0.4:
            delta = np.stack([random.permutation(states) for _ in range(symbols)], axis=1)
        if random.random() < 0.4:
            # counters of several symbols commute
            top, period = random.integers(0, 3), random.integers(1, 4)
            count = np.arange(top + period)
            succ = np.where(count + 1 < top + period, count + 1, top)
            delta = np.stack([succ, *(count for _ in range(symbols - 1))], axis=1)
        m = Machine(delta, 0, random.integers(0, classes, len(delta)))
        seen.add(check_level(m))
    assert {"positive", "diagonal", "rotation", "block(2)", "full"} <= seen


def check_level(m):
    """Writes a machine at the level that is stated, and shows why a lower one cannot track it."""
    minimal = minimise(m)
    algebra = analyse(m)
    stated = classify(algebra, m)
    if stated.name == "block(2)" and algebra.commutative:
        # turns and decays: written in exact blocks, which may be larger
        compiled = compile_machine(m)
    else:
        compiled = compile_machine(m, stated.name)
    assert runs_right(compiled.model, m, length=60)
    if compiled.exact:
        assert proven(compiled, m)
    else:
        horizon = prove_horizon(network_of(compiled.model), minimal)
        assert horizon is not None
        assert horizon.length is None or horizon.length > 10_000
    if stated.name == "positive":
        return stated.name
    commutes = all(
        np.array_equal(minimal.delta[minimal.delta[:, a], b], minimal.delta[minimal.delta[:, b], a])
        for a in range(minimal.symbols)
        for b in range(a)
    )
    assert commutes == algebra.commutative
    longest = max(period_of_outputs(minimal, a) for a in range(minimal.symbols)) if commutes else 0
    # a positive diagonal is constant along powers in the end, a real one has period 2
    obstruction = {"diagonal": longest == 2, "rotation": longest > 2, "block(2)": longest > 2 or not commutes}
    assert obstruction.get(stated.name, not commutes)
    if stated.name in ("diagonal", "rotation") or (commutes and stated.name == "block(2)"):
        with pytest.raises(CompileError):
            compile_machine(m, "positive")
    if stated.name == "rotation" or (commutes and stated.name == "block(2)"):
        with pytest.raises(CompileError):
            compile_machine(m, "diagonal")
    if stated.theorem == "Theorem G":
        # parts that are smaller do not tell the states apart, and neither does any block that is found
        with pytest.raises(CompileError):
            compile_machine(m, f"block({stated.block - 1})")
    if not commutes:
        for lower in ("rotation", "diagonal", "positive"):
            with pytest.raises(CompileError):
                compile_machine(m, lower)
    return stated.name


def period_of_outputs(minimal, symbol):
    """The period, in the end, of the behaviours along powers of a symbol: of minimal states, hence of some outputs."""
    state, seen = minimal.start, {}
    longest = 1
    for state in range(minimal.states):
        seen, step = {}, 0
        while state not in seen:
            seen[state], step = step, step + 1
            state = int(minimal.delta[state, symbol])
        longest = max(longest, step - seen[state])
    return longest


@pytest.mark.parametrize(("expression", "block"), KNOWN_BLOCKS.items())
def test_block_sizes_of_known_groups(expression, block):
    m = machine(expression)
    level = classify(analyse(m), m)
    assert (level.name, level.theorem) == (f"block({block})", "Theorem G")
    compiled = compile_machine(m, level.name, torch.float64)
    assert runs_right(compiled.model, m)


@pytest.mark.parametrize("modulus", range(2, 27))
def test_sums_are_whole_numbers_in_blocks_of_their_largest_prime_power(modulus):
    m = machine(f"modular_addition({modulus})")
    compiled = compile_machine(m, "diagonal" if modulus == 2 else "block")
    assert proven(compiled, m)
    assert runs_right(compiled.model, m, length=2_000, words=2)
    parts = {2: 1, 3: 2, 4: 2, 5: 4, 6: 2, 7: 6, 8: 2, 9: 6, 10: 4, 12: 2, 15: 4, 24: 4, 25: 20}
    if modulus in parts:
        assert compiled.level == ("diagonal" if modulus == 2 else f"block({parts[modulus]})")


@pytest.mark.parametrize("expression", ["modular_addition(5)", "cyclic(4)*cyclic(6)", 'regex("(aaaaa)*")', "cyclic(1)"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rotations_have_a_proven_horizon(expression, dtype):
    m = machine(expression)
    compiled = compile_machine(m, "rotation", dtype)
    assert not compiled.exact
    horizon = prove_horizon(network_of(compiled.model), minimise(m))
    assert horizon is not None
    assert horizon.length is None or horizon.length > (10**5 if dtype == torch.float32 else 10**11)
    assert runs_right(compiled.model, m)


@pytest.mark.parametrize("expression", ["parity", "tomita(3)", "symmetric(3)"])
def test_cp_and_full_are_exact_for_any_machine(expression):
    m = machine(expression)
    needed = len({(int(p), q) for q in range(minimise(m).states) for p in minimise(m).delta[q]})
    for level in ("full", "cp", f"cp({needed + 3})"):
        assert proven(compile_machine(m, level), m)
    with pytest.raises(CompileError, match=f"use cp\\({needed}\\)"):
        compile_machine(m, f"cp({needed - 1})")


@pytest.mark.parametrize("level", ["block(0)", "block(x)", "full(3)", "lstm", "rotation*2", "cp(-1)"])
def test_levels_that_are_none(level):
    with pytest.raises(ExpressionError):
        compile_machine(machine("parity"), level)


@pytest.mark.parametrize(
    ("name", "size", "expression"),
    [
        ("full", None, "tomita(3)"),
        ("cp", 20, "tomita(3)"),
        ("block", 3, "symmetric(4)"),
        ("rotation", None, "modular_addition(5)"),
        ("diagonal", None, "parity"),
        ("positive", None, "tomita(1)"),
    ],
)
def test_every_level_has_a_compiler_of_one_signature(name, size, expression):
    m = machine(expression)
    written = getattr(compiling, f"write_{name}")(minimise(m), size, torch.float64)
    asked = compile_machine(m, name if size is None else f"{name}({size})", torch.float64)
    assert (written.level, written.exact, written.how) == (asked.level, asked.exact, asked.how)
    for one, other in zip(written.model.parameters(), asked.model.parameters(), strict=True):
        assert torch.equal(one, other)
    if size is None:
        with pytest.raises(ExpressionError, match=f"{name} takes no size"):
            getattr(compiling, f"write_{name}")(minimise(m), 3, torch.float64)


def test_large_machines_are_compiled_exactly():
    for expression in ("symmetric(5)", "random_machine(200, symbols=50, seed=1, kind=map)"):
        m = machine(expression)
        compiled = compile_machine(m)
        assert proven(compiled, m)
    assert compile_machine(machine("symmetric(5)")).level == "block(4)"


def test_outputs_that_states_share_are_read_off_small_blocks():
    m = Machine([[1], [2], [3], [0]], outputs=[0, 0, 0, 1])
    compiled = compile_machine(m, "block")
    assert compiled.level == "block(2)"
    assert proven(compiled, m)
