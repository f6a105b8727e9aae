"""The interface of a state transition h' = A(x) h: coefficients of an input, their action, the dense matrix.

Every level of the hierarchy is a final class in a file of its own. `dense` is the truth that the others are tested
against: `act(c, h) = dense(c) @ h`, and `dense(compose(c2, c1)) = dense(c2) @ dense(c1)`.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError, unknown_name

Init = Literal["features", "tokens"]
INITS: tuple[Init, ...] = ("features", "tokens")


class Transition(nn.Module, ABC):
    """A hidden-state update that depends on the input, given as coefficients that act.

    Attributes:
        input_size: the size D of an input x.
        hidden_size: the size H of a hidden state h.
    """

    input_size: int
    hidden_size: int

    @abstractmethod
    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Any:
        """Gives what the update needs to know of an input."""

    def of_tokens(self) -> Any:
        """Gives the coefficients of all one-hot inputs."""
        reference = next(self.parameters())
        return self.coefficients(torch.eye(self.input_size, dtype=reference.dtype, device=reference.device))

    @abstractmethod
    def act(self, coefficients: Any, h: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """Applies the update to a hidden state."""

    @abstractmethod
    def act_scaled(
        self, coefficients: Any, h: Float[Tensor, "*batch hidden"], log_scale: Float[Tensor, "*batch"]
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Applies the update to the hidden state exp(log_scale) h, and gives the result in the same form."""

    @abstractmethod
    def dense(self, coefficients: Any) -> Float[Tensor, "*batch out in"]:
        """Writes the update as a matrix, acting on h (or on h with a 1 appended, where there is an additive term)."""


class LinearTransition(Transition):
    """A purely multiplicative update h' = A(x) h, the same for every scale of h.

    Facts that leaves declare, each held by a test:
        commutes: A(x) A(y) = A(y) A(x) for all inputs.
        norm_preserving: |A(x) h| = |h|.
        positive: every entry of A(x) is at least 0.
        composable: products of matrices of this level are of this level, and `compose` multiplies coefficients.
        stackable: weights of several networks can be stacked, so that they train in one tensor program.
    """

    commutes: ClassVar[bool]
    norm_preserving: ClassVar[bool]
    positive: ClassVar[bool]
    composable: ClassVar[bool]
    stackable: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Tensor:
        """Gives the free parameters of A(x)."""

    @abstractmethod
    def compose(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Gives the coefficients of the product A(later) A(earlier); only where `composable`."""

    @classmethod
    @abstractmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "LinearTransition":
        """Builds the transition whose matrix for the one-hot input k is `weight[:, :, k]`.

        Raises `TransitionError` where that matrix is not of this level.
        """

    def act_scaled(
        self, coefficients: Any, h: Float[Tensor, "*batch hidden"], log_scale: Float[Tensor, "*batch"]
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Applies the update; a linear one keeps the scale."""
        return self.act(coefficients, h), log_scale


def tabulate(transition: LinearTransition) -> Float[Tensor, "out in input"]:
    """Lists the matrices of the one-hot inputs, as `weight[:, :, k]`: what `from_dense` reads."""
    return transition.dense(transition.of_tokens()).permute(1, 2, 0)


def check_sizes(level: str, **sizes: int) -> None:
    """Refuses sizes that are not whole numbers of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
            raise TransitionError(f"{level} needs a {name} of at least 1, got {size!r}; correct it")


def input_power(init: str, input_size: int) -> float:
    """Gives E ‖x‖² for the kind of input that an initialisation is balanced for.

    "features" are inputs whose entries have mean square 1, so E ‖x‖² = D; "tokens" are one-hot, so ‖x‖² = 1.
    """
    if init not in INITS:
        raise unknown_name("initialisation", init, INITS)
    return float(input_size) if init == "features" else 1.0


def random_blocks(init: str, count: int, size: int, input_size: int, generator: torch.Generator | None) -> Tensor:
    """Draws weights [count, size, size, input] of blocks whose A(x) keeps the expected square norm.

    For "features" they are Gaussian. For "tokens" each token's matrix is orthogonal, drawn uniformly: a product of
    Gaussian matrices soon has one large singular value, and all words lead to nearly the same direction.
    """
    power = input_power(init, input_size)
    if init == "features":
        return torch.randn(count, size, size, input_size, generator=generator) * (size * power) ** -0.5
    q, r = torch.linalg.qr(torch.randn(count, input_size, size, size, generator=generator))
    # the Q of a Gaussian matrix is uniform once the signs of R's diagonal are fixed
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return q.permute(0, 2, 3, 1)


def square_weight(level: str, weight: Tensor) -> tuple[int, int]:
    """Checks that a dense weight is [hidden, hidden, input], and gives the two sizes."""
    if weight.ndim != 3 or weight.shape[0] != weight.shape[1] or 0 in weight.shape:
        raise TransitionError(f"{level} needs a weight [hidden, hidden, input], got {tuple(weight.shape)}; correct it")
    return weight.shape[0], weight.shape[2]
