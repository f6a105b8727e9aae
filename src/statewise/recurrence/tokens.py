"""Recurrences over discrete tokens: the coefficients of each token are computed once and looked up.

Three questions are asked of a word: every state on the way, every state up to a positive factor (all that a normalised
readout sees, and safe at any length), and only the last one, up to a factor. Each level answers in its own way; levels
without one of their own go step by step.
"""

from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.errors import InputError
from statewise.recurrence.grouped import grouped_end, grouped_last, grouped_products
from statewise.recurrence.native import choose, in_memory
from statewise.recurrence.planes import LARGEST_BLOCK, unroll_planes
from statewise.recurrence.reference import inverse_of_largest, rescale
from statewise.recurrence.turns import unroll_turns, whole_turns_away
from statewise.transitions import Block, Diagonal, Full, LinearTransition, Positive, Rotation, Transition

# steps between rescalings: float32 holds gains of up to 10,000 a step that long
EVERY = 8

Words = Int[Tensor, "batch time"]
# of a transition with an additive term, several tensors
Table = Tensor | tuple[Tensor, ...]


def unroll_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Words,
    h0: Float[Tensor, "batch hidden"],
    backend: str | None = None,
) -> Float[Tensor, "batch time hidden"]:
    """Computes h_t = A(embedding of token t) h_{t-1} for every t.

    Args:
        transition: A, and an additive term if there is one.
        embeddings: the input that stands for each token; None is one-hot.
        tokens: which token comes when.
        h0: the state before the first token.
        backend: "native" or "torch"; None takes what there is.
    """
    table = token_table(transition, embeddings)
    return _unroll(transition, table, _checked(table, tokens, h0), h0, 0, backend)


def unroll_directions(
    transition: LinearTransition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Words,
    h0: Float[Tensor, "batch hidden"],
    backend: str | None = None,
) -> Float[Tensor, "batch time hidden"]:
    """Computes every h_t up to a positive factor, which is all that a normalised readout sees.

    Every few steps the state is divided by its largest entry, taken as a constant, so that long words neither
    overflow nor underflow; the gradient of any function of directions is not changed by that.
    """
    table = token_table(transition, embeddings)
    return _unroll(transition, table, _checked(table, tokens, h0), h0, EVERY, backend)


def end_directions(
    transition: LinearTransition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Float[Tensor, "batch hidden"],
    backend: str | None = None,
) -> Float[Tensor, "batch hidden"]:
    """Computes the state after the last of each word's `lengths` tokens, up to a positive factor."""
    return end_by_table(transition, token_table(transition, embeddings), tokens, lengths, h0, True, backend)


def end_of_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Float[Tensor, "batch hidden"],
    backend: str | None = None,
) -> Float[Tensor, "batch hidden"]:
    """Computes the state after the last of each word's `lengths` tokens."""
    return end_by_table(transition, token_table(transition, embeddings), tokens, lengths, h0, False, backend)


def end_by_table(
    transition: Transition,
    table: Table,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Float[Tensor, "batch hidden"],
    direction: bool,
    backend: str | None = None,
    members: int = 1,
) -> Float[Tensor, "batch hidden"]:
    """Computes the state after the last token, of any table of coefficients of this level.

    Args:
        transition: the level.
        table: the coefficients of each token, of one network or of several one after the other.
        tokens: which token comes when.
        lengths: how many tokens of each row count, at least 1.
        h0: the state before the first token.
        direction: whether the state is wanted only up to a positive factor.
        backend: "native" or "torch"; None takes what there is.
        members: how many networks the table and the rows are of.
    """
    tokens, lengths = _checked(table, tokens, h0), lengths.long()
    if in_memory(h0) and len(lengths) and not 1 <= int(lengths.min()) <= int(lengths.max()) <= tokens.shape[1]:
        raise InputError(
            f"lengths go from {int(lengths.min())} to {int(lengths.max())}; expected 1 to {tokens.shape[1]}"
        )
    return _end(transition, table, tokens, lengths, h0, EVERY if direction else 0, backend, members)


def last_of_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Words,
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
    backend: str | None = None,
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Runs over words of any length, and gives the last state with norm 1, and the logarithm of its norm.

    A linear transition does not see the scale of its state, so that rescaling every few steps is the same as
    rescaling at each.
    """
    table = token_table(transition, embeddings)
    return _last(transition, table, _checked(table, tokens, h), *rescale(h, log_norm), backend)


@singledispatch
def _unroll(
    transition: Transition, table: Table, tokens: Words, h0: Tensor, every: int, backend: str | None
) -> Float[Tensor, "batch time hidden"]:
    """Goes step by step; with `every`, divides by the largest entry after so many steps."""
    h, outputs = h0, []
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        if every and (t + 1) % every == 0:
            h = h * inverse_of_largest(h).unsqueeze(-1)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else h0.unsqueeze(1)[:, :0]


@_unroll.register
def _(transition: Full, table: Tensor, tokens: Words, h0: Tensor, every: int, backend: str | None) -> Tensor:
    return grouped_products(table, h0, tokens, every, backend)


@_unroll.register
def _(transition: Diagonal, table: Tensor, tokens: Words, h0: Tensor, every: int, backend: str | None) -> Tensor:
    return unroll_planes(table[:, None, None], h0.unsqueeze(1), tokens, every, backend).squeeze(2)


@_unroll.register
def _(transition: Positive, table: Tensor, tokens: Words, h0: Tensor, every: int, backend: str | None) -> Tensor:
    return unroll_planes(table.exp()[:, None, None], h0.unsqueeze(1), tokens, every, backend).squeeze(2)


@_unroll.register
def _(transition: Block, table: Tensor, tokens: Words, h0: Tensor, every: int, backend: str | None) -> Tensor:
    blocks, size = table.shape[1:3]
    parts = h0.unflatten(1, (blocks, size))
    if size <= LARGEST_BLOCK:
        planes = unroll_planes(table.permute(0, 2, 3, 1), parts.transpose(1, 2), tokens, every, backend)
        return planes.transpose(2, 3).flatten(2)
    # each block is a row of its own, with tokens of its own; rescaling would treat blocks unlike
    own = tokens.unsqueeze(1) * blocks + torch.arange(blocks, device=tokens.device).unsqueeze(1)
    h, outputs = parts.flatten(0, 1), []
    for piece in own.flatten(0, 1).split(every or max(1, own.shape[2]), dim=1):
        states = grouped_products(table.flatten(0, 1), h, piece, 0, backend)
        outputs.append(states.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2))
        h = states[:, -1:].squeeze(1)
        if every and piece.shape[1]:
            h = h * inverse_of_largest(outputs[-1][:, -1]).repeat_interleave(blocks).unsqueeze(-1)
    return torch.cat(outputs, dim=1)


@_unroll.register
def _(transition: Rotation, table: Tensor, tokens: Words, h0: Tensor, every: int, backend: str | None) -> Tensor:
    # rotations compose by adding their angles: no loop over time, and no change of norm
    return unroll_turns(table[tokens], h0, backend)


@singledispatch
def _end(
    transition: Transition,
    table: Table,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Tensor,
    every: int,
    backend: str | None,
    members: int,
) -> Float[Tensor, "batch hidden"]:
    """Takes the last of all states."""
    states = _unroll(transition, table, tokens, h0, every, backend)
    return states[torch.arange(len(lengths), device=lengths.device), lengths - 1]


@_end.register
def _(
    transition: Full,
    table: Tensor,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Tensor,
    every: int,
    backend: str | None,
    members: int,
) -> Tensor:
    return grouped_end(table, h0, tokens, lengths, every, backend, members)


@_end.register
def _(
    transition: Block,
    table: Tensor,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Tensor,
    every: int,
    backend: str | None,
    members: int,
) -> Tensor:
    blocks, size = table.shape[1:3]
    if size > LARGEST_BLOCK:
        return _end.dispatch(Transition)(transition, table, tokens, lengths, h0, every, backend, members)
    parts = h0.unflatten(1, (blocks, size)).transpose(1, 2)
    return unroll_planes(table.permute(0, 2, 3, 1), parts, tokens, every, backend, lengths).transpose(1, 2).flatten(1)


@_end.register
def _(
    transition: Rotation,
    table: Tensor,
    tokens: Words,
    lengths: Int[Tensor, " batch"],
    h0: Tensor,
    every: int,
    backend: str | None,
    members: int,
) -> Tensor:
    # rotations commute: how often each token occurs is all that matters
    # each network by itself: an infinite angle of one must not reach another
    symbols, batch = len(table) // members, len(tokens) // members
    own = tokens.view(members, batch, tokens.shape[1]) - symbols * torch.arange(members, device=tokens.device).view(
        -1, 1, 1
    )
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.view(members, batch, 1)
    counts = torch.zeros(members, batch, symbols, dtype=torch.float64, device=tokens.device)
    counts.scatter_add_(2, own, inside.double())
    angles = counts @ table.double().view(members, symbols, table.shape[1])
    return transition.act(whole_turns_away(angles).flatten(0, 1).to(table.dtype), h0)


@singledispatch
def _last(
    transition: Transition, table: Table, tokens: Words, h: Tensor, log_norm: Tensor, backend: str | None
) -> tuple[Tensor, Tensor]:
    """Goes step by step, since an additive term sees the scale."""
    for t in range(tokens.shape[1]):
        h, log_norm = rescale(*transition.act_scaled(_look_up(table, tokens[:, t]), h, log_norm))
    return h, log_norm


@_last.register
def _(
    transition: LinearTransition, table: Tensor, tokens: Words, h: Tensor, log_norm: Tensor, backend: str | None
) -> tuple[Tensor, Tensor]:
    for piece in tokens.split(EVERY, dim=1):
        if piece.shape[1]:
            h, log_norm = rescale(_unroll(transition, table, piece, h, 0, backend)[:, -1], log_norm)
    return h, log_norm


@_last.register
def _(
    transition: Full, table: Tensor, tokens: Words, h: Tensor, log_norm: Tensor, backend: str | None
) -> tuple[Tensor, Tensor]:
    if torch.is_grad_enabled() or choose(backend, table, h) == "torch":
        return _last.dispatch(LinearTransition)(transition, table, tokens, h, log_norm, backend)
    return rescale(*grouped_last(table, h, log_norm, tokens, EVERY))


def _checked(table: Table, tokens: Tensor, h: Tensor) -> Words:
    """Gives tokens as whole numbers of 64 bits; what is not in the table, or not of this batch, is refused."""
    if len(tokens) != len(h):
        raise InputError(f"there are {len(tokens)} words and {len(h)} states; expected as many")
    symbols = len(table[0] if isinstance(table, tuple) else table)
    if in_memory(h) and tokens.numel():
        low, high = (int(bound) for bound in tokens.aminmax())
        if not 0 <= low <= high < symbols:
            raise InputError(f"tokens go from {low} to {high}; expected 0 to {symbols - 1}")
    return tokens.long()


def token_table(transition: Transition, embeddings: Tensor | None) -> Any:
    """Gives the coefficients of each token."""
    return transition.of_tokens() if embeddings is None else transition.coefficients(embeddings)


def _look_up(table: Table, token: Int[Tensor, " batch"]) -> Any:
    return pytree.tree_map(lambda part: part[token], table)
