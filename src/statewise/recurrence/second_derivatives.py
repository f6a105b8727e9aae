"""Second derivatives: what a kernel computed is recomputed by operations that torch can differentiate twice."""

from typing import Any

import torch
from torch import Tensor


def differentiable_gradients(
    ctx: Any, inputs: tuple[Tensor, ...], recomputed: Tensor, grad: Tensor
) -> list[Tensor | None]:
    """Return gradients, themselves differentiable, of a function's first inputs; None where none is needed.

    Args:
        ctx: the function's context.
        inputs: its first inputs.
        recomputed: its output, computed from them by plain operations.
        grad: the gradient of the output.
    """
    needed = ctx.needs_input_grad[: len(inputs)]
    wanted = [part for part, need in zip(inputs, needed, strict=True) if need]
    found = iter(torch.autograd.grad(recomputed, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needed]
