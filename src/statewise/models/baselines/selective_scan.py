"""Mamba's recurrence: channels that decay and take in, at rates that depend on the input."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# how a decay in (0, 1) is spread over the eigenvalues in use, and the factor by which its gradient grows
Spread = tuple[Callable[[Tensor], Tensor], float]
POSITIVE: Spread = (lambda decay: decay, 1.0)
SIGNED: Spread = (lambda decay: 2 * decay - 1, 2.0)
_STEP_LOW, _STEP_HIGH = 0.001, 0.1


class _SelectiveScan(torch.autograd.Function):
    """s_t = decay_t s_{t-1} + (d_t u_t) B_t,  y_t = C_t s_t,  decay_t = spread(exp(d_t A)), written out by hand.

    Autograd would keep several tensors of the size [batch, time, inner, state] and go through them one by one. Here
    all that belongs to a time step is computed together, while it is in the processor's cache.
    """

    @staticmethod
    def forward(
        ctx: Any, step: Tensor, A: Tensor, u: Tensor, B: Tensor, C: Tensor, first: Tensor, spread: Spread
    ) -> tuple[Tensor, Tensor]:
        # time comes first and inner, the longest, last: vector instructions run along it
        step, u, B, C = (part.transpose(0, 1).contiguous() for part in (step, u, B, C))
        rates, first = A.mT.contiguous(), first.mT
        # powers of two are several times faster here than those of e; computing them again is faster than keeping them
        binary = rates / math.log(2)
        entering = step * u
        raw = torch.empty_like(first, memory_format=torch.contiguous_format)
        states = first.new_empty(len(step) + 1, *first.shape)
        states[0] = first
        y = torch.empty_like(entering)
        for t in range(len(step)):
            torch.mul(step[t].unsqueeze(1), binary, out=raw).exp2_()
            torch.mul(spread[0](raw), states[t], out=states[t + 1])
            states[t + 1].baddbmm_(B[t].unsqueeze(-1), entering[t].unsqueeze(1))
            torch.bmm(C[t].unsqueeze(1), states[t + 1], out=y[t].unsqueeze(1))
        ctx.save_for_backward(step, rates, u, B, C, states)
        ctx.spread = spread
        return y.transpose(0, 1), states[-1].clone().mT

    @staticmethod
    def backward(ctx: Any, to_y: Tensor, to_last: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        step, rates, u, B, C, states = ctx.saved_tensors
        spread, growth = ctx.spread
        to_y = to_y.transpose(0, 1).contiguous()
        entering = step * u
        running = to_last.mT.clone(memory_format=torch.contiguous_format)
        to_step, to_entering, to_B, to_C = (torch.empty_like(part) for part in (step, entering, B, C))
        to_rates, binary = torch.zeros_like(rates), rates / math.log(2)
        raw, product, weighted = (torch.empty_like(running) for _ in range(3))
        for t in range(len(step) - 1, -1, -1):
            running.baddbmm_(C[t].unsqueeze(-1), to_y[t].unsqueeze(1))
            torch.bmm(B[t].unsqueeze(1), running, out=to_entering[t].unsqueeze(1))
            # a product and a sum are faster here than many small matrix-vector products
            torch.sum(torch.mul(states[t + 1], to_y[t].unsqueeze(1), out=product), dim=-1, out=to_C[t])
            torch.sum(torch.mul(running, entering[t].unsqueeze(1), out=product), dim=-1, out=to_B[t])
            # through the exponential: d exp(d A) = exp(d A) (A dd + d dA)
            torch.mul(step[t].unsqueeze(1), binary, out=raw).exp2_()
            torch.mul(running, states[t], out=product).mul_(raw)
            torch.sum(torch.mul(product, rates, out=weighted), dim=1, out=to_step[t])
            to_rates += product.mul_(step[t].unsqueeze(1)).sum(dim=0)
            running.mul_(spread(raw))
        to_step = to_step * growth + to_entering * u
        gradients = (to_step, to_entering * step, to_B, to_C)
        to_step, to_u, to_B, to_C = (part.transpose(0, 1) for part in gradients)
        return to_step, to_rates.mT * growth, to_u, to_B, to_C, running.mT, None


def initial_steps(count: int) -> Float[Tensor, " count"]:
    """Draw steps log-uniform between two bounds; return what softplus makes them of."""
    low, high = math.log(_STEP_LOW), math.log(_STEP_HIGH)
    first = torch.exp(torch.rand(count) * (high - low) + low)
    return first + torch.log(-torch.expm1(-first))


def selective_scan(
    step: Float[Tensor, "batch time inner"],
    A: Float[Tensor, "inner state"],
    u: Float[Tensor, "batch time inner"],
    B: Float[Tensor, "batch time state"],
    C: Float[Tensor, "batch time state"],
    first: Float[Tensor, "batch inner state"],
    spread: Spread,
) -> tuple[Float[Tensor, "batch time inner"], Float[Tensor, "batch inner state"]]:
    """Compute every y_t and the last channels.

    Args:
        step: how far each channel moves, above 0.
        A: the rates, below 0.
        u: what enters.
        B: how it enters the channels.
        C: how they are read.
        first: the channels before the first input.
        spread: which eigenvalues are in use.
    """
    return _SelectiveScan.apply(step, A, u, B, C, first, spread)  # pyright: ignore[reportReturnType]
