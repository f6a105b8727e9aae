"""Weights of any size and structure lead to no false verdict: what is judged is what is stored, without rounding."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from statewise.errors import ContradictionError, NetworkError
from statewise.machines import Machine, machine
from statewise.models.catalogue import build_model
from statewise.models.tracker import StateTracker
from statewise.theory import Network, compile_machine, network_of
from statewise.theory.balls import Balls
from statewise.theory.certify import Word, certify, decide_by_counts, prove_horizon, replay, search
from statewise.theory.certify.horizon import Horizon
from statewise.transitions import CP, Full, LinearTransition

# hidden-state updates: no outcome depends on how fast the computer is
WORK = 100_000


def noisy_addition(noise):
    """One-hot addition modulo 3 with noise, which is wrong after a few symbols."""
    m = machine("modular_addition(3)")
    made = network_of(compile_machine(m, "full").model)
    matrices = made.matrices + noise * np.random.default_rng(0).standard_normal(made.matrices.shape)
    return m, Network(matrices, made.initial, made.readout)


@pytest.mark.parametrize("powers", [(-600, 300, 0), (-1_000, -1_000, -1_000), (300, 300, 300), (-540, 10, -540)])
def test_powers_of_two_change_no_verdict(powers):
    """Squares of such weights vanish; products of two of them do, and those of three overflow."""
    m, network = noisy_addition(0.2)
    plain = certify(network, m, work=WORK)
    assert plain.status == "refuted"
    a, h, u = (2.0**power for power in powers)
    scaled = Network(network.matrices * a, network.initial * h, network.readout * u)
    assert certify(scaled, m, work=WORK) == plain
    m, network = noisy_addition(1e-6)
    scaled = Network(network.matrices * a, network.initial * h, network.readout * u)
    claimed, plain = (prove_horizon(each, m).length for each in (scaled, network))
    assert 0.5 * plain < claimed < 2 * plain


def test_every_symbol_may_have_a_power_of_its_own():
    m, network = noisy_addition(1e-3)
    plain = prove_horizon(network, m)
    factors = 2.0 ** np.array([-900, 0, 300])[:, None, None]
    claimed = prove_horizon(replace(network, matrices=network.matrices * factors), m)
    # the gain of a symbol is no part of the answer, but of the orbit that the vectors are taken from
    assert claimed is not None
    assert 0.5 * plain.length < claimed.length < 2 * plain.length


def test_a_readout_that_all_but_vanishes_is_read_as_it_is():
    m, network = noisy_addition(1e-3)
    for power in (-540, -1_060):
        readout = np.ldexp(np.rint(network.readout * 64), power - 6)
        assert certify(replace(network, readout=readout), m, work=WORK).status in ("refuted", "horizon")


def test_counts_of_weights_whose_products_vanish():
    """0.6 and 0.4 units of 2^-1074 are 1 and 0 of them in floats: 0.6 would be more than 0.4 + 0.4."""
    m = Machine([[0]], outputs=[0], output_names=["a", "b"])
    weights = np.array([[0.6, 0, 0], [0, 0.4, 0.4]])
    for first, last in ((0, 0), (-545, -529), (-545, -1_074 + 545)):
        network = Network(np.eye(3)[None], np.full(3, 2.0**first), weights * 2.0**last)
        found = decide_by_counts(network, m)
        assert found is not None
        assert not found.equal
    # the other way round they are right
    assert decide_by_counts(replace(network, readout=network.readout[[1, 0]]), m).equal


@pytest.mark.parametrize("power", [0, -60, -130, -140])
def test_vectors_of_long_words_whose_products_vanish_prove_nothing_wrong(power):
    """Eight states in a circle: the hidden state of the last is a product of seven matrices, float32 numbers all.

    Every symbol adds a little to a ninth entry, which is read, so that some words of less than a hundred are wrong.
    """
    m = Machine(np.roll(np.arange(8), -1)[:, None])
    matrix = np.zeros((9, 9))
    matrix[:8, :8], matrix[8, :8], matrix[8, 8] = np.roll(np.eye(8), 1, axis=0), 2.0**-6, 1.0
    readout = np.column_stack([np.eye(8), np.eye(8)[0]])
    parts = (np.ldexp(matrix, power)[None], np.eye(9)[0], readout)
    network = Network(*(part.astype(np.float32).astype(float) for part in parts))
    assert (network.matrices == parts[0]).all()
    wrong = next(n for n in range(200) if (r := replay(network, m, Word((), (0,), n))).given != r.right)
    assert wrong < 100
    claimed = prove_horizon(network, m)
    assert claimed is None or claimed.length < wrong
    searched = search(network, m, work=WORK)
    assert searched.proven < wrong
    verdict = certify(network, m, work=WORK)
    assert verdict.status == "refuted"


def cp_of_terms(terms, dtype=torch.float64):
    """Parity whose entry (0, 0) for the symbol 0 is a sum of terms that nearly cancel."""
    weight = torch.zeros(2, 2, 2, dtype=dtype)
    weight[0, 0, 0] = weight[1, 1, 0] = weight[0, 1, 1] = weight[1, 0, 1] = 1
    plain = CP.from_dense(weight)
    transition = CP(2, 2, plain.rank + len(terms)).to(dtype)
    extra = torch.zeros(2, len(terms), dtype=dtype)
    extra[0] = 1
    with torch.no_grad():
        transition.left.copy_(torch.cat([plain.left, extra], dim=1))
        transition.right.copy_(torch.cat([plain.right, extra], dim=1))
        gates = torch.zeros(2, len(terms), dtype=dtype)
        gates[0] = torch.tensor(terms, dtype=dtype)
        transition.gate.copy_(torch.cat([plain.gate, gates], dim=1))
    model = StateTracker(2, 2, 2, transition)
    with torch.no_grad():
        model.initial_state.copy_(torch.tensor([1.0, 0.0]))
        model.readout = torch.nn.Parameter(torch.eye(2))
    return model.to(dtype)


@pytest.mark.parametrize(
    "terms", [(2.0**60, -2.0, -(2.0**60)), (2.0**60, 2.0**-20, -(2.0**60)), (2.0**60, 0.0, -(2.0**60))]
)
def test_factors_that_cancel_are_multiplied_out_without_rounding(terms):
    """Float64 sums the first three terms to 0 whatever the middle one is."""
    m = machine("parity")
    network = network_of(cp_of_terms(terms))
    exact = 1 + Fraction(terms[1])
    assert network.dyadics[0].fractions()[0, 0] == exact
    verdict = certify(network, m, work=WORK)
    # a negative entry turns the sign of even words that have a 0
    assert verdict.status == ("proven" if terms[1] == 0 else "refuted" if exact < 0 else verdict.status)
    assert verdict.status != "proven" or terms[1] == 0
    one = Fraction(network.scaled.matrices.mid[0, 0, 0])
    assert abs(one * Fraction(2) ** int(network.scaled.gains[0]) - exact) <= Fraction(1, 2**50)


def test_embedded_tokens_are_summed_without_rounding():
    """A[a] = sum_k x[a, k] W_k, where the first and the last term cancel and the middle one is lost in floats."""
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    big = torch.eye(2, dtype=torch.float64) * 2.0**60
    for sign, status in ((1.0, "proven"), (-1.0, "refuted")):
        model = StateTracker(2, 2, 2, Full(4, 2), embedding=4).double()
        with torch.no_grad():
            model.transition.matrices.copy_(torch.stack([big, sign * torch.eye(2, dtype=torch.float64), -big, swap]))
            model.embeddings.copy_(torch.tensor([[1.0, 1, 1, 0], [0, 0, 0, 1]]))
            model.initial_state.copy_(torch.tensor([1.0, 0.0]))
            model.readout = torch.nn.Parameter(torch.eye(2, dtype=torch.float64))
        assert certify(network_of(model), machine("parity"), work=WORK).status == status


SEEN = Machine([[0, 1], [1, 1]])


@pytest.mark.parametrize("shift", [-800.0, 800.0, -(2.0**20)])
def test_a_common_factor_of_a_row_of_logarithms_changes_no_answer(shift):
    model = compile_machine(SEEN, "positive").model
    with torch.no_grad():
        model.transition.weight[:, 0] += shift
    assert certify(network_of(model), SEEN, seconds=0.0).status == "proven"
    words = torch.tensor(
        [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
    )
    for backend in ("torch", None):
        model.backend = backend
        assert model(words)[:, -1].argmax(dim=1).tolist() == [0, 1, 1]
        logits, (_, log_norm) = model.advance(words, model.init_state(3))
        assert logits.argmax(dim=1).tolist() == [0, 1, 1]
        assert log_norm[0] == pytest.approx(10 * shift, rel=1e-2)
        ends = model.at_end(words, torch.tensor([10, 10, 10]))
        torch.testing.assert_close(ends, model(words)[:, -1])


def test_a_contradiction_is_an_error_of_ours(monkeypatch):
    m, network = noisy_addition(0.2)
    wrong = len(certify(network, m, work=WORK).counterexample.word)
    for length in (wrong, wrong + 5):
        monkeypatch.setattr(
            "statewise.theory.certify.verdict.prove_horizon", lambda *_, n=length, **__: Horizon(n, 0.0, 1.0, 1.0)
        )
        with pytest.raises(ContradictionError, match=r"growth of errors.*bug of statewise; please report"):
            certify(network, m, work=WORK)
    assert not issubclass(ContradictionError, ValueError)


def test_an_exact_decision_that_no_replay_confirms_is_an_error_of_ours(monkeypatch):
    from statewise.theory.certify.orbit import Decided

    m = machine("modular_addition(3)")
    network = network_of(compile_machine(m, "full").model)
    monkeypatch.setattr("statewise.theory.certify.verdict.decide_by_orbit", lambda *_, **__: Decided(False, (1,), 1))
    with pytest.raises(ContradictionError, match="by orbit"):
        certify(network, m, work=WORK)


def test_processes_that_flush_small_numbers_to_zero_are_refused():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush small numbers to 0")
    try:
        with pytest.raises(NetworkError, match="set_flush_denormal"):
            Network(np.ones((1, 1, 1)), np.ones(1), np.ones((1, 1)))
    finally:
        torch.set_flush_denormal(False)


class Doubled(LinearTransition):
    """A level of a user's own."""

    def __init__(self):
        super().__init__()
        self.input_size, self.hidden_size = 2, 2
        self.weight = torch.nn.Parameter(torch.rand(2, 2))

    def coefficients(self, x):
        return x @ self.weight

    def act(self, coefficients, h):
        return 2 * coefficients * h

    def dense(self, coefficients):
        return torch.diag_embed(2 * coefficients)


def test_a_verdict_names_the_numbers_that_it_is_about():
    m = machine("parity")
    readings = {}
    for spec in ("full", "cp(2)", "block(2)", "diagonal", "rotation", "positive"):
        for embedding in (0, 3):
            model = build_model(spec, 2, 2, 2, 0, "none", embedding)
            readings[spec] = certify(network_of(model), m, seconds=0.0).numbers
    assert readings["full"] == readings["cp(2)"] == "the weights as stored, as rational numbers"
    assert "cosines and sines as real numbers" in readings["rotation"]
    assert "exponentials as real numbers" in readings["positive"]
    own = certify(network_of(StateTracker(2, 2, 2, Doubled())), m, seconds=0.0)
    assert own.numbers == "the matrices that Doubled computes in float64, as rational numbers"


@pytest.mark.parametrize("embedding", [0, 3])
def test_rotations_and_decays_are_those_of_the_stored_numbers(embedding, monkeypatch):
    """Every float matrix is off by no more than it says: against the functions of the standard library, and flint's."""
    flint = pytest.importorskip("flint", reason="needs python-flint; install statewise[certify]")
    monkeypatch.setattr(flint.ctx, "prec", 300)
    for spec in ("rotation", "positive"):
        model = build_model(spec, 5, 3, 6, 1, "none", embedding)
        with torch.no_grad():
            model.transition.weight *= 30
        network = network_of(model)
        weight = model.transition.weight.detach().double().numpy()
        inputs = np.eye(5) if model.embeddings is None else model.embeddings.detach().double().numpy()
        table = [
            [sum(Fraction(w) * Fraction(x) for w, x in zip(row, each, strict=True)) for row in weight]
            for each in inputs
        ]
        for a, row in enumerate(table):
            for place, exponent in enumerate(row):
                shift = exponent - max(row) if spec == "positive" else exponent
                argument = flint.arb(shift.numerator) / shift.denominator
                true = argument.cos() if spec == "rotation" else argument.exp()
                i = 2 * place if spec == "rotation" else place
                mid, off = (part[a, i, i] for part in (network.scaled.matrices.mid, network.scaled.matrices.off))
                assert abs(true - mid) <= off
                assert off < 1e-15
                plain = math.cos(float(shift)) if spec == "rotation" else math.exp(float(shift))
                assert abs(plain - mid) < 1e-9
    assert network.integers is None


def test_long_words_of_rotations_are_replayed_by_counts():
    """A billion symbols cost no more than one; the drift of an angle that is no multiple of 2 pi is computed."""
    m = machine("modular_addition(3)")
    model = compile_machine(m, "rotation", torch.float32).model
    network = network_of(model)
    angle = Fraction(float(model.transition.weight.detach()[0, 1]))
    drift = float(angle - Fraction(2 * math.pi / 3))
    right, wrong = (round(share * (math.pi / 3) / abs(drift) / 3) * 3 for share in (0.9, 1.1))
    for times, same in ((3, True), (right, True), (wrong, False)):
        replayed = replay(network, m, Word((), (1,), times))
        assert (replayed.given == replayed.right) == same
        assert "balls" in replayed.arithmetic
    tied = replace(network, readout=np.repeat(network.readout[:1], 3, axis=0))
    replayed = replay(tied, m, Word((1,)))
    assert replayed.given != replayed.right


def test_orbits_decide_rotations_by_nothing_and_equal_decays():
    m = Machine([[0, 0]], outputs=[0], output_names=["a", "b"])
    for spec in ("rotation", "positive"):
        model = build_model(spec, 2, 2, 2, 0, "none", 0)
        with torch.no_grad():
            model.transition.weight.fill_(0.0 if spec == "rotation" else 0.3)
            model.readout = torch.nn.Parameter(torch.tensor([[1.0, 0], [0, 0.5]]))
        assert certify(network_of(model), m, seconds=0.0).method == "orbit"


def test_searches_over_matrices_with_errors_claim_no_more_than_they_know():
    """Rotations by nearly a third of a turn are right on all short words; with larger errors, on fewer."""
    m = machine("modular_addition(3)")
    network = network_of(compile_machine(m, "rotation", torch.float64).model)
    matrices = network.scaled.matrices
    assert matrices.off.any()
    depth = search(network, m, work=10_000).proven
    assert depth >= 5
    # the property is computed once; a wider one stands in for matrices that are known less well
    for off in (1e-3, 0.3, 10.0):
        wider = replace(network)
        wider.__dict__["scaled"] = replace(
            network.scaled, matrices=Balls(matrices.mid, np.full_like(matrices.mid, off))
        )
        searched, claimed = search(wider, m, work=10_000), prove_horizon(wider, m)
        assert searched.counterexample is None
        assert searched.proven <= depth
        assert off == 1e-3 or searched.proven <= 1
        assert claimed is None or claimed.length <= 1 / off
