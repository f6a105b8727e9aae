"""A step computes where the model is: no tensor is made on the CPU, and none is read back."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import statewise as sw
from statewise.errors import RunError
from statewise.models import LEVELS, build_model
from statewise.training.loss import answer_loss

SPECS = [spec for kind in LEVELS.values() for spec in kind.examples]


class OnDevice(TorchDispatchMode):
    """Fails on any operation that makes a tensor on the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            assert not isinstance(leaf, torch.Tensor) or leaf.device.type != "cpu", f"{func} made a tensor on the CPU"
        return made


def on_meta(*shape):
    return torch.zeros(*shape, dtype=torch.int64, device="meta")


@pytest.mark.parametrize("readout", ["plain", "normalised"])
@pytest.mark.parametrize("embedding", [0, 5])
@pytest.mark.parametrize("spec", SPECS)
def test_a_step_of_a_level_stays_on_its_device(spec, embedding, readout):
    """A tensor on meta has no values: whatever looked at one would fail."""
    model = build_model(spec, 3, 4, 12, readout=readout, embedding=embedding).to("meta")
    assert model.device.type == "meta"
    with OnDevice():
        ends = model.at_end(on_meta(5, 7), on_meta(5) + 1)
        each = model(on_meta(5, 7)).flatten(0, 1)
        for logits in (ends, each):
            for loss in ("cross-entropy", "squared"):
                answer_loss(logits, on_meta(len(logits)), loss).backward(retain_graph=True)
        logits, _ = model.advance(on_meta(5, 7), model.init_state(5))
    assert logits.device.type == "meta"
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in model.parameters())


def test_the_mode_notices_a_tensor_on_the_cpu():
    with pytest.raises(AssertionError, match="on the CPU"), OnDevice():
        torch.arange(3)


@pytest.mark.parametrize(("device", "words"), [("tpu", "expected cpu, cuda, mps or auto"), ("cuda:x", "expected cpu")])
def test_devices_that_are_none_are_refused(device, words):
    with pytest.raises(RunError, match=words):
        sw.train("parity", "diagonal", steps=1, device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(RunError, match="does not find here; use cpu or auto"):
        sw.train("parity", "diagonal", steps=1, device="cuda", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_auto_is_the_same_run_as_the_device_that_it_finds():
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    auto, named = (sw.train("parity", "diagonal", steps=20, device=device) for device in ("auto", found))
    assert auto.options == named.options
    assert (
        sw.evaluate(auto, lengths=[20], device="auto").scores == sw.evaluate(named, lengths=[20], device=found).scores
    )
