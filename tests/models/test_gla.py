"""Gated linear attention by chunks, and the model around it, against a loop over dense matrices."""

import pytest
import torch
from torch.nn import functional as F

from statewise.models.baselines import GLATracker
from statewise.models.baselines.gla import gated_attention


def step_by_step(q, k, v, decay, state):
    """Apply S_t = Diag(alpha_t) S_{t-1} + k_t v_t^T a step at a time."""
    outputs = []
    for t in range(q.shape[1]):
        state = torch.diag_embed(decay[:, t].exp()) @ state + k[:, t].unsqueeze(-1) @ v[:, t].unsqueeze(1)
        outputs.append((state.mT @ q[:, t].unsqueeze(-1)).squeeze(-1))
    return torch.stack(outputs, dim=1), state


def draw(time, strongest, dtype):
    made = torch.Generator().manual_seed(time)
    shapes = [(5, time, 7), (5, time, 7), (5, time, 6), (5, time, 7), (5, 7, 6)]
    q, k, v, decay, state = (torch.randn(shape, generator=made, dtype=dtype) for shape in shapes)
    return [part.requires_grad_() for part in (q, k, v, -strongest * decay.abs(), state)]


def results(parts, o, last):
    return (o, last, *torch.autograd.grad(o.sin().sum() + last.cos().sum(), parts))


# chunks have 16 steps: less than one, one, and odd numbers of them
@pytest.mark.parametrize("time", [1, 5, 16, 37])
@pytest.mark.parametrize("strongest", [0.0, 0.1, 3.0])
def test_gated_attention_by_chunks_is_its_recurrence(time, strongest):
    """Outputs, last states and gradients."""
    parts = draw(time, strongest, torch.float64)
    torch.testing.assert_close(results(parts, *gated_attention(*parts)), results(parts, *step_by_step(*parts)))


def test_decays_of_any_strength_are_safe():
    """A state that vanishes within a chunk leaves no infinity behind, in outputs or gradients."""
    parts = draw(27, 200.0, torch.float32)
    found = results(parts, *gated_attention(*parts))
    assert all(part.isfinite().all() for part in found)
    torch.testing.assert_close(found, results(parts, *step_by_step(*parts)), rtol=1e-3, atol=1e-4)


def test_gla_is_its_equations():
    """The mixer from x to y, outputs, last states and gradients."""
    width, heads = 12, 3
    mixer = GLATracker(4, 3, width, heads=heads).blocks[0].mixer.double()
    x = torch.randn(3, 21, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    first = torch.randn(3, heads, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    down, up = mixer.gk_proj
    alpha = (up.weight @ down.weight @ x.mT + up.bias.unsqueeze(-1)).mT.sigmoid() ** (1 / 16)
    W_q, W_k, W_v = mixer.qkv_proj.weight.chunk(3)
    ends, matrices = [], []
    for head in range(heads):
        mine = slice(4 * head, 4 * head + 4)
        q, k, v = ((x @ weight.T)[..., mine] for weight in (W_q, W_k, W_v))
        o, last = step_by_step(q / 2, k, v, alpha[..., mine].log(), first[:, head])
        ends.append(F.rms_norm(o, (4,), mixer.output.norm.weight, 1e-5))
        matrices.append(last)
    gate = F.silu(x @ mixer.output.g_proj.weight.T)
    expected = ((torch.cat(ends, dim=-1) * gate) @ mixer.output.o_proj.weight.T, torch.stack(matrices, dim=1))
    found, given = mixer(x, first), [x, *mixer.parameters()]
    torch.testing.assert_close(found, expected)
    a, b = (torch.autograd.grad(y.sin().sum() + s.cos().sum(), given) for y, s in (found, expected))
    torch.testing.assert_close(a, b)
