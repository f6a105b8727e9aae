import math

import pytest
import torch

from statewise.models.levels import build_transition as transition
from statewise.recurrence import rescale, unroll, unroll_normalised
from statewise.transitions import Full
from tests.catalogues import HIDDEN, INPUT, LEVELS, affine, level

BATCH, TIME = 3, 7
TRANSITIONS = [level(spec) for spec in LEVELS] + [affine(s, t) for s in LEVELS for t in ("constant", "input")]
IDS = LEVELS + [f"{s}+{t}" for s in LEVELS for t in ("constant", "input")]
every = pytest.mark.parametrize("transition", TRANSITIONS, ids=IDS)


def draw(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed), requires_grad=True)


@every
def test_unroll_is_a_product_of_dense_matrices(transition):
    x, h0 = draw(BATCH, TIME, INPUT), draw(BATCH, HIDDEN, seed=1)
    outputs, final = unroll(transition, x, h0)
    matrices = transition.dense(transition.coefficients(x))
    state = h0 if matrices.shape[-1] == HIDDEN else torch.cat([h0, torch.ones(BATCH, 1, dtype=h0.dtype)], dim=-1)
    for t in range(TIME):
        state = (matrices[:, t] @ state.unsqueeze(-1)).squeeze(-1)
        torch.testing.assert_close(outputs[:, t], state[:, :HIDDEN])
    assert torch.equal(final, outputs[:, -1])


@every
def test_normalised_states_are_the_plain_ones_rescaled(transition):
    x, h0 = draw(BATCH, TIME, INPUT), draw(BATCH, HIDDEN, seed=1)
    plain, plain_final = unroll(transition, x, h0)
    (unit, log_norm), (final, final_log) = unroll_normalised(transition, x, h0)
    torch.testing.assert_close(unit.norm(dim=-1), torch.ones(BATCH, TIME, dtype=torch.float64))
    torch.testing.assert_close(unit * log_norm.exp().unsqueeze(-1), plain, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(final * final_log.exp().unsqueeze(-1), plain_final, rtol=1e-12, atol=1e-12)


@every
def test_gradients_of_the_rescaled_states_are_the_plain_ones(transition):
    x, h0 = draw(BATCH, TIME, INPUT), draw(BATCH, HIDDEN, seed=1)
    lengths = torch.tensor([7, 0, 3])
    wanted = [x, h0, *transition.parameters()]
    plain = torch.autograd.grad(unroll(transition, x, h0, lengths)[0].square().sum(), wanted)
    (unit, log_norm), _ = unroll_normalised(transition, x, h0, lengths)
    rescaled = torch.autograd.grad((unit * log_norm.exp().unsqueeze(-1)).square().sum(), wanted)
    for a, b in zip(plain, rescaled, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("gain", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_overflows_or_underflows(gain, dtype):
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=dtype)
    steps = 2_000
    with torch.no_grad():
        t = Full.from_dense((turn * gain).unsqueeze(-1))
        x, h0 = torch.ones(1, steps, 1, dtype=dtype), torch.tensor([[1.0, 0.0]], dtype=dtype)
        (_, log_norm), (final, last) = unroll_normalised(t, x, h0)
    expected = steps * torch.tensor(gain, dtype=torch.float64).log()
    torch.testing.assert_close(last, expected.reshape(1), rtol=1e-6, atol=0)
    assert torch.isfinite(log_norm).all()
    angle = steps * torch.tensor(0.8, dtype=torch.float64).asin()
    pointing = torch.stack([angle.cos(), angle.sin()]).unsqueeze(0)
    torch.testing.assert_close(final.double(), pointing, rtol=0, atol=1e-3 if dtype == torch.float32 else 1e-9)


def test_small_states_survive_an_additive_term_of_zero():
    t = transition("diagonal", 1, 2, additive="constant").double()
    start = torch.ones(1, 2, dtype=torch.float64)
    x = torch.ones(1, 2_000, 1, dtype=torch.float64)
    with torch.no_grad():
        t.linear.weight.fill_(0.25)
        (unit, _), (_, last) = unroll_normalised(t, x, start)
        assert last.item() == pytest.approx(math.log(2) / 2 + 2_000 * math.log(0.25))
        torch.testing.assert_close(unit.norm(dim=-1), torch.ones(1, 2_000, dtype=torch.float64))
        # an offset takes over from a state of any size: h = 1 / (1 - 0.25) in both entries
        t.offset.fill_(1.0)
        _, (_, last) = unroll_normalised(t, x, start * 1e-300)
        assert last.item() == pytest.approx(math.log(2) / 2 + math.log(4 / 3))


def test_logarithms_of_positive_diagonals_never_overflow():
    t = transition("positive", 1, 2)
    with torch.no_grad():
        t.weight.copy_(torch.tensor([[200.0], [100.0]]))
        _, (final, last) = unroll_normalised(t, torch.ones(1, 50, 1), torch.ones(1, 2))
    torch.testing.assert_close(final, torch.tensor([[1.0, 0.0]]))
    torch.testing.assert_close(last, torch.tensor([10_000.0], dtype=torch.float64))


def test_a_state_of_zero_stays_zero_and_has_finite_gradients():
    h, log_norm = torch.zeros(2, 3, requires_grad=True), torch.zeros(2, dtype=torch.float64)
    unit, scale = rescale(h, log_norm)
    assert torch.equal(unit, torch.zeros(2, 3))
    assert torch.equal(scale, log_norm)
    unit.sum().backward()
    assert torch.isfinite(h.grad).all()


@every
def test_padding_is_never_looked_at(transition):
    x, h0 = draw(4, TIME, INPUT), draw(4, HIDDEN, seed=1)
    lengths = torch.tensor([3, 0, 7, 1])
    wanted = [h0, *transition.parameters()]
    with torch.no_grad():
        poisoned = x.clone()
        for row, length in enumerate(lengths.tolist()):
            poisoned[row, length:] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0, 1])
    poisoned.requires_grad_()
    for run in (unroll, unroll_normalised):
        clean, dirty = (run(transition, values, h0, lengths) for values in (x, poisoned))
        for a, b in zip(_tensors(clean), _tensors(dirty), strict=True):
            assert torch.equal(a, b)
        clean_loss, dirty_loss = (sum(t.square().sum() for t in _tensors(result)) for result in (clean, dirty))
        grads = torch.autograd.grad(dirty_loss, [*wanted, poisoned])
        for a, b in zip(torch.autograd.grad(clean_loss, wanted), grads, strict=False):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert torch.isfinite(grads[-1]).all()
    # each row ends where it would have ended alone
    outputs, final = unroll(transition, x, h0, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = unroll(transition, x[row : row + 1, :length], h0[row : row + 1])
        torch.testing.assert_close(final[row : row + 1], alone[1])
        torch.testing.assert_close(outputs[row : row + 1, :length], alone[0])
        assert not outputs[row, length:].any()


def _tensors(result):
    for part in result:
        yield from [part] if isinstance(part, torch.Tensor) else part
