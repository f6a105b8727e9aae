"""Adam with decoupled weight decay, in one pass through memory."""

import math
from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from statewise.kernels import call, choose, doubles

_BETAS, _EPS = (0.9, 0.999), 1e-8


@final
class Adam:
    """AdamW (Loshchilov & Hutter, 2019) with torch's defaults, groups and state; without decay it is Adam.

    The compiled kernel reads and writes each number once, where torch's loop over operations does so several times;
    where it cannot be used, the same is computed in torch. It is no torch.optim.Optimizer: calling one costs a good
    part of the step of a small model.

    Args:
        parameters: tensors, or groups with a `weight_decay` of their own.
        lr: the learning rate.
        weight_decay: the share of a weight, times the rate, that goes with each step.
    """

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        given = list(parameters)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = [
            {"lr": lr, "weight_decay": weight_decay, **group} for group in groups
        ]
        self.state: dict[Tensor, dict[str, Any]] = {}
        # what computes, found out once for each parameter, and again once its dtype has changed
        self._backends: dict[Tensor, tuple[torch.dtype, str]] = {}

    def zero_grad(self) -> None:
        """Lets go of all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Takes one step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group["lr"], group["weight_decay"])

    def _move(self, parameter: Tensor, lr: float, decay: float) -> None:
        if parameter not in self.state:
            zeros = [torch.zeros_like(parameter, memory_format=torch.preserve_format) for _ in range(2)]
            self.state[parameter] = {"step": 0.0, "exp_avg": zeros[0], "exp_avg_sq": zeros[1]}
        state = self.state[parameter]
        # a plain number: a tensor would cost three operations a step
        state["step"] = count = float(state["step"]) + 1
        assert parameter.grad is not None
        if state["exp_avg"].dtype != parameter.dtype:
            state |= {key: state[key].to(parameter.dtype) for key in ("exp_avg", "exp_avg_sq")}
        moments = (state["exp_avg"], state["exp_avg_sq"])
        dtype, backend = self._backends.get(parameter, (None, ""))
        if dtype != parameter.dtype or not parameter.is_cpu:
            backend = choose(None, parameter, parameter.grad, *moments)
            self._backends[parameter] = (parameter.dtype, backend)
        move(parameter, parameter.grad, moments, count, [lr], [decay], backend)


def move(
    parameter: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    count: float,
    rates: list[float],
    decays: list[float],
    backend: str | None = None,
) -> None:
    """Takes one step of one or more members, which lie one after the other in the first dimension.

    Args:
        parameter: what moves, in place.
        grad: its gradient.
        moments: the running means of the gradient and of its square, moved in place.
        count: the number of this step, from 1.
        rates: the learning rate of each member; NaN leaves a member as it is.
        decays: the weight decay of each member.
        backend: "native" or "torch"; None takes what there is.
    """
    beta1, beta2 = _BETAS
    first, second = moments
    keep = [1 - rate * decay for rate, decay in zip(rates, decays, strict=True)]
    moved = [rate / (1 - beta1**count) for rate in rates]
    root = math.sqrt(1 - beta2**count)
    parts = (parameter, grad, first, second)
    backend = backend or choose(None, *parts)
    if backend == "native" and all(part.is_contiguous() for part in parts):
        sizes = (len(rates), parameter.numel() // len(rates))
        call("adam", parameter.dtype, *parts, *sizes, doubles(keep), doubles(moved), beta1, beta2, root, _EPS)
        return
    for member in range(len(rates)):
        if not math.isnan(rates[member]):
            p, g, m, v = (part[member] for part in parts) if len(rates) > 1 else parts
            m.lerp_(g, 1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            p.mul_(keep[member]).addcdiv_(m, (v.sqrt() / root).add_(_EPS), value=-moved[member])
