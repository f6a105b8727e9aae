"""Scales of states: a long product of matrices is kept as a state of bounded size and the logarithm of its scale.

exp(log_norm) h means the same state before and after each rescaling. `rescale` makes |h| = 1; `rescale_exactly`
divides by a power of two, which rounds nothing, so that weights of whole numbers stay exact at any length.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.transitions.transition import divide_by_largest, largest_entry

# steps between rescalings: float32 holds gains of up to 10,000 a step that long
RESCALE_EVERY = 8

State = Float[Tensor, "*batch hidden"]
PerState = Float[Tensor, "*batch 1"]
LogNorm = Float[Tensor, "*batch"]


def rescale(h: State, log_norm: LogNorm) -> tuple[State, LogNorm]:
    """Move the norm of h into its logarithm; a state that is 0 stays."""
    unit, norm, divisor = normalise(h)
    return unit, log_norm + divisor.squeeze(-1).double().log() + norm.squeeze(-1).double().log()


def rescale_exactly(h: State, log_norm: LogNorm) -> tuple[State, LogNorm]:
    """Move a power of two into the logarithm, so that the largest entry lies between 1/2 and 1 and none is rounded."""
    scale = inverse_power_above(h)
    return h * scale, log_norm - scale.squeeze(-1).double().log()


def normalise(h: State) -> tuple[State, PerState, PerState]:
    """Return u, n, m with h = m n u, |u| = 1 and m the largest entry, a constant; n = m = 1 where h is 0."""
    scaled, divisor, largest = divide_by_largest(h)
    # the norm of 0 has no second derivative
    norm = torch.linalg.vector_norm(torch.where(largest == 0, 1.0, scaled), dim=-1, keepdim=True)
    norm = torch.where(largest == 0, 1.0, norm)
    return scaled / norm, norm, divisor


def inverse_power_above(h: State) -> PerState:
    """Return 1 over the least power of two above all entries, as a constant; 1 for a state that is 0 or not finite.

    The largest entry, not the norm: squares would overflow long before. A power of two, so that nothing is rounded.
    """
    largest = largest_entry(h)
    fine = (largest > 0) & largest.isfinite()
    # the exponent is bounded so that neither the power nor its inverse leaves the range of the type
    most = math.frexp(torch.finfo(h.dtype).max)[1] - 1
    exponent = torch.frexp(torch.where(fine, largest, 0.5))[1].clamp(2 - most, most)
    return torch.ldexp(torch.ones_like(largest), -exponent)


def to_unit_size(h: State) -> State:
    """Divide a state by the root of its mean square, so that it has entries of about 1; a state that is 0 stays."""
    return normalise(h)[0] * h.shape[-1] ** 0.5
