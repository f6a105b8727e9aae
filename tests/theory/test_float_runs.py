"""What is proven of a run in floats holds for runs in floats, in whatever order their sums are formed."""

import itertools

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import CertificateError, NetworkError
from statewise.machines import Machine, machine, minimise
from statewise.theory import compile_machine, network_of
from statewise.theory.certify import certify, certify_run
from statewise.theory.certify.trained import growths, prove_trained_horizon
from statewise.theory.network import Network

FEW = 2_000
FLOATS = {"float32": np.float32, "float64": np.float64}


def near(m, noise, random, dtype):
    """One-hot weights of a machine in a random basis, rounded to a float type, with noise."""
    hidden = m.states + 1
    matrices = np.zeros((m.symbols, hidden, hidden))
    for a in range(m.symbols):
        matrices[a, m.delta[:, a], np.arange(m.states)] = 1.0
    basis = np.linalg.qr(random.normal(size=(hidden, hidden)))[0]
    matrices = basis @ (matrices + noise * random.normal(size=matrices.shape)) @ basis.T
    readout = np.zeros((m.classes, hidden))
    readout[m.outputs, np.arange(m.states)] = 1.0
    parts = matrices, basis[:, m.start], readout @ basis.T
    return Network(*(part.astype(FLOATS[dtype]).astype(np.float64) for part in parts))


def run_in_floats(network, words, dtype, order):
    """The answers to words of one length, with sums formed in an order of their own."""
    kind = FLOATS[dtype]
    matrices, readout = (part.astype(kind)[..., order] for part in (network.matrices, network.readout))
    h = np.tile(network.initial.astype(kind), (len(words), 1))

    def summed(products):
        total = np.zeros(products.shape[:-1], dtype=kind)
        for j in range(products.shape[-1]):
            total = total + products[..., j]
        return total

    for t in range(words.shape[1]):
        h = summed(matrices[words[:, t]] * h[:, None, order])
        h = np.ldexp(h, -np.frexp(np.abs(h).max(axis=1, keepdims=True))[1])
    return summed(readout * h[:, None, order]).argmax(axis=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["modular_addition(3)", "flip_flop"])
def test_horizons_of_runs_hold_in_any_order_of_sums(name, dtype):
    m = minimise(machine(name))
    random = np.random.default_rng(1)
    proved = 0
    unit = {"float32": 2.0**-24, "float64": 2.0**-53}[dtype]
    for noise in (1e-6, 1e-3, 0.05, 0.2):
        network = near(m, noise, random, dtype)
        proven = growths(network, m, unit=unit, work=FEW)
        found = prove_trained_horizon(network, m, unit=unit, proven=proven, most=FEW)
        exact = prove_trained_horizon(network, m, proven=growths(network, m, work=FEW), most=FEW)
        assert found is None or found.length <= exact.length
        if found is None or found.length == 0:
            continue
        order = random.permutation(network.hidden)
        words = np.array(list(itertools.product(range(m.symbols), repeat=min(found.length, 5))))
        assert run_in_floats(network, words, dtype, order).tolist() == m.answer(words).tolist()
        words = random.integers(0, m.symbols, (20, min(found.length, 400)))
        assert run_in_floats(network, words, dtype, order).tolist() == m.answer(words).tolist()
        proved += 1
    assert proved > 1


def test_rounding_shortens_a_horizon():
    """Weights of float32 are off by up to 2^-25 themselves; a run in float32 adds as much at every sum, and more."""
    m = minimise(machine("modular_addition(3)"))
    network = near(m, 0.0, np.random.default_rng(2), "float32")
    short = certify_run(network, m, "float32", work=FEW)
    long = certify_run(network, m, "float64", work=FEW)
    assert (short.status, long.status) == ("horizon", "horizon")
    assert 10_000 < short.horizon < long.horizon / 5
    assert short.of_run
    assert not certify(network, m, work=0).of_run


@pytest.mark.parametrize("name", ["symmetric(3)", "tomita(5)", "flip_flop", "modular_addition(2)"])
def test_runs_that_never_round_are_proven_at_all_lengths(name):
    m = machine(name)
    network = network_of(compile_machine(m, "full").model)
    for dtype in FLOATS:
        found = certify_run(network, m, dtype, work=FEW)
        assert (found.status, found.method, found.numbers) == ("proven", "orbit", f"a run in {dtype}")
    wrong = minimise(m)
    wrong = Machine(wrong.delta, wrong.start, (wrong.outputs + 1) % wrong.classes)
    assert certify_run(network, wrong, "float32", work=FEW).status == "unknown"


def test_whole_numbers_that_outgrow_the_type_are_not_called_exact():
    """A factor of 3 at each symbol: 3^t needs more bits than a type has, and exact arithmetic divides it away."""
    m = minimise(machine("symmetric(3)"))
    network = network_of(compile_machine(m, "full").model)
    tripled = Network(3 * network.matrices, network.initial, network.readout)
    assert certify(tripled, m, work=0).status == "proven"
    found = certify_run(tripled, m, "float32", work=FEW)
    assert found.status == "horizon"
    doubled = Network(2 * network.matrices, network.initial, network.readout)
    assert certify_run(doubled, m, "float32", work=FEW).status == "proven"


def test_runs_that_may_vanish_are_unknown():
    m = minimise(machine("symmetric(3)"))
    network = network_of(compile_machine(m, "full").model)
    for power in (-40, 40):
        for parts in (
            (np.ldexp(network.matrices, power), network.readout),
            (network.matrices, 2.0**power * network.readout),
        ):
            found = certify_run(Network(parts[0], network.initial, parts[1]), m, "float32", work=FEW)
            assert (found.status, "underflow" in found.reason) == ("unknown", True)


def test_what_a_run_computes_from_other_weights_is_refused():
    m = machine("modular_addition(3)")
    for level in ("rotation", "cp"):
        with pytest.raises(NetworkError, match="from other weights"):
            certify_run(network_of(compile_machine(m, level).model), m, "float64")
    random = np.random.default_rng(3)
    with pytest.raises(NetworkError, match="would round them first"):
        certify_run(near(minimise(m), 0.0, random, "float64"), m, "float32")


def test_the_command_judges_the_run(tmp_path):
    run = sw.compile("symmetric(3)", level="full", run=10, out=tmp_path / "run")
    found = sw.certify(run, dtype="float32")
    assert found.to_dict()["numbers"] == "a run in float32"
    assert str(found).startswith("proven  equal on all words in a run in float32")
    with pytest.raises(NetworkError, match="expected float32 or float64"):
        sw.certify(run, dtype="float16")
    with pytest.raises(CertificateError, match="exact arithmetic"):
        sw.certify(run, dtype="float32", out=tmp_path / "run.cert")
    # the engine's own run, in the precision that was judged
    words = torch.randint(0, 6, (50, 300), generator=torch.Generator().manual_seed(1))
    expected = run.machine.answer(words.numpy())
    logits, _ = run.model.float().advance(words, run.model.init_state(50))
    assert (logits.argmax(dim=1).numpy() == np.asarray(expected)).all()
