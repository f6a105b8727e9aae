"""Mamba and the Transformer against `transformers`: the same weights copied over, outputs and gradients."""

import os
import warnings

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore", module="transformers.*")

from statewise.bench.baselines import copy_weights, mamba_pair, transformer_pair  # noqa: E402
from statewise.models.baselines import MambaTracker  # noqa: E402
from statewise.models.baselines.selective_scan import POSITIVE, SIGNED, selective_scan  # noqa: E402

SYMBOLS, CLASSES, WIDTH = 5, 4, 32
pytestmark = pytest.mark.filterwarnings("ignore")


def words():
    return torch.randint(0, SYMBOLS, (3, 11), generator=torch.Generator().manual_seed(0))


def compare(ours, theirs, pairs):
    """Compares logits, and the gradient of every copied weight."""
    tokens = words()
    mine = ours(tokens)
    hidden = theirs(input_ids=tokens).last_hidden_state
    yours = ours.readout(hidden)
    # theirs computes parts of Mamba in float32 whatever the dtype
    torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-6)
    weight = torch.randn(mine.shape, dtype=mine.dtype, generator=torch.Generator().manual_seed(1))
    a = torch.autograd.grad((mine * weight).sum(), [p for p, _, _ in pairs])
    b = torch.autograd.grad((yours * weight).sum(), [q for _, q, _ in pairs])
    for mine, yours, (_, _, transposed) in zip(a, b, pairs, strict=True):
        torch.testing.assert_close(mine, yours.T if transposed else yours, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_transformer_is_gpt2(layers):
    ours, theirs, pairs = transformer_pair(SYMBOLS, CLASSES, WIDTH, layers)
    ours, theirs = ours.double(), theirs.double()
    assert len(pairs) == len(list(theirs.parameters())) == len(list(ours.parameters())) - 1
    with torch.no_grad():
        for mine, _, _ in pairs:
            torch.nn.init.normal_(mine, std=0.2)
    copy_weights(pairs)
    compare(ours, theirs, pairs)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_mamba_is_mamba(layers):
    ours, theirs, pairs = mamba_pair(SYMBOLS, CLASSES, WIDTH, layers)
    ours, theirs = ours.double(), theirs.double()
    # weight and bias of the readout are ours alone
    assert len(pairs) == len(list(theirs.parameters())) == len(list(ours.parameters())) - 2
    with torch.no_grad():
        for mine, _, _ in pairs:
            if mine.ndim > 1 and mine.shape != (2 * WIDTH, 16):
                mine.add_(torch.randn_like(mine) * 0.1)
    copy_weights(pairs)
    compare(ours, theirs, pairs)


def test_signed_eigenvalues_flip():
    """With one channel that stays, 2 exp(d A) - 1 near -1 alternates in sign."""
    ours = MambaTracker(SYMBOLS, CLASSES, WIDTH, 1, "signed").double()
    positive = MambaTracker(SYMBOLS, CLASSES, WIDTH, 1, "positive").double()
    positive.load_state_dict(ours.state_dict())
    assert not torch.allclose(ours(words()), positive(words()))


@pytest.mark.parametrize("spread", [POSITIVE, SIGNED])
def test_mamba_scan_is_its_recurrence(spread):
    """Outputs, last channels and every gradient, against the recurrence step by step; odd sizes."""
    batch, time, inner, state = 3, 7, 10, 5
    shapes = [(batch, time, inner), (inner, state), (batch, time, inner), *[(batch, time, state)] * 2]
    made = torch.Generator().manual_seed(0)
    given = [torch.randn(s, generator=made, dtype=torch.float64) for s in [*shapes, (batch, inner, state)]]
    given[0], given[1] = given[0].exp(), -given[1].exp()
    step, A, u, B, C, s = given = [part.requires_grad_() for part in given]
    ys = []
    for t in range(time):
        decay = spread[0](torch.exp(step[:, t].unsqueeze(-1) * A))
        s = decay * s + (step[:, t] * u[:, t]).unsqueeze(-1) * B[:, t].unsqueeze(1)
        ys.append(s @ C[:, t].unsqueeze(-1))
    slow, fast = (torch.cat(ys, dim=-1).mT, s), selective_scan(*given, spread)
    a, b = (torch.autograd.grad(y.sin().sum() + last.cos().sum(), given) for y, last in (slow, fast))
    torch.testing.assert_close((*fast, *b), (*slow, *a))
