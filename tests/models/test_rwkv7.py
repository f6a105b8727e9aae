"""RWKV-7 against its recurrence step by step, and against a loop over time that is written from its equations."""

import math

import pytest
import torch
from torch.nn import functional as F

from statewise.errors import StatewiseError
from statewise.models import build_model
from statewise.models.baselines.delta_chunks import generalised_delta
from statewise.models.baselines.rwkv7 import RWKV7Tracker
from tests.models.agreement import assert_agree, shaken, tensors, words

SYMBOLS, CLASSES, WIDTH, HEADS = 5, 4, 12, 3


@pytest.mark.parametrize("time", [1, 7, 16, 17, 45])
def test_chunks_are_the_recurrence(time):
    batch, heads, keys, values = 2, 3, 5, 4
    shapes = [(batch, heads, time, size) for size in (keys, keys, keys, values, keys, keys)]
    given = tensors(*shapes, (batch, heads, values, keys))
    r, d, k, v, kappa, a, S = given
    log_w, kappa, a = -math.exp(-0.5) * d.sigmoid(), F.normalize(kappa, dim=-1), a.sigmoid()
    fast = generalised_delta(r, log_w, k, v, kappa, a, S)
    ys = []
    for t in range(time):
        step = torch.diag_embed(log_w[:, :, t].exp()) - kappa[:, :, t, :, None] * (a * kappa)[:, :, t, None]
        S = S @ step + v[:, :, t, :, None] * k[:, :, t, None]
        ys.append((S @ r[:, :, t].unsqueeze(-1)).squeeze(-1))
    assert_agree(fast, (torch.stack(ys, dim=2), S), given)


def test_chunks_are_accurate_at_the_strongest_decay():
    """In float32 too, since exponents are taken from the middle of a chunk."""
    shape = (2, 2, 64, 8)
    r, k, v, kappa, a = (part.detach() for part in tensors(*[shape] * 5))
    log_w, S = torch.full(shape, -math.exp(-0.5), dtype=torch.float64), torch.zeros(2, 2, 8, 8, dtype=torch.float64)
    given = (r, log_w, k, v, F.normalize(kappa, dim=-1), a.sigmoid(), S)
    single = generalised_delta(*(part.float() for part in given))
    for rounded, exact in zip(single, generalised_delta(*given), strict=True):
        torch.testing.assert_close(rounded.double(), exact, rtol=1e-4, atol=1e-5)


def low_rank(mlp, act, x):
    y = act(x @ mlp.A.weight.T) @ mlp.B.weight.T
    return y if mlp.B.bias is None else y + mlp.B.bias


def step(block, x, state, lowest):
    """Compute one block at one time, from the equations, one sequence and head at a time."""
    last_time, last_channel, S = state
    mix, size = block.time_mix, WIDTH // HEADS
    inner = F.layer_norm(x, (WIDTH,), block.ln_1.weight, block.ln_1.bias)
    x_r, x_k, x_v, x_d, x_a, x_g = ((1 - mu) * inner + mu * last_time for mu in mix.mu)
    r, k, v = x_r @ mix.W_r.weight.T, x_k @ mix.W_k.weight.T, x_v @ mix.W_v.weight.T
    w = torch.exp(-math.exp(-0.5) * torch.sigmoid(low_rank(mix.d, torch.tanh, x_d)))
    a = torch.sigmoid(low_rank(mix.a, lambda y: y, x_a))
    g = low_rank(mix.g, torch.sigmoid, x_g)
    if lowest is None:
        lowest = v
    else:
        nu = torch.sigmoid(low_rank(mix.nu, lambda y: y, x_v))
        v = (1 - nu) * v + nu * lowest
    direction = k * mix.xi
    k = k * ((1 - mix.alpha) + mix.alpha * a)
    mixed, after = [], []
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        kappa = direction[part] / direction[part].norm()
        S_h = S[head] @ (torch.diag(w[part]) - torch.outer(kappa, a[part] * kappa)) + torch.outer(v[part], k[part])
        y = S_h @ r[part]
        y = (y - y.mean()) / (y.var(unbiased=False) + 1e-5 * size).sqrt()
        y = y * mix.norm.weight[part] + mix.norm.bias[part]
        mixed.append(y + (r[part] @ (mix.rho[head] * k[part])) * v[part])
        after.append(S_h)
    x = x + (g * torch.cat(mixed)) @ mix.W_o.weight.T
    outer = F.layer_norm(x, (WIDTH,), block.ln_2.weight, block.ln_2.bias)
    channel = block.channel_mix
    entering = (1 - channel.mu_k) * outer + channel.mu_k * last_channel
    x = x + torch.relu(entering @ channel.W_k.weight.T) ** 2 @ channel.W_v.weight.T
    return x, (inner, outer, torch.stack(after)), lowest


def dense(model, tokens):
    """Run the network token by token; return the logits and the states of all blocks."""
    zeros = torch.zeros(WIDTH, dtype=torch.float64)
    logits, ends = [], []
    for sequence in tokens:
        states = [(zeros, zeros, zeros.new_zeros(HEADS, WIDTH // HEADS, WIDTH // HEADS))] * len(model.blocks)
        for token in sequence:
            x, lowest = model.ln_0(model.embedding.weight[token]), None
            for place, block in enumerate(model.blocks):
                x, reached, lowest = step(block, x, states[place], lowest)
                states = [*states[:place], reached, *states[place + 1 :]]
            logits.append(model.readout(model.norm(x)))
        ends.append([part for state in states for part in state])
    return torch.stack(logits).unflatten(0, tokens.shape), [torch.stack(parts) for parts in zip(*ends, strict=True)]


@pytest.mark.parametrize("layers", [1, 3])
def test_rwkv7_is_its_equations(layers):
    model, tokens = shaken(RWKV7Tracker(SYMBOLS, CLASSES, WIDTH, layers, HEADS)), words(SYMBOLS, batch=2, time=19)
    logits, states = model.run(tokens, model.init_state(len(tokens)))
    answers, ends = dense(model, tokens)
    assert_agree((logits, *(part for state in states for part in state)), (answers, *ends), list(model.parameters()))


def test_heads_are_checked():
    with pytest.raises(StatewiseError, match="rwkv7 needs a hidden size that its 5 heads divide, got 12"):
        build_model("rwkv7(heads=5)", SYMBOLS, CLASSES, WIDTH)
