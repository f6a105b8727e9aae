"""The block-diagonal transition."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.transitions.transition import (
    Init,
    LinearTransition,
    check_sizes,
    has_overflowed,
    place_blocks,
    random_blocks,
    square_weight,
)


@final
class Block(LinearTransition):
    """A(x) = diag(A_1(x), ..., A_B(x)) with blocks of b x b, each bilinear: A_n(x) = sum_k W[n, :, :, k] x[k].

    Parameters: b^2 D B with B = H / b. A block can hold a machine of b states; b = H is the full transition.
    Initialisation: for features W ~ N(0, 1 / (b D)), for tokens blocks are orthogonal; either way each block keeps the
    expected square norm of its part of h.
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
        size: int,
        init: Init = "features",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_sizes("block", input_size=input_size, hidden_size=hidden_size, size=size)
        if hidden_size % size:
            divisors = [s for s in range(1, hidden_size + 1) if hidden_size % s == 0]
            nearest = min(divisors, key=lambda s: abs(s - size))
            raise TransitionError(
                f"block({size}) needs a hidden size that {size} divides, got {hidden_size}; "
                f"use {_neighbours(hidden_size, size)}, or block({nearest})"
            )
        self.input_size, self.hidden_size, self.size = input_size, hidden_size, size
        self.weight = nn.Parameter(random_blocks(init, hidden_size // size, size, input_size, generator).contiguous())

    def coefficients(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch blocks out in"]:
        """Return the blocks."""
        return torch.einsum("nijk,...k->...nij", self.weight, x)

    def of_tokens(self) -> Float[Tensor, "token blocks out in"]:
        """Return the weight itself."""
        return self.weight.permute(3, 0, 1, 2)

    def act(
        self, coefficients: Float[Tensor, "*batch blocks out in"], h: Float[Tensor, "*batch hidden"]
    ) -> Float[Tensor, "*batch hidden"]:
        """Multiply each block with its part of h."""
        parts = h.unflatten(-1, (-1, self.size, 1))
        product = coefficients @ parts
        if has_overflowed(product):
            product = (coefficients.double() @ parts.double()).to(h.dtype)
        return product.flatten(-3)

    def dense(self, coefficients: Float[Tensor, "*batch blocks out in"]) -> Float[Tensor, "*batch hidden hidden"]:
        """Place the blocks on the diagonal."""
        return place_blocks(coefficients)

    def blocks(self, coefficients: Float[Tensor, "*batch blocks out in"]) -> Float[Tensor, "*batch blocks out in"]:
        """Return the coefficients, which are the blocks."""
        return coefficients

    def compose(
        self, later: Float[Tensor, "*batch blocks out in"], earlier: Float[Tensor, "*batch blocks out in"]
    ) -> Float[Tensor, "*batch blocks out in"]:
        """Multiply block by block."""
        return later @ earlier

    @classmethod
    def from_dense(cls, weight: Float[Tensor, "out in input"], size: int | None = None) -> "Block":
        """Build from a weight that is zero outside blocks; without `size`, the smallest that fits."""
        hidden_size, input_size = square_weight("block", weight)
        sizes = [s for s in range(1, hidden_size + 1) if hidden_size % s == 0] if size is None else [size]
        for candidate in sizes:
            built = cls(input_size, hidden_size, candidate)
            blocks = weight.detach().unflatten(0, (-1, candidate)).unflatten(2, (-1, candidate))
            built.weight = nn.Parameter(torch.diagonal(blocks, dim1=0, dim2=2).permute(3, 0, 1, 2).clone())
            one_hot = torch.eye(input_size, dtype=weight.dtype, device=weight.device)
            if torch.equal(built.dense(built.coefficients(one_hot)).permute(1, 2, 0), weight.detach()):
                return built
        raise TransitionError(f"the weight is not zero outside blocks of {size}; use a larger block, or full")


def _neighbours(hidden_size: int, size: int) -> str:
    below = hidden_size - hidden_size % size
    return f"{below} or {below + size}" if below else str(size)
