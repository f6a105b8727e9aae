"""Diagonals and blocks over time, with the same entry of all blocks side by side: what the kernels like best.

Coefficients are planes [out, in, blocks], states planes [entry, blocks]; a diagonal has blocks of size 1. Either each
token has its coefficients, or each row and time step.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import call, choose
from statewise.recurrence.reference import inverse_of_largest
from statewise.recurrence.request import TokenBatch
from statewise.recurrence.second_derivatives import differentiate_again

# larger blocks are cheaper as matrix products
LARGEST_BLOCK = 4
# tokens whose states are kept at once where only the last is asked for
_PIECE = 1_024


class _Planes(torch.autograd.Function):
    """h_t = A_t h_{t-1}, divided by a power of two every few steps if asked to; divisors count as constants."""

    @staticmethod
    def forward(
        ctx: Any, coefficients: Tensor, h0: Tensor, tokens: Tensor | None, lengths: Tensor | None, every: int
    ) -> Tensor:
        given, first = coefficients.contiguous(), h0.contiguous()
        batch, time = coefficients.shape[:2] if tokens is None else tokens.shape
        out = h0.new_empty(batch, time, *h0.shape[1:])
        scales = h0.new_ones(batch, time) if every else h0.new_empty(0)
        over = None if tokens is None else tokens.contiguous()
        sizes = (batch, time, h0.shape[2], h0.shape[1], every)
        call("planes_forward", h0.dtype, given, over, first, out, scales, *sizes)
        ctx.save_for_backward(coefficients, h0, out, scales, over, lengths)
        ctx.sizes = sizes
        return out if lengths is None else out[torch.arange(batch), lengths - 1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        coefficients, h0, out, scales, tokens, lengths = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = at_ends(_steps(coefficients, h0, tokens, ctx.sizes[-1], scales), lengths)
            return *differentiate_again(ctx, (coefficients, h0), again, grad), None, None, None
        given, first = coefficients.contiguous(), h0.contiguous()
        gradient, to_first = torch.zeros_like(given), torch.empty_like(first)
        if lengths is None:
            arriving = grad.contiguous()
        else:
            arriving = torch.zeros_like(out)
            arriving[torch.arange(len(lengths)), lengths - 1] = grad
        arguments = (given, tokens, first, out, scales, arriving, gradient, to_first)
        call("planes_backward", h0.dtype, *arguments, *ctx.sizes)
        return gradient, to_first, None, None, None


def unroll_planes(
    coefficients: Float[Tensor, "*event out in blocks"],
    h0: Float[Tensor, "batch out blocks"],
    reading: TokenBatch | None = None,
) -> Float[Tensor, "batch *time out blocks"]:
    """Gives every h_t, or the last of each row.

    Args:
        coefficients: the planes of each token, or, without a reading, those of each [batch, time].
        h0: the state before the first step.
        reading: the tokens, and what is asked of them; None asks the kernels for every state.
    """
    if reading is None:
        return _Planes.apply(coefficients, h0, None, None, 0)  # pyright: ignore[reportReturnType]
    how = (reading.tokens, reading.lengths, reading.every)
    if choose(reading.backend, coefficients, h0) == "native":
        return _Planes.apply(coefficients, h0, *how)  # pyright: ignore[reportReturnType]
    return at_ends(_steps(coefficients, h0, reading.tokens, reading.every, None), reading.lengths)


def planes_last(
    coefficients: Float[Tensor, "token out in blocks"],
    h: Float[Tensor, "batch out blocks"],
    log_norm: Float[Tensor, " batch"],
    tokens: Int[Tensor, "batch time"],
    every: int,
) -> tuple[Float[Tensor, "batch out blocks"], Float[Tensor, " batch"]]:
    """Gives the last state alone and the logarithm of its scale, with the kernels, without a gradient."""
    given, last = coefficients.detach().contiguous(), h.detach()
    for piece in tokens.split(_PIECE, dim=1):
        batch, time = piece.shape
        out, scales = last.new_empty(batch, time, *last.shape[1:]), last.new_ones(batch, time)
        sizes = (batch, time, last.shape[2], last.shape[1], every)
        call("planes_forward", last.dtype, given, piece.contiguous(), last.contiguous(), out, scales, *sizes)
        last, log_norm = out[:, -1], log_norm - scales.double().log().sum(dim=1)
    return last, log_norm


def at_ends(states: Float[Tensor, "batch time *state"], lengths: Int[Tensor, " batch"] | None) -> Tensor:
    """Gives the last state of each row; all of them without lengths."""
    return states if lengths is None else states[torch.arange(len(lengths), device=lengths.device), lengths - 1]


def _steps(coefficients: Tensor, h: Tensor, tokens: Tensor | None, every: int, scales: Tensor | None) -> Tensor:
    """Takes one step after another."""
    outputs = []
    time = coefficients.shape[1] if tokens is None else tokens.shape[1]
    first = h
    for t in range(time):
        a = coefficients[:, t] if tokens is None else coefficients[tokens[:, t]]
        h = (a * h.unsqueeze(1)).sum(dim=2)
        if every and (t + 1) % every == 0:
            h = h * (inverse_of_largest(h.flatten(1)) if scales is None else scales[:, t]).view(-1, 1, 1)
        outputs.append(h)
    return torch.stack(outputs, dim=1) if outputs else first.unsqueeze(1)[:, :0]
