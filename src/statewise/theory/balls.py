"""Arrays of real numbers that are known up to an error, computed in float64 with bounds on every rounding.

A ball (m, r) stands for any x with |x - m| <= r. Let u = 2^-53. A float sum or product is off by at most u times its
size; a product may besides vanish, or lose its last bits, below 2^-1022, and is then off by at most 2^-1075, for which
TINY is far more than enough. A sum of n products, in whatever order it is formed, is off by at most n u / (1 - n u)
times the sum of their absolute values, and by n 2^-1075. Radii are sums and products of numbers that are not negative,
so their own relative error is at most n u for an n that is counted generously below, and they are enlarged by it. A
number that is not finite bounds nothing; it never turns into one that is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

UNIT = 2.0**-53
# more than what is lost where a number vanishes
TINY = 2.0**-1000
# more than the roundings of a formula of a few terms
_UP = 1 + 64 * UNIT
# sums of more terms are refused: n u must stay far below 1
_MOST_TERMS = 1 << 24


@dataclass(frozen=True, eq=False)
class Balls:
    """Numbers `mid`, each off by at most `off`."""

    mid: Float[np.ndarray, "..."]
    off: Float[np.ndarray, "..."]

    # numpy's own operators would not know of the errors
    __array_ufunc__ = None

    @staticmethod
    def exactly(values: Float[np.ndarray, "..."]) -> "Balls":
        """Take floats as the numbers that they are."""
        return Balls(values, np.zeros_like(values))

    @property
    def T(self) -> "Balls":
        """The transposed matrix."""
        return Balls(self.mid.T, self.off.T)

    @property
    def finite(self) -> bool:
        """Whether every number is bounded."""
        return bool(np.isfinite(self.mid).all() and np.isfinite(self.off).all())

    def __len__(self) -> int:
        return len(self.mid)

    def __getitem__(self, place: Any) -> "Balls":
        return Balls(np.asarray(self.mid[place]), np.asarray(self.off[place]))

    def __neg__(self) -> "Balls":
        return Balls(-self.mid, self.off)

    def __add__(self, other: "Balls | np.ndarray") -> "Balls":
        given = _balls(other)
        mid = self.mid + given.mid
        return Balls(mid, (self.off + given.off + UNIT * np.abs(mid)) * _UP + TINY)

    def __sub__(self, other: "Balls | np.ndarray") -> "Balls":
        return self + -_balls(other)

    def __rsub__(self, other: np.ndarray) -> "Balls":
        return -self + other

    def __mul__(self, other: "Balls | np.ndarray") -> "Balls":
        given = _balls(other)
        mid = self.mid * given.mid
        spread = np.abs(self.mid) * given.off + self.off * (np.abs(given.mid) + given.off)
        return Balls(mid, (spread + UNIT * np.abs(mid)) * _UP + 4 * TINY)

    def __matmul__(self, other: "Balls | np.ndarray") -> "Balls":
        given = _balls(other)
        terms = _terms(self.mid.shape[-1])
        sizes = np.abs(given.mid)
        # what a sum of so many products rounds, as a share of the sum of their sizes
        share = (terms + 4) * UNIT
        spread = np.abs(self.mid) @ (given.off + share * sizes + TINY)
        if self.off.any():
            spread = spread + self.off @ (sizes + given.off)
        return Balls(self.mid @ given.mid, spread * (1 + 4 * share) * _UP + 8 * terms * TINY)

    def __rmatmul__(self, other: np.ndarray) -> "Balls":
        return _balls(other) @ self

    def largest(self) -> Float[np.ndarray, "..."]:
        """Bound the absolute values from above."""
        return (np.abs(self.mid) + self.off) * _UP

    def least(self) -> Float[np.ndarray, "..."]:
        """Bound the numbers themselves from below."""
        return self.mid - self.off - (np.abs(self.mid) + self.off) * (8 * UNIT) - TINY


def _balls(values: "Balls | np.ndarray") -> Balls:
    return values if isinstance(values, Balls) else Balls.exactly(values)


def _terms(count: int) -> int:
    if count > _MOST_TERMS:
        raise ValueError(f"there are {count} terms; expected at most {_MOST_TERMS}")
    return max(count, 1)


def sum_above(sizes: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Bound sums of numbers that are not negative from above."""
    terms = _terms(sizes.shape[axis])
    return np.asarray(sizes.sum(axis=axis) * (1 + 2 * (terms + 4) * UNIT) + terms * TINY)


def norm_above(sizes: Float[np.ndarray, "..."], axis: int = -1) -> Float[np.ndarray, "..."]:
    """Bound Euclidean norms of vectors, of whose entries the absolute values are given, from above.

    Vectors are first divided by a power of two, so that no square that matters vanishes.
    """
    most = sizes.max(axis=axis, keepdims=True, initial=0.0)
    _, power = np.frexp(most)
    squares = sum_above((np.ldexp(sizes, -power) + TINY) ** 2, axis)
    # where the largest entry is not 0, its square is at least 1/4 by now
    norms = np.where(most.squeeze(axis) == 0, 0.0, np.ldexp(np.sqrt(squares) * _UP, power.squeeze(axis)))
    return np.asarray(norms + TINY)


def spectral_norm_above(matrix: Balls) -> float:
    """Bound the norm of a matrix from above: |N|^2 = |N^T N| is at most the largest row sum of |N^T N|."""
    if not matrix.finite:
        return float("inf")
    _, power = np.frexp(float(np.abs(matrix.mid).max(initial=0.0)))
    scaled = np.ldexp(matrix.mid, -power)
    # what vanished in scaling
    lost = np.where(np.ldexp(scaled, power) == matrix.mid, 0.0, TINY)
    own = Balls(scaled, lost)
    rows = sum_above((own.T @ own).largest())
    largest = float(np.sqrt(rows.max(initial=0.0)) * _UP)
    return float(np.ldexp(largest, power) + norm_above(norm_above(matrix.off))) * _UP + TINY
