"""Every form over tokens against the reference: all states, ends, resumed states, all gradients."""

import pytest
import torch

from statewise.models.levels import build_transition as transition_of
from statewise.recurrence import (
    RESCALE_EVERY,
    TokenBatch,
    read_direction,
    read_tokens,
    resume_tokens,
    states_by_table,
    token_table,
    unroll,
)
from statewise.transitions import Transition
from tests.catalogues import HIDDEN, INPUT, LEVELS, affine, level, need_kernels

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
    fast = read_tokens(transition, embeddings, h0, TokenBatch(tokens))
    slow, final = unroll(transition, embeddings[tokens], h0)
    torch.testing.assert_close(fast, slow)
    wanted = [embeddings, h0, *transition.parameters()]
    weight = torch.randn(slow.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if time:
        grads = [torch.autograd.grad((out * weight).sum(), wanted, allow_unused=True) for out in (fast, slow)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    h, log_norm = resume_tokens(transition, embeddings, tokens, h0, torch.zeros(batch, dtype=torch.float64))
    torch.testing.assert_close(h * log_norm.exp().unsqueeze(-1), final, rtol=1e-9, atol=1e-9)


@every
@pytest.mark.parametrize("time", [1, 16, 17, 50])
def test_directions_and_their_gradients_are_the_plain_ones(transition, time):
    embeddings, tokens, h0 = setup(3, time)
    wanted = [embeddings, h0, *transition.parameters()]
    results = []
    for every_steps in (0, RESCALE_EVERY):
        unit = torch.nn.functional.normalize(
            read_tokens(transition, embeddings, h0, TokenBatch(tokens, every=every_steps)), dim=-1, eps=1e-30
        )
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
    for outputs in (
        read_tokens(transition, embeddings, h0, TokenBatch(tokens)),
        unroll(transition, embeddings[tokens], h0)[0],
    ):
        results.append(torch.autograd.grad((outputs + other).square().sum(), [other, h0, embeddings]))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_directions_survive_strong_gains(scale):
    """Gains of a thousand a step, up or down, in float32."""
    transition = level("full", init="tokens").float()
    embeddings, tokens = torch.eye(4, INPUT), torch.randint(0, 3, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = read_tokens(transition, embeddings, torch.ones(2, HIDDEN), TokenBatch(tokens, every=RESCALE_EVERY))
        transition.weight.mul_(scale)
        strong = read_tokens(transition, embeddings, torch.ones(2, HIDDEN), TokenBatch(tokens, every=RESCALE_EVERY))
    directions = [h / h.abs().amax(dim=-1, keepdim=True) for h in (plain, strong)]
    torch.testing.assert_close(directions[0], directions[1], rtol=1e-3, atol=1e-4)


def test_one_token_alphabets():
    transition = level("full")
    embeddings, h0 = torch.randn(1, INPUT, dtype=torch.float64), torch.randn(2, HIDDEN, dtype=torch.float64)
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    fast = read_tokens(transition, embeddings, h0, TokenBatch(tokens))
    torch.testing.assert_close(fast, unroll(transition, embeddings[tokens], h0)[0])


@pytest.mark.parametrize("spec", [*LEVELS, "block(8)"])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize(("batch", "time", "symbols"), [(63, 11, 2), (2, 20, 7), (1, 1, 1), (9, 33, 4)])
def test_backends_agree(spec, backend, batch, time, symbols):
    """Kernels and torch against the reference, with many and with few rows per token, and tokens that never occur."""
    need_kernels(backend)
    transition = transition_of(
        spec, symbols + 1, 24, init="tokens", generator=torch.Generator().manual_seed(0)
    ).double()
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, symbols, (batch, time), generator=generator)
    lengths = torch.randint(1, time + 1, (batch,), generator=generator)
    h0 = torch.randn(batch, 24, dtype=torch.float64, generator=generator, requires_grad=True)
    one_hot = torch.nn.functional.one_hot(tokens, symbols + 1).double()
    slow = unroll(transition, one_hot, h0)[0]
    wanted = [h0, *transition.parameters()]
    for fast, truth in (
        (read_tokens(transition, None, h0, TokenBatch(tokens, backend=backend)), slow),
        (
            read_tokens(transition, None, h0, TokenBatch(tokens, lengths, 0, backend)),
            slow[torch.arange(batch), lengths - 1],
        ),
    ):
        torch.testing.assert_close(fast, truth, rtol=1e-9, atol=1e-9)
        weight = torch.randn(truth.shape, dtype=torch.float64, generator=generator)
        grads = [torch.autograd.grad((out * weight).sum(), wanted, retain_graph=True) for out in (fast, truth)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        zero = torch.zeros(batch, dtype=torch.float64)
        h, log_norm = resume_tokens(transition, None, tokens, h0, zero, backend)
    torch.testing.assert_close(h * log_norm.exp().unsqueeze(-1), slow[:, -1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spec", [spec for spec in LEVELS if level(spec).stackable])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("every_steps", [0, RESCALE_EVERY])
def test_networks_in_one_table_run_as_each_alone(spec, backend, every_steps):
    need_kernels(backend)
    networks = [level(spec, init="tokens", seed=seed) for seed in range(3)]
    generator = torch.Generator().manual_seed(6)
    tokens = torch.randint(0, INPUT, (3, 7, 13), generator=generator)
    lengths = torch.randint(1, 14, (3, 7), generator=generator)
    h0 = torch.randn(3, 7, HIDDEN, dtype=torch.float64, generator=generator, requires_grad=True)
    wanted = [h0, *[p for network in networks for p in network.parameters()]]
    numbered = (tokens + INPUT * torch.arange(3).view(3, 1, 1)).flatten(0, 1)
    for ends in (None, lengths):
        table = torch.cat([token_table(network, None) for network in networks])
        batch = TokenBatch(numbered, None if ends is None else ends.flatten(), every_steps, backend, 3)
        together = states_by_table(networks[0], table, h0.flatten(0, 1), batch)
        singles = [TokenBatch(tokens[m], None if ends is None else ends[m], every_steps, backend) for m in range(3)]
        alone = torch.cat([read_tokens(networks[m], None, h0[m], singles[m]) for m in range(3)])
        torch.testing.assert_close(together, alone)
        weight = torch.randn(alone.shape, dtype=torch.float64, generator=generator)
        grads = [torch.autograd.grad((out * weight).sum(), wanted) for out in (together, alone)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b)


class _Own(Transition):
    """h' = a(x) * (h, its entries moved on by one) + b(x), with coefficients that no level of the package has."""

    def __init__(self):
        super().__init__()
        self.input_size, self.hidden_size = INPUT, HIDDEN
        generator = torch.Generator().manual_seed(7)
        self.weight = torch.nn.Parameter(torch.randn(2, INPUT, HIDDEN, dtype=torch.float64, generator=generator))

    def coefficients(self, x):
        return {"factor": x @ self.weight[0], "offset": x @ self.weight[1]}

    def act(self, coefficients, h):
        return coefficients["factor"] * h.roll(1, -1) + coefficients["offset"]

    def act_scaled(self, coefficients, h, log_scale):
        offset = coefficients["offset"] * (-log_scale).exp().unsqueeze(-1)
        return coefficients["factor"] * h.roll(1, -1) + offset, log_scale

    def dense(self, coefficients):
        raise NotImplementedError


@pytest.mark.parametrize("spec", ["full", "block(2)", "block(8)", "rotation", "diagonal"])
@pytest.mark.parametrize(("rows", "time", "symbols"), [(64, 3, 5), (64, 19, 7), (3, 6, 9), (64, 150, 4)])
def test_longer_padding_changes_no_bit(spec, rows, time, symbols):
    """A member of an ensemble is padded to the longest of its companions."""
    need_kernels("native")
    generator = torch.Generator().manual_seed(time)
    transition = transition_of(spec, symbols, 48, generator=generator, init="tokens")
    table = token_table(transition, None).detach().requires_grad_()
    h0 = torch.randn(rows, 48, generator=generator, requires_grad=True)
    tokens = torch.randint(0, symbols, (rows, time), generator=generator)
    lengths = torch.randint(1, time + 1, (rows,), generator=generator)
    towards, found = torch.randn(rows, 48, generator=generator), []
    for more in (0, 1, 30):
        padded = torch.nn.functional.pad(tokens, (0, more))
        ends = states_by_table(transition, table, h0, TokenBatch(padded, lengths, RESCALE_EVERY))
        found.append((ends.detach(), *torch.autograd.grad(ends, (table, h0), towards)))
    for other in found[1:]:
        assert all(torch.equal(one, same) for one, same in zip(found[0], other, strict=True))


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_a_transition_of_ones_own_runs_step_by_step(backend):
    need_kernels(backend)
    transition = _Own()
    embeddings, tokens, h0 = setup(3, 20)
    lengths = torch.tensor([20, 1, 7])
    truth, final = unroll(transition, embeddings[tokens], h0)
    ends = truth[torch.arange(3), lengths - 1]
    wanted = [embeddings, h0, transition.weight]
    for fast, slow in (
        (read_tokens(transition, embeddings, h0, TokenBatch(tokens, backend=backend)), truth),
        (read_tokens(transition, embeddings, h0, TokenBatch(tokens, lengths, 0, backend)), ends),
    ):
        torch.testing.assert_close(fast, slow)
        grads = [torch.autograd.grad(out.sum(), wanted, retain_graph=True) for out in (fast, slow)]
        for a, b in zip(*grads, strict=True):
            torch.testing.assert_close(a, b)
    h, log_norm = resume_tokens(transition, embeddings, tokens, h0, torch.zeros(3, dtype=torch.float64), backend)
    torch.testing.assert_close(h * log_norm.exp().unsqueeze(-1), final)
    torch.testing.assert_close(h.norm(dim=-1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("spec", ["full", "block(2)", "diagonal"])
def test_second_derivatives(spec):
    transition = transition_of(spec, 3, 4, init="tokens", generator=torch.Generator().manual_seed(0)).double()
    tokens, lengths = torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([3, 2])
    h0 = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    readout = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    table = next(transition.parameters())

    def through(weight, first, rows):
        parameters = {next(iter(dict(transition.named_parameters()))): weight}
        named = {f"inner.{name}": value for name, value in parameters.items()}
        ends = torch.func.functional_call(_End(transition, tokens, lengths), named, (first,))
        return read_direction(ends, rows)

    assert torch.autograd.gradgradcheck(through, (table, h0, readout))


class _End(torch.nn.Module):
    def __init__(self, inner, tokens, lengths):
        super().__init__()
        self.inner, self.tokens, self.lengths = inner, tokens, lengths

    def forward(self, h0):
        return read_tokens(self.inner, None, h0, TokenBatch(self.tokens, self.lengths))
