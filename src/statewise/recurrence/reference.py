"""The reference: one step after another, plain and obviously right. Every fast path is tested against it."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from statewise.recurrence.scaling import rescale, to_unit_size
from statewise.transitions import Transition


def unroll(
    transition: Transition,
    x: Float[Tensor, "batch time input"],
    h0: Float[Tensor, "batch hidden"],
    lengths: Int[Tensor, " batch"] | None = None,
    normalise: bool = False,
) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
    """Return h_t = A(x_t) h_{t-1} for every t, and the last one of each row.

    Args:
        transition: A, and an additive term if there is one.
        x: inputs; those past a row's length are never read and may be NaN.
        h0: the state before the first input.
        lengths: the length of each row; past it the state stays, and the outputs are 0.
        normalise: divide each state by its root mean square before the next step; h0 already is.
    """
    inside = inside_lengths(x, lengths)
    x = without_padding(x, inside)
    h = h0
    outputs = []
    for t in range(x.shape[1]):
        following = transition.act(transition.coefficients(x[:, t]), h)
        following = to_unit_size(following) if normalise else following
        h = following if inside is None else torch.where(inside[:, t, None], following, h)
        outputs.append(h)
    return without_padding(stack_steps(outputs, h0), inside), h


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
    """Return the states of `unroll`, each written as exp(log_norm_t) times a vector of norm 1.

    exp(log_norm) h is the state of `unroll`, where that can be represented. Log-norms are kept in float64, so that a
    million steps neither overflow, underflow nor lose digits. A state that is 0 stays 0.

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
    units = without_padding(stack_steps(outputs, h0), inside)
    return (units, stack_steps(log_norms, started)), (h, log_norm)


def inside_lengths(
    x: Float[Tensor, "batch time input"], lengths: Int[Tensor, " batch"] | None
) -> Bool[Tensor, "batch time"] | None:
    """Return whether each time step lies within its row's length; None where all do."""
    if lengths is None:
        return None
    return torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)


def without_padding(
    values: Float[Tensor, "batch time size"], inside: Bool[Tensor, "batch time"] | None
) -> Float[Tensor, "batch time size"]:
    """Replace padding by 0: a gradient of 0 times NaN would be NaN."""
    return values if inside is None else torch.where(inside.unsqueeze(-1), values, 0.0)


def stack_steps(steps: list[Tensor], first: Tensor) -> Tensor:
    """Stack what each step computed along a time axis, which is empty where there is no step after `first`."""
    return torch.stack(steps, dim=1) if steps else first.unsqueeze(1)[:, :0]
