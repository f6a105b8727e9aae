"""Adam with decoupled weight decay, in one pass through memory."""

import math
from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch.optim.optimizer import Optimizer

from statewise.recurrence.native import call, choose

_BETAS, _EPS = (0.9, 0.999), 1e-8


@final
class Adam(Optimizer):
    """AdamW (Loshchilov & Hutter, 2019) with torch's defaults and state; without decay it is Adam.

    The compiled kernel reads and writes each number once, where torch's loop over operations does so several times;
    where it cannot be used, the same is computed in torch.

    Args:
        parameters: tensors, or groups with a `weight_decay` of their own.
        lr: the learning rate.
        weight_decay: the share of a weight, times the rate, that goes with each step.
    """

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Takes one step."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group["lr"], group["weight_decay"])

    def _move(self, parameter: torch.Tensor, lr: float, decay: float) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        state["step"] += 1
        count = state["step"].item()
        (beta1, beta2), grad = _BETAS, parameter.grad
        assert grad is not None
        rate, root = lr / (1 - beta1**count), math.sqrt(1 - beta2**count)
        first, second = state["exp_avg"], state["exp_avg_sq"]
        if all(part.is_contiguous() for part in (parameter, grad, first, second)) and (
            choose(None, parameter, grad) == "native"
        ):
            numbers = (1 - lr * decay, beta1, beta2, rate, root, _EPS)
            call("adam", parameter.dtype, parameter, grad, first, second, parameter.numel(), *map(float, numbers))
            return
        first.lerp_(grad, 1 - beta1)
        second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        parameter.mul_(1 - lr * decay).addcdiv_(first, (second.sqrt() / root).add_(_EPS), value=-rate)
