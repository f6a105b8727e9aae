"""Loops over time for compilers: one operation for any number of steps, where a Python loop is unrolled for each."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree as pytree


def scan_states(
    step: Callable[[Tensor, Any], Tensor], h0: Float[Tensor, "batch hidden"], inputs: Any
) -> Float[Tensor, "batch time hidden"]:
    """Return every state of h_t = step(h_{t-1}, input_t); there is at least one step.

    Args:
        step: the update.
        h0: the state before the first step.
        inputs: tensors [batch, time, ...], in any structure that holds tensors.
    """
    from torch._higher_order_ops.scan import scan

    def once(h: Tensor, now: Any) -> tuple[Tensor, Tensor]:
        # a loop's state keeps its layout in memory, and is no alias of what the loop returns
        h = step(h, now).clone(memory_format=torch.contiguous_format)
        return h, h.clone()

    over_time = pytree.tree_map(lambda part: part.transpose(0, 1), inputs)
    return scan(once, h0.contiguous(), over_time)[1].transpose(0, 1)
