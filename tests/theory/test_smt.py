"""Short horizons in SMT-LIB: z3 says unsat of networks that are right, and finds a wrong word of the others."""

import numpy as np
import pytest
import z3

import statewise as sw
from statewise.errors import NetworkError
from statewise.machines import Machine, machine
from statewise.tasks import legal_moves
from statewise.theory.certify import Verdict, Word, certify, replay
from statewise.theory.network import Network, network_of
from statewise.theory.smt import smt_file


def solve(text):
    """Return what z3 says of a file, and the word of its model."""
    solver = z3.Solver()
    solver.from_string(text)
    said = solver.check()
    if said != z3.sat:
        return str(said), None
    model = solver.model()
    true = {name.name() for name in model.decls() if z3.is_true(model[name])}
    word, t = [], 1
    while f"a{t}" in true:
        (symbol,) = [int(name.split("_")[1]) for name in true if name.startswith(f"x{t}_")]
        word.append(symbol)
        t += 1
    return "sat", tuple(word)


def is_wrong(network, m, word):
    replayed = replay(network, m, Word(word))
    return replayed is not None and replayed.given != replayed.right


@pytest.mark.parametrize("expression", ["modular_addition(3)", "symmetric(3)", "tomita(4)", "modular_arithmetic(3)"])
def test_compiled_networks_have_no_wrong_word(expression):
    m = machine(expression)
    network = network_of(sw.compile(m, run=10).model)
    text = smt_file(network, m, certify(network, m))
    assert "(set-logic QF_LRA)" in text
    assert solve(text) == ("unsat", None)


@pytest.mark.parametrize("expression", ["modular_addition(3)", "symmetric(3)", "tomita(4)", "modular_arithmetic(3)"])
def test_a_wrong_answer_is_found(expression):
    m = machine(expression)
    network = network_of(sw.compile(m, run=10).model)
    swapped = m.outputs.copy()
    reached = m.final([0])
    swapped[reached] = (swapped[reached] + 1) % 2
    other = m.replace(outputs=swapped)
    verdict = certify(network, other)
    assert verdict.status == "refuted"
    said, word = solve(smt_file(network, other, verdict))
    assert said == "sat"
    assert len(word) == len(verdict.counterexample.word)
    assert is_wrong(network, other, word)


def test_a_trained_network():
    run = sw.train("modular_addition(3)", "full", hidden=8, steps=600, late=0)
    network, m = network_of(run.model), run.machine
    verdict = certify(network, m, 2, work=500_000)
    assert verdict.horizon is not None
    assert verdict.horizon >= 3
    # up to its horizon there is no wrong word
    near = Verdict("horizon", "all words", "", 2, 3)
    text = smt_file(network, m, near)
    assert "on every word of 2 to 3 symbols" in text
    assert solve(text) == ("unsat", None)
    # one weight of the readout changed: there is
    worse = Network(network.matrices, network.initial, network.readout * np.array([[1.0], [1.0], [-1.0]]))
    refuted = certify(worse, m, 2, work=500_000)
    said, word = solve(smt_file(worse, m, refuted))
    assert said == "sat"
    assert len(word) >= 2
    assert is_wrong(worse, m, word)


def test_only_legal_words_are_asked_for():
    # a second b is an error, which the network answers otherwise
    m = Machine([[0, 1], [1, 2], [2, 2]], outputs=[0, 1, 2], alphabet="ab", output_names=["none", "one", "error"])
    assert not legal_moves(m).all()
    matrices = np.array([np.eye(3), [[0.0, 0, 0], [1, 1, 0], [0, 0, 1]]])
    network = Network(matrices, np.array([1.0, 0, 0]), np.eye(3))
    verdict = certify(network, m)
    assert (verdict.status, verdict.restricted) == ("proven", True)
    assert solve(smt_file(network, m, verdict)) == ("unsat", None)
    every = certify(network, m, all_words=True)
    said, word = solve(smt_file(network, m, every))
    assert (said, word) == ("sat", (1, 1))


def test_the_empty_word_counts_only_where_it_is_judged():
    # the first state is left for ever, and the network does not know it
    m = Machine([[1], [1]], outputs=[0, 1])
    network = Network(np.array([[[0.0, 0.0], [1.0, 1.0]]]), np.array([1.0, 0.0]), np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert solve(smt_file(network, m, certify(network, m, 0))) == ("sat", ())
    assert solve(smt_file(network, m, certify(network, m, 1))) == ("unsat", None)


def test_a_file_that_would_be_too_large_is_refused():
    rng = np.random.default_rng(0)
    network = Network(rng.normal(size=(2, 300, 300)), rng.normal(size=300), rng.normal(size=(2, 300)))
    with pytest.raises(NetworkError, match="leave --smt out"):
        smt_file(network, machine("parity"), Verdict("unknown", "search", "", 2))
