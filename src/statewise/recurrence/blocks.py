"""Block-diagonal matrices: each block multiplies its own part of the state.

    h_t[n] = A_t[n] h_{t-1}[n],    n = 1, ..., N

Small blocks are interleaved, entry (i, j) of all blocks side by side, so that the innermost loop of a kernel runs over
blocks: coefficients [out, in, blocks], states [entry, blocks]. A diagonal is the case of blocks of size 1. Larger
blocks are cheaper as grouped matrix products, in which each block is a row of its own.
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import call, choose
from statewise.recurrence.events import event_states
from statewise.recurrence.form import (
    PIECE,
    Form,
    Inputs,
    Inside,
    LogNorm,
    SequenceForm,
    State,
    States,
    at_ends,
    kernels_without_gradient,
    resume_in_pieces,
)
from statewise.recurrence.full import grouped_states, resume_grouped
from statewise.recurrence.reference import stack_steps
from statewise.recurrence.scaling import RESCALE_EVERY, inverse_power_above, rescale_exactly, to_unit_size
from statewise.recurrence.second_derivatives import differentiable_gradients
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Block
from statewise.transitions.transition import has_overflowed

# larger blocks are cheaper as matrix products
_LARGEST_SMALL = 4

Blocks = Float[Tensor, "token blocks out in"]
Interleaved = Float[Tensor, "batch entry blocks"]


def block_form(transition: Block) -> Form[Block]:
    """Return the form of blocks of this size."""
    return SmallBlocks(transition) if transition.size <= _LARGEST_SMALL else LargeBlocks(transition)


def block_states(table: Blocks, h0: State, batch: TokenBatch) -> Float[Tensor, "batch *time hidden"]:
    """Return every state, or, with lengths, the last of each row, whatever the size of the blocks."""
    return (_small_states if table.shape[2] <= _LARGEST_SMALL else _large_states)(table, h0, batch)


@final
class SmallBlocks(SequenceForm[Block]):
    """Interleaved blocks of up to 4 x 4."""

    def states(self, table: Blocks, h0: State, batch: TokenBatch) -> States:
        """Multiply all blocks at once."""
        return _small_states(table, h0, batch)

    def end(self, table: Blocks, h0: State, batch: TokenBatch) -> State:
        """Multiply all blocks at once, and let gradients begin at the end of each row."""
        return _small_states(table, h0, batch)

    def resume(self, table: Blocks, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Keep the states of one piece of the sequence at a time, where the kernels can."""
        if not kernels_without_gradient(table, h, batch):
            return resume_in_pieces(self, table, h, log_norm, batch)
        parts = h.unflatten(1, table.shape[1:3]).transpose(1, 2)
        last, log_norm = resume_interleaved(table.permute(0, 2, 3, 1), parts, log_norm, batch.tokens)
        return rescale_exactly(last.transpose(1, 2).flatten(1), log_norm)

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the blocks of each input interleaved; those of padding are the identity."""
        blocks, size = self.transition.weight.shape[:2]
        weight = self.transition.weight.permute(1, 2, 0, 3)
        coefficients = (x @ weight.flatten(0, 2).T).unflatten(-1, weight.shape[:3])
        if inside is not None:
            one = torch.eye(size, dtype=x.dtype, device=x.device).unsqueeze(-1)
            coefficients = torch.where(inside[..., None, None, None], coefficients, one)
        parts = h0.unflatten(1, (blocks, size)).transpose(1, 2)
        return sequence_of_blocks(coefficients, parts, normalise).transpose(2, 3).flatten(2)


@final
class LargeBlocks(SequenceForm[Block]):
    """Blocks as rows of grouped products: block n of token k is matrix k N + n of a longer table."""

    def states(self, table: Blocks, h0: State, batch: TokenBatch) -> States:
        """Multiply each block as a row of its own."""
        return _large_states(table, h0, batch)

    def end(self, table: Blocks, h0: State, batch: TokenBatch) -> State:
        """Return the last of all states."""
        return _large_states(table, h0, batch)

    def resume(self, table: Blocks, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Give each block a scale of its own until they are put together, where the kernels can."""
        if not kernels_without_gradient(table, h, batch):
            return resume_in_pieces(self, table, h, log_norm, batch)
        blocks = table.shape[1]
        parts = h.unflatten(1, table.shape[1:3]).flatten(0, 1)
        own = _own_tokens(batch.tokens, blocks)
        rows, scale = resume_grouped(table.flatten(0, 1), parts, log_norm.repeat_interleave(blocks), own)
        scale = scale.unflatten(0, (-1, blocks))
        largest = scale.amax(dim=1)
        rows = rows.unflatten(0, (-1, blocks)) * (scale - largest.unsqueeze(1)).exp().to(rows.dtype).unsqueeze(-1)
        return rescale_exactly(rows.flatten(1), largest)

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the blocks of a piece of time, then its states."""
        return event_states(self.transition, x, None, h0, inside, normalise)


def _small_states(table: Blocks, h0: State, batch: TokenBatch) -> Tensor:
    parts = h0.unflatten(1, table.shape[1:3]).transpose(1, 2)
    return interleaved_states(table.permute(0, 2, 3, 1), parts, batch).transpose(-2, -1).flatten(-2)


def _large_states(table: Blocks, h0: State, batch: TokenBatch) -> Tensor:
    blocks, every = table.shape[1], batch.every
    h, outputs = h0.unflatten(1, table.shape[1:3]).flatten(0, 1), []
    own = _own_tokens(batch.tokens, blocks)
    # rescaled between pieces: within one, the blocks of a state would be divided by different powers
    for piece in own.split(every or max(1, own.shape[1]), dim=1):
        states = grouped_states(table.flatten(0, 1), h, TokenBatch(piece, backend=batch.backend, members=batch.members))
        outputs.append(states.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2))
        h = states[:, -1:].squeeze(1)
        if every and piece.shape[1]:
            h = h * inverse_power_above(outputs[-1][:, -1]).repeat_interleave(blocks, dim=0)
    return at_ends(torch.cat(outputs, dim=1), batch.lengths)


def _own_tokens(tokens: Int[Tensor, "batch time"], blocks: int) -> Int[Tensor, "rows time"]:
    """Return the tokens of each block's row, numbered by the matrices of that block."""
    own = tokens.unsqueeze(1) * blocks + torch.arange(blocks, device=tokens.device).unsqueeze(1)
    return own.flatten(0, 1)


def interleaved_states(
    coefficients: Float[Tensor, "token out in blocks"], h0: Interleaved, batch: TokenBatch
) -> Float[Tensor, "batch *time entry blocks"]:
    """Return every h_t, or, with lengths, the last of each row; the blocks are those of each token."""
    tokens, lengths, every = batch.tokens, batch.lengths, batch.every
    if choose(batch.backend, coefficients, h0) == "native":
        return _InterleavedStates.apply(coefficients, h0, tokens, lengths, every)  # pyright: ignore[reportReturnType]
    return at_ends(_differentiable_states(coefficients, h0, tokens, every, None), lengths)


def sequence_of_blocks(
    coefficients: Float[Tensor, "batch time out in blocks"], h0: Interleaved, normalise: bool
) -> Float[Tensor, "batch time entry blocks"]:
    """Return every h_t of real-valued inputs by the kernels; normalised ones as exact powers of two keep them."""
    # 1: a single input may have any gain
    states = _InterleavedStates.apply(coefficients, h0, None, None, int(normalise))
    return to_unit_size(states.flatten(2)).view_as(states) if normalise else states  # pyright: ignore


def resume_interleaved(
    coefficients: Float[Tensor, "token out in blocks"],
    h: Interleaved,
    log_norm: LogNorm,
    tokens: Int[Tensor, "batch time"],
) -> tuple[Interleaved, LogNorm]:
    """Return the last state alone and the logarithm of its scale, by the kernels, without a gradient."""
    given, last = coefficients.detach().contiguous(), h.detach()
    for piece in tokens.split(PIECE, dim=1):
        rows, time = piece.shape
        out, scales = last.new_empty(rows, time, *last.shape[1:]), last.new_ones(rows, time)
        sizes = (rows, time, last.shape[2], last.shape[1], RESCALE_EVERY)
        call("small_blocks_forward", last.dtype, given, piece.contiguous(), last.contiguous(), out, scales, *sizes)
        last, log_norm = out[:, -1], log_norm - scales.double().log().sum(dim=1)
    return last, log_norm


class _InterleavedStates(torch.autograd.Function):
    """h_t = A_t h_{t-1}, divided by a power of two every few steps if asked to; divisors count as constants."""

    @staticmethod
    def forward(
        ctx: Any, coefficients: Tensor, h0: Tensor, tokens: Tensor | None, lengths: Tensor | None, every: int
    ) -> Tensor:
        given, first = coefficients.contiguous(), h0.contiguous()
        rows, time = coefficients.shape[:2] if tokens is None else tokens.shape
        out = h0.new_empty(rows, time, *h0.shape[1:])
        scales = h0.new_ones(rows, time) if every else h0.new_empty(0)
        over = None if tokens is None else tokens.contiguous()
        sizes = (rows, time, h0.shape[2], h0.shape[1], every)
        call("small_blocks_forward", h0.dtype, given, over, first, out, scales, *sizes)
        ctx.save_for_backward(coefficients, h0, out, scales, over, lengths)
        ctx.sizes = sizes
        return out if lengths is None else out[torch.arange(rows, device=out.device), lengths - 1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        coefficients, h0, out, scales, tokens, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():

            def compute(coefficients: Tensor, h0: Tensor) -> Tensor:
                return at_ends(_differentiable_states(coefficients, h0, tokens, ctx.sizes[-1], scales), lengths)

            return *differentiable_gradients(ctx, (coefficients, h0), compute, grad), None, None, None
        given, first = coefficients.contiguous(), h0.contiguous()
        gradient, to_first = torch.zeros_like(given), torch.empty_like(first)
        if lengths is None:
            arriving = grad.contiguous()
        else:
            arriving = torch.zeros_like(out)
            arriving[torch.arange(len(lengths), device=lengths.device), lengths - 1] = grad
        arguments = (given, tokens, first, out, scales, arriving, gradient, to_first)
        call("small_blocks_backward", h0.dtype, *arguments, *ctx.sizes)
        return gradient, to_first, None, None, None


def _differentiable_states(
    coefficients: Tensor, h: Tensor, tokens: Tensor | None, every: int, scales: Tensor | None
) -> Tensor:
    """Compute every state by operations that have second derivatives."""
    first, outputs = h, []
    time = coefficients.shape[1] if tokens is None else tokens.shape[1]
    for t in range(time):
        a = coefficients[:, t] if tokens is None else coefficients[tokens[:, t]]
        h = _product(a, h)
        if every and (t + 1) % every == 0:
            h = h * (inverse_power_above(h.flatten(1)) if scales is None else scales[:, t]).view(-1, 1, 1)
        outputs.append(h)
    return stack_steps(outputs, first)


def _product(a: Float[Tensor, "batch out in blocks"], h: Interleaved) -> Interleaved:
    """Multiply all blocks, where products overflow in float64, as the kernels do."""
    product = (a * h.unsqueeze(1)).sum(dim=2)
    if has_overflowed(product):
        product = (a.double() * h.double().unsqueeze(1)).sum(dim=2).to(h.dtype)
    return product
