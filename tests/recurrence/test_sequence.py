"""Every fast path over real-valued inputs against the reference: outputs, last state, all gradients."""

import subprocess
import sys

import pytest
import torch

from statewise import BilinearRNN
from statewise.errors import StatewiseError
from statewise.kernels import choose, library
from statewise.models.levels import build_transition
from statewise.recurrence import sequence_backend, unroll, unroll_sequence

SPECS = ["full", "cp(5)", "block(2)", "block(3)", "block(4)", "block(6)", "rotation", "diagonal", "positive"]
FAST = {"block(2)", "block(3)", "block(4)", "rotation", "diagonal", "positive"}
SIZES = [(3, 63), (1, 1), (2, 0), (5, 8)]


def build(spec, additive="none"):
    return build_transition(spec, 5, 12, additive, torch.Generator().manual_seed(0)).double()


def setup(batch, time):
    generator = torch.Generator().manual_seed(time)
    x = torch.randn(batch, time, 5, dtype=torch.float64, generator=generator) * 0.7
    h0 = torch.randn(batch, 12, dtype=torch.float64, generator=generator)
    return x.requires_grad_(), h0.requires_grad_()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("batch", "time"), SIZES)
@pytest.mark.parametrize("ragged", [False, True])
def test_sequences_are_the_references(spec, batch, time, ragged):
    transition = build(spec)
    x, h0 = setup(batch, time)
    lengths = torch.tensor([time, 0, time // 2, 1, time][:batch]).clamp(max=time) if ragged else None
    if ragged:
        padded = torch.arange(time) >= lengths.unsqueeze(1)
        x = torch.where(padded.unsqueeze(-1), float("nan"), x.detach()).requires_grad_()
    results = []
    for run in (unroll, unroll_sequence):
        outputs, last = run(transition, x, h0, lengths)
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(part.shape, dtype=torch.float64, generator=generator) for part in (outputs, last)]
        total = (outputs * weights[0]).sum() + (last * weights[1]).sum()
        wanted = [x, h0, *transition.parameters()]
        results.append([outputs, last, *torch.autograd.grad(total, wanted, allow_unused=True)])
    for slow, fast in zip(*results, strict=True):
        if slow is None or fast is None:
            assert slow is fast is None or not (fast if slow is None else slow).any()
        else:
            torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_the_backend_can_be_read_and_forced(spec):
    rnn = BilinearRNN(5, 12, transition=spec)
    expected = "native" if spec in FAST and library() is not None else "torch"
    assert rnn.backend == expected
    x = torch.randn(2, 7, 5)
    fast = rnn(x)[0]
    rnn.backend = "torch"
    assert rnn.backend == "torch"
    torch.testing.assert_close(rnn(x)[0], fast, rtol=1e-4, atol=1e-5)
    rnn.backend = None
    assert rnn.backend == expected
    with pytest.raises(StatewiseError, match='did you mean "native"'):
        rnn.backend = "nativ"


def test_additive_terms_take_the_reference():
    for spec in SPECS:
        x, h0 = setup(2, 6)
        transition = build(spec, "input")
        assert sequence_backend(transition, None, x, h0) == "torch"
        torch.testing.assert_close(unroll_sequence(transition, x, h0)[0], unroll(transition, x, h0)[0])


@pytest.mark.parametrize("spec", ["diagonal", "block(2)", "rotation"])
def test_second_derivatives(spec):
    transition = build_transition(spec, 2, 4, "none", torch.Generator().manual_seed(0)).double()
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    h0 = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda a, b: unroll_sequence(transition, a, b)[0], (x, h0))


def test_long_rotations_keep_their_digits():
    """Ten thousand steps of float32 stay within a few roundings of float64."""
    transition = build_transition("rotation", 3, 6, "none", torch.Generator().manual_seed(0))
    x = torch.randn(1, 10_000, 3, generator=torch.Generator().manual_seed(1))
    h0 = torch.ones(1, 6)
    single = unroll_sequence(transition, x, h0)[0]
    double = unroll(transition.double(), x.double(), h0.double())[0]
    assert (single - double).abs().max() < 1e-4


def test_under_transforms_torch_computes():
    x = torch.randn(3, 4)
    assert torch.vmap(lambda row: torch.tensor(choose(None, row) == "torch") & (row.sum() == row.sum()))(x).all()


def test_without_a_compiler_everything_still_runs(tmp_path):
    program = """
import torch
from statewise import BilinearRNN
from statewise.kernels import library
assert library() is None
rnn = BilinearRNN(3, 4, transition="diagonal")
assert rnn.backend == "torch"
assert rnn(torch.randn(2, 5, 3))[0].shape == (2, 5, 4)
try:
    rnn.backend = "native"
except ValueError as error:
    print(error)
"""
    environment = {"PATH": "/nowhere", "STATEWISE_CACHE": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "install a C++ compiler" in done.stdout


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    program = "from statewise.kernels import library; print(library())"
    environment = {"PATH": "/usr/bin:/bin", "STATEWISE_CACHE": "/proc/none", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "None"
