"""Programs of torch.export compute what networks do, at batches and lengths that nothing was exported with."""

import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError
from statewise.export.network_files import step_file, write_torch
from statewise.export.steps import RecurrentStep, TrackerStep
from statewise.models import BASELINES, StateTracker, build_model
from tests.catalogues import LEVELS
from tests.command import statewise

SYMBOLS, CLASSES, HIDDEN = 5, 4, 12


def drawn(batch, time, seed=0):
    return torch.randint(0, SYMBOLS, (batch, time), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("additive", ["none", "input"])
@pytest.mark.parametrize("spec", LEVELS)
def test_the_step_of_a_tracker_is_its_own_step(spec, additive):
    for readout in ("normalised", "plain"):
        model = StateTracker(SYMBOLS, CLASSES, HIDDEN, spec, additive, 3, readout).double().eval()
        tokens = drawn(3, 40)
        with torch.no_grad():
            step, state, ours = TrackerStep(model), TrackerStep(model).begin(3), model.init_state(3)
            bare, hidden = TrackerStep(model, scaled=False), TrackerStep(model, scaled=False).begin(3)
            unscaled = []
            for token in tokens.unbind(1):
                logits, *state = step(token, *state)
                expected, ours = model.step(token, ours)
                assert torch.allclose(logits, expected, atol=1e-9)
                logits, *hidden = bare(token, *hidden)
                unscaled.append(logits)
            if readout == "plain":
                whole = model(tokens)
                assert torch.allclose(torch.stack(unscaled, dim=1), whole, atol=1e-9 * float(whole.abs().max()))


def test_a_state_that_grows_is_no_state_of_fixed_shapes():
    assert RecurrentStep.of(build_model("transformer", SYMBOLS, CLASSES, HIDDEN)) is None
    step = RecurrentStep.of(build_model("lstm(2)", SYMBOLS, CLASSES, HIDDEN))
    assert [tuple(part.shape) for part in step.begin(3)] == [(2, 3, HIDDEN)] * 2


def test_the_command_writes_programs_that_torch_loads(tmp_path):
    """In a process of its own: checks of shapes and types, which tests install, cannot be traced."""
    run = sw.compile("modular_addition(5)", level="rotation", run=10, out=tmp_path / "run")
    done = statewise("export", tmp_path / "run", "--to", "torch", "--out", tmp_path / "net.pt2")
    assert (done.returncode, done.stderr) == (0, "")
    whole, step = (torch.export.load(file).module() for file in (tmp_path / "net.pt2", tmp_path / "net.step.pt2"))
    with torch.no_grad():
        for batch, length in ((1, 1), (1, 90), (7, 2)):
            tokens = drawn(batch, length)
            assert torch.allclose(whole(tokens), run.model(tokens), atol=1e-5)
        logits, hidden = step(torch.tensor([3]), run.model.initial_state.unsqueeze(0))
        assert torch.allclose(logits, run.model(torch.tensor([[3]]))[:, 0], atol=1e-6)
        assert hidden.shape == (1, run.model.transition.hidden_size)


PROGRAM = """
import sys, torch
from pathlib import Path
from statewise.export.network_files import write_torch
from statewise.models import build_model
torch.set_num_threads(1)
model = build_model(sys.argv[1], 5, 4, 12).eval()
print(write_torch(model, sys.argv[1], 5, Path(sys.argv[2])).max_difference)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec", [*LEVELS, *(spec for kind in BASELINES.values() if kind.name != "pd_ssm" for spec in kind.examples)]
)
def test_every_model_is_the_same_function(spec, tmp_path):
    import subprocess
    import sys

    command = [sys.executable, "-c", PROGRAM, spec, str(tmp_path / "net.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-5
    assert (tmp_path / "net.pt2").is_file()
    assert step_file(tmp_path / "net.pt2").is_file() == (not spec.startswith("transformer"))


def test_what_torch_does_not_take_is_one_sentence(tmp_path):
    model = build_model("pd_ssm", SYMBOLS, CLASSES, HIDDEN).eval()
    with pytest.raises(NetworkError, match=r"torch\.export does not take pd_ssm: .*; export it --to safetensors"):
        write_torch(model, "pd_ssm", SYMBOLS, tmp_path / "net.pt2")
    assert not (tmp_path / "net.pt2").exists()
