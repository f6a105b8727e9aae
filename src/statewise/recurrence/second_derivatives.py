"""Second derivatives: what a kernel computed is computed again by operations that have them."""

from typing import Any

import torch
from torch import Tensor


def differentiate_again(ctx: Any, inputs: tuple[Tensor, ...], again: Tensor, grad: Tensor) -> list[Tensor | None]:
    """Gives gradients, which can be differentiated, of the first inputs of a function; None where none is needed.

    Args:
        ctx: the function's context.
        inputs: its first inputs.
        again: its output, computed from them by plain operations.
        grad: the gradient of the output.
    """
    needed = ctx.needs_input_grad[: len(inputs)]
    wanted = [part for part, need in zip(inputs, needed, strict=True) if need]
    found = iter(torch.autograd.grad(again, wanted, grad, create_graph=True))
    return [next(found) if need else None for need in needed]
