"""Machines out of exact networks: protocols, combination locks, and networks that are no machine at all."""

import numpy as np
import pytest
import torch

from statewise.machines import Machine, machine, minimise
from statewise.machines.dot import from_dot
from statewise.theory import Network, compile_machine, extract, extraction, network_of


def lock(word, symbols):
    """A machine that one word opens, for ever; any wrong symbol begins again."""
    delta = np.zeros((len(word) + 1, symbols), dtype=np.int64)
    delta[np.arange(len(word)), word] = np.arange(len(word)) + 1
    delta[-1] = len(word)
    return Machine(delta, 0, [0] * len(word) + [1])


def drawn_lock(length, symbols, seed=0):
    return lock(np.random.default_rng(seed).integers(0, symbols, length), symbols)


@pytest.fixture
def questions(monkeypatch):
    """How often a proof was asked for."""
    asked = []
    real = extraction.certify

    def count(*given, **named):
        asked.append(given[1].states)
        return real(*given, **named)

    monkeypatch.setattr(extraction, "certify", count)
    return asked


@pytest.mark.parametrize(("length", "symbols"), [(4, 10), (12, 10), (40, 3), (60, 1)])
@pytest.mark.parametrize("level", ["auto", "full"])
def test_combination_locks_are_opened(questions, length, symbols, level):
    """Random words never open one of twelve symbols; a proof that one state is not enough does."""
    m = drawn_lock(length, symbols)
    found = extract(network_of(compile_machine(m, level).model), 0, 10)
    assert (found.machine, found.faithful) == (m, "proven")
    assert found.machine.states == length + 1
    # one word shows all states of a lock, so proofs are asked for few times
    assert len(questions) <= 6


@pytest.mark.parametrize("level", ["auto", "full"])
def test_locks_whose_first_words_were_never_trained_on(level):
    m = drawn_lock(9, 4)
    found = extract(network_of(compile_machine(m, level).model), 2, 10)
    assert found.faithful == "proven"
    assert "all words of at least 2 symbols" in found.reason
    words = np.random.default_rng(0).integers(0, 4, (50, 12))
    assert np.array_equal(found.machine.answer(words), m.answer(words))
    assert found.machine.states == 10


def noisy(m, size, seed=0):
    """The network of one-hot states with noise: no decision is exact."""
    exact = network_of(compile_machine(m, "full", torch.float64).model)
    noise = np.random.default_rng(seed).standard_normal(exact.matrices.shape)
    return Network(exact.matrices + size * noise, exact.initial, exact.readout)


def test_locks_of_rounded_weights_are_opened_within_the_trusted_lengths():
    """No proof decides; words that lead to new hidden states find what random words do not."""
    m = drawn_lock(8, 10)
    network = noisy(m, 1e-3)
    found = extract(network, 0, 10)
    assert (found.machine, found.faithful) == (m, "tested")
    assert "new hidden states" in found.reason
    # nothing is known beyond the lengths that were tried, and that is what is said
    short = extract(network, 0, 5)
    assert (short.machine.states, short.faithful) == (1, "tested")
    assert "words of 0 to 5 symbols" in short.reason


def test_equal_logits_are_no_answer():
    network = Network(np.ones((1, 1, 1)), np.ones(1), np.ones((2, 1)))
    found = extract(network, 0, 5)
    assert found.faithful == "no"
    assert "differ on the empty word" in found.reason


def test_a_rotation_of_infinite_order_is_never_called_a_machine():
    turn = np.array([[[3.0, -4.0], [4.0, 3.0]]])
    network = Network(turn, np.array([1.0, 0.0]), np.array([[1.0, 0.1], [-1.0, 0.1]]))
    found = extract(network, 0, 10)
    assert found.faithful == "no"


@pytest.mark.parametrize("level", ["positive", "diagonal"])
def test_counters_are_proven_by_counts(level):
    """Decays are no whole numbers, but counts of symbols decide them exactly."""
    top, other = np.divmod(np.arange(30), 5)
    delta = np.stack([np.minimum(top + 1, 5) * 5 + other, top * 5 + np.minimum(other + 1, 4)], axis=1)
    m = minimise(Machine(delta, 0, (np.minimum(top, 4) == other).astype(np.int64)))
    found = extract(network_of(compile_machine(m, level, torch.float64).model), 0, 10)
    assert (found.machine, found.faithful) == (m, "proven")


MEALY = """digraph g {
__start0 [label="" shape="none"];
s0 [label="0"]; s1 [label="1"]; s2 [label="2"];
s0 -> s1 [label="coin/ok"]; s0 -> s0 [label="button/nothing"]; s0 -> s0 [label="reset/ok"];
s1 -> s2 [label="coin/ok"]; s1 -> s1 [label="button/nothing"]; s1 -> s0 [label="reset/ok"];
s2 -> s2 [label="coin/full"]; s2 -> s0 [label="button/coffee"]; s2 -> s0 [label="reset/ok"];
__start0 -> s0;
}"""


@pytest.mark.parametrize("level", ["auto", "full", "cp"])
def test_mealy_machines_come_back_as_their_moore_form(level):
    m = from_dot(MEALY)
    network = network_of(compile_machine(m, level).model)
    found = extract(network, 0, 10, 0, m.alphabet, m.output_names)
    assert (found.machine, found.faithful) == (m, "proven")
    assert found.machine.output_names[found.machine.answer(["coin", "coin", "button"])] == "coffee"


def test_large_machines_with_few_outputs(questions):
    truth = machine("random_machine(150, symbols=4, seed=2, kind=map)")
    m = minimise(truth.replace(outputs=np.arange(150) % 2, output_names=None))
    found = extract(network_of(compile_machine(m, "full").model), 0, 10)
    assert (found.machine, found.faithful) == (m, "proven")
    assert len(questions) < m.states // 4


def check_file(file):
    m = machine(str(file))
    network = network_of(compile_machine(m).model)
    found = extract(network, 0, 10, 0, m.alphabet, m.output_names)
    assert found.machine == m, file.name
    assert found.faithful == "proven", (file.name, found.reason)


def test_protocol_machines_are_extracted_and_proven(machine_files, questions):
    files = sorted(machine_files.glob("*.dot"))
    assert files
    for file in files:
        questions.clear()
        check_file(file)
        # a proof costs as much as the machine is large: few are asked for
        assert len(questions) <= 30, file.name
