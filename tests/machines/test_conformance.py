"""Conformance suites: what they walk, and which machines they tell apart."""

import itertools

import numpy as np
import pytest

from statewise.errors import StatewiseError, TooLargeError
from statewise.machines import machine, minimise
from statewise.machines.conformance import conformance_suite, separating_words, transition_cover, w_method
from statewise.tasks import legal_moves

SOME = ["parity", "modular_arithmetic(3)", "tomita(3)", "tcp", "symmetric(3)", "random_machine(6, seed=1, kind=map)"]


def walked(m, words):
    found = set()
    for word in words:
        q = m.start
        for symbol in word:
            found.add((q, symbol))
            q = int(m.delta[q, symbol])
    return found


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("suite", ["transition-cover", "w-method"])
def test_a_suite_walks_every_legal_transition_and_no_other(name, suite):
    m = machine(name)
    legal = legal_moves(m)
    words = conformance_suite(suite, m, legal)
    reached, frontier = {m.start}, [m.start]
    for q in frontier:
        for a in np.flatnonzero(legal[q]):
            there = int(m.delta[q, a])
            if there not in reached:
                reached.add(there)
                frontier.append(there)
    assert walked(m, words) == {(q, int(a)) for q in reached for a in np.flatnonzero(legal[q])}
    assert words == sorted(set(words), key=lambda word: (len(word), word))
    assert () not in words


def test_the_cover_of_parity():
    m = machine("parity")
    assert transition_cover(m, legal_moves(m)) == [(0,), (1,), (1, 0), (1, 1)]


def test_no_other_machine_of_as_many_states_agrees_on_the_w_method():
    m = minimise(machine("tomita(3)"))
    words = w_method(m, legal_moves(m), extra=0)
    expected = [m.answer(word) for word in words]
    others = 0
    for q, a, target in itertools.product(range(m.states), range(m.symbols), range(m.states)):
        delta = m.delta.copy()
        delta[q, a] = target
        other = m.replace(delta=delta)
        if other != m:
            others += 1
            assert [other.answer(word) for word in words] != expected
    assert others > 20


def test_one_more_state_is_found_by_the_w_method_and_missed_by_the_cover():
    m = machine("parity")
    hidden = m.replace(
        delta=np.array([[0, 1], [1, 2], [2, 1]]), outputs=np.array([0, 1, 0]), state_names=("0", "1", "2")
    )
    assert hidden == m
    wrong = hidden.replace(delta=np.array([[0, 1], [1, 2], [1, 1]]))
    legal = legal_moves(m)
    assert all(wrong.answer(word) == m.answer(word) for word in transition_cover(m, legal))
    assert any(wrong.answer(word) != m.answer(word) for word in w_method(m, legal))


@pytest.mark.parametrize("name", SOME)
def test_any_two_states_differ_on_a_separating_word(name):
    m = minimise(machine(name))
    answers = {tuple(m.replace(start=q).answer(word) for word in separating_words(m)) for q in range(m.states)}
    assert len(answers) == m.states


def test_unknown_and_too_large_suites_are_one_sentence():
    m = machine("symmetric(5)")
    with pytest.raises(StatewiseError, match="transition-cover"):
        conformance_suite("cover", m, legal_moves(m))
    with pytest.raises(TooLargeError, match="use the transition cover"):
        w_method(m, legal_moves(m), extra=2)
