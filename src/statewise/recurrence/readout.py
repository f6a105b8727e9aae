"""The readout of a direction: logits U h / |h|."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.kernels import in_memory


class _ReadDirection(torch.autograd.Function):
    """U h / |h| with u = h / |h|: dh = (U^T g - (u . U^T g) u) / |h|, dU = sum g u^T."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, readout: Tensor) -> Tensor:
        unit, norm = _split(h)
        ctx.save_for_backward(h, readout, unit, norm)
        return unit @ readout.mT

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        h, readout, unit, norm = ctx.saved_tensors
        if torch.is_grad_enabled():
            unit, norm = _split(h)
        towards = grad @ readout
        across = towards - (towards * unit).sum(dim=-1, keepdim=True) * unit
        if readout.ndim == 2:
            grad, unit = grad.reshape(-1, grad.shape[-1]), unit.reshape(-1, unit.shape[-1])
        return across / norm, grad.mT @ unit


def read_direction(
    h: Float[Tensor, "*batch hidden"], readout: Float[Tensor, "*member classes hidden"]
) -> Float[Tensor, "*batch classes"]:
    """Gives U h / |h|; a state that is 0 reads as 0. With several readouts, each reads its own [member, batch] of h."""
    if not in_memory(h, readout):
        return _split(h)[0] @ readout.mT
    return _ReadDirection.apply(h, readout)  # pyright: ignore[reportReturnType]


def _split(h: Tensor) -> tuple[Tensor, Tensor]:
    """Writes h as a vector of norm 1 and a norm, of h itself where that can be represented."""
    # the largest entry first: the square of a large or small one would not be there
    largest = h.detach().abs().amax(dim=-1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1.0)
    h = h / largest
    norm = torch.linalg.vector_norm(h, dim=-1, keepdim=True)
    norm = torch.where(norm > 0, norm, 1.0)
    return h / norm, norm * largest
