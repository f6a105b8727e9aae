"""Robust or fragile, against the definition taken literally on small machines."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings

from statewise.errors import TooLargeError
from statewise.machines import Machine, machine, minimise
from statewise.theory import robustness
from tests.catalogues import machines

KNOWN = {
    "parity": True,
    "cyclic(2)": True,
    'regex("(a|b)*b")': True,
    "modular_addition(3)": False,
    "symmetric(3)": False,
    "cyclic(2)*cyclic(2)": False,
    "tomita(1)": False,
    'regex("(a|b)*b(a|b)*")': False,
    "random_machine(10, seed=0, kind=map)": False,
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_machines(name):
    assert robustness(machine(name)).robust == KNOWN[name]


def lead(m, states, word):
    for symbol in word:
        states = tuple(sorted({int(m.delta[q, symbol]) for q in states}))
    return states


def outputs(m, states):
    return [int(m.outputs[q]) for q in states]


def literally(m):
    """No three states stay three, and no two that stay two ever agree, over words longer than there are sets."""
    m = minimise(m)
    for size in (3, 2):
        sets = list(combinations(range(m.states), size))
        kept = set(sets)
        for _ in range(len(sets) + 1):
            kept = {t for s in kept for t in (lead(m, s, (a,)) for a in range(m.symbols)) if len(t) == size}
        if size == 3 and kept:
            return False
        if size == 2:
            reached = set(kept)
            for _ in range(len(sets) + 1):
                reached |= {lead(m, s, (a,)) for s in reached for a in range(m.symbols)}
            if any(len(set(outputs(m, s))) < 2 for s in reached):
                return False
    return True


@given(machines())
@settings(max_examples=300, deadline=None)
def test_the_verdict_is_the_definition(m):
    found = robustness(m)
    assert found.robust == literally(m)


@given(machines())
@settings(max_examples=200, deadline=None)
def test_a_fragile_machine_has_a_witness(m):
    found = robustness(m)
    if found.robust:
        assert found.states == found.loop == found.merge == ()
        return
    minimal = minimise(m)
    assert len(found.states) in (2, 3)
    assert found.loop
    assert lead(minimal, found.states, found.loop) == found.states
    if len(found.states) == 2:
        assert len(set(outputs(minimal, lead(minimal, found.states, found.merge)))) == 1


@pytest.mark.parametrize("name", [name for name, robust in KNOWN.items() if robust])
def test_windows_of_a_robust_machine_leave_two_states(name):
    """What the theorem needs: after a long enough window at most two states are possible, and these two differ."""
    minimal = minimise(machine(name))
    for window in product(range(minimal.symbols), repeat=6):
        left = lead(minimal, tuple(range(minimal.states)), window)
        assert len(left) <= 2
        assert len(set(outputs(minimal, left))) == len(left)


def test_large_machines_are_judged_by_one_symbol_or_refused():
    assert not robustness(machine("symmetric(5)")).robust
    # a shift register of 8 bits forgets everything, and has 256 states
    table = [[(2 * q + a) % 256 for a in (0, 1)] for q in range(256)]
    with pytest.raises(TooLargeError, match="are judged"):
        robustness(Machine(table, outputs=list(range(256))))
