"""Additive terms around any transition."""

from typing import Literal, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError, unknown_name
from statewise.transitions.transition import LinearTransition, Transition, divide_by_largest

Terms = Literal["none", "constant", "input"]


@final
class Additive(Transition):
    """h' = A(x) h + b ("constant") or h' = A(x) h + B x ("input"), around any linear transition.

    Parameters: those of A(x), and H or H D. Such an update is linear in (h, 1), and `dense` is that matrix of size
    H + 1: [[A(x), b(x)], [0, 1]]. It is no longer the same for every scale of h. Initialisation: b = 0; B ~ N(0, 1/D),
    an offset of size 1 per entry for features, as in other recurrent networks.
    """

    def __init__(
        self,
        linear: LinearTransition,
        terms: Literal["constant", "input"],
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if terms not in ("constant", "input"):
            raise unknown_name("additive term", terms, get_args(Terms))
        self.linear = linear
        self.terms = terms
        self.input_size, self.hidden_size = linear.input_size, linear.hidden_size
        reference = next(linear.parameters())
        columns = (self.input_size,) if terms == "input" else ()
        start = torch.zeros(self.hidden_size, *columns, dtype=reference.dtype, device=reference.device)
        self.offset = nn.Parameter(
            start.normal_(std=self.input_size**-0.5, generator=generator) if terms == "input" else start
        )

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> tuple[Tensor, Float[Tensor, "*batch hidden"]]:
        """Return the coefficients of A(x), and the offset."""
        return self.linear.coefficients(x), self.offset_of(x)

    def offset_of(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch hidden"]:
        """Return what is added."""
        return x @ self.offset.T if self.offset.ndim == 2 else self.offset.expand(*x.shape[:-1], -1)

    def act(
        self, coefficients: tuple[Tensor, Float[Tensor, "*batch hidden"]], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Apply the matrix, then add."""
        multiplied, offset = coefficients
        return self.linear.act(multiplied, h) + offset

    def act_scaled(
        self,
        coefficients: tuple[Tensor, Float[Tensor, "*batch hidden"]],
        h: Float[Tensor, "*batch hidden"],
        log_scale: Float[Tensor, "*batch"],
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Add at a common scale: e^s A h + b, each part a vector of largest entry 1 times a power of e."""
        multiplied, offset = coefficients
        moved, _, moved_size = divide_by_largest(self.linear.act(multiplied, h))
        added, _, added_size = divide_by_largest(offset)
        moved_log = moved_size.squeeze(-1).double().log() + log_scale
        added_log = added_size.squeeze(-1).double().log()
        # the scale of a part that is 0 is -inf, which the maximum leaves out
        common = torch.maximum(moved_log.detach(), added_log)
        common = torch.where(common.isfinite(), common, 0.0)
        weights = [(part - common).exp().to(h.dtype).unsqueeze(-1) for part in (moved_log, added_log)]
        return weights[0] * moved + weights[1] * added, common

    def dense(self, coefficients: tuple[Tensor, Float[Tensor, "*batch hidden"]]) -> Float[Tensor, "*batch out in"]:
        """Return the matrix of the update of (h, 1)."""
        multiplied, offset = coefficients
        return affine_matrix(self.linear.dense(multiplied), offset)

    def compose(
        self,
        later: tuple[Tensor, Float[Tensor, "*batch hidden"]],
        earlier: tuple[Tensor, Float[Tensor, "*batch hidden"]],
    ) -> tuple[Tensor, Float[Tensor, "*batch hidden"]]:
        """Compose two updates, where the linear transition can."""
        if not self.linear.composable:
            raise TransitionError(f"{type(self.linear).__name__} is not closed under products; use full")
        return self.linear.compose(later[0], earlier[0]), self.linear.act(later[0], earlier[1]) + later[1]


def affine_matrix(
    matrix: Float[Tensor, "*batch out in"], offset: Float[Tensor, "*batch out"]
) -> Float[Tensor, "*batch longer wider"]:
    """Return [[A, b], [0, 1]], which is h' = A h + b on (h, 1)."""
    upper = torch.cat([matrix, offset.unsqueeze(-1)], dim=-1)
    lower = torch.zeros_like(upper[..., :1, :])
    lower[..., -1] = 1
    return torch.cat([upper, lower], dim=-2)
