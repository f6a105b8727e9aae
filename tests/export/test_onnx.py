"""ONNX graphs compute what networks do, at batches and lengths that nothing was exported with."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import statewise as sw
from statewise.errors import ToolMissingError
from statewise.export.network_files import need_onnx, step_file, write_onnx
from statewise.models import BASELINES, StateTracker, build_model
from tests.catalogues import LEVELS

SYMBOLS, CLASSES, HIDDEN = 5, 4, 12
FACTS = {"alphabet": ["a", "b", "c", "d", "é"]}


def opened(file):
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def drawn(batch, time, seed=0):
    return torch.randint(0, SYMBOLS, (batch, time), generator=torch.Generator().manual_seed(seed))


def tracker(spec, additive="none", readout="normalised", embedding=0):
    model = StateTracker(SYMBOLS, CLASSES, HIDDEN, spec, additive, embedding, readout, torch.Generator().manual_seed(1))
    if additive == "constant":
        torch.nn.init.normal_(model.transition.offset, generator=torch.Generator().manual_seed(2))
    return model.eval()


def assert_same(model, file, tolerance, lengths=(1, 3, 30)):
    """Compare whole sequences, then steps from the state that the metadata has."""
    whole, step = opened(file), opened(step_file(file))
    first = json.loads(step.get_modelmeta().custom_metadata_map["initial"])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    with torch.no_grad():
        for batch, length in zip((1, 4, 2), lengths, strict=True):
            tokens = drawn(batch, length)
            expected = model(tokens).numpy()
            (found,) = whole.run(["all_logits"], {"tokens": tokens.numpy()})
            assert found.shape == expected.shape
            assert abs(found - expected).max() <= tolerance * max(1, abs(expected).max())
            state = {i.name: np.array(first[i.name], kinds[i.type]) for i in step.get_inputs()[1:]}
            ours = model.init_state(1)
            for token in tokens[:1].unbind(1):
                logits, ours = model.step(token, ours)
                given, *after = step.run(None, {"token": token.numpy(), **state})
                state = dict(zip(state, after, strict=True))
                assert abs(given - logits.numpy()).max() <= tolerance


@pytest.mark.parametrize("additive", ["none", "constant", "input"])
@pytest.mark.parametrize("spec", LEVELS)
def test_every_level_is_the_same_function(spec, additive, tmp_path):
    for readout, embedding in (("normalised", 0), ("plain", 3)):
        model = tracker(spec, additive, readout, embedding)
        for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
            # in float32 a random network's own rounding grows with length
            lengths = (1, 3, 30) if dtype == torch.float64 else (1, 3, 12)
            written = write_onnx(model.to(dtype), spec, SYMBOLS, FACTS, tmp_path / "net.onnx")
            assert written.max_difference is not None
            assert_same(model, tmp_path / "net.onnx", tolerance, lengths)


def test_whole_numbers_stay_exact_at_any_length(tmp_path):
    """States are divided by powers of two only, so that nothing is rounded over thousands of symbols."""
    run = sw.compile("symmetric(4)", run=10)
    written = sw.export(run, to="onnx", out=tmp_path / "s4.onnx")
    assert written.max_difference <= 1e-6
    words = np.random.default_rng(0).integers(0, run.machine.symbols, (2, 3_000))
    (logits,) = opened(tmp_path / "s4.onnx").run(["all_logits"], {"tokens": words})
    assert (logits.argmax(axis=-1) == run.machine.outputs[run.machine.track(words)]).all()


def test_metadata_names_symbols_and_outputs(tmp_path):
    run = sw.compile("flip_flop", run=10)
    sw.export(run, to="onnx", out=tmp_path / "f.onnx")
    facts = opened(tmp_path / "f.onnx").get_modelmeta().custom_metadata_map
    assert tuple(json.loads(facts["alphabet"])) == run.machine.alphabet
    assert tuple(json.loads(facts["outputs"])) == run.machine.output_names
    assert json.loads(facts["task"]) == "flip_flop(2)"


def test_a_sequence_can_be_handed_over_to_the_step(tmp_path):
    model = tracker("block(3)", "input")
    write_onnx(model, "block(3)", SYMBOLS, FACTS, tmp_path / "net.onnx")
    whole, step = opened(tmp_path / "net.onnx"), opened(tmp_path / "net.step.onnx")
    tokens = drawn(2, 9)
    last = whole.run(["hidden_last", "log_norm_last"], {"tokens": tokens[:, :-1].numpy()})
    logits, *_ = step.run(None, {"token": tokens[:, -1].numpy(), "hidden": last[0], "log_norm": last[1]})
    with torch.no_grad():
        assert abs(logits - model(tokens)[:, -1].numpy()).max() <= 1e-5


def traced(spec, tmp_path):
    model = build_model(spec, SYMBOLS, CLASSES, HIDDEN).eval()
    file = tmp_path / "net.onnx"
    write_onnx(model, spec, SYMBOLS, FACTS, file)
    assert_same(model, file, 1e-5)


def test_an_lstm_is_the_same_function(tmp_path):
    traced("lstm(2)", tmp_path)


# no step of fixed shapes: attention keeps all that it has read; PD-SSM's step depends on the batch
NO_STEP, NOT_TAKEN = ("transformer",), ("pd_ssm",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", [spec for kind in BASELINES.values() if kind.name not in NO_STEP + NOT_TAKEN for spec in kind.examples]
)
def test_every_recurrent_baseline_is_the_same_function(spec, tmp_path):
    traced(spec, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("spec", BASELINES["transformer"].examples)
def test_a_transformer_has_whole_sequences_and_no_step(spec, tmp_path):
    model = build_model(spec, SYMBOLS, CLASSES, HIDDEN).eval()
    written = write_onnx(model, spec, SYMBOLS, FACTS, tmp_path / "net.onnx")
    assert written.max_difference <= 1e-5
    assert written.step is None
    assert "no single step" in written.note


@pytest.mark.parametrize(("package", "tracks"), [("onnx", True), ("onnxscript", False)])
def test_a_missing_package_names_the_extra(package, tracks, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ToolMissingError, match=rf"{package} is not installed; install statewise\[export\]"):
        need_onnx(tracker=tracks)


def test_without_a_runtime_nothing_is_compared_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    written = sw.export(sw.compile("parity", run=10), to="onnx", out=tmp_path / "p.onnx")
    assert written.max_difference is None
    assert not written.failed
    assert "onnxruntime is not installed" in str(written)
