"""Recurrences over discrete tokens: the coefficients of each token are computed once and looked up.

Three questions are asked of a word: every state on the way, only the last one, and the last one of a word of any length
with the logarithm of its norm. Each level answers in its own way; levels without one of their own go step by step.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.kernels import choose
from statewise.recurrence.affine import affine_blocks, with_ones, without_ones
from statewise.recurrence.grouped import grouped_last, grouped_states
from statewise.recurrence.planes import LARGEST_BLOCK, at_ends, planes_last, unroll_planes
from statewise.recurrence.reference import inverse_of_largest, rescale, rescale_exactly
from statewise.recurrence.request import RESCALE_EVERY, TokenBatch
from statewise.recurrence.turns import unroll_turns, whole_turns_away
from statewise.transitions import Additive, Block, Diagonal, Full, LinearTransition, Positive, Rotation, Transition

# of a transition with an additive term, several tensors
Table = Tensor | tuple[Tensor, ...]
# tokens whose states are kept at once where only the last is asked for
_PIECE = 1_024
# after each token, or after the last one only
States = Float[Tensor, "batch time hidden"] | Float[Tensor, "batch hidden"]


def read_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    h0: Float[Tensor, "batch hidden"],
    reading: TokenBatch,
) -> States:
    """Computes h_t = A(embedding of token t) h_{t-1}, for every t or for the last.

    Args:
        transition: A, and an additive term if there is one.
        embeddings: the input that stands for each token; None is one-hot.
        h0: the state before the first token.
        reading: the tokens, and what is asked of them.
    """
    return states_by_table(transition, token_table(transition, embeddings), h0, reading)


def states_by_table(
    transition: Transition, table: Table, h0: Float[Tensor, "batch hidden"], reading: TokenBatch
) -> States:
    """Computes the same from any table of coefficients of this level, of one network or of several."""
    reading = reading.checked(_symbols(table), h0)
    return (_unroll if reading.lengths is None else _end)(transition, table, h0, reading)


def resume_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Int[Tensor, "batch time"],
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
    backend: str | None = None,
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Runs over words of any length, and gives the last state up to a factor, and the logarithm of that factor.

    A linear transition does not see the scale of its state, so that rescaling every few steps is the same as
    rescaling at each; its factors are powers of two, so that weights of whole numbers stay exact at any length. With
    an additive term states have norm 1.
    """
    table = token_table(transition, embeddings)
    reading = TokenBatch(tokens, backend=backend).checked(_symbols(table), h)
    return _last(transition, table, h, log_norm, reading)


def token_table(transition: Transition, embeddings: Tensor | None) -> Any:
    """Gives the coefficients of each token."""
    return transition.of_tokens() if embeddings is None else transition.coefficients(embeddings)


@singledispatch
def _unroll(transition: Transition, table: Table, h0: Tensor, reading: TokenBatch) -> Tensor:
    """Gives every state, step by step."""
    h, outputs, tokens, every = h0, [], reading.tokens, reading.every
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        if every and (t + 1) % every == 0:
            h = h * inverse_of_largest(h).unsqueeze(-1)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else h0.unsqueeze(1)[:, :0]


@_unroll.register
def _(transition: Full, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return grouped_states(table, h0, reading)


@_unroll.register
def _(transition: Diagonal, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return unroll_planes(table[:, None, None], h0.unsqueeze(1), reading).squeeze(-2)


@_unroll.register
def _(transition: Positive, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return unroll_planes(table.exp()[:, None, None], h0.unsqueeze(1), reading).squeeze(-2)


@_unroll.register
def _(transition: Block, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return _of_blocks(table, h0, reading)


@_unroll.register
def _(transition: Rotation, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    # rotations compose by adding their angles: no loop over time, and no change of norm
    return unroll_turns(table[reading.tokens], h0, reading.backend)


@_unroll.register
def _(transition: Additive, table: tuple, h0: Tensor, reading: TokenBatch) -> Tensor:
    return _of_affine(transition, table, h0, reading)


@singledispatch
def _end(transition: Transition, table: Table, h0: Tensor, reading: TokenBatch) -> Tensor:
    """Takes the last of all states."""
    return at_ends(_unroll(transition, table, h0, replace(reading, lengths=None)), reading.lengths)


@_end.register
def _(transition: Full, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return grouped_states(table, h0, reading)


@_end.register
def _(transition: Block, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    return _of_blocks(table, h0, reading)


@_end.register
def _(transition: Additive, table: tuple, h0: Tensor, reading: TokenBatch) -> Tensor:
    return _of_affine(transition, table, h0, reading)


@_end.register
def _(transition: Rotation, table: Tensor, h0: Tensor, reading: TokenBatch) -> Tensor:
    # rotations commute: how often each token occurs is all that matters
    # each network by itself: an infinite angle of one must not reach another
    tokens, lengths, members = reading.tokens, reading.lengths, reading.members
    assert lengths is not None
    symbols, batch = len(table) // members, len(tokens) // members
    first = symbols * torch.arange(members, device=tokens.device).view(-1, 1, 1)
    own = tokens.view(members, batch, tokens.shape[1]) - first
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.view(members, batch, 1)
    counts = torch.zeros(members, batch, symbols, dtype=torch.float64, device=tokens.device)
    counts.scatter_add_(2, own, inside.double())
    angles = counts @ table.double().view(members, symbols, table.shape[1])
    return transition.act(whole_turns_away(angles).flatten(0, 1).to(table.dtype), h0)


def _of_blocks(table: Float[Tensor, "token blocks out in"], h0: Tensor, reading: TokenBatch) -> Tensor:
    """Gives every state of block-diagonal matrices, or the last."""
    blocks, size = table.shape[1:3]
    parts = h0.unflatten(1, (blocks, size))
    if size <= LARGEST_BLOCK:
        return unroll_planes(table.permute(0, 2, 3, 1), parts.transpose(1, 2), reading).transpose(-2, -1).flatten(-2)
    # each block is a row of its own, with tokens of its own; rescaling would treat blocks unlike
    tokens, every = reading.tokens, reading.every
    own = tokens.unsqueeze(1) * blocks + torch.arange(blocks, device=tokens.device).unsqueeze(1)
    h, outputs = parts.flatten(0, 1), []
    for piece in own.flatten(0, 1).split(every or max(1, own.shape[2]), dim=1):
        states = grouped_states(table.flatten(0, 1), h, TokenBatch(piece, backend=reading.backend))
        outputs.append(states.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2))
        h = states[:, -1:].squeeze(1)
        if every and piece.shape[1]:
            h = h * inverse_of_largest(outputs[-1][:, -1]).repeat_interleave(blocks).unsqueeze(-1)
    return at_ends(torch.cat(outputs, dim=1), reading.lengths)


def _of_affine(transition: Additive, table: tuple[Tensor, ...], h0: Tensor, reading: TokenBatch) -> Tensor:
    """Goes the way of full matrices, or of blocks, on (h, 1)."""
    matrices = affine_blocks(transition, table)
    blocks = matrices.shape[1]
    longer = with_ones(h0, blocks)
    whole = blocks == 1
    states = grouped_states(matrices.squeeze(1), longer, reading) if whole else _of_blocks(matrices, longer, reading)
    return without_ones(states, blocks)


@singledispatch
def _last(
    transition: Transition, table: Table, h: Tensor, log_norm: Tensor, reading: TokenBatch
) -> tuple[Tensor, Tensor]:
    """Goes step by step, since an additive term sees the scale."""
    h, log_norm = rescale(h, log_norm)
    for token in reading.tokens.unbind(1):
        h, log_norm = rescale(*transition.act_scaled(_look_up(table, token), h, log_norm))
    return h, log_norm


@_last.register
def _(
    transition: LinearTransition, table: Tensor, h: Tensor, log_norm: Tensor, reading: TokenBatch
) -> tuple[Tensor, Tensor]:
    # where norms stay, pieces are bounded by memory alone
    for piece in reading.tokens.split(_PIECE if transition.norm_preserving else RESCALE_EVERY, dim=1):
        if piece.shape[1]:
            h, log_norm = rescale_exactly(
                _unroll(transition, table, h, replace(reading, tokens=piece))[:, -1], log_norm
            )
    return h, log_norm


@_last.register
def _(transition: Full, table: Tensor, h: Tensor, log_norm: Tensor, reading: TokenBatch) -> tuple[Tensor, Tensor]:
    if not _kernels_alone(table, h, reading):
        return _last.dispatch(LinearTransition)(transition, table, h, log_norm, reading)
    return rescale_exactly(*grouped_last(table, h, log_norm, reading.tokens, RESCALE_EVERY))


@_last.register(Diagonal)
@_last.register(Positive)
def _(
    transition: Diagonal | Positive, table: Tensor, h: Tensor, log_norm: Tensor, reading: TokenBatch
) -> tuple[Tensor, Tensor]:
    if not _kernels_alone(table, h, reading):
        return _last.dispatch(LinearTransition)(transition, table, h, log_norm, reading)
    factors = table.exp() if isinstance(transition, Positive) else table
    last, log_norm = planes_last(factors[:, None, None], h.unsqueeze(1), log_norm, reading.tokens, RESCALE_EVERY)
    return rescale_exactly(last.squeeze(1), log_norm)


@_last.register
def _(transition: Block, table: Tensor, h: Tensor, log_norm: Tensor, reading: TokenBatch) -> tuple[Tensor, Tensor]:
    if not _kernels_alone(table, h, reading):
        return _last.dispatch(LinearTransition)(transition, table, h, log_norm, reading)
    blocks, size = table.shape[1:3]
    parts = h.unflatten(1, (blocks, size))
    if size <= LARGEST_BLOCK:
        planes = table.permute(0, 2, 3, 1)
        last, log_norm = planes_last(planes, parts.transpose(1, 2), log_norm, reading.tokens, RESCALE_EVERY)
        return rescale_exactly(last.transpose(1, 2).flatten(1), log_norm)
    # each block is a row of its own, with a scale of its own, until they are put together
    own = reading.tokens.unsqueeze(1) * blocks + torch.arange(blocks).unsqueeze(1)
    rows, scale = grouped_last(
        table.flatten(0, 1), parts.flatten(0, 1), log_norm.repeat_interleave(blocks), own.flatten(0, 1), RESCALE_EVERY
    )
    scale = scale.unflatten(0, (-1, blocks))
    largest = scale.amax(dim=1)
    rows = rows.unflatten(0, (-1, blocks)) * (scale - largest.unsqueeze(1)).exp().to(rows.dtype).unsqueeze(-1)
    return rescale_exactly(rows.flatten(1), largest)


def _kernels_alone(table: Tensor, h: Tensor, reading: TokenBatch) -> bool:
    """Whether a word is run by the kernels without a trace for gradients."""
    ready = not torch.is_grad_enabled() and choose(reading.backend, table, h) == "native"
    return ready and reading.tokens.shape[1] > 0


def _symbols(table: Table) -> int:
    return len(table[0] if isinstance(table, tuple) else table)


def _look_up(table: Table, token: Int[Tensor, " batch"]) -> Any:
    return pytree.tree_map(lambda part: part[token], table)
