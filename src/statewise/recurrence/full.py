"""Full matrices: products with a table of matrices, rows grouped by token.

At each time step the rows of a batch are taken in the order of their tokens, so that a step is at most one matrix
product per token. Backward goes the same way with transposed matrices, and the gradient of each matrix,

    dA[v] = sum over all (row, t) with token v of  g_t h_{t-1}^T,

is one product over many time steps.
"""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import call, choose, in_memory
from statewise.recurrence.events import event_states
from statewise.recurrence.form import (
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
from statewise.recurrence.reference import stack_steps
from statewise.recurrence.scaling import RESCALE_EVERY, inverse_power_above, rescale_exactly
from statewise.recurrence.second_derivatives import differentiable_gradients
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Full

Matrices = Float[Tensor, "token hidden hidden"]


@final
class FullForm(SequenceForm[Full]):
    """Grouped products with the matrix of each token; over real-valued inputs each event has its own."""

    def states(self, table: Matrices, h0: State, batch: TokenBatch) -> States:
        """Multiply by the matrix of each token."""
        return grouped_states(table, h0, batch)

    def end(self, table: Matrices, h0: State, batch: TokenBatch) -> State:
        """Multiply by the matrix of each token, and let gradients begin at the end of each row."""
        return grouped_states(table, h0, batch)

    def resume(self, table: Matrices, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Keep no state but the last, where the kernels can."""
        if not kernels_without_gradient(table, h, batch):
            return resume_in_pieces(self, table, h, log_norm, batch)
        return rescale_exactly(*resume_grouped(table, h, log_norm, batch.tokens))

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the matrices of a piece of time, then its states."""
        return event_states(self.transition, x, None, h0, inside, normalise)


def grouped_states(table: Matrices, h0: State, batch: TokenBatch) -> Float[Tensor, "batch *time hidden"]:
    """Return h_t = table[token_t] h_{t-1} for every t, or, with lengths, for the last of each row."""
    if not in_memory(table, h0):
        return _differentiable_states(table, h0, batch, None)
    native = choose(batch.backend, table, h0) == "native"
    return _GroupedStates.apply(table, h0, batch, native)  # pyright: ignore[reportReturnType]


def resume_grouped(
    table: Matrices, h: State, log_norm: LogNorm, tokens: Int[Tensor, "batch time"]
) -> tuple[State, LogNorm]:
    """Return the last state alone and the logarithm of its scale, by the kernels, without a gradient."""
    last = h.detach().clone(memory_format=torch.contiguous_format)
    log_scale = log_norm.detach().double().clone()
    sizes = (*table.shape[:2], *tokens.shape, RESCALE_EVERY)
    call("full_resume", h.dtype, table.detach().contiguous(), tokens.T.contiguous(), last, log_scale, *sizes)
    return last, log_scale


class _GroupedStates(torch.autograd.Function):
    """h_t = A[token_t] h_{t-1}, divided by a power of two every few steps if asked to; divisors count as constants.

    Several networks, each with its own part of the table and of the rows, are computed one after the other, while
    their matrices are in the cache.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, h0: Tensor, batch: TokenBatch, native: bool) -> Tensor:
        tokens, lengths, every, members = batch.tokens, batch.lengths, batch.every, batch.members
        time = tokens.shape[1]
        rows, symbols = len(tokens) // members, len(table) // members
        own = tokens.view(members, rows, time) - symbols * torch.arange(members, device=tokens.device).view(-1, 1, 1)
        over_time = own.transpose(1, 2).contiguous()
        states = h0.new_empty(members, time + 1, rows, h0.shape[1])
        states[:, 0] = h0.reshape(members, rows, h0.shape[1])
        scales = h0.new_ones(members, time, rows) if every else h0.new_empty(0)
        if native:
            sizes = (members, symbols, table.shape[1], rows, time, every)
            call("full_forward", h0.dtype, table.contiguous(), over_time, states, scales, *sizes)
        else:
            for m, matrices in enumerate(table.view(members, symbols, *table.shape[1:])):
                _forward(matrices, over_time[m], states[m], scales[m] if every else scales, every)
        ctx.save_for_backward(table, h0, states, over_time, scales)
        ctx.batch, ctx.native = batch, native
        if lengths is None:
            return states[:, 1:].transpose(1, 2).reshape(len(tokens), time, h0.shape[1])
        row = torch.arange(len(tokens), device=tokens.device)
        return states[row // rows, lengths, row % rows]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        table, h0, states, over_time, scales = ctx.saved_tensors
        batch: TokenBatch = ctx.batch
        lengths, every = batch.lengths, batch.every
        if torch.is_grad_enabled():

            def compute(table: Tensor, h0: Tensor) -> Tensor:
                return _differentiable_states(table, h0, batch, scales)

            return *differentiable_gradients(ctx, (table, h0), compute, grad), None, None
        members, steps, rows, hidden = states.shape
        symbols = len(table) // members
        first, gradient = torch.empty_like(states[:, 0]), torch.empty_like(table, memory_format=torch.contiguous_format)
        given = grad.view(members, rows, steps - 1, hidden).transpose(1, 2) if lengths is None else grad
        if ctx.native:
            sizes = (members, symbols, hidden, rows, steps - 1, every)
            ends = None if lengths is None else lengths.contiguous()
            tensors = (table.contiguous(), over_time, states, scales, given.contiguous(), ends, first, gradient)
            call("full_backward", table.dtype, *tensors, *sizes)
            return gradient, first.flatten(0, 1), None, None
        if lengths is None:
            # a copy: the gradient that arrives may be another branch's too
            arriving = given.clone(memory_format=torch.contiguous_format)
        else:
            arriving = torch.zeros_like(states[:, 1:])
            row = torch.arange(len(lengths), device=lengths.device)
            arriving[row // rows, lengths - 1, row % rows] = grad
        for m, matrices in enumerate(table.view(members, symbols, hidden, hidden)):
            scale = scales[m] if every else scales
            into = gradient[m * symbols : (m + 1) * symbols]
            _backward(matrices, over_time[m], states[m], scale, every, arriving[m], first[m].zero_(), into)
        return gradient, first.flatten(0, 1), None, None


def _forward(table: Tensor, tokens: Tensor, states: Tensor, scales: Tensor, every: int) -> None:
    transposed = table.transpose(1, 2)
    orders, counts = _groups(table, tokens)
    for t, (order, count) in enumerate(zip(orders, counts, strict=True)):
        _multiply(states[t], transposed, order, count, states[t + 1])
        if every and (t + 1) % every == 0:
            inverse = inverse_power_above(states[t + 1])
            states[t + 1] *= inverse
            scales[t] = inverse.squeeze(-1)


def _backward(
    table: Tensor,
    tokens: Tensor,
    states: Tensor,
    scales: Tensor,
    every: int,
    arriving: Tensor,
    first: Tensor,
    grad: Tensor,
) -> None:
    """Complete the gradients in `arriving`, and fill in those of the first state and of the table."""
    orders, counts = _groups(table, tokens)
    for t in range(len(tokens) - 1, -1, -1):
        if t < len(tokens) - 1:
            arriving[t] += first
        if every and (t + 1) % every == 0:
            arriving[t] *= scales[t].unsqueeze(-1)
        _multiply(arriving[t], table, orders[t], counts[t], first)
    hidden = table.shape[1]
    flat = tokens.reshape(-1)
    order = torch.argsort(flat, stable=True)
    left = arriving.reshape(-1, hidden).index_select(0, order)
    right = states[:-1].reshape(-1, hidden).index_select(0, order)
    end = 0
    for token, size in enumerate(torch.bincount(flat, minlength=len(table)).tolist()):
        torch.mm(left[end : end + size].T, right[end : end + size], out=grad[token])
        end += size


def _groups(table: Tensor, tokens: Tensor) -> tuple[Tensor, list[list[int]]]:
    """Return, for each time step, rows in the order of their tokens, and the number of rows of each token."""
    counts = torch.nn.functional.one_hot(tokens, len(table)).sum(dim=1).tolist() if len(tokens) else []
    return torch.argsort(tokens, dim=1, stable=True), counts


def _multiply(rows: Tensor, matrices: Tensor, order: Tensor, count: list[int], out: Tensor) -> None:
    """Multiply rows, from the right, by the matrix of their token."""
    ordered = rows.index_select(0, order)
    product = torch.empty_like(ordered)
    end = 0
    for token, size in enumerate(count):
        if size:
            torch.mm(ordered[end : end + size], matrices[token], out=product[end : end + size])
            end += size
    out.index_copy_(0, order, product)


def _differentiable_states(table: Tensor, h: Tensor, batch: TokenBatch, scales: Tensor | None) -> Tensor:
    """Compute the same states by operations that have second derivatives."""
    first, outputs, tokens, every = h, [], batch.tokens, batch.every
    for t in range(tokens.shape[1]):
        h = torch.einsum("bij,bj->bi", table[tokens[:, t]], h)
        if every and (t + 1) % every == 0:
            h = h * (inverse_power_above(h) if scales is None else scales[:, t].reshape(-1, 1))
        outputs.append(h)
    return at_ends(stack_steps(outputs, first), batch.lengths)


@dataclass(frozen=True)
class FullWeights:
    """The weights of several full trackers of one-hot tokens, or their gradients."""

    matrices: Float[Tensor, "member token out in"]
    initial: Float[Tensor, "member hidden"]
    readout: Float[Tensor, "member classes hidden"]


def losses_and_gradients(
    weights: FullWeights,
    tokens: Int[Tensor, "member batch time"],
    lengths: Int[Tensor, "member batch"],
    answers: Int[Tensor, "member batch"],
    direction: bool,
    squared: bool = False,
) -> tuple[Float[Tensor, " member"], FullWeights]:
    """Return each member's mean loss at the end of its sequences, and its gradients, in one call of a kernel.

    With the kernels only: autograd computes the same elsewhere, and a test compares the two.

    Args:
        weights: of all members.
        tokens: the sequences of each, tokens numbered from 0.
        lengths: the length of each sequence, at least 1.
        answers: the correct class of each sequence.
        direction: whether states are divided by their norm before the readout.
        squared: whether the loss is the squared distance of the logits from one-hot answers, not the cross-entropy.
    """
    gradients = FullWeights(*(torch.empty_like(part) for part in (weights.matrices, weights.initial, weights.readout)))
    losses = weights.initial.new_empty(len(weights.initial))
    members, symbols, hidden = weights.matrices.shape[:3]
    sizes = (members, symbols, hidden, weights.readout.shape[1], tokens.shape[1], tokens.shape[2])
    inputs = (weights.matrices, weights.initial, weights.readout)
    data = (tokens.transpose(1, 2).contiguous(), lengths.contiguous(), answers.contiguous())
    outputs = (losses, gradients.matrices, gradients.initial, gradients.readout)
    every = RESCALE_EVERY if direction else 0
    call("full_train", losses.dtype, *inputs, *data, *outputs, *sizes, every, int(direction), int(squared))
    return losses, gradients
