"""Adam with decoupled weight decay (AdamW, Loshchilov & Hutter, 2019), in one pass through memory."""

import math

from torch import Tensor

from statewise.kernels import call, choose, doubles

_BETAS, _EPS = (0.9, 0.999), 1e-8


def adam_step(
    parameter: Tensor,
    grad: Tensor,
    moments: tuple[Tensor, Tensor],
    count: float,
    rates: list[float],
    decays: list[float],
    backend: str | None = None,
) -> None:
    """Take one step of one or more members, which lie one after the other in the first dimension.

    The compiled kernel reads and writes each number once, where torch's loop over operations does so several times;
    where it cannot be used, the same is computed in torch. Without decay it is Adam, with torch's defaults.

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
            p, g, m, v = (part[member] for part in parts)
            m.lerp_(g, 1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            p.mul_(keep[member]).addcdiv_(m, (v.sqrt() / root).add_(_EPS), value=-moved[member])
