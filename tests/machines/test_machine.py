import copy
import pickle

import numpy as np
import pytest

from statewise.errors import MachineError, TooLargeError, WordError
from statewise.machines import Machine, direct_product, identical, machine, shared_product


def test_words_run_alone_and_in_batches():
    m = machine("modular_addition(5)")
    words = np.random.default_rng(0).integers(0, 5, size=(3, 4, 9))
    assert np.array_equal(m.track(words), words.cumsum(axis=-1) % 5)
    assert np.array_equal(m.final(words), words.sum(axis=-1) % 5)
    assert m.final([3, 4, 1]) == 3
    assert np.array_equal(m.answer(words), m.outputs[m.final(words)])
    assert m.final(np.zeros((2, 0), dtype=int)).tolist() == [0, 0]
    assert m.track(words[0], start=2).tolist() == ((words[0].cumsum(axis=-1) + 2) % 5).tolist()


def test_names_are_encoded_and_decoded():
    m = machine('regex("(ab)*")')
    assert m.answer(m.encode("abab")) == 1
    assert m.answer(m.encode("aba")) == 0
    assert m.decode([0, 1, 0]) == ("a", "b", "a")


@pytest.mark.parametrize("word", [[3, 4, 1], (3, 4, 1), np.array([3, 4, 1]), ["3", "4", "1"], ("3", "4", "1"), "341"])
def test_one_word_has_a_plain_answer_by_numbers_or_names(word):
    m = machine("modular_addition(5)").replace(outputs=[0, 0, 0, 7, 0], output_names=None)
    assert (m.answer(word), m.final(word), m.track(word).tolist()) == (7, 3, [3, 2, 3])
    assert type(m.answer(word)) is int
    assert type(m.final(word)) is int


def test_batches_are_answered_as_arrays_and_the_empty_word_by_the_start():
    m = machine("flip_flop")
    assert m.answer(["set 1", "hold"]) == 1
    assert m.answer([[2, 0], [1, 0]]).tolist() == [1, 0]
    assert m.answer(np.zeros((1, 2, 0), dtype=int)).tolist() == [[0, 0]]
    for empty in ([], (), "", np.array([], dtype=int)):
        assert m.answer(empty) == 0
        assert type(m.answer(empty)) is int


def test_machines_are_frozen_and_copy_their_table():
    table = np.array([[0, 1], [1, 0]])
    m = Machine(table)
    table[0, 0] = 1
    assert m.delta[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        m.delta[0, 0] = 1
    with pytest.raises(AttributeError):
        m.start = 1


def test_copies_and_pickles_are_frozen_too():
    for again in (copy.deepcopy(machine("parity")), pickle.loads(pickle.dumps(machine("parity")))):
        assert identical(again, machine("parity"))
        assert not again.delta.flags.writeable


def test_words_begin_in_a_state_that_exists():
    for start in (-1, 2):
        with pytest.raises(WordError, match="0 to 1"):
            machine("parity").track([0, 1], start=start)


def test_machines_with_other_outputs_or_symbols_differ():
    m = machine("parity")
    assert m != m.replace(outputs=[1, 0])
    assert m != m.replace(output_names=["even", "odd"])
    assert m != m.replace(alphabet="ab")
    assert m != "parity"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": [[0, 2], [1, 0]]}, "from state 0 on symbol 1 to 2; expected a state from 0 to 1"),
        ({"delta": [[0, -1], [1, 0]]}, "to -1"),
        ({"delta": [[0], [1, 0]]}, "different lengths"),
        ({"delta": []}, "at least one"),
        ({"delta": [[], []]}, "at least one"),
        ({"delta": [0, 1]}, "states x symbols"),
        ({"delta": [[0.0]]}, "whole numbers"),
        ({"delta": [["0"]]}, "whole numbers"),
        ({"delta": [[10**30]]}, "type object"),
        ({"delta": [[0]], "start": 1}, "start is 1"),
        ({"delta": [[0]], "start": -1}, "start is -1"),
        ({"delta": [[0]], "outputs": [0, 1]}, "one per state"),
        ({"delta": [[0]], "outputs": [-1]}, "outputs holds -1"),
        ({"delta": [[0]], "outputs": [2_000_000]}, "outputs holds 2000000"),
        ({"delta": [[0, 0]], "alphabet": ["a", "a"]}, '"a" twice'),
        ({"delta": [[0, 0]], "alphabet": ["a"]}, "alphabet has 1 names; expected 2"),
        ({"delta": [[0, 0]], "alphabet": ["a", ""]}, "empty name"),
        ({"delta": [[0]], "alphabet": ["\ud800"]}, "surrogate"),
        ({"delta": [[0]], "outputs": [1], "output_names": ["x"]}, "output_names has 1 names; expected 2"),
        ({"delta": [[0]], "state_names": ["x", "y"]}, "state_names has 2"),
    ],
)
def test_bad_tables_are_refused_at_birth(arguments, message):
    with pytest.raises(MachineError, match=message):
        Machine(**arguments)


def test_huge_tables_are_refused():
    with pytest.raises(TooLargeError, match="at most"):
        Machine(np.zeros((5000, 5000), dtype=np.int64))


@pytest.mark.parametrize("words", [[0, 2], [-1], [0.5], ["a"], [0, "1"], [["0"]], "02", np.array(3), [[True, False]]])
def test_bad_words_are_refused(words):
    with pytest.raises(WordError):
        machine("parity").final(words)


def test_unknown_symbol_names_are_named():
    with pytest.raises(WordError, match='"c"; this machine reads a, b'):
        machine('regex("(ab)*")').encode("abc")


def test_products_run_side_by_side():
    a, b = machine("cyclic(4)"), machine("flip_flop")
    pair = direct_product(a, b)
    generator = np.random.default_rng(0)
    left, right = generator.integers(0, 4, size=(5, 12)), generator.integers(0, 3, size=(5, 12))
    both = pair.answer(left * 3 + right)
    assert np.array_equal(both, a.answer(left) * 2 + b.answer(right))
    same = shared_product(machine("tomita(4)"), machine("tomita(5)"))
    words = generator.integers(0, 2, size=(50, 7))
    expected = machine("tomita(4)").answer(words) * 2 + machine("tomita(5)").answer(words)
    assert np.array_equal(same.answer(words), expected)


def test_products_of_other_alphabets_or_sizes_are_refused():
    with pytest.raises(MachineError, match="same symbols"):
        shared_product(machine("parity"), machine("flip_flop"))
    with pytest.raises(TooLargeError, match="entries"):
        direct_product(machine("symmetric(5)"), machine("symmetric(5)"))
