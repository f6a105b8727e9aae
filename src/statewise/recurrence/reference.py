"""The reference: one step after another, plain and obviously right. Every faster path is tested against it."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from statewise.transitions import Transition


def unroll(
    transition: Transition,
    x: Float[Tensor, "batch time input"],
    h0: Float[Tensor, "batch hidden"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
    """Computes h_t = A(x_t) h_{t-1} for every t; gives all h_t, and the last one of each row.

    Args:
        transition: A, and an additive term if there is one.
        x: inputs; what stands past a row's length is never looked at, not even if it is NaN.
        h0: the state before the first input.
        lengths: how many inputs of each row count; the row's state then stays, and its outputs are 0.
    """
    inside = inside_lengths(x, lengths)
    x = without_padding(x, inside)
    h = h0
    outputs = []
    for t in range(x.shape[1]):
        following = transition.act(transition.coefficients(x[:, t]), h)
        h = following if inside is None else torch.where(inside[:, t, None], following, h)
        outputs.append(h)
    return without_padding(_over_time(outputs, h0), inside), h


def unroll_normalised(
    transition: Transition,
    x: Float[Tensor, "batch time input"],
    h0: Float[Tensor, "batch hidden"],
    lengths: Int[Tensor, " batch"] | None = None,
    log_norm0: Float[Tensor, " batch"] | None = None,
) -> tuple[
    tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch time"]],
    tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]],
]:
    """Computes the same as `unroll`, with every h_t written as exp(log_norm_t) times a vector of norm 1.

    The rescaling is pure: exp(log_norm) h is what `unroll` gives, where that can be represented. Log-norms are kept in
    float64, so that a million steps neither overflow, underflow nor lose digits. A state that is 0 stays 0.

    Returns:
        (unit vectors, log-norms) over time, and the same for the last step of each row.
    """
    inside = inside_lengths(x, lengths)
    x = without_padding(x, inside)
    started = x.new_zeros(x.shape[0], dtype=torch.float64) if log_norm0 is None else log_norm0.double()
    h, log_norm = rescale(h0, started)
    outputs, log_norms = [], []
    for t in range(x.shape[1]):
        following, scale = rescale(*transition.act_scaled(transition.coefficients(x[:, t]), h, log_norm))
        h = following if inside is None else torch.where(inside[:, t, None], following, h)
        log_norm = scale if inside is None else torch.where(inside[:, t], scale, log_norm)
        outputs.append(h)
        log_norms.append(log_norm)
    over_time = without_padding(_over_time(outputs, h0), inside)
    return (over_time, _over_time(log_norms, started)), (h, log_norm)


def inverse_of_largest(h: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch"]:
    """Gives 1 over the least power of two above all entries, as a constant; 1 for a state that is 0 or not finite.

    The largest entry, not the norm: squares would overflow long before. A power of two, so that nothing is rounded.
    """
    largest = h.detach().abs().amax(dim=-1)
    fine = (largest > 0) & largest.isfinite()
    # the exponent is bounded so that neither the power nor its inverse leaves the range of the type
    most = math.frexp(torch.finfo(h.dtype).max)[1] - 1
    exponent = torch.frexp(torch.where(fine, largest, 0.5))[1].clamp(2 - most, most)
    return torch.ldexp(torch.ones_like(largest), -exponent)


def rescale_exactly(
    h: Float[Tensor, "*batch hidden"], log_norm: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
    """Moves a power of two into the logarithm, so that the largest entry lies between 1/2 and 1 and none is rounded."""
    scale = inverse_of_largest(h)
    return h * scale.unsqueeze(-1), log_norm - scale.double().log()


def rescale(
    h: Float[Tensor, "*batch hidden"], log_norm: Float[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
    """Moves the norm of h into its logarithm; what both say together does not change."""
    # the largest entry first: the square of a large entry would overflow
    largest = h.detach().abs().amax(dim=-1)
    largest = torch.where(largest > 0, largest, 1.0)
    h = h / largest.unsqueeze(-1)
    norm = torch.linalg.vector_norm(h, dim=-1)
    norm = torch.where(norm > 0, norm, 1.0)
    return h / norm.unsqueeze(-1), log_norm + largest.double().log() + norm.double().log()


def inside_lengths(
    x: Float[Tensor, "batch time input"], lengths: Int[Tensor, " batch"] | None
) -> Bool[Tensor, "batch time"] | None:
    """Says which inputs count; None is all."""
    if lengths is None:
        return None
    return torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)


def without_padding(
    values: Float[Tensor, "batch time size"], inside: Bool[Tensor, "batch time"] | None
) -> Float[Tensor, "batch time size"]:
    """Puts 0 where padding stands: a gradient of 0 times NaN would be NaN."""
    return values if inside is None else torch.where(inside.unsqueeze(-1), values, 0.0)


def _over_time(steps: list[Tensor], first: Tensor) -> Tensor:
    return torch.stack(steps, dim=1) if steps else first.unsqueeze(1)[:, :0]
