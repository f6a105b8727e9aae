"""The rotation transition, R2 in the paper."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.transitions.transition import (
    Init,
    LinearTransition,
    check_sizes,
    input_power,
    place_blocks,
    square_weight,
)


@final
class Rotation(LinearTransition):
    """A(x) rotates each pair of hidden entries by an angle linear in x: theta_n(x) = sum_k W[n, k] x[k].

        A_n(x) = [[cos theta, -sin theta], [sin theta, cos theta]]

    Parameters: (H/2) D. All A(x) share an eigenbasis and commute: of groups, it tracks the Abelian ones. Coefficients
    are the angles, so that products are sums. Initialisation: every rotation keeps the norm of h exactly, so the scale
    is free; tokens get angles uniform over the circle, features get angles with the same variance, pi^2 / 3.
    """

    commutes = True
    norm_preserving = True
    positive = False
    composable = True
    stackable = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        init: Init = "features",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("rotation", input_size=input_size, hidden_size=hidden_size)
        if hidden_size % 2:
            less = hidden_size - 1
            sizes = f"{less} or {hidden_size + 1}" if less else "2"
            raise TransitionError(
                f'rotation needs an even hidden size, got {hidden_size}; use {sizes}, or model "diagonal"'
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        uniform = (torch.rand(hidden_size // 2, input_size, generator=generator) * 2 - 1) * math.pi
        self.weight = nn.Parameter(uniform * input_power(init, input_size) ** -0.5)

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch pairs"]:
        """Return the angles."""
        return x @ self.weight.T

    def of_tokens(self) -> Float[Tensor, "token pairs"]:
        """Return the weight itself."""
        return self.weight.T

    def act(
        self, coefficients: Float[Tensor, "*batch pairs"], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Rotate each pair (h[2n], h[2n + 1])."""
        cos, sin = coefficients.cos(), coefficients.sin()
        first, second = h.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1).flatten(-2)

    def dense(self, coefficients: Float[Tensor, "*batch pairs"]) -> Float[Tensor, "*batch hidden hidden"]:
        """Place the 2 x 2 rotations on the diagonal."""
        return place_blocks(self.blocks(coefficients))

    def blocks(self, coefficients: Float[Tensor, "*batch pairs"]) -> Float[Tensor, "*batch pairs 2 2"]:
        """Return the 2 x 2 rotations."""
        cos, sin = coefficients.cos(), coefficients.sin()
        return torch.stack([torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)], dim=-2)

    def compose(
        self, later: Float[Tensor, "*batch pairs"], earlier: Float[Tensor, "*batch pairs"]
    ) -> Float[Tensor, "*batch pairs"]:
        """Add the angles."""
        return later + earlier

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "Rotation":
        """Build from a weight whose matrices are 2 x 2 rotations along the diagonal, up to rounding."""
        hidden_size, input_size = square_weight("rotation", weight)
        built = cls(input_size, hidden_size)
        even = torch.arange(0, hidden_size, 2, device=weight.device)
        angles = torch.atan2(weight.detach()[even + 1, even], weight.detach()[even, even])
        built.weight = nn.Parameter(angles.contiguous())
        rebuilt = built.dense(built.weight.detach().T).permute(1, 2, 0)
        if not torch.allclose(rebuilt, weight.detach(), atol=8 * torch.finfo(weight.dtype).eps):
            raise TransitionError("the weight is not made of 2 x 2 rotations; use block(2)")
        return built
