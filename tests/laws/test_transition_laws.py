"""The laws that every transition owes."""

import pytest
import torch

from statewise.errors import TransitionError
from statewise.expressions import parse
from statewise.models import KINDS
from statewise.models.levels import build_transition as transition
from statewise.transitions import CP, Block, Diagonal, Full, tabulate
from tests.catalogues import HIDDEN, INPUT, LEVELS, affine, level

BATCH = 4
FEW = torch.Generator().manual_seed(5)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=FEW, requires_grad=True)


@pytest.mark.parametrize("spec", LEVELS)
@pytest.mark.parametrize("batch", [(), (BATCH,), (2, 3)])
def test_act_is_the_dense_matrix_times_h(spec, batch):
    t = level(spec)
    x, h = draw(*batch, INPUT), draw(*batch, HIDDEN)
    c = t.coefficients(x)
    expected = (t.dense(c) @ h.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(t.act(c, h), expected)


@pytest.mark.parametrize("spec", LEVELS)
def test_gradients_of_act_are_those_of_the_dense_matrix(spec):
    t = level(spec)
    x, h, weight = draw(BATCH, INPUT), draw(BATCH, HIDDEN), torch.randn(BATCH, HIDDEN, dtype=torch.float64)
    wanted = [x, h, *t.parameters()]
    fast = torch.autograd.grad((t.act(t.coefficients(x), h) * weight).sum(), wanted)
    dense = torch.autograd.grad(((t.dense(t.coefficients(x)) @ h.unsqueeze(-1)).squeeze(-1) * weight).sum(), wanted)
    for a, b in zip(fast, dense, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("spec", [spec for spec in LEVELS if level(spec).composable])
def test_compose_is_the_matrix_product_and_associative(spec):
    t = level(spec)
    c1, c2, c3 = (t.coefficients(draw(BATCH, INPUT)) for _ in range(3))
    torch.testing.assert_close(t.dense(t.compose(c2, c1)), t.dense(c2) @ t.dense(c1))
    left, right = t.compose(t.compose(c3, c2), c1), t.compose(c3, t.compose(c2, c1))
    torch.testing.assert_close(left, right)


@pytest.mark.parametrize("spec", [spec for spec in LEVELS if not level(spec).composable])
def test_levels_that_are_not_closed_refuse_to_compose(spec):
    t = level(spec)
    c = t.coefficients(draw(INPUT))
    with pytest.raises(TransitionError, match="not closed"):
        t.compose(c, c)


@pytest.mark.parametrize("spec", LEVELS)
def test_declared_facts_hold_on_random_inputs(spec):
    t = level(spec)
    a, b = (t.dense(t.coefficients(draw(100, INPUT))) for _ in range(2))
    h = draw(100, HIDDEN)
    commutes = torch.allclose(a @ b, b @ a)
    keeps = torch.allclose((a @ h.unsqueeze(-1)).squeeze(-1).norm(dim=-1), h.norm(dim=-1))
    assert commutes == (t.commutes or spec == "block(1)")
    assert keeps == t.norm_preserving
    assert bool((a >= 0).all()) == t.positive


@pytest.mark.parametrize("spec", LEVELS)
def test_coefficients_are_all_that_acts_where_networks_can_be_stacked(spec):
    one, other = level(spec, seed=0), level(spec, seed=1)
    c, h = one.coefficients(draw(100, INPUT)), draw(100, HIDDEN)
    assert torch.equal(one.act(c, h), other.act(c, h)) or not one.stackable


@pytest.mark.parametrize("spec", LEVELS)
def test_blocks_on_the_diagonal_are_the_dense_matrix(spec):
    t = level(spec)
    c = t.coefficients(draw(BATCH, INPUT))
    for matrix, blocks in zip(t.dense(c), t.blocks(c), strict=True):
        torch.testing.assert_close(torch.block_diag(*blocks), matrix, rtol=0, atol=0)


@pytest.mark.parametrize("spec", LEVELS)
def test_parameter_counts_are_the_papers(spec):
    count, written = sum(p.numel() for p in level(spec).parameters()), parse(spec)
    assert count == KINDS[written.name].count(HIDDEN, INPUT, *(written.args or (0,)))
    assert sum(p.numel() for p in affine(spec, "constant").parameters()) == count + HIDDEN
    assert sum(p.numel() for p in affine(spec, "input").parameters()) == count + HIDDEN * INPUT


# (lower, upper): linear levels embed for every input, the other two for one-hot inputs
EMBEDDINGS = [
    ("diagonal", Block),
    ("diagonal", Full),
    ("diagonal", CP),
    ("block(2)", Full),
    ("block(2)", CP),
    ("block(3)", Full),
    ("cp(3)", Full),
    ("full", CP),
]


@pytest.mark.parametrize(("spec", "upper"), EMBEDDINGS)
def test_a_linear_level_embeds_exactly_in_the_level_above(spec, upper):
    lower = level(spec)
    above = upper.from_dense(tabulate(lower))
    x = draw(BATCH, INPUT)
    torch.testing.assert_close(above.dense(above.coefficients(x)), lower.dense(lower.coefficients(x)))


@pytest.mark.parametrize(("spec", "upper"), [("rotation", Block), ("positive", Diagonal), ("positive", Block)])
def test_rotations_and_positive_diagonals_embed_on_tokens(spec, upper):
    lower = level(spec, init="tokens")
    above = upper.from_dense(tabulate(lower))
    one_hot = torch.eye(INPUT, dtype=torch.float64)
    torch.testing.assert_close(above.dense(above.coefficients(one_hot)), lower.dense(lower.coefficients(one_hot)))
    if spec == "rotation":
        assert above.size == 2


@pytest.mark.parametrize("spec", LEVELS)
def test_from_dense_gives_a_level_back(spec):
    t = level(spec, init="tokens")
    again = type(t).from_dense(tabulate(t))
    torch.testing.assert_close(tabulate(again), tabulate(t))


@pytest.mark.parametrize("spec", ["block(2)", "rotation", "diagonal", "positive"])
def test_from_dense_refuses_what_is_not_of_its_level(spec):
    options = {"size": 2} if spec == "block(2)" else {}
    with pytest.raises(TransitionError, match="the weight is not"):
        type(level(spec)).from_dense(tabulate(level("full")), **options)


@pytest.mark.parametrize("init", ["features", "tokens"])
@pytest.mark.parametrize("spec", ["full", "cp(64)", "block(4)", "rotation", "diagonal", "positive"])
def test_the_initial_update_keeps_the_scale_of_h(spec, init):
    name = spec[:-1] + f", init={init})" if spec.endswith(")") else f"{spec}(init={init})"
    t = transition(name, 32, 64, generator=torch.Generator().manual_seed(0))
    x = torch.randn(500, 32) if init == "features" else torch.eye(32)[torch.arange(500) % 32]
    h = torch.randn(500, 64)
    gain = (t.act(t.coefficients(x), h).square().sum(-1) / h.square().sum(-1)).mean().sqrt()
    assert 0.8 < gain < 1.25


@pytest.mark.parametrize("terms", ["constant", "input"])
@pytest.mark.parametrize("spec", LEVELS)
def test_additive_terms_are_a_matrix_on_h_and_one(spec, terms):
    t = affine(spec, terms)
    x, h = draw(BATCH, INPUT), draw(BATCH, HIDDEN)
    c = t.coefficients(x)
    with_one = torch.cat([h, torch.ones(BATCH, 1, dtype=h.dtype)], dim=-1)
    torch.testing.assert_close(t.act(c, h), (t.dense(c) @ with_one.unsqueeze(-1)).squeeze(-1)[..., :-1])
    offset = t.offset if terms == "constant" else x @ t.offset.T
    torch.testing.assert_close(t.act(c, h) - t.linear.act(t.linear.coefficients(x), h), offset.expand(BATCH, -1))


@pytest.mark.parametrize("terms", ["constant", "input"])
@pytest.mark.parametrize("spec", [spec for spec in LEVELS if level(spec).composable])
def test_additive_terms_compose_as_their_matrices(spec, terms):
    t = affine(spec, terms)
    c1, c2 = t.coefficients(draw(BATCH, INPUT)), t.coefficients(draw(BATCH, INPUT))
    torch.testing.assert_close(t.dense(t.compose(c2, c1)), t.dense(c2) @ t.dense(c1))


@pytest.mark.parametrize("additive", ["none", "constant", "input"])
def test_frozen_weights_take_no_gradient(additive):
    assert all(p.requires_grad for p in transition("diagonal", 3, 4, additive).parameters())
    assert not any(p.requires_grad for p in transition("diagonal(frozen=true)", 3, 4, additive).parameters())


@pytest.mark.parametrize("spec", LEVELS)
def test_weights_depend_on_the_generator_alone(spec):
    torch.manual_seed(1)
    first = tabulate(level(spec, seed=3))
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    torch.testing.assert_close(tabulate(level(spec, seed=3)), first, rtol=0, atol=0)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(tabulate(level(spec, seed=4)), first)


@pytest.mark.parametrize(
    ("spec", "sizes", "message"),
    [
        ("rotation", (4, 7), 'even hidden size, got 7; use 6 or 8, or model "diagonal"'),
        ("rotation", (4, 1), "got 1; use 2"),
        ("block(3)", (4, 8), r"block\(3\) needs a hidden size that 3 divides, got 8; use 6 or 9, or block\(2\)"),
        ("block(0)", (4, 8), "size of at least 1"),
        ("block", (4, 8), "needs the argument size"),
        ("cp(x)", (4, 8), "whole number"),
        ("cp(2, 3)", (4, 8), "unknown init|whole|one of|init"),
        ("full", (0, 8), "input_size of at least 1, got 0"),
        ("full", (4, -1), "hidden_size of at least 1, got -1"),
        ("ful", (4, 8), 'did you mean "full"'),
        ("rotatoin", (4, 8), 'did you mean "rotation"'),
        ("full*full", (4, 8), "is a product"),
        ("full(init=token)", (4, 8), 'did you mean "tokens"'),
        ("full(frozen=maybe)", (4, 8), "true or false"),
        ("full(rank=3)", (4, 8), "unknown argument of full"),
        ("", (4, 8), "empty"),
    ],
)
def test_bad_specs_get_one_clear_sentence(spec, sizes, message):
    with pytest.raises(ValueError, match=message):
        transition(spec, *sizes)


def test_unknown_additive_terms_name_the_nearest():
    with pytest.raises(ValueError, match='did you mean "constant"'):
        transition("full", 2, 2, additive="constnt")
