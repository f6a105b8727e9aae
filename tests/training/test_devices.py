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


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: sw.evaluate(folder / "run", device="tpu"),
        lambda folder: sw.compare(["parity"], ["diagonal"], device="tpu"),
        lambda folder: sw.ladder(["diagonal"], device="tpu"),
        lambda folder: sw.sweep(folder / "grid.toml", store=folder / "store", device="tpu"),
        lambda folder: sw.reproduce("table-addition", store=folder / "store", device="tpu"),
        lambda folder: sw.demo(device="tpu"),
    ],
    ids=["evaluate", "compare", "ladder", "sweep", "reproduce", "demo"],
)
def test_every_command_that_trains_or_evaluates_takes_a_device(call, tmp_path):
    with pytest.raises(RunError, match='device is "tpu"'):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_runs_of_a_grid_are_built_on_the_device_that_was_asked_for(tmp_path, monkeypatch):
    from statewise.runs import execution
    from statewise.sweep import Costs, make_jobs, make_packs
    from statewise.sweep.work import work
    from statewise.training.options import resolve

    built, plain = [], execution.build_training

    def build(*arguments):
        built.append(arguments[3])
        return plain(*arguments[:3])

    monkeypatch.setattr(execution, "build_training", build)
    jobs = make_jobs(resolve({"task": "parity", "model": "diagonal", "steps": 2, "seed": seed}) for seed in range(2))
    packs = make_packs(jobs, Costs(), 1, "mps")
    again = packs[0].split([jobs[0].key])
    assert [pack.device for pack in packs + again] == ["mps"] * (len(packs) + 1)
    assert list(work(packs[0], tmp_path, lambda share: None))
    assert set(built) == {"mps"}


STACKS = [{}, {"num_layers": 2, "norm": True, "residual": True}, {"num_layers": 2, "bidirectional": True}]


@pytest.mark.parametrize("additive", ["none", "input"])
@pytest.mark.parametrize("stack", STACKS, ids=["one", "deep", "both ways"])
@pytest.mark.parametrize("spec", SPECS)
def test_a_layer_stays_on_its_device(spec, stack, additive):
    rnn = sw.BilinearRNN(5, 12, spec, additive, **stack).to("meta")
    x = torch.randn(4, 6, 5, device="meta", requires_grad=True)
    with OnDevice():
        output, h_n = rnn(x, lengths=torch.ones(4, dtype=torch.int64, device="meta"))
        (output.sum() + h_n.sum()).backward()
        if not rnn.bidirectional:
            y, _ = rnn.step(x[:, 0], rnn.init_state(4))
            assert y.device.type == "meta"
    assert all(p.grad is None or p.grad.device.type == "meta" for p in (x, *rnn.parameters()))
