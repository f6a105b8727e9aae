"""Products with a table of matrices, rows grouped by token: each matrix is multiplied once per time step."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import call, choose, in_memory
from statewise.recurrence.reference import inverse_of_largest
from statewise.recurrence.request import TokenBatch
from statewise.recurrence.second_derivatives import differentiate_again


class _GroupedStates(torch.autograd.Function):
    """h_t = A[token_t] h_{t-1}, divided by a power of two every few steps if asked to.

    Rows are taken in the order of their tokens, so that a time step is at most one matrix product per token. Backward
    goes the same way with transposed matrices; gradients of the table are accumulated over many time steps in one
    product per token. The divisors count as constants. Several networks, each with its own part of the table and of
    the rows, are computed one after the other, while their matrices are near.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, h0: Tensor, reading: TokenBatch, native: bool) -> Tensor:
        tokens, lengths, every, members = reading.tokens, reading.lengths, reading.every, reading.members
        time = tokens.shape[1]
        batch, symbols = len(tokens) // members, len(table) // members
        own = tokens.view(members, batch, time) - symbols * torch.arange(members).view(-1, 1, 1)
        over_time = own.transpose(1, 2).contiguous()
        states = h0.new_empty(members, time + 1, batch, h0.shape[1])
        states[:, 0] = h0.reshape(members, batch, h0.shape[1])
        scales = h0.new_ones(members, time, batch) if every else h0.new_empty(0)
        if native:
            sizes = (members, symbols, table.shape[1], batch, time, every)
            call("tokens_forward", h0.dtype, table.contiguous(), over_time, states, scales, *sizes)
        else:
            for m, matrices in enumerate(table.view(members, symbols, *table.shape[1:])):
                _forward(matrices, over_time[m], states[m], scales[m] if every else scales, every)
        ctx.save_for_backward(table, h0, states, over_time, scales)
        ctx.reading, ctx.native = reading, native
        if lengths is None:
            return states[:, 1:].transpose(1, 2).reshape(len(tokens), time, h0.shape[1])
        row = torch.arange(len(tokens))
        return states[row // batch, lengths, row % batch]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        table, h0, states, over_time, scales = ctx.saved_tensors
        reading: TokenBatch = ctx.reading
        lengths, every = reading.lengths, reading.every
        if torch.is_grad_enabled():
            again = _differentiably(table, h0, reading, scales)
            return *differentiate_again(ctx, (table, h0), again, grad), None, None
        members, steps, batch, hidden = states.shape
        symbols = len(table) // members
        first, gradient = torch.empty_like(states[:, 0]), torch.empty_like(table, memory_format=torch.contiguous_format)
        given = grad.view(members, batch, steps - 1, hidden).transpose(1, 2) if lengths is None else grad
        if ctx.native:
            sizes = (members, symbols, hidden, batch, steps - 1, every)
            ends = None if lengths is None else lengths.contiguous()
            tensors = (table.contiguous(), over_time, states, scales, given.contiguous(), ends, first, gradient)
            call("tokens_backward", table.dtype, *tensors, *sizes)
            return gradient, first.flatten(0, 1), None, None
        if lengths is None:
            # a copy: the gradient that arrives may be another branch's too
            arriving = given.clone(memory_format=torch.contiguous_format)
        else:
            arriving = torch.zeros_like(states[:, 1:])
            row = torch.arange(len(lengths))
            arriving[row // batch, lengths - 1, row % batch] = grad
        for m, matrices in enumerate(table.view(members, symbols, hidden, hidden)):
            scale = scales[m] if every else scales
            into = gradient[m * symbols : (m + 1) * symbols]
            _backward(matrices, over_time[m], states[m], scale, every, arriving[m], first[m].zero_(), into)
        return gradient, first.flatten(0, 1), None, None


def grouped_states(
    table: Float[Tensor, "token hidden hidden"], h0: Float[Tensor, "batch hidden"], reading: TokenBatch
) -> Float[Tensor, "batch *time hidden"]:
    """Gives h_t = table[token_t] h_{t-1} for every t, or for the last of each row.

    Args:
        table: a matrix for each token.
        h0: the state before the first token.
        reading: the tokens, and what is asked of them.
    """
    if not in_memory(table, h0):
        return _differentiably(table, h0, reading, None)
    native = choose(reading.backend, table, h0) == "native"
    return _GroupedStates.apply(table, h0, reading, native)  # pyright: ignore[reportReturnType]


def grouped_last(
    table: Float[Tensor, "token hidden hidden"],
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
    tokens: Int[Tensor, "batch time"],
    every: int,
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Gives the last state alone and the logarithm of its scale, with the kernels, without a gradient."""
    last = h.detach().clone(memory_format=torch.contiguous_format)
    log_scale = log_norm.detach().double().clone()
    sizes = (*table.shape[:2], *tokens.shape, every)
    call("tokens_last", h.dtype, table.detach().contiguous(), tokens.T.contiguous(), last, log_scale, *sizes)
    return last, log_scale


def _forward(table: Tensor, tokens: Tensor, states: Tensor, scales: Tensor, every: int) -> None:
    transposed = table.transpose(1, 2)
    orders, counts = _groups(table, tokens)
    for t, (order, count) in enumerate(zip(orders, counts, strict=True)):
        _multiply(states[t], transposed, order, count, states[t + 1])
        if every and (t + 1) % every == 0:
            scales[t] = inverse_of_largest(states[t + 1])
            states[t + 1] *= scales[t].unsqueeze(-1)


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
    """Completes the gradients in `arriving`, and fills in those of the first state and of the table."""
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
    """Gives, for each time step, rows in the order of their tokens, and how many there are of each."""
    counts = torch.nn.functional.one_hot(tokens, len(table)).sum(dim=1).tolist() if len(tokens) else []
    return torch.argsort(tokens, dim=1, stable=True), counts


def _multiply(rows: Tensor, matrices: Tensor, order: Tensor, count: list[int], out: Tensor) -> None:
    """Multiplies rows, from the right, by the matrix of their token."""
    ordered = rows.index_select(0, order)
    product = torch.empty_like(ordered)
    end = 0
    for token, size in enumerate(count):
        if size:
            torch.mm(ordered[end : end + size], matrices[token], out=product[end : end + size])
            end += size
    out.index_copy_(0, order, product)


def _differentiably(table: Tensor, h: Tensor, reading: TokenBatch, scales: Tensor | None) -> Tensor:
    """Computes the same by operations that have second derivatives."""
    outputs, tokens, lengths, every = [], reading.tokens, reading.lengths, reading.every
    for t in range(tokens.shape[1]):
        h = torch.einsum("bij,bj->bi", table[tokens[:, t]], h)
        if every and (t + 1) % every == 0:
            h = h * (inverse_of_largest(h) if scales is None else scales[:, t].flatten()).unsqueeze(-1)
        outputs.append(h)
    states = torch.stack(outputs, dim=1) if outputs else h.unsqueeze(1)[:, :0]
    return states if lengths is None else states[torch.arange(len(lengths), device=lengths.device), lengths - 1]
