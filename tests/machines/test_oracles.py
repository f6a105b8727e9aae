"""Our algorithms against automata-lib, Python's re, and brute force."""

import itertools
import re

import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import given, settings
from hypothesis import strategies as st

from statewise.errors import StatewiseError
from statewise.machines import Monoid, analyse, machine, minimise, transition_monoid
from statewise.machines.behaviour import merging_pairs
from statewise.machines.languages import regex
from tests.catalogues import machines


@given(machines(states=9, classes=2))
@settings(max_examples=200)
def test_minimise_agrees_with_automata_lib(m):
    states, symbols = range(m.states), range(m.symbols)
    dfa = DFA(
        states=set(states),
        input_symbols={str(a) for a in symbols},
        transitions={q: {str(a): int(m.delta[q, a]) for a in symbols} for q in states},
        initial_state=m.start,
        final_states={q for q in states if m.outputs[q] == 1},
    )
    ours = minimise(m.replace(outputs=(m.outputs == 1).astype(int), output_names=("0", "1")))
    assert ours.states == len(dfa.minify().to_complete().states)


PATTERNS = [
    "(ab)*",
    "a|b*",
    "(a|b)*abb",
    "a?b+c{2}",
    "(a{2,3}b)*",
    "[ab]c|[^ab]{1,2}",
    "a.b",
    "((a|b)(c|a))*",
    "a{0,2}",
    "(a|)b{2,}",
    "()a",
    "a**",
    "(a?){3}",
    "[a-c]*b",
    r"[\]a]b|[\\]c|[]]a",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regular_expressions_agree_with_python(pattern):
    compiled = re.compile(pattern.replace("a**", "a*"))
    symbols = "abc]\\" if "]a" in pattern else "abc"
    m = regex(pattern, symbols)
    for length in range(7 if len(symbols) == 3 else 4):
        for letters in itertools.product(symbols, repeat=length):
            word = "".join(letters)
            assert bool(m.answer(m.encode(word))) == (compiled.fullmatch(word) is not None), word


@pytest.mark.parametrize("pattern", ["(ab)*", "a|b*", "(a|b)*abb", "a?b+c", "((a|b)(c|a))*"])
def test_regular_expressions_are_as_small_as_automata_libs(pattern):
    theirs = DFA.from_nfa(NFA.from_regex(pattern, input_symbols=set("abc"))).minify().to_complete()
    assert machine(f'regex("{pattern}", alphabet="abc")').states == len(theirs.states)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a{2",
        "a{x}",
        "a{3,1}",
        "*a",
        "[a",
        "a\\",
        "[^a]",
        "a|*",
        "",
        "{",
        "^a$",
        "[z-ab]",
        "[z-a]",
        "a{1000}{1000}",
    ],
)
def test_bad_patterns_get_one_sentence(pattern):
    with pytest.raises(StatewiseError) as caught:
        machine(f'regex("{pattern}")')
    assert "\n" not in str(caught.value)


def test_escapes_and_alphabets_of_patterns():
    m = machine(r'regex("a\.b|\(")')
    assert m.alphabet == ("(", ".", "a", "b")
    assert m.answer(m.encode("a.b")) == 1
    with pytest.raises(StatewiseError, match="not in the alphabet"):
        machine('regex("abc", alphabet="ab")')
    assert machine('regex("[a-c]")').alphabet == ("a", "b", "c")


@given(st.text("ab|*+?(){}[]^-,.\\12", max_size=12))
@settings(max_examples=2000)
def test_any_pattern_builds_or_is_refused(pattern):
    try:
        machine(f"regex('{pattern}')")
    except StatewiseError as error:
        assert "\n" not in str(error)


@given(machines(states=5, symbols=2))
@settings(max_examples=150)
def test_facts_agree_with_their_definitions(m):
    """Commutative, aperiodic, synchronising and group, checked on every element of the monoid."""
    small = minimise(m)
    monoid = transition_monoid(small)
    assert isinstance(monoid, Monoid)
    maps = [tuple(row) for row in monoid.maps.tolist()]

    def after(x, y):
        return tuple(y[q] for q in x)

    algebra = analyse(m)
    assert algebra.monoid == len(maps) == len(set(maps))
    assert algebra.commutative == all(after(x, y) == after(y, x) for x in maps for y in maps)
    assert algebra.group == all(len(set(x)) == small.states for x in maps)
    assert algebra.synchronising == any(len(set(x)) == 1 for x in maps)

    def has_a_cycle(x):
        powers = [x]
        while (following := after(powers[-1], x)) not in powers:
            powers.append(following)
        return following != powers[-1]

    assert algebra.aperiodic == (not any(has_a_cycle(x) for x in maps))


def test_cerny_machines_are_synchronising():
    """The slowest known: n - 1 states turn, one symbol merges two; its shortest word has (n - 1)^2 symbols."""
    n = 12
    delta = np.stack([np.roll(np.arange(n), -1), np.where(np.arange(n) == n - 1, 0, np.arange(n))], axis=1)
    from statewise.machines import Machine

    assert merging_pairs(Machine(delta)).all()
    assert analyse(Machine(delta)).synchronising


@pytest.mark.parametrize("expression", ["tomita(3)", "dihedral(4)", "modular_arithmetic(3)", "symmetric(4)"])
def test_solvability_of_small_monoids(expression):
    assert analyse(machine(expression)).solvable is True


def test_an_unsolvable_group_inside_a_monoid_is_found():
    """A5 with a reset: no group as a whole, but one inside."""
    a5 = machine("alternating(5, generators=standard, states=points)")
    reset = np.zeros((5, 1), dtype=int)
    algebra = analyse(a5.replace(delta=np.hstack([a5.delta, reset]), alphabet=[*a5.alphabet, "reset"]))
    assert (algebra.group, algebra.solvable, algebra.synchronising, algebra.monoid) == (False, False, True, 65)
