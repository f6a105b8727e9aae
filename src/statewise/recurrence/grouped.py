"""Products with a table of matrices, rows grouped by token: each matrix is multiplied once per time step."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


class _GroupedProducts(torch.autograd.Function):
    """h_t = A[token_t] h_{t-1}.

    Rows are sorted by token, so that a time step is at most one matrix product per token. Backward goes the same way
    with transposed matrices; the gradient of the table is accumulated over all time steps in one product per token.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, h0: Tensor, tokens: Tensor) -> Tensor:
        batch, time = tokens.shape
        order = torch.argsort(tokens, dim=0, stable=True).T.contiguous()
        count = torch.nn.functional.one_hot(tokens, table.shape[0]).sum(dim=0).tolist() if time else []
        transposed = table.transpose(1, 2)
        states = h0.new_empty(time + 1, batch, h0.shape[1])
        states[0] = h0
        for t in range(time):
            rows = states[t].index_select(0, order[t])
            out = rows.new_empty(rows.shape)
            _multiply(rows, transposed, count[t], out)
            states[t + 1].index_copy_(0, order[t], out)
        ctx.save_for_backward(table, states, tokens, order)
        ctx.count = count
        return states[1:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        table, states, tokens, order = ctx.saved_tensors
        time = order.shape[0]
        # a copy: the gradient that arrives may be another branch's too
        arriving = grad.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        running = torch.zeros_like(states[0])
        for t in range(time - 1, -1, -1):
            arriving[t] += running
            rows = arriving[t].index_select(0, order[t])
            out = rows.new_empty(rows.shape)
            _multiply(rows, table, ctx.count[t], out)
            running = torch.empty_like(running).index_copy_(0, order[t], out)
        return _table_gradient(table, states, tokens, arriving), running, None


def _multiply(rows: Tensor, matrices: Tensor, count: list[int], out: Tensor) -> None:
    """Multiplies sorted rows, from the right, by the matrix of their token."""
    end = 0
    for token, size in enumerate(count):
        if size:
            torch.mm(rows[end : end + size], matrices[token], out=out[end : end + size])
            end += size


def _table_gradient(table: Tensor, states: Tensor, tokens: Tensor, arriving: Tensor) -> Tensor:
    gradient = torch.zeros_like(table)
    hidden = table.shape[1]
    flat = tokens.T.reshape(-1)
    order = torch.argsort(flat, stable=True)
    sizes = torch.bincount(flat, minlength=table.shape[0]).tolist()
    left = arriving.reshape(-1, hidden).index_select(0, order)
    right = states[:-1].reshape(-1, hidden).index_select(0, order)
    end = 0
    for token, size in enumerate(sizes):
        if size:
            torch.mm(left[end : end + size].T, right[end : end + size], out=gradient[token])
            end += size
    return gradient


def grouped_products(
    table: Float[Tensor, "token hidden hidden"],
    h0: Float[Tensor, "batch hidden"],
    tokens: Int[Tensor, "batch time"],
) -> Float[Tensor, "batch time hidden"]:
    """Gives every h_t = table[token_t] h_{t-1}."""
    return _GroupedProducts.apply(table, h0, tokens)  # pyright: ignore[reportReturnType]
