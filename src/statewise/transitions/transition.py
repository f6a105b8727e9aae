"""The interface of a state transition h' = A(x) h: coefficients of an input, their action, the dense matrix.

Every level of the hierarchy is a final class in a file of its own. `dense` is the truth that the others are tested
against: `act(c, h) = dense(c) @ h`, and `dense(compose(c2, c1)) = dense(c2) @ dense(c1)`.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor  # pyright: ignore[reportMissingImports]

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
        """Return the coefficients of an input: all that the update needs of it."""

    def of_tokens(self) -> Any:
        """Return the coefficients of all one-hot inputs."""
        reference = next(self.parameters())
        return self.coefficients(torch.eye(self.input_size, dtype=reference.dtype, device=reference.device))

    @abstractmethod
    def act(self, coefficients: Any, h: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch hidden"]:
        """Apply the update to a hidden state."""

    @abstractmethod
    def act_scaled(
        self, coefficients: Any, h: Float[Tensor, "*batch hidden"], log_scale: Float[Tensor, "*batch"]
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Apply the update to the hidden state exp(log_scale) h, and return the result in the same form."""

    @abstractmethod
    def dense(self, coefficients: Any) -> Float[Tensor, "*batch out in"]:
        """Return the update as a matrix on h, or, where there is an additive term, on h with a 1 appended."""


class LinearTransition(Transition):
    """A purely multiplicative update h' = A(x) h, the same for every scale of h.

    Leaves declare these facts, each held by a test.

    Attributes:
        commutes: A(x) A(y) = A(y) A(x) for all inputs.
        norm_preserving: |A(x) h| = |h|.
        positive: every entry of A(x) is at least 0.
        composable: products of matrices of this level are of this level, and `compose` multiplies coefficients.
        stackable: weights of several networks can be stacked, so that they train in one tensor program: nothing but
            the coefficients acts on h.
    """

    commutes: ClassVar[bool] = False
    norm_preserving: ClassVar[bool] = False
    positive: ClassVar[bool] = False
    composable: ClassVar[bool] = False
    stackable: ClassVar[bool] = False

    @abstractmethod
    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Tensor:
        """Return the free parameters of A(x)."""

    def compose(self, later: Tensor, earlier: Tensor) -> Tensor:
        """Return the coefficients of the product A(later) A(earlier); only where `composable`."""
        raise TransitionError(f"{type(self).__name__} is not closed under products; use full")

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"]) -> "LinearTransition":
        """Build the transition whose matrix for the one-hot input k is `weight[:, :, k]`.

        Raises:
            TransitionError: where that matrix is not of this level.
        """
        raise TransitionError(f"{cls.__name__} cannot be built from matrices; give it a from_dense of its own")

    def act_scaled(
        self, coefficients: Any, h: Float[Tensor, "*batch hidden"], log_scale: Float[Tensor, "*batch"]
    ) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch"]]:
        """Apply the update; a linear one keeps the scale."""
        return self.act(coefficients, h), log_scale

    def blocks(self, coefficients: Any) -> Float[Tensor, "*batch blocks out in"]:
        """Return the blocks on the diagonal of A, outside of which A is 0; a level without any is one block."""
        return self.dense(coefficients).unsqueeze(-3)


def tabulate(transition: LinearTransition) -> Float[Tensor, "out in input"]:
    """Return the matrices of the one-hot inputs, as `weight[:, :, k]`: what `from_dense` reads."""
    return transition.dense(transition.of_tokens()).permute(1, 2, 0)


def check_sizes(level: str, **sizes: int) -> None:
    """Raise `TransitionError` for sizes that are not whole numbers of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not hasattr(size, "__index__") or size < 1:
            raise TransitionError(f"{level} needs a {name} of at least 1, got {size!r}; correct it")


def input_power(init: str, input_size: int) -> float:
    """Return E ‖x‖² for the kind of input that an initialisation is balanced for.

    "features" are inputs whose entries have mean square 1, so E ‖x‖² = D; "tokens" are one-hot, so ‖x‖² = 1.
    """
    if init not in INITS:
        raise unknown_name("initialisation", init, INITS)
    return float(input_size) if init == "features" else 1.0


def random_blocks(init: str, count: int, size: int, input_size: int, generator: torch.Generator | None) -> Tensor:
    """Draw weights [count, size, size, input] of blocks whose A(x) keeps the expected square norm.

    For "features" they are Gaussian. For "tokens" each token's matrix is orthogonal, drawn uniformly: a product of
    Gaussian matrices soon has one large singular value, and all sequences lead to nearly the same direction.
    """
    power = input_power(init, input_size)
    if init == "features":
        return torch.randn(count, size, size, input_size, generator=generator) * (size * power) ** -0.5
    q, r = torch.linalg.qr(torch.randn(count, input_size, size, size, generator=generator))
    # the Q of a Gaussian matrix is uniform once the signs of R's diagonal are fixed
    q = q * torch.diagonal(r, dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return q.permute(0, 2, 3, 1)


def square_weight(level: str, weight: Tensor) -> tuple[int, int]:
    """Check that a dense weight is [hidden, hidden, input], and return the two sizes."""
    if weight.ndim != 3 or weight.shape[0] != weight.shape[1] or 0 in weight.shape:
        raise TransitionError(f"{level} needs a weight [hidden, hidden, input], got {tuple(weight.shape)}; correct it")
    return weight.shape[0], weight.shape[2]


def place_blocks(blocks: Float[Tensor, "*batch blocks out in"]) -> Float[Tensor, "*batch hidden hidden"]:
    """Return the matrix with these blocks on its diagonal."""
    place = torch.eye(blocks.shape[-3], dtype=blocks.dtype, device=blocks.device)
    return torch.einsum("...nij,nm->...nimj", blocks, place).flatten(-4, -3).flatten(-2, -1)


def largest_entry(h: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch 1"]:
    """Return the largest |h_i|, as a constant for autograd."""
    return h.detach().abs().amax(dim=-1, keepdim=True)


# here, since additive terms scale states too, and recurrences import from transitions, never the reverse
def divide_by_largest(
    h: Float[Tensor, "*batch hidden"],
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch 1"], Float[Tensor, "*batch 1"]]:
    """Divide h by its largest entry: the square of a large or small one could not be represented.

    Returns:
        h / divisor, the divisor (the largest |h_i|, or 1 where that is 0), and the largest |h_i| itself.
    """
    largest = largest_entry(h)
    divisor = torch.where(largest > 0, largest, 1.0)
    return h / divisor, divisor, largest


def has_overflowed(product: Float[Tensor, "*shape"]) -> bool:
    """Return whether a sum of products in float32 is not finite; of a tensor that is traced nothing is known.

    Products that overflow may have opposite signs, and their sum in float64 is then the right infinity, or finite.
    """
    # a compiled program would be broken in two
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None or product.dtype != torch.float32:
        return False
    known = type(product) is Tensor and not is_functorch_wrapped_tensor(product) and product.device.type == "cpu"
    return known and not bool(product.isfinite().all())
