"""Every verdict that decides something has a certificate, and the checker accepts it for the stored weights."""

import itertools
import json

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import CertificateError
from statewise.machines import Machine, machine, minimise
from statewise.runs.weights import weights_file
from statewise.theory import checker
from statewise.theory.certify import Verdict
from statewise.theory.certify.growth_witness import growth_witness
from statewise.theory.certify.invariants import Subject
from statewise.theory.certify.witness import write_certificate

WORK = 60_000
# rounds bound the work of a polish, whatever the computer
ALWAYS = 1e9


def round_trip(run, tmp_path, **options):
    """Certify a run, write the certificate, check it; return the verdict and what the certificate holds."""
    file = tmp_path / "run.cert"
    found = sw.certify(run, out=file, **options)
    assert found.out == file, found.no_certificate
    held = json.loads(file.read_text())
    checked = sw.check(file, run)
    assert (checked.valid, checked.reason) == (True, None)
    assert checked.statement == found.statement == held["statement"]
    assert checked.judged == ("sequences of the task" if found.verdict.restricted else "all words")
    # the same by the single file's own entry, from the bytes alone
    config = json.dumps({"model": sw.load(run).name}).encode()
    assert checker.check(file.read_bytes(), weights_file(sw.load(run)), config) == found.statement
    if found.status == "horizon":
        assert held["language"]["shortest"] <= held["length"] <= found.horizon
    if found.status == "refuted":
        assert held["length"] == len(found.counterexample.word)
    return found.verdict, held


COMPILED = [
    ("symmetric(3)", "auto", "orbit"),
    ("symmetric(3)", "cp", "orbit"),
    ("tomita(5)", "full", "orbit"),
    ("modular_addition(8)", "auto", "orbit"),
    ("modular_arithmetic(2)", "full", "orbit"),
    ("tomita(1)", "diagonal", "counts"),
    ("tomita(1)", "positive", "counts"),
    ("parity*tomita(1)", "diagonal", "counts"),
    ("cyclic(1)", "auto", "one class"),
    ("modular_addition(5)", "rotation", "growth of errors"),
    ("modular_addition(7)", "block(2)", "growth of errors"),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "level", "method"), COMPILED)
def test_compiled_networks(name, level, method, dtype, tmp_path):
    run = sw.compile(name, level=level, dtype=dtype, run=0, out=tmp_path / "run")
    verdict, held = round_trip(tmp_path / "run", tmp_path, seconds=0.0)
    assert verdict.method == method
    assert held["witness"]["method"] == ("counts" if method == "one class" else method)
    # the checker's norm has larger factors where weights are coarse, also where matrices are cosines and sines
    assert held["length"] >= (verdict.horizon or 0) // (1 if dtype == "float64" else 2)
    assert sw.check(tmp_path / "run.cert", run).task


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    sw.train("modular_addition(3)", "full", hidden=12, steps=400, out=folder / "full")
    sw.train("modular_addition(3)", "rotation", hidden=8, steps=300, embedding=4, out=folder / "rotation")
    sw.train("parity", "diagonal", hidden=6, steps=100, out=folder / "diagonal")
    sw.train("modular_arithmetic(2)", "full", hidden=12, steps=60, out=folder / "arithmetic")
    return folder


@pytest.mark.parametrize("name", ["full", "rotation", "diagonal", "arithmetic"])
def test_trained_networks(trained, name, tmp_path):
    verdict, held = round_trip(trained / name, tmp_path, work=WORK)
    assert held["language"]["shortest"] == 2
    assert verdict.restricted == (name == "arithmetic")
    expected = {"refuted": {"counterexample"}, "horizon": {"all words", "growth of errors"}, "proven": {"orbit"}}
    assert held["witness"]["method"] in expected[verdict.status]


def test_networks_that_were_polished_snapped_and_extracted(trained, tmp_path):
    rotation = sw.train("modular_addition(5)", "rotation", hidden=16, seed=31)
    fine = sw.polish(rotation, seconds=ALWAYS)
    verdict, held = round_trip(fine, tmp_path, seconds=0.0)
    assert (verdict.status, held["witness"]["method"]) == ("horizon", "growth of errors")
    assert held["length"] == verdict.horizon > 10**10
    exact = sw.snap(trained / "full", out=tmp_path / "exact")
    assert round_trip(exact, tmp_path)[0].status == "proven"
    near = sw.snap(trained / "full", mode="project", out=tmp_path / "near")
    verdict, held = round_trip(near, tmp_path, seconds=0.0)
    assert (verdict.status, held["length"]) == ("horizon", verdict.horizon)


def test_learned_networks(tmp_path):
    m = machine("tomita(4)")
    words = [word for length in range(8) for word in itertools.product(m.alphabet, repeat=length)]
    pairs = [(word, m.answer(list(word)) if word else int(m.outputs[m.start])) for word in words]
    learned = sw.learn(sw.LabelledWords.from_pairs(pairs), method="hankel", out=tmp_path / "learned")
    verdict, held = round_trip(learned, tmp_path)
    assert verdict.status == "proven"
    assert held["witness"]["method"] in ("orbit", "series")


def test_a_series_of_spaces(tmp_path):
    """A direction that is never read grows without bound: no orbit is finite, and the spaces are."""
    run = sw.compile("tomita(4)", level="full", run=0)
    model = run.model
    with torch.no_grad():
        old = [model.transition.matrices, model.initial_state, model.readout]
        hidden, symbols = len(old[1]), len(old[0])
        wide = torch.zeros(symbols, hidden + 1, hidden + 1)
        wide[:, :hidden, :hidden] = old[0]
        wide[:, hidden, :] = torch.arange(symbols * (hidden + 1)).reshape(symbols, -1) % 5 - 2.0
        model.transition.matrices = torch.nn.Parameter(wide)
        model.initial_state = torch.nn.Parameter(torch.cat([old[1], torch.ones(1)]))
        model.readout = torch.nn.Parameter(torch.cat([old[2], torch.zeros(len(old[2]), 1)], dim=1))
    verdict, held = round_trip(run, tmp_path)
    assert (verdict.method, held["witness"]["method"]) == ("series", "series")
    assert any(basis for _, _, basis in held["witness"]["sets"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cones_of_weights_as_they_are(dtype, tmp_path):
    """The last symbol, with noise on every weight: right at every length, of an open set of weights."""
    last = Machine([[0, 1, 2]] * 3)
    run = sw.compile(last, level="full", dtype=dtype, run=0)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for tensor in run.model.state_dict().values():
            tensor += 0.05 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
    verdict, held = round_trip(run, tmp_path, work=WORK)
    assert (verdict.method, held["witness"]["method"], held["length"]) == ("cones", "cones", 0)
    assert sw.check(tmp_path / "run.cert", run).task


def test_runs_of_a_store_and_in_memory(trained, tmp_path):
    sw.merge(tmp_path / "store", [trained / "diagonal"])
    key = sw.runs(tmp_path / "store").to_dict()["runs"][0]["key"]
    stored = sw.load(f"{tmp_path / 'store'}#{key[:8]}")
    round_trip(stored, tmp_path, work=WORK)
    # its weights are other bytes than those of the directory, where the optimiser lies beside them
    assert not sw.check(tmp_path / "run.cert", trained / "diagonal").valid
    round_trip(sw.compile("parity", run=0), tmp_path)
    # what is saved later is what was certified in memory
    sw.compile("parity", run=0, out=tmp_path / "later")
    assert sw.check(tmp_path / "run.cert", tmp_path / "later").valid


def test_other_machines_are_said_to_be_others(tmp_path):
    run = sw.compile("modular_addition(3)", run=0, out=tmp_path / "run")
    constant = machine("modular_addition(3)")
    constant = constant.replace(delta=np.zeros_like(constant.delta))
    found = sw.certify(run, constant, out=tmp_path / "run.cert")
    assert found.status == "refuted"
    checked = sw.check(tmp_path / "run.cert", run)
    assert (checked.valid, checked.task) == (True, False)
    assert "another" in str(checked)


def test_verdicts_without_a_certificate(trained, tmp_path):
    found = sw.certify(trained / "full", seconds=0.0, out=tmp_path / "none.cert")
    assert (found.status, found.out) == ("unknown", None)
    assert found.failed
    assert "unknown" in found.no_certificate
    assert not (tmp_path / "none.cert").exists()
    # a proof that the checker has no method for is no certificate, and nor is a wrong verdict
    m, run = minimise(machine("parity")), sw.compile("parity", level="full", run=0)
    for verdict in (Verdict("proven", "cones", "", 0), Verdict("horizon", "all words", "", 0, 5)):
        wrong = Machine(m.delta, 0, 1 - m.outputs)
        with pytest.raises(CertificateError, match="nothing was written"):
            write_certificate(weights_file(run), "full", wrong, verdict)
    with pytest.raises(CertificateError, match="cannot read"):
        write_certificate(weights_file(run), "file.py:Mine", m, Verdict("proven", "orbit", "", 0))


def test_horizons_are_as_long_as_the_norm_allows():
    """The length that is found is the last that the checker accepts."""
    run = sw.compile("modular_addition(5)", level="rotation", run=0)
    m = minimise(machine("modular_addition(5)"))
    legal = np.ones(m.delta.shape, dtype=int).tolist()
    subject = Subject(checker.read_network(weights_file(run), "rotation"), m, legal, 0)
    length, witness = growth_witness(subject)
    parts = {"delta": m.delta.tolist(), "outputs": m.outputs.tolist(), "start": m.start}
    for claimed, holds in ((length, True), (length + 2 + length // 10**9, False)):
        case = checker.Case(subject.network, parts, {"shortest": 0, "legal": legal}, claimed)
        try:
            case.check_growth(witness)
            accepted = True
        except checker.InvalidError:
            accepted = False
        assert accepted == holds
