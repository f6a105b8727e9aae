"""Recurrences over discrete tokens: the coefficients of each token are computed once and looked up."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.recurrence.grouped import grouped_products
from statewise.recurrence.reference import rescale
from statewise.transitions import Full, LinearTransition, Rotation, Transition

# steps between rescalings: float32 holds gains of up to 10,000 a step that long
_PIECE = 8


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
    if isinstance(transition, Full):
        return grouped_products(table, h0, tokens)
    if isinstance(transition, Rotation):
        # rotations compose by adding their angles: no loop over time
        return transition.act(table[tokens].cumsum(dim=1), h0.unsqueeze(1).expand(-1, tokens.shape[1], -1))
    h = h0
    outputs = []
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else h0.unsqueeze(1)[:, :0]


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
        last = pieces[-1][:, -1]
        # the largest entry, not the norm: squares would overflow long before
        largest = last.detach().abs().amax(dim=-1, keepdim=True)
        h0 = last / torch.where(largest > 0, largest, 1.0)
    return torch.cat(pieces, dim=1) if pieces else h0.unsqueeze(1)[:, :0]


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


def _look_up(table: Tensor | tuple[Tensor, ...], token: Int[Tensor, " batch"]) -> Tensor | tuple[Tensor, ...]:
    return pytree.tree_map(lambda part: part[token], table)
