import pytest
import torch

from statewise.recurrence import unroll
from statewise.recurrence.tokens import last_of_tokens, unroll_directions, unroll_tokens
from tests.catalogues import HIDDEN, INPUT, LEVELS, affine, level

TRANSITIONS = [level(spec, init="tokens") for spec in LEVELS] + [affine(spec, "input") for spec in LEVELS]
IDS = LEVELS + [f"{spec}+input" for spec in LEVELS]
every = pytest.mark.parametrize("transition", TRANSITIONS, ids=IDS)
SIZES = [(3, 7), (1, 1), (4, 0), (5, 40), (63, 5)]


def setup(batch, time, seed=0):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(4, INPUT, dtype=torch.float64, generator=generator, requires_grad=True)
    # token 3 never occurs
    tokens = torch.randint(0, 3, (batch, time), generator=generator)
    h0 = torch.randn(batch, HIDDEN, dtype=torch.float64, generator=generator, requires_grad=True)
    return embeddings, tokens, h0


@every
@pytest.mark.parametrize(("batch", "time"), SIZES)
def test_tokens_run_as_their_embeddings(transition, batch, time):
    embeddings, tokens, h0 = setup(batch, time)
    fast = unroll_tokens(transition, embeddings, tokens, h0)
    slow, final = unroll(transition, embeddings[tokens], h0)
    torch.testing.assert_close(fast, slow)
    wanted = [embeddings, h0, *transition.parameters()]
    weight = torch.randn(slow.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if time:
        grads = [torch.autograd.grad((out * weight).sum(), wanted, allow_unused=True) for out in (fast, slow)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    h, log_norm = last_of_tokens(transition, embeddings, tokens, h0, torch.zeros(batch, dtype=torch.float64))
    torch.testing.assert_close(h * log_norm.exp().unsqueeze(-1), final, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spec", LEVELS)
@pytest.mark.parametrize("time", [1, 16, 17, 50])
def test_directions_and_their_gradients_are_the_plain_ones(spec, time):
    transition = level(spec, init="tokens")
    embeddings, tokens, h0 = setup(3, time)
    wanted = [embeddings, h0, *transition.parameters()]
    results = []
    for run in (unroll_tokens, unroll_directions):
        unit = torch.nn.functional.normalize(run(transition, embeddings, tokens, h0), dim=-1, eps=1e-30)
        weight = torch.randn(unit.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        results.append([unit, *torch.autograd.grad((unit * weight).sum(), wanted)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_a_shared_gradient_is_left_alone(batch):
    transition = level("full", init="tokens")
    embeddings, tokens, h0 = setup(batch, 6)
    other = torch.randn(batch, 6, HIDDEN, dtype=torch.float64, requires_grad=True)
    results = []
    for outputs in (unroll_tokens(transition, embeddings, tokens, h0), unroll(transition, embeddings[tokens], h0)[0]):
        results.append(torch.autograd.grad((outputs + other).square().sum(), [other, h0, embeddings]))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_directions_survive_strong_gains(scale):
    """Gains of a thousand a step, up or down, in float32."""
    transition = level("full", init="tokens").float()
    embeddings, tokens = torch.eye(4, INPUT), torch.randint(0, 3, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = unroll_directions(transition, embeddings, tokens, torch.ones(2, HIDDEN))
        transition.weight.mul_(scale)
        strong = unroll_directions(transition, embeddings, tokens, torch.ones(2, HIDDEN))
    directions = [h / h.abs().amax(dim=-1, keepdim=True) for h in (plain, strong)]
    torch.testing.assert_close(directions[0], directions[1], rtol=1e-3, atol=1e-4)


def test_one_token_alphabets():
    transition = level("full")
    embeddings, h0 = torch.randn(1, INPUT, dtype=torch.float64), torch.randn(2, HIDDEN, dtype=torch.float64)
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    fast = unroll_tokens(transition, embeddings, tokens, h0)
    torch.testing.assert_close(fast, unroll(transition, embeddings[tokens], h0)[0])
