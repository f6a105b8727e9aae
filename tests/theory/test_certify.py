"""Verdicts hold: proven networks are correct on every word that is tried, counterexamples are answered wrong."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError
from statewise.machines import Machine, machine, minimise
from statewise.models.catalogue import build_model
from statewise.theory import Network, compile_machine, network_of
from statewise.theory.certify import (
    Word,
    certify,
    decide_by_counts,
    decide_by_orbit,
    decide_by_series,
    prove_horizon,
    replay,
    search,
    verdict,
)

# hidden-state updates: no outcome depends on how fast the computer is
WORK = 10_000_000


def answer(network, word):
    """The strictly largest class in fractions, or None."""
    h = [Fraction(x) for x in network.initial]
    for a in word:
        h = [sum(Fraction(x) * y for x, y in zip(row, h, strict=True)) for row in network.matrices[a]]
    logits = [sum(Fraction(x) * y for x, y in zip(row, h, strict=True)) for row in network.readout]
    best = max(logits)
    return logits.index(best) if logits.count(best) == 1 else None


def first_wrong(network, m, longest, shortest=0):
    """A shortest wrong word, by trying them all."""
    for length in range(shortest, longest + 1):
        for word in itertools.product(range(m.symbols), repeat=length):
            if answer(network, word) != m.answer(word):
                return word
    return None


def small_networks(count, diagonal=False):
    """Random networks of small whole numbers, some of which are machines."""
    random = np.random.default_rng(3)
    for _ in range(count):
        hidden, symbols, classes = random.integers(1, 4), random.integers(1, 3), random.integers(1, 4)
        choices = [-1.0, -0.5, 0.0, 0.5, 1.0] if diagonal else [-1.0, 0.0, 0.0, 1.0]
        if diagonal:
            matrices = np.stack([np.diag(random.choice(choices, hidden)) for _ in range(symbols)])
        else:
            matrices = random.choice(choices, (symbols, hidden, hidden))
        readout = random.integers(-3, 4, (classes, hidden)).astype(float)
        yield Network(matrices, random.integers(-2, 3, hidden).astype(float), readout), random


def its_machine(network, random):
    """A machine that a small network may be: the answers to short words, or a random one."""
    states = int(random.integers(1, 4))
    delta = random.integers(0, states, (states, network.symbols))
    return Machine(delta, 0, random.integers(0, network.classes, states))


@pytest.mark.parametrize("shortest", [0, 1, 2])
def test_orbits_agree_with_all_short_words(shortest):
    decisions = set()
    for network, random in small_networks(400):
        m = minimise(its_machine(network, random))
        decided = decide_by_orbit(network, m, shortest, limit=500)
        if decided is None:
            continue
        wrong = first_wrong(network, m, 4, shortest)
        if decided.equal:
            assert wrong is None
        else:
            assert answer(network, decided.word) != m.answer(decided.word)
            assert len(decided.word) >= shortest
            assert wrong is None or len(wrong) == len(decided.word)
        decisions.add(decided.equal)
    assert decisions == {True, False}


@pytest.mark.parametrize("shortest", [0, 1, 3])
def test_counts_agree_with_all_short_words(shortest):
    decisions = set()
    for network, random in small_networks(600, diagonal=True):
        m = its_machine(network, random)
        proof = decide_by_counts(network, m, shortest)
        if proof is None:
            continue
        if proof.equal:
            assert first_wrong(network, m, 5, shortest) is None
        else:
            assert len(proof.word) >= shortest
            assert answer(network, proof.word) != m.answer(proof.word)
        decisions.add(proof.equal)
    assert decisions == {True, False}


def test_series_decide_where_directions_are_infinitely_many():
    """A one-hot network with a hidden entry that grows and is never read."""
    m = machine("modular_addition(3)")
    made = network_of(compile_machine(m, "full").model)
    matrices = np.zeros((3, 4, 4))
    matrices[:, :3, :3] = made.matrices
    matrices[:, 3, 3] = [1.0, 1.5, 3.0]
    matrices[:, 3, 0] = 1.0
    initial, readout = np.append(made.initial, 1.0), np.column_stack([made.readout, np.zeros(3)])
    network = Network(matrices, initial, readout)
    assert decide_by_orbit(network, m, limit=200) is None
    assert decide_by_series(network, m).equal
    assert certify(network, m, seconds=0.0).status == "proven"
    wrong = Network(matrices, initial, readout[[1, 0, 2]])
    decided = decide_by_series(wrong, m)
    assert not decided.equal
    assert decided.word == ()
    assert decide_by_series(Network(matrices, initial, readout + np.eye(3, 4, 3)), m) is None


def test_a_changed_weight_is_noticed():
    random = np.random.default_rng(0)
    m = machine("symmetric(3)")
    made = network_of(compile_machine(m).model)
    for _ in range(20):
        matrices = made.matrices.copy()
        a, i, j = random.integers(0, m.symbols), *random.integers(0, made.hidden, 2)
        matrices[a, i, j] += random.choice([-1.0, 1.0])
        verdict = certify(Network(matrices, made.initial, made.readout), m, work=WORK)
        assert verdict.status == "refuted"
        found = verdict.counterexample
        assert answer(Network(matrices, made.initial, made.readout), found.word.symbols()) != found.replayed.right


def test_a_wrong_machine_is_refuted_by_a_shortest_word():
    m = machine("modular_addition(4)")
    delta = m.delta.copy()
    delta[3, 2] = 3
    verdict = certify(network_of(compile_machine(m).model), Machine(delta), seconds=0.0)
    assert verdict.status == "refuted"
    assert len(verdict.counterexample.word) == 2
    assert verdict.horizon == 1


def noisy(expression, noise):
    """One-hot states with noise in their matrices, and the machine that they nearly are."""
    m = minimise(machine(expression))
    made = network_of(compile_machine(m, "full").model)
    random = np.random.default_rng(1)
    matrices = made.matrices + noise * random.standard_normal(made.matrices.shape)
    return Network(matrices, made.initial, made.readout), m


@pytest.mark.parametrize("noise", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("expression", ["modular_addition(3)", "flip_flop", "symmetric(3)", "tomita(6)"])
def test_horizon_and_counterexample_enclose_the_truth(expression, noise):
    network, m = noisy(expression, noise)
    near = prove_horizon(network, m)
    searched = search(network, m, work=WORK)
    found = searched.counterexample
    assert found is not None
    if len(found.word) < 60:
        assert answer(network, found.word.symbols()) != found.replayed.right
    if near is not None:
        assert near.length is not None
        assert near.length < len(found.word)
        if noise == 1e-3:
            assert near.length > 10
    assert searched.proven is not None
    assert searched.proven < len(found.word)
    assert first_wrong(network, m, min(searched.proven, 3)) is None


# (noise, machine): length of the word, what found it, length up to which all words were proven
FOUND = {
    (1e-3, "modular_addition(3)"): (716, "powers of a word", 12),
    (1e-2, "modular_addition(3)"): (71, "powers of a word", 12),
    (1e-2, "symmetric(3)"): (39, "a beam of small margins", 7),
    (0.1, "symmetric(3)"): (4, "all words", 3),
}


@pytest.mark.parametrize(("noise", "expression"), FOUND)
def test_a_search_by_work_finds_the_same_word_without_a_clock(noise, expression, monkeypatch):
    def refuse():
        raise AssertionError("the clock was read")

    monkeypatch.setattr("statewise.theory.certify.refute.time.perf_counter", refuse)
    network, m = noisy(expression, noise)
    searched = search(network, m, seconds=0.0, work=WORK)
    found = searched.counterexample
    assert (len(found.word), found.found_by, searched.proven) == FOUND[noise, expression]
    for work in (0, 1_000, 100_000):
        assert search(network, m, work=work) == search(network, m, work=work)
    assert certify(network, m, work=WORK).counterexample == found
    assert certify(network, m, work=0) == certify(network, m, seconds=0.0, work=0)


def test_more_work_goes_deeper_and_no_work_searches_nothing():
    network, m = noisy("modular_addition(3)", 1e-3)
    depths = [search(network, m, work=work).proven for work in (0, 100, 10_000, WORK)]
    assert depths == sorted(depths)
    assert depths[0] == 0
    assert depths[-1] == 12
    for budget in ({"seconds": 0.0}, {"work": 0}):
        verdict = certify(network, m, **budget)
        assert (verdict.status, verdict.method, verdict.counterexample) == ("horizon", "growth of errors", None)


def test_a_horizon_is_a_length_even_where_errors_shrink():
    """The last symbol of two: every symbol multiplies errors by less than 1, and adds more than that takes away."""
    m = Machine([[0, 1], [0, 1]])
    for leak in (0.3, 0.01, 1e-9):
        matrices = np.array([[[1, 1], [leak, 0]], [[0, 2 * leak], [1, 1.0]]])
        network = Network(matrices, np.array([1.0, 0.0]), np.eye(2))
        claimed = prove_horizon(network, m)
        assert claimed is not None
        assert isinstance(claimed.length, int)
        assert first_wrong(network, m, min(claimed.length, 7)) is None
    one = Network(np.ones((1, 1, 1)), np.ones(1), np.ones((1, 1)))
    verdict = certify(one, Machine([[0]]), seconds=0.0)
    assert (verdict.status, verdict.method) == ("proven", "one class")


def test_long_words_are_replayed_in_balls():
    pytest.importorskip("flint", reason="needs python-flint; install statewise[certify]")
    m = machine("modular_addition(3)")
    angle = 2 * np.pi / 3 + 1e-3
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    network = Network(np.stack([np.eye(2), turn, turn @ turn]), np.array([1.0, 0.0]), compile_prototypes(3))
    short, long = Word((), (1,), 3), Word((), (1,), 3 * 700)
    assert replay(network, m, short).given == 0
    replayed = replay(network, m, long)
    assert "bits" in replayed.arithmetic
    assert (replayed.right, replayed.given) == (
        0,
        int((network.readout @ np.array([np.cos(2.1), np.sin(2.1)])).argmax()),
    )


def compile_prototypes(m):
    angles = 2 * np.pi * np.arange(m) / m
    return np.column_stack([np.cos(angles), np.sin(angles)])


def test_powers_and_plain_words_replay_alike():
    m = machine("modular_addition(5)")
    random = np.random.default_rng(0)
    network = Network(random.standard_normal((5, 3, 3)), np.ones(3), random.standard_normal((5, 3)))
    for times in (0, 1, 7):
        word = Word((1, 2), (3, 4, 4), times, (0,))
        assert len(word) == len(word.symbols())
        plain = replay(network, m, Word(word.symbols()))
        assert replay(network, m, word) == plain
        given = answer(network, word.symbols())
        assert plain.given == given


def test_ties_are_wrong():
    network = Network(np.eye(2)[None], np.ones(2), np.eye(2))
    m = Machine([[0]], outputs=[0], output_names=["a", "b"])
    verdict = certify(network, m, seconds=0.0)
    assert verdict.status == "refuted"
    assert len(verdict.counterexample.word) == 0


@pytest.mark.parametrize(
    ("model", "additive", "says"),
    [("lstm", "none", "not bilinear"), ("full", "constant", "additive term"), ("mamba(1)", "none", "not bilinear")],
)
def test_networks_of_which_nothing_is_proved(model, additive, says):
    with pytest.raises(NetworkError, match=says):
        network_of(build_model(model, 3, 3, 8, 0, additive))


def test_machines_that_do_not_fit():
    network = network_of(compile_machine(machine("modular_addition(3)")).model)
    with pytest.raises(NetworkError, match="reads 3 symbols and the machine 4"):
        certify(network, machine("modular_addition(4)"), seconds=0.0)
    many = machine("modular_addition(3)").replace(outputs=[0, 1, 5], output_names=None)
    with pytest.raises(NetworkError, match="6 outputs"):
        certify(network, many, seconds=0.0)
    with pytest.raises(NetworkError, match="not finite"):
        Network(np.full((1, 1, 1), np.nan), np.ones(1), np.ones((1, 1)))


def test_embedded_and_factored_networks_are_read_as_their_matrices():
    for spec, embedding in (("full", 6), ("cp(4)", 0), ("block(2)", 3), ("rotation", 0), ("positive", 0)):
        model = build_model(spec, 4, 3, 6, 0, "none", embedding).double()
        network = network_of(model)
        words = np.random.default_rng(0).integers(0, 4, (16, 9))
        with torch.no_grad():
            logits = model(torch.from_numpy(words))[:, -1].numpy()
        np.testing.assert_allclose(network.states(words) @ network.readout.T, logits, atol=1e-9)


@pytest.mark.parametrize(
    "part", ["prove_horizon", "prove_by_cones", "search", "growths", "prove_trained_horizon", "search_by_drift"]
)
def test_ctrl_c_ends_every_part_of_a_verdict(part, monkeypatch, tmp_path):
    run = sw.compile("modular_addition(3)", level="full", run=0)
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        run.model.transition.matrices += 0.02 * torch.randn(run.model.transition.matrices.shape, generator=noise)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(verdict, part, interrupted)
    with pytest.raises(KeyboardInterrupt):
        sw.certify(run, work=20, out=tmp_path / "run.cert")
    assert not list(tmp_path.iterdir())
