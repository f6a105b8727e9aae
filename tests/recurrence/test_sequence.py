"""Every fast path over real-valued inputs against the reference: outputs, last state, all gradients."""

import subprocess
import sys

import pytest
import torch

from statewise import BilinearRNN
from statewise.errors import StatewiseError
from statewise.kernels import choose, library
from statewise.models.levels import build_transition
from statewise.recurrence import events, sequence_backend, to_unit_size, unroll, unroll_sequence

SPECS = ["full", "cp(5)", "block(2)", "block(3)", "block(4)", "block(6)", "rotation", "diagonal", "positive"]
FAST = set(SPECS) - {"cp(5)"}
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
@pytest.mark.parametrize(
    ("additive", "normalise"), [("none", False), ("none", True), ("input", False), ("input", True)]
)
def test_sequences_are_the_references(spec, batch, time, ragged, additive, normalise):
    transition = build(spec, additive)
    x, h0 = setup(batch, time)
    lengths = torch.tensor([time, 0, time // 2, 1, time][:batch]).clamp(max=time) if ragged else None
    if ragged:
        padded = torch.arange(time) >= lengths.unsqueeze(1)
        x = torch.where(padded.unsqueeze(-1), float("nan"), x.detach()).requires_grad_()
    results = []
    for run in (unroll, unroll_sequence):
        start = to_unit_size(h0) if normalise else h0
        outputs, last = run(transition, x, start, lengths, normalise=normalise)
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


@pytest.mark.parametrize("spec", SPECS)
def test_additive_terms_are_as_fast_as_their_linear_part(spec):
    transition, (x, h0) = build(spec, "input"), setup(2, 6)
    fast = "native" if spec in FAST and library() is not None else "torch"
    assert sequence_backend(transition, None, x, h0) == fast


@pytest.mark.parametrize("kept", [0, 1 << 28])
@pytest.mark.parametrize("spec", ["full", "block(6)"])
def test_pieces_of_time_change_nothing(spec, kept, monkeypatch):
    """Matrices of two steps at a time, kept or computed again, and a backward that comes twice."""
    transition, (x, h0) = build(spec, "input"), setup(3, 9)
    x = x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    wanted = [x, h0, *transition.parameters()]
    slow = torch.autograd.grad(unroll(transition, x, h0)[0].square().sum(), wanted)
    monkeypatch.setattr(events, "_CACHE", 1)
    monkeypatch.setattr(events, "_ENOUGH", 6)
    monkeypatch.setattr(events, "_KEPT", kept)
    total = unroll_sequence(transition, x, h0)[0].square().sum()
    for _ in range(2):
        for a, b in zip(torch.autograd.grad(total, wanted, retain_graph=True), slow, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("spec", ["full", "block(6)", "rotation", "positive"])
def test_second_derivatives_with_an_additive_term(spec, normalise):
    transition, (x, h0) = build(spec, "input"), setup(2, 3)
    assert torch.autograd.gradgradcheck(
        lambda x, h0: unroll_sequence(transition, x, h0, torch.tensor([3, 1]), normalise=normalise)[0], (x, h0)
    )


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


@pytest.mark.parametrize("spec", ["full", "block(2)", "block(6)", "diagonal", "rotation"])
def test_second_derivatives_of_chunks_are_those_of_the_whole(spec):
    """The first state of a chunk was computed from the same weights."""
    transition, (x, h0) = build(spec), setup(2, 6)
    found = []
    for cut in (0, 3):
        _, between = unroll_sequence(transition, x[:, :cut], h0)
        _, last = unroll_sequence(transition, x[:, cut:], between)
        first = torch.autograd.grad(last.square().sum(), list(transition.parameters()), create_graph=True)
        found.append(torch.autograd.grad(sum(part.square().sum() for part in first), [x, h0]))
    for whole, chunks in zip(*found, strict=True):
        torch.testing.assert_close(chunks, whole, rtol=1e-9, atol=1e-9)
