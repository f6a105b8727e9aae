"""`export` as a person uses it: every format of a trained, a compiled and a baseline network."""

import json

import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError, StatewiseError
from statewise.models import load_pretrained
from tests import needs
from tests.command import statewise


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A network that tracks short words, and is not proven."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    return sw.train("modular_addition(3)", "full", hidden=24, steps=400, late=0, out=folder)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    return sw.compile("symmetric(3)", run=100, out=tmp_path_factory.mktemp("exact") / "run")


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    options = {"hidden": 8, "steps": 5, "config": {"words": 20}}
    return sw.train("parity", "lstm", out=tmp_path_factory.mktemp("lstm") / "run", **options)


def test_the_command_writes_checks_and_reports(exact, tmp_path):
    done = statewise("export", exact.path, "--to", "onnx", "--out", tmp_path / "net.onnx", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["path"] == str(tmp_path / "net.onnx")
    assert result["step"] == str(tmp_path / "net.step.onnx")
    assert 0 <= result["max_difference"] <= 1e-6


@pytest.mark.parametrize("to", ["dot", "json"])
def test_machines_are_proven_read_out_or_the_task(to, exact, trained, lstm, tmp_path):
    file = tmp_path / f"m.{to}"
    for run, proven, says in (
        (exact, True, "proven"),
        (trained, False, "read out"),
        (lstm, False, "its task; nothing"),
    ):
        written = sw.export(run, to=to, out=file)
        assert (written.proven, written.max_difference) == (proven, 0.0 if proven else None)
        assert says in str(written)
        assert sw.machine(str(file)) == run.machine


def test_c_is_a_table_where_that_is_proven_and_a_network_elsewhere(exact, trained, lstm, tmp_path):
    needs.program("cc", "gcc")
    table = sw.export(exact, to="c", out=tmp_path / "a.h")
    assert (table.max_difference, table.proven) == (0.0, True)
    assert "a_next[6][6]" in (tmp_path / "a.h").read_text()
    network = sw.export(trained, to="c", out=tmp_path / "b.h")
    assert network.max_difference <= 1e-5
    assert network.proven is False
    assert "b_matrices[3][24][24]" in (tmp_path / "b.h").read_text()
    with pytest.raises(NetworkError, match="lstm is no product of matrices, and not proven to be a machine"):
        sw.export(lstm, to="c", out=tmp_path / "c.h")


def test_safetensors_are_loaded_again_and_have_a_card(exact, trained, lstm, tmp_path):
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    verdicts = {"exact": "**proven**: equal on all words", "trained": "**horizon**", "lstm": "Not certified"}
    for name, run in (("exact", exact), ("trained", trained), ("lstm", lstm)):
        written = sw.export(run, to="safetensors", out=tmp_path / name)
        assert written.max_difference == 0.0
        with torch.no_grad():
            assert torch.equal(load_pretrained(tmp_path / name)(tokens), run.model(tokens))
        card = (tmp_path / name / "README.md").read_text()
        assert verdicts[name] in card
        assert f"# {run.name} on {run.source.name}" in card
        assert "| length | accuracy | score |" in card
        assert sw.machine(str(tmp_path / name / "machine.json")) == run.machine
        listed = json.loads((tmp_path / name / "manifest.json").read_text())["sha256"]
        assert set(listed) == {"README.md", "config.json", "machine.json", "model.safetensors"}
    scored = [f"| {score.length:,} | {score.accuracy:.3f} |" for score in trained.record.scores]
    assert all(row in (tmp_path / "trained" / "README.md").read_text() for row in scored)


def test_a_class_of_ones_own_is_exported_with_its_class(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(".")
    from examples.own_model import RunningMean

    kept = sw.train("parity", RunningMean, steps=5, hidden=4, out=tmp_path / "run", config={"words": 20})
    with pytest.raises(StatewiseError, match="give that class as model"):
        sw.export(tmp_path / "run", to="safetensors", out=tmp_path / "weights")
    written = sw.export(tmp_path / "run", to="safetensors", out=tmp_path / "weights", model=RunningMean)
    assert written.max_difference is None
    with pytest.raises(StatewiseError, match="no class of statewise"):
        load_pretrained(tmp_path / "weights")
    assert kept.name in (tmp_path / "weights" / "README.md").read_text()


def test_wrong_calls_are_one_sentence(exact, tmp_path):
    for arguments, sentence in [
        (["--to", "onn", "--out", "a.onnx"], 'unknown format "onn"; did you mean "onnx"?'),
        (["--to", "onnx", "--out", "a.h"], 'out is "a.h"; expected a name that ends in .onnx; rename it'),
        (["--to", "safetensors", "--out", exact.path], "holds other files of these names; use another directory"),
        (["--to", "json"], "--out"),
    ]:
        done = statewise("export", exact.path, *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
    assert sw.load(exact.path).model is not None
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_differs_fails(exact, tmp_path, monkeypatch):
    """What is written is compared with what the network computes, and not with itself."""
    from statewise.export import onnx_graph

    whole = onnx_graph.tracker_graph

    def wrong(step):
        graph = whole(step)
        graph.constant("readout", 1.01 * step.model.readout.detach().T)
        return graph

    monkeypatch.setattr(onnx_graph, "tracker_graph", wrong)
    written = sw.export(exact, to="onnx", out=tmp_path / "net.onnx")
    assert written.failed
    assert written.max_difference > 1e-3
    assert "this is not the network" in str(written)
    assert "its own rounding in float32" in str(written)
