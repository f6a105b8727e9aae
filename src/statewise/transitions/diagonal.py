"""The real diagonal transition."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.transitions.transition import Init, LinearTransition, check_sizes, input_power, square_weight


@final
class Diagonal(LinearTransition):
    """A(x) = diag(a(x)) with a(x) = W x, real of either sign: of groups, it tracks those of order-2 elements (parity).

    Parameters: H D. Initialisation: a product of T such numbers keeps its size only if each is near 1 in size, so
    tokens get random signs, a = +1 or -1. Features cannot be held to that (a is linear in x): W ~ N(0, 1/D) keeps the
    expected square norm of h.
    """

    commutes = True
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
        check_sizes("diagonal", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        weight = torch.randn(hidden_size, input_size, generator=generator) * input_power(init, input_size) ** -0.5
        self.weight = nn.Parameter(torch.where(weight < 0, -1.0, 1.0) if init == "tokens" else weight)

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch hidden"]:
        """Return the diagonal."""
        return x @ self.weight.T

    def of_tokens(self) -> Float[Tensor, "token hidden"]:
        """Return the weight itself."""
        return self.weight.T

    def act(
        self, coefficients: Float[Tensor, "*batch hidden"], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Multiply entry by entry."""
        return coefficients * h

    def dense(self, coefficients: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden hidden"]:
        """Place the numbers on the diagonal."""
        return torch.diag_embed(coefficients)

    def blocks(self, coefficients: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden 1 1"]:
        """Return each number as a block."""
        return coefficients[..., None, None]

    def compose(
        self, later: Float[Tensor, "*batch hidden"], earlier: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Multiply entry by entry."""
        return later * earlier

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "Diagonal":
        """Build from a weight that is zero off the diagonal."""
        hidden_size, input_size = square_weight("diagonal", weight)
        built = cls(input_size, hidden_size)
        diagonal = torch.diagonal(weight.detach(), dim1=0, dim2=1).T.contiguous()
        if not torch.equal(torch.diag_embed(diagonal.T).permute(1, 2, 0), weight.detach()):
            raise TransitionError("the weight is not diagonal; use block(2), or full")
        built.weight = nn.Parameter(diagonal)
        return built
