"""The readout of a direction: logits U h / |h|."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.kernels import in_memory
from statewise.recurrence.scaling import normalise


class _ReadDirection(torch.autograd.Function):
    """U h / |h| with u = h / |h|: dh = (U^T g - (u . U^T g) u) / |h|, dU = sum g u^T."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, readout: Tensor) -> Tensor:
        unit, norm, divisor = normalise(h)
        ctx.save_for_backward(h, readout, unit, norm * divisor)
        return unit @ readout.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        h, readout, unit, size = ctx.saved_tensors
        if torch.is_grad_enabled():
            unit, norm, divisor = normalise(h)
            size = norm * divisor
        towards = grad @ readout
        across = towards - (towards * unit).sum(dim=-1, keepdim=True) * unit
        if readout.ndim == 2:
            grad, unit = grad.reshape(-1, grad.shape[-1]), unit.reshape(-1, unit.shape[-1])
        return across / size, grad.mT @ unit


def read_direction(
    h: Float[Tensor, "*batch hidden"], readout: Float[Tensor, "*member classes hidden"]
) -> Float[Tensor, "*batch classes"]:
    """Return U h / |h|, and 0 for a state that is 0; of several readouts, each reads its own [member, batch] of h."""
    if not in_memory(h, readout):
        return normalise(h)[0] @ readout.mT
    return _ReadDirection.apply(h, readout)  # pyright: ignore[reportReturnType]
