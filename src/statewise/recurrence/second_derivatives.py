"""Second derivatives: what a kernel computed is recomputed by operations that torch can differentiate twice."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def differentiable_gradients(
    ctx: Any, inputs: tuple[Tensor | None, ...], compute: Callable[..., Tensor], grad: Tensor
) -> list[Tensor | None]:
    """Return gradients, themselves differentiable, of a function's first inputs; None where none is needed.

    Args:
        ctx: the function's context.
        inputs: its first inputs; None is one that was not given.
        compute: the function of them by plain operations.
        grad: the gradient of the output.
    """
    # views: where one input was computed from another, as a first state from the weights, it must not count twice
    parts = [None if part is None else part.view_as(part) for part in inputs]
    needed = ctx.needs_input_grad[: len(inputs)]
    wanted = [part for part, need in zip(parts, needed, strict=True) if need and part is not None]
    found = iter(torch.autograd.grad(compute(*parts), wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needed]
