"""The laws that every machine owes."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings

from statewise.machines import (
    Machine,
    Monoid,
    analyse,
    distinguish,
    equivalent,
    identical,
    isomorphism,
    machine,
    minimise,
    reachable,
    transition_monoid,
)
from statewise.machines.dot import from_dot, to_dot
from statewise.machines.machine_files import from_json, to_json
from statewise.theory.compile import one_hot
from tests.catalogues import MACHINES, machines

every = pytest.mark.parametrize("expression", MACHINES)


@every
def test_minimal_form_is_equivalent_minimal_and_canonical(expression):
    m = machine(expression)
    small = minimise(m)
    assert equivalent(m, small)
    assert minimise(small).states == small.states
    shuffled = _shuffle(m, seed=1)
    assert identical(minimise(shuffled).replace(state_names=None), small.replace(state_names=None))
    assert isomorphism(minimise(shuffled), small) is not None


@every
def test_equality_is_of_behaviour_and_agrees_with_hash(expression):
    m = machine(expression)
    assert _shuffle(m, seed=2) == m
    assert hash(_shuffle(m, seed=2)) == hash(m)
    reversed_symbols = m.replace(delta=m.delta[:, ::-1], alphabet=m.alphabet[::-1])
    assert reversed_symbols == m
    assert hash(reversed_symbols) == hash(m)


@every
def test_catalogue_names_build_the_same_machine_again(expression):
    m = machine(expression)
    assert identical(machine(m.name), m)


@every
def test_files_lose_nothing(expression):
    m = machine(expression)
    assert identical(from_json(to_json(m)), m)
    assert identical(from_dot(to_dot(m)), m)


@given(machines())
@example(Machine([[0]], alphabet=["0"], outputs=[0], output_names=["0", "00"], state_names=["\\N"]))
@settings(max_examples=300)
def test_files_lose_nothing_of_any_machine(m):
    assert identical(from_json(to_json(m)), m)
    assert identical(from_dot(to_dot(m)), m)


@every
def test_one_hot_network_is_the_machine(expression):
    m = machine(expression)
    network = one_hot(m).model
    words = np.random.default_rng(0).integers(0, m.symbols, size=(8, 40))
    with torch.no_grad():
        answers = network(torch.from_numpy(words)).argmax(-1)
    assert torch.equal(answers, torch.from_numpy(m.outputs[m.track(words)]))


@every
def test_monoid_is_closed_and_its_words_act_as_its_maps(expression):
    m = minimise(machine(expression))
    monoid = transition_monoid(m, limit=300)
    if not isinstance(monoid, Monoid):
        assert analyse(m, limit=300).monoid is None
        return
    known = {row.tobytes() for row in monoid.maps}
    for element in range(len(monoid)):
        word = monoid.word(element)
        for q in range(m.states):
            assert m.final(np.array(word, dtype=np.int64), start=q) == monoid.maps[element][q]
    for letter in m.delta.T:
        assert all(letter[row].tobytes() in known for row in monoid.maps)


@given(machines())
@settings(max_examples=200)
def test_reachable_part_behaves_as_the_whole(m):
    assert equivalent(reachable(m), m)
    assert minimise(m).states <= reachable(m).states <= m.states


@given(machines(), machines())
@settings(max_examples=300)
def test_distinguishing_words_are_shortest(a, b):
    b = b.replace(alphabet=tuple(f"s{i}" for i in range(b.symbols)))
    a = a.replace(alphabet=tuple(f"s{i}" for i in range(a.symbols)))
    if a.symbols != b.symbols:
        return
    word = distinguish(a, b)
    shortest = _shortest_difference(a, b)
    assert (word is None) == (shortest is None)
    if word is not None:
        assert len(word) == shortest
        ends = [m.output_names[int(m.answer(np.array(word, dtype=np.int64)))] for m in (a, b)]
        assert ends[0] != ends[1]


def _shortest_difference(a, b):
    """Breadth-first search over pairs of states, as plain as can be."""
    layer, seen, length = [(a.start, b.start)], {(a.start, b.start)}, 0
    while layer:
        if any(a.output_names[a.outputs[p]] != b.output_names[b.outputs[q]] for p, q in layer):
            return length
        following = {(int(a.delta[p, s]), int(b.delta[q, s])) for p, q in layer for s in range(a.symbols)}
        layer = list(following - seen)
        seen |= following
        length += 1
    return None


def _shuffle(m, seed):
    order = np.random.default_rng(seed).permutation(m.states)
    number = np.argsort(order)
    return m.replace(
        delta=number[m.delta[order]],
        start=int(number[m.start]),
        outputs=m.outputs[order],
        state_names=[m.state_names[q] for q in order],
    )
