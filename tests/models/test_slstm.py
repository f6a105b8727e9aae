"""sLSTM against the published package, and against a loop from its equations without a stabiliser, weights copied."""

import pytest
import torch
from torch.nn import functional as F
from xlstm.blocks.slstm.src.vanilla import slstm_forward, slstm_pointwise_function_registry

from statewise.errors import StatewiseError
from statewise.models import build_model
from statewise.models.baselines.slstm import SLSTMTracker, slstm_scan
from tests.models.agreement import assert_agree, shaken, tensors, words

SYMBOLS, CLASSES, WIDTH, HEADS = 5, 4, 12, 3
SIZE = WIDTH // HEADS


def plain(layer, x):
    """Run a layer step by step, one head at a time; return every h, and the last h, c and n."""
    outputs, ends = [], []
    for head in range(HEADS):
        gates = slice(4 * SIZE * head, 4 * SIZE * (head + 1))
        W, b, R = layer.W.weight[gates], layer.W.bias[gates], layer.R[head]
        h = c = n = x.new_zeros(len(x), SIZE)
        hs = []
        for t in range(x.shape[1]):
            i, f, z, o = (x[:, t] @ W.T + b + h @ R).split(SIZE, dim=-1)
            c = f.sigmoid() * c + i.exp() * z.tanh()
            n = f.sigmoid() * n + i.exp()
            h = o.sigmoid() * c / n
            hs.append(h)
        outputs.append(torch.stack(hs, dim=1))
        ends.append((h, c, n))
    return torch.cat(outputs, dim=-1), [torch.stack(parts) for parts in zip(*ends, strict=True)]


def dense(model, tokens):
    """Run the network from its equations."""
    x, ends = model.embedding(tokens), []
    for block in model.blocks:
        h, end = plain(block.slstm, F.layer_norm(x, (WIDTH,), block.ln_1.weight))
        parts = h.unflatten(-1, (HEADS, SIZE))
        spread = (parts.var(dim=-1, unbiased=False, keepdim=True) + block.group_norm.eps).sqrt()
        normed = ((parts - parts.mean(dim=-1, keepdim=True)) / spread).flatten(2)
        x = x + normed * block.group_norm.weight + block.group_norm.bias
        gate, up = (F.layer_norm(x, (WIDTH,), block.ln_2.weight) @ block.up.weight.T).chunk(2, dim=-1)
        x = x + (F.gelu(gate) * up) @ block.down.weight.T
        ends += end
    return model.readout(F.layer_norm(x, (WIDTH,), model.norm.weight)), ends


@pytest.mark.parametrize(("layers", "time"), [(1, 1), (1, 13), (3, 13)])
def test_slstm_is_its_equations(layers, time):
    """The states too: multiplied by exp(m), the cells are those of the equations."""
    model, tokens = shaken(SLSTMTracker(SYMBOLS, CLASSES, WIDTH, layers, HEADS)), words(SYMBOLS, time=time)
    logits, states = model.run(tokens, model.init_state(len(tokens)))
    found = [part for h, c, n, m in states for part in (h, c * m.exp(), n * m.exp())]
    answers, ends = dense(model, tokens)
    assert_agree((logits, *found), (answers, *ends), list(model.parameters()), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("time", [1, 13])
def test_the_scan_is_that_of_xlstm(time):
    """Outputs, all states, and gradients; of c and n without their scale exp(m), which the package differentiates."""
    batch = 3
    inputs, R = given = tensors((time, HEADS, batch, 4 * SIZE), (HEADS, SIZE, 4 * SIZE))
    zeros = inputs.new_zeros(HEADS, batch, SIZE)
    hs, (h, c, n, m) = slstm_scan(inputs, R, (zeros, zeros, zeros, torch.full_like(zeros, -1e30)))
    # gates come before heads there, and heads side by side
    gates = inputs.unflatten(-1, (4, SIZE)).permute(0, 2, 3, 1, 4).flatten(2)
    first, bias = inputs.new_zeros(4, batch, WIDTH), inputs.new_zeros(4 * WIDTH)
    states, last, _ = slstm_forward(gates, first, R.mT, bias, slstm_pointwise_function_registry["slstm"])
    their_hs, (their_h, their_c, their_n, their_m) = (
        part.unflatten(-1, (HEADS, SIZE)).transpose(-3, -2) for part in (states[0, 1:], last)
    )
    torch.testing.assert_close((c, n, m), (their_c, their_n, their_m))
    assert_agree(
        (hs, h, c * m.exp(), n * m.exp()),
        (their_hs, their_h, their_c * their_m.exp(), their_n * their_m.exp()),
        given,
    )


@pytest.mark.parametrize("shift", [-300.0, 300.0])
def test_extreme_gates_stay_finite(shift):
    """A shift of all input gates changes no output, however large."""
    model, tokens = shaken(SLSTMTracker(SYMBOLS, CLASSES, WIDTH, 1, HEADS)), words(SYMBOLS)
    before = model(tokens)
    with torch.no_grad():
        model.blocks[0].slstm.W.bias.view(HEADS, 4, SIZE)[:, 0] += shift
    torch.testing.assert_close(model(tokens), before)


def test_heads_are_checked():
    with pytest.raises(StatewiseError, match="slstm needs a hidden size that its 5 heads divide, got 12"):
        build_model("slstm(heads=5)", SYMBOLS, CLASSES, WIDTH)
