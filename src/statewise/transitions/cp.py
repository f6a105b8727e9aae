"""The CP-factored transition."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.transitions.transition import Init, LinearTransition, check_sizes, input_power, square_weight


@final
class CP(LinearTransition):
    """A(x) = W1 diag(Wx^T x) W2^T: the full tensor as a sum of R rank-one terms (canonical polyadic form).

    Parameters: R (2H + D). It approaches the full transition as R grows, and is one for R = H^2. Initialisation:
    W2 ~ N(0, 1/H) makes each of the R projections of h as large as an entry of h; Wx ~ N(0, 1/E‖x‖²) gives gates of
    variance 1; W1 ~ N(0, 1/R) sums R such terms back to the scale of h.

    A product of two such matrices has rank-one terms of all pairs, so the level is not closed under products. W1 and W2
    are shared by all inputs and act on h beside the gates, so networks cannot be stacked.
    """

    commutes = False
    norm_preserving = False
    positive = False
    composable = False
    stackable = False

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        rank: int,
        init: Init = "features",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("cp", input_size=input_size, hidden_size=hidden_size, rank=rank)
        self.input_size, self.hidden_size, self.rank = input_size, hidden_size, rank
        self.left = nn.Parameter(torch.randn(hidden_size, rank, generator=generator) * rank**-0.5)
        self.gate = nn.Parameter(
            torch.randn(input_size, rank, generator=generator) * input_power(init, input_size) ** -0.5
        )
        self.right = nn.Parameter(torch.randn(hidden_size, rank, generator=generator) * hidden_size**-0.5)

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch rank"]:
        """Return the gates Wx^T x."""
        return x @ self.gate

    def of_tokens(self) -> Float[Tensor, "token rank"]:
        """Return the gates themselves."""
        return self.gate

    def act(
        self, coefficients: Float[Tensor, "*batch rank"], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Project, gate, and project back."""
        return (coefficients * (h @ self.right)) @ self.left.T

    def dense(self, coefficients: Float[Tensor, "*batch rank"]) -> Float[Tensor, "*batch out in"]:
        """Multiply the three factors out."""
        return (self.left * coefficients.unsqueeze(-2)) @ self.right.T

    def compose(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Raise `TransitionError`: the level is not closed under products."""
        raise TransitionError("cp is not closed under products; use full, or multiply dense matrices")

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "CP":
        """Build from any weight, with one rank-one term for each place (i, j) that is not zero for all inputs."""
        hidden_size, input_size = square_weight("cp", weight)
        rows, columns = torch.nonzero((weight != 0).any(dim=2), as_tuple=True)
        built = cls(input_size, hidden_size, max(1, len(rows)))
        # a weight of zeros keeps one term, which is zero
        rows, columns = (rows, columns) if len(rows) else (torch.zeros(1).long(), torch.zeros(1).long())
        one_hot = torch.eye(hidden_size, dtype=weight.dtype, device=weight.device)
        built.left = nn.Parameter(one_hot[:, rows])
        built.right = nn.Parameter(one_hot[:, columns])
        built.gate = nn.Parameter(weight.detach()[rows, columns].T.clone())
        return built
