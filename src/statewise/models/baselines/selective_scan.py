"""Mamba's recurrence: channels that decay and take in, at rates that depend on the input."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# how a decay in (0, 1) is spread over the eigenvalues in use, and the factor by which its gradient grows
Spread = tuple[Callable[[Tensor], Tensor], float]
POSITIVE: Spread = (lambda decay: decay, 1.0)
SIGNED: Spread = (lambda decay: 2 * decay - 1, 2.0)


class _SelectiveScan(torch.autograd.Function):
    """s_t = decay_t s_{t-1} + (d_t u_t) B_t,  y_t = C_t s_t,  decay_t = spread(exp(d_t A)), written out by hand.

    Autograd would keep several tensors of the size [batch, time, inner, state] and go through them one by one.
    """

    @staticmethod
    def forward(
        ctx: Any, step: Tensor, A: Tensor, u: Tensor, B: Tensor, C: Tensor, first: Tensor, spread: Spread
    ) -> tuple[Tensor, Tensor]:
        # time comes first: what belongs to a step then lies together
        step_t, u_t, B_t, C_t = (part.transpose(0, 1).contiguous() for part in (step, u, B, C))
        raw = torch.exp(step_t.unsqueeze(-1) * A)
        decay = spread[0](raw)
        entering = step_t * u_t
        states = first.new_empty(len(step_t) + 1, *first.shape)
        states[0] = first
        y = first.new_empty(len(step_t), *first.shape[:2])
        for t in range(len(step_t)):
            torch.mul(entering[t].unsqueeze(-1), B_t[t].unsqueeze(1), out=states[t + 1])
            states[t + 1].addcmul_(decay[t], states[t])
            torch.bmm(states[t + 1], C_t[t].unsqueeze(-1), out=y[t].unsqueeze(-1))
        ctx.save_for_backward(step_t, A, u_t, B_t, C_t, raw, states)
        ctx.spread = spread
        return y.transpose(0, 1), states[-1].clone()

    @staticmethod
    def backward(ctx: Any, to_y: Tensor, to_last: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        step, A, u, B, C, raw, states = ctx.saved_tensors
        spread, growth = ctx.spread
        decay = spread(raw)
        to_y = to_y.transpose(0, 1).contiguous()
        entering = step * u
        running = to_last.clone()
        to_entering, to_B, to_C = torch.empty_like(entering), torch.empty_like(B), torch.empty_like(C)
        to_decay = torch.empty_like(raw)
        for t in range(len(step) - 1, -1, -1):
            running.addcmul_(to_y[t].unsqueeze(-1), C[t].unsqueeze(1))
            torch.bmm(to_y[t].unsqueeze(1), states[t + 1], out=to_C[t].unsqueeze(1))
            torch.bmm(running, B[t].unsqueeze(-1), out=to_entering[t].unsqueeze(-1))
            torch.bmm(entering[t].unsqueeze(1), running, out=to_B[t].unsqueeze(1))
            torch.mul(running, states[t], out=to_decay[t])
            running.mul_(decay[t])
        # through the exponential: d exp(d A) = exp(d A) (A dd + d dA)
        to_decay.mul_(raw)
        if growth != 1:
            to_decay.mul_(growth)
        to_step = (to_decay * A).sum(dim=-1) + to_entering * u
        to_A = torch.einsum("tbis,tbi->is", to_decay, step)
        gradients = (to_step, to_entering * step, to_B, to_C)
        to_step, to_u, to_B, to_C = (part.transpose(0, 1) for part in gradients)
        return to_step, to_A, to_u, to_B, to_C, running, None


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
