"""Odd but legal inputs run, and illegal ones are refused before a kernel sees them."""

import pytest
import torch

from statewise.errors import InputError
from statewise.models.levels import build_transition as transition
from statewise.models.tracker import StateTracker
from statewise.recurrence import RESCALE_EVERY, TokenBatch, read_tokens
from statewise.training import advance, build_training, resolve
from tests.catalogues import need_kernels

LEVELS = ["full", "block(2)", "block(8)", "diagonal", "rotation", "cp(3)"]
every = pytest.mark.parametrize("level", LEVELS)


def build(level, **options):
    return StateTracker(5, 4, 8, level, generator=torch.Generator().manual_seed(0), **options)


def draw_tokens(batch=3, time=6):
    return torch.randint(0, 5, (batch, time), generator=torch.Generator().manual_seed(1))


@every
@pytest.mark.parametrize("token", [5, -1, 100_000])
def test_tokens_outside_the_table_are_refused(level, token):
    model, tokens = build(level), draw_tokens()
    tokens[1, 2] = token
    state = model.init_state(3)
    lengths = torch.tensor([6, 6, 6])
    calls = [lambda: model(tokens), lambda: model.at_end(tokens, lengths), lambda: model.advance(tokens, state)]
    for call in calls:
        with torch.no_grad(), pytest.raises(InputError, match="expected 0 to 4"):
            call()


@every
def test_narrow_whole_numbers_are_as_good(level):
    model, tokens, lengths = build(level), draw_tokens(), torch.tensor([6, 2, 3])
    torch.testing.assert_close(model(tokens.int()), model(tokens))
    parameters = [p for p in model.parameters() if p.requires_grad]
    wide = torch.autograd.grad(model.at_end(tokens, lengths).square().sum(), parameters)
    narrow = torch.autograd.grad(model.at_end(tokens.int(), lengths.int()).square().sum(), parameters)
    for a, b in zip(wide, narrow, strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():
        torch.testing.assert_close(model.advance(tokens.int(), model.init_state(3))[0], model(tokens)[:, -1])


@every
def test_empty_batches_run(level):
    model = build(level)
    logits = model(draw_tokens()[:0])
    assert logits.shape == (0, 6, 4)
    logits.sum().backward()
    assert model.at_end(draw_tokens()[:0], torch.zeros(0, dtype=torch.long)).shape == (0, 4)


@every
def test_states_of_another_batch_and_lengths_of_zero_are_refused(level):
    model = build(level)
    # under test, the check of shapes is faster than ours
    with pytest.raises(Exception, match=r"expected as many|Type-check"):
        model.advance(draw_tokens(3), model.init_state(1))
    with pytest.raises(InputError, match="expected 1 to 6"):
        model.at_end(draw_tokens(), torch.tensor([1, 0, 6]))


@every
def test_transforms_and_autocast_run(level):
    model, tokens = build(level), draw_tokens()
    expected = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(tokens), expected)
    lengths = torch.tensor([6, 2, 3])
    named = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights):
        return torch.func.functional_call(model, weights, (tokens,)).square().sum()

    found = torch.func.grad(loss)(named)
    model.zero_grad()
    expected.square().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-4, atol=1e-5)
    assert model.at_end(tokens, lengths).shape == (3, 4)


def test_an_embedding_runs_under_autocast():
    model, tokens = build("full", embedding=6), draw_tokens()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(tokens), model(tokens.clone()))
    assert model(tokens).dtype == torch.float32


def test_ends_of_long_rotations_keep_their_digits():
    level = transition("rotation", 5, 8, init="tokens", generator=torch.Generator().manual_seed(0))
    tokens, h0 = draw_tokens(2, 10_000), torch.ones(2, 8)
    ends = read_tokens(level, None, h0, TokenBatch(tokens, torch.tensor([10_000, 10_000]), RESCALE_EVERY))
    torch.testing.assert_close(
        ends, read_tokens(level, None, h0, TokenBatch(tokens, every=RESCALE_EVERY))[:, -1], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("size", [1e-22, 1.0, 1e20])
def test_gradients_of_a_first_state_of_any_size(size):
    need_kernels("native")
    level = transition("rotation", 5, 8, init="tokens", generator=torch.Generator().manual_seed(0))
    results = []
    for backend in ("native", "torch"):
        h0 = torch.full((2, 8), size, requires_grad=True)
        states = read_tokens(level, None, h0, TokenBatch(draw_tokens(2, 7), every=RESCALE_EVERY, backend=backend))
        along = torch.randn(states.shape, generator=torch.Generator().manual_seed(2))
        results.append(torch.autograd.grad((states * along).sum(), h0)[0])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ["full", "rotation", "block(2)", "diagonal"])
def test_an_infinite_member_leaves_the_others_alone(model):
    given = {"task": "modular_addition(5)", "model": model, "hidden": 8, "steps": 50, "clip": 0.0}
    options = [resolve(given | {"seed": seed}) for seed in (0, 1)]
    together, alone = [build_training(each) for each in options], build_training(options[1])
    with torch.no_grad():
        next(together[0].model.transition.parameters()).fill_(float("inf"))
    advance(together, 10)
    advance([alone], 10)
    assert [training.diverged for training in together] == [True, False]
    assert together[1].loss == pytest.approx(alone.loss, rel=1e-4)
