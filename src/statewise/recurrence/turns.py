"""Rotations over time: angles add up, and the state is turned by their sum."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.kernels import call, choose
from statewise.recurrence.second_derivatives import differentiate_again


class _Turns(torch.autograd.Function):
    """h_t = R(theta_1 + ... + theta_t) h_0; backward needs no sine, since h_t itself tells how far it has turned."""

    @staticmethod
    def forward(ctx: Any, angles: Tensor, h0: Tensor) -> Tensor:
        given, first = angles.contiguous(), h0.contiguous()
        out = h0.new_empty(*angles.shape[:2], h0.shape[1])
        call("turns_forward", h0.dtype, given, first, out, *angles.shape)
        ctx.save_for_backward(angles, h0, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        angles, h0, out = ctx.saved_tensors
        if torch.is_grad_enabled():
            return tuple(differentiate_again(ctx, (angles, h0), _in_torch(angles, h0), grad))
        given, first = angles.contiguous(), h0.contiguous()
        gradient, to_first = torch.empty_like(given), torch.empty_like(first)
        call("turns_backward", h0.dtype, given, first, out, grad.contiguous(), gradient, to_first, *angles.shape)
        return gradient, to_first


def unroll_turns(
    angles: Float[Tensor, "batch time pairs"], h0: Float[Tensor, "batch hidden"], backend: str | None = None
) -> Float[Tensor, "batch time hidden"]:
    """Gives every h_t, the pairs (h[2n], h[2n + 1]) turned by the sum of their angles so far.

    Sums of many angles lose digits in float32: they are taken in float64, and whole turns away.
    """
    if choose(backend, angles, h0) == "native":
        return _Turns.apply(angles, h0)  # pyright: ignore[reportReturnType]
    return _in_torch(angles, h0)


def whole_turns_away(angles: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Gives the same angles within one turn."""
    return torch.remainder(angles, 2 * math.pi)


def _in_torch(angles: Tensor, h0: Tensor) -> Tensor:
    turned = whole_turns_away(angles.double().cumsum(dim=1)).to(angles.dtype)
    cos, sin = turned.cos(), turned.sin()
    first, second = h0.unflatten(-1, (-1, 2)).unsqueeze(1).unbind(-1)
    return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1).flatten(-2)
