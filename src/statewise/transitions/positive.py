"""The positive diagonal transition, Mamba's place in the hierarchy."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.transitions.transition import Init, LinearTransition, check_sizes, input_power, square_weight

# the spread of log a at the start
_SPREAD = 0.1


@final
class Positive(LinearTransition):
    """A(x) = diag(exp(W x)): decay and growth, no sign and no turn, so no group at all is tracked.

    Parameters: H D. Coefficients are the logarithms W x, so that products are sums and nothing overflows before it is
    used. Initialisation: log a ~ N(0, 0.1^2) for one input, which keeps the size of h (E a^2 = 1.02) and leaves the
    channels different from each other.
    """

    commutes = True
    norm_preserving = False
    positive = True
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
        check_sizes("positive", input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        std = _SPREAD * input_power(init, input_size) ** -0.5
        self.weight = nn.Parameter(torch.randn(hidden_size, input_size, generator=generator) * std)

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch hidden"]:
        """Return the logarithm of the diagonal."""
        return x @ self.weight.T

    def of_tokens(self) -> Float[Tensor, "token hidden"]:
        """Return the weight itself."""
        return self.weight.T

    def act(
        self, coefficients: Float[Tensor, "*batch hidden"], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Scale entry by entry."""
        return coefficients.exp() * h

    def act_scaled(
        self, coefficients: Any, h: Float[Tensor, "*batch hidden"], log_scale: Float[Tensor, "*batch"]
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Move the largest logarithm into the scale before any exponential is taken."""
        largest = coefficients.detach().amax(dim=-1, keepdim=True)
        return (coefficients - largest).exp() * h, log_scale + largest.squeeze(-1)

    def dense(self, coefficients: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden hidden"]:
        """Place the numbers on the diagonal."""
        return torch.diag_embed(coefficients.exp())

    def blocks(self, coefficients: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden 1 1"]:
        """Return each number as a block."""
        return coefficients.exp()[..., None, None]

    def compose(
        self, later: Float[Tensor, "*batch hidden"], earlier: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Add the logarithms."""
        return later + earlier

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "Positive":
        """Build from a weight that is zero off the diagonal and positive on it."""
        hidden_size, input_size = square_weight("positive", weight)
        built = cls(input_size, hidden_size)
        diagonal = torch.diagonal(weight.detach(), dim1=0, dim2=1).T.contiguous()
        off_diagonal = weight.detach() - torch.diag_embed(diagonal.T).permute(1, 2, 0)
        if bool((diagonal <= 0).any()) or bool(off_diagonal.any()):
            raise TransitionError('the weight is not a positive diagonal; use model "diagonal"')
        built.weight = nn.Parameter(diagonal.log())
        return built
