"""Recurrences over discrete tokens: the coefficients of each token are computed once and looked up.

Two questions are asked of a word: every state on the way, and only the last one. The second is often far cheaper:
rotations add up, whatever their order, and blocks multiply pairwise. Each level answers in its own way; levels without
one of their own go step by step.
"""

from functools import singledispatch

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.recurrence.blocks import product_of_blocks
from statewise.recurrence.grouped import grouped_products
from statewise.recurrence.reference import rescale
from statewise.transitions import Block, Full, LinearTransition, Rotation, Transition

# steps between rescalings: float32 holds gains of up to 10,000 a step that long
_PIECE = 8
# blocks up to this size are multiplied pairwise over time: b^3 a product against b^2 a step
_PAIRWISE = 4


@singledispatch
def unroll_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    h0: Float[Tensor, "batch hidden"],
) -> Float[Tensor, "batch time hidden"]:
    """Computes h_t = A(embedding of token t) h_{t-1} for every t.

    Args:
        transition: A, and an additive term if there is one.
        embeddings: the input that stands for each token.
        tokens: which token comes when.
        h0: the state before the first token.
    """
    table = transition.coefficients(embeddings)
    h = h0
    outputs = []
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else h0.unsqueeze(1)[:, :0]


@unroll_tokens.register
def _(transition: Full, embeddings: Tensor, tokens: Tensor, h0: Tensor) -> Tensor:
    return grouped_products(transition.coefficients(embeddings), h0, tokens)


@unroll_tokens.register
def _(transition: Rotation, embeddings: Tensor, tokens: Tensor, h0: Tensor) -> Tensor:
    # rotations compose by adding their angles: no loop over time
    angles = transition.coefficients(embeddings)[tokens].cumsum(dim=1)
    return transition.act(angles, h0.unsqueeze(1).expand(-1, tokens.shape[1], -1))


def unroll_directions(
    transition: LinearTransition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    h0: Float[Tensor, "batch hidden"],
) -> Float[Tensor, "batch time hidden"]:
    """Computes every h_t up to a positive factor, which is all that a normalised readout sees.

    Every few steps the state is divided by its largest entry, taken as a constant, so that long words neither
    overflow nor underflow; the gradient of any function of directions is not changed by that.
    """
    if transition.norm_preserving:
        return unroll_tokens(transition, embeddings, tokens, h0)
    pieces = []
    for piece in tokens.split(_PIECE, dim=1):
        pieces.append(unroll_tokens(transition, embeddings, piece, h0))
        h0 = _shrink(pieces[-1][:, -1])
    return torch.cat(pieces, dim=1) if pieces else h0.unsqueeze(1)[:, :0]


@singledispatch
def end_directions(
    transition: LinearTransition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    lengths: Int[Tensor, " batch"],
    h0: Float[Tensor, "batch hidden"],
) -> Float[Tensor, "batch hidden"]:
    """Computes the state after the last token of each word, up to a positive factor.

    Args:
        transition: A.
        embeddings: the input that stands for each token.
        tokens: which token comes when.
        lengths: how many tokens of each row count, at least 1.
        h0: the state before the first token.
    """
    states = unroll_directions(transition, embeddings, tokens, h0)
    return states[torch.arange(len(lengths), device=lengths.device), lengths - 1]


@end_directions.register
def _(transition: Rotation, embeddings: Tensor, tokens: Tensor, lengths: Tensor, h0: Tensor) -> Tensor:
    # rotations commute: how often each token occurs is all that matters
    table = transition.coefficients(embeddings)
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)
    counts = torch.zeros(len(tokens), len(table), dtype=table.dtype, device=tokens.device)
    counts.scatter_add_(1, tokens, inside.to(table.dtype))
    return transition.act(counts @ table, h0)


@end_directions.register
def _(transition: Block, embeddings: Tensor, tokens: Tensor, lengths: Tensor, h0: Tensor) -> Tensor:
    if transition.size > _PAIRWISE:
        return end_directions.dispatch(LinearTransition)(transition, embeddings, tokens, lengths, h0)
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.unsqueeze(1)
    return transition.act(product_of_blocks(transition.coefficients(embeddings), tokens, inside), h0)


def last_of_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"],
    tokens: Int[Tensor, "batch time"],
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Runs over words of any length, and gives the last state with norm 1.

    A linear transition does not see the scale of its state, so that rescaling every few steps is the same as
    rescaling at each.
    """
    h, log_norm = rescale(h, log_norm)
    if isinstance(transition, LinearTransition):
        for piece in tokens.split(_PIECE, dim=1):
            if piece.shape[1]:
                h, log_norm = rescale(unroll_tokens(transition, embeddings, piece, h)[:, -1], log_norm)
        return h, log_norm
    table = transition.coefficients(embeddings)
    for t in range(tokens.shape[1]):
        h, log_norm = rescale(*transition.act_scaled(_look_up(table, tokens[:, t]), h, log_norm))
    return h, log_norm


def _shrink(h: Tensor) -> Tensor:
    # the largest entry, not the norm: squares would overflow long before
    largest = h.detach().abs().amax(dim=-1, keepdim=True)
    return h / torch.where(largest > 0, largest, 1.0)


def _look_up(table: Tensor | tuple[Tensor, ...], token: Int[Tensor, " batch"]) -> Tensor | tuple[Tensor, ...]:
    return pytree.tree_map(lambda part: part[token], table)
