"""The full bilinear transition."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.transitions.transition import Init, LinearTransition, check_sizes, random_blocks, square_weight


@final
class Full(LinearTransition):
    """A(x)[i, j] = sum_k W[i, j, k] x[k] with free W: tracks any finite-state machine.

    Parameters: H^2 D. Initialisation: for features W[i, j, k] ~ N(0, 1 / (H D)), for tokens A(x) is orthogonal:
    E ‖A(x) h‖² = ‖h‖².

    Ebrahimi & Memisevic (2025), eq. for h_t; one-hot states with A(sigma) the transition matrix prove the claim.
    """

    commutes = False
    norm_preserving = False
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
        check_sizes("full", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        drawn = random_blocks(init, 1, hidden_size, input_size, generator)[0]
        # the input comes first: the matrices of tokens then lie one after the other
        self.matrices = nn.Parameter(drawn.permute(2, 0, 1).contiguous())

    @property
    def weight(self) -> Float[Tensor, "out in input"]:
        """W[i, j, k], a view of the parameter."""
        return self.matrices.permute(1, 2, 0)

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch out in"]:
        """Return A(x) itself."""
        return (x @ self.matrices.flatten(1)).unflatten(-1, (self.hidden_size, self.hidden_size))

    def of_tokens(self) -> Float[Tensor, "token out in"]:
        """Return the parameter itself."""
        return self.matrices

    def act(
        self, coefficients: Float[Tensor, "*batch out in"], h: Float[Tensor, "*batch in"]
    ) -> Float[Tensor, "*batch out"]:
        """Multiply matrix and vector."""
        return (coefficients @ h.unsqueeze(-1)).squeeze(-1)

    def dense(self, coefficients: Float[Tensor, "*batch out in"]) -> Float[Tensor, "*batch out in"]:
        """Return the coefficients, which are the matrix."""
        return coefficients

    def compose(
        self, later: Float[Tensor, "*batch out in"], earlier: Float[Tensor, "*batch out in"]
    ) -> Float[Tensor, "*batch out in"]:
        """Multiply the matrices."""
        return later @ earlier

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "Full":
        """Build from any weight."""
        hidden_size, input_size = square_weight("full", weight)
        built = cls(input_size, hidden_size)
        built.matrices = nn.Parameter(weight.detach().permute(2, 0, 1).contiguous())
        return built
