"""CP factors of given matrices, near given factors: what keeps a polished network CP-factored.

A_a = sum_r left_r gate_ar right_r^T. Where there are at least as many terms as entries of a matrix, the gates alone can
meet every matrix, by one linear solve. Otherwise all factors are solved for, by Levenberg-Marquardt.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.theory.polish.least_squares import LeastSquares, Metric, Parameters, lifted, solve_least_squares

_ROUNDS = 150
# the share of its mean that is added to each factor of the metric
_FLOOR = 1e-3


@dataclass(frozen=True)
class Factors:
    """The factors of a CP-factored transition, in the order of its parameters."""

    left: Float[Tensor, "out rank"]
    gate: Float[Tensor, "symbol rank"]
    right: Float[Tensor, "in rank"]

    def dense(self) -> Float[Tensor, "symbol out in"]:
        """Return the matrices."""
        return torch.einsum("ir,ar,jr->aij", self.left, self.gate, self.right)


def factor_near(matrices: Float[Tensor, "symbol out in"], near: Factors, until: float) -> Factors:
    """Return factors of matrices, as exact as their rank allows.

    Args:
        matrices: what the factors should give.
        near: where the search begins.
        until: a moment of `time.monotonic` at which it ends.
    """
    size, rank = near.left.shape
    terms = torch.einsum("ir,jr->ijr", near.left, near.right).flatten(0, 1)
    rest = (matrices - near.dense()).flatten(1)
    gate = near.gate + torch.linalg.lstsq(terms, rest.T, driver="gelsd").solution.T
    begun = Factors(near.left, gate, near.right)
    if rank >= size * size:
        return begun
    # factors of one length are as well conditioned as they can be
    lengths = [part.norm(dim=0).clamp(min=1e-12) for part in (begun.left, begun.gate, begun.right)]
    each = (lengths[0] * lengths[1] * lengths[2]) ** (1 / 3)
    parts = tuple(
        part / length * each for part, length in zip((begun.left, begun.gate, begun.right), lengths, strict=True)
    )
    solution = solve_least_squares(_Factoring(matrices), parts, rounds=_ROUNDS, inner=500, until=until)
    return Factors(*solution.parameters)


class _Factoring(LeastSquares):
    """The distance of factors from matrices, a row of residuals for each symbol."""

    def __init__(self, matrices: Float[Tensor, "symbol out in"]) -> None:
        self.matrices = matrices

    def residual(self, parameters: Parameters) -> Tensor:
        """Return the entries by which the factors are off."""
        return (Factors(*parameters).dense() - self.matrices).flatten(1)

    def linearise(
        self, parameters: Parameters
    ) -> tuple[Callable[[Parameters], Tensor], Callable[[Tensor], Parameters]]:
        """Return the products with the Jacobian and with its transpose."""
        left, gate, right = parameters

        def forward(move: Parameters) -> Tensor:
            moved = (Factors(move[0], gate, right), Factors(left, move[1], right), Factors(left, gate, move[2]))
            return sum((each.dense() for each in moved), torch.zeros_like(self.matrices)).flatten(1)

        def backward(towards: Tensor) -> Parameters:
            off = towards.view_as(self.matrices)
            from_left = torch.einsum("aij,ir->ajr", off, left)
            return (
                torch.einsum("aij,jr,ar->ir", off, right, gate),
                torch.einsum("ajr,jr->ar", from_left, right),
                torch.einsum("ajr,ar->jr", from_left, gate),
            )

        return forward, backward

    def metric(self, parameters: Parameters) -> Metric:
        """Return J^T J as if one factor moved at a time."""
        grams = [part.T @ part for part in parameters]
        forms = [lifted(grams[(place + 1) % 3] * grams[(place + 2) % 3], _FLOOR) for place in range(3)]
        inverses = [torch.linalg.inv(form) for form in forms]

        def times(value: Parameters, factors: list[Tensor]) -> Parameters:
            return tuple(part @ factor for part, factor in zip(value, factors, strict=True))

        return Metric(lambda value: times(value, forms), lambda value: times(value, inverses))
