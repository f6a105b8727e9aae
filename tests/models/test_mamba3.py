"""Mamba-3 against a loop that is written from its equation with matrices of rotation, with the same weights."""

import math

import pytest
import torch
from torch.nn import functional as F

from statewise.errors import StatewiseError
from statewise.models import build_model
from statewise.models.baselines.mamba3 import Mamba3Tracker, trapezoidal_attention
from tests.models.agreement import assert_agree, shaken, tensors, words

SYMBOLS, CLASSES, WIDTH, HEADS = 5, 4, 12, 3
KEY, ANGLES, SIZE = 16, 4, 2 * WIDTH // HEADS


@pytest.mark.parametrize("time", [1, 16, 37])
def test_chunks_are_the_recurrence(time):
    rows, key, value = 3, 5, 4
    shapes = [(rows, time, key)] * 2 + [(rows, time, value)] + [(rows, time)] * 3
    q, k, v, decay, after, before, *state = given = tensors(*shapes, (rows, key, value), (rows, key), (rows, value))
    fading = -decay.square()
    o, last = trapezoidal_attention(q, k, v, fading, after, before, tuple(state))
    S, k_before, v_before = state
    outputs = []
    for t in range(time):
        S = S + before[:, t, None, None] * k_before.unsqueeze(2) * v_before.unsqueeze(1)
        k_before, v_before = k[:, t], v[:, t]
        S = fading[:, t, None, None].exp() * S + after[:, t, None, None] * k_before.unsqueeze(2) * v_before.unsqueeze(1)
        outputs.append((q[:, t].unsqueeze(1) @ S).squeeze(1))
    assert_agree((o, *last), (torch.stack(outputs, dim=1), S, k_before, v_before), given)


def rotation(angles):
    """Return a matrix that turns the first pairs of entries by the angles, and keeps the others."""
    turned = [torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])]) for a in angles]
    return torch.block_diag(*turned, torch.eye(KEY - 2 * len(turned), dtype=angles.dtype))


def run_head(mixer, head, x):
    """Run one head over one sequence, from its equation; return every y, and the last angles, S, k and v."""
    inner = 2 * WIDTH
    columns = torch.split(x @ mixer.in_proj.weight.T, [inner, inner, KEY, KEY, HEADS, HEADS, HEADS, ANGLES], dim=-1)
    part = slice(head * SIZE, (head + 1) * SIZE)
    H, k_before, v_before = x.new_zeros(KEY, SIZE), x.new_zeros(KEY), x.new_zeros(SIZE)
    ys, total = [], x.new_zeros(ANGLES)
    for z, v, B, C, step, rate, ends, angles in zip(*columns, strict=True):
        d = F.softplus(step[head] + mixer.dt_bias[head])
        a = torch.exp(-F.softplus(rate[head]) * d)
        share = torch.sigmoid(ends[head])
        k = F.rms_norm(B, (KEY,), mixer.B_norm.weight, 1e-5) + mixer.B_bias[head]
        q = F.rms_norm(C, (KEY,), mixer.C_norm.weight, 1e-5) + mixer.C_bias[head]
        turn = math.pi * torch.tanh(angles) * d
        H = a * rotation(-turn) @ (H + (1 - share) * d * torch.outer(k_before, v_before))
        H = H + share * d * torch.outer(k, v[part])
        ys.append((H.T @ q + mixer.D[head] * v[part]) * F.silu(z[part]))
        k_before, v_before, total = k, v[part], total + turn
    # the state is kept in a frame that does not turn
    frame = rotation(total)
    return torch.stack(ys), (total, frame @ H, frame @ k_before, v_before)


def dense(model, tokens):
    """Run the network sequence by sequence and head by head; angles of states come as their cosines and sines."""
    x, ends = model.embedding(tokens), []
    for block in model.blocks:
        mixer, normed = block.mixer, block.mixer_norm(x)
        heads = [[run_head(mixer, head, sequence) for head in range(HEADS)] for sequence in normed]
        y = torch.stack([torch.cat([ys for ys, _ in row], dim=-1) for row in heads])
        x = x + y @ mixer.out_proj.weight.T
        x = x + block.mlp(block.mlp_norm(x))
        states = [[end for _, end in row] for row in heads]
        ends.append([torch.stack([torch.stack([end[i] for end in row]) for row in states]) for i in range(4)])
    return model.readout(model.norm(x)), ends


def directions(states):
    """Return the parts of states, angles as their cosines and sines: whole turns are none."""
    return [part for angles, *rest in states for part in (angles.cos(), angles.sin(), *rest)]


@pytest.mark.parametrize(("layers", "time"), [(1, 1), (1, 19), (2, 9)])
def test_mamba3_is_its_equation(layers, time):
    model, tokens = shaken(Mamba3Tracker(SYMBOLS, CLASSES, WIDTH, layers, HEADS)), words(SYMBOLS, time=time)
    logits, states = model.run(tokens, model.init_state(len(tokens)))
    answers, ends = dense(model, tokens)
    given = list(model.parameters())
    assert_agree((logits, *directions(states)), (answers, *directions(ends)), given, rtol=1e-7, atol=1e-9)


def test_heads_are_checked():
    with pytest.raises(StatewiseError, match="mamba3 needs a hidden size that its 5 heads divide, got 12"):
        build_model("mamba3(heads=5)", SYMBOLS, CLASSES, WIDTH)
