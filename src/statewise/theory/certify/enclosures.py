"""Bounds on norms, and a network in float64 with bounds: what the proofs about trained networks are computed with.

Sums and products of balls are in `theory.balls`. Here are Euclidean and spectral norms, rounding errors of sums of
products in any precision, and numbers that are moved to the safe side. A number that is infinite, or no number, fails
every comparison, so that it proves nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from statewise.theory.balls import TINY, UNIT, Balls
from statewise.theory.network import Network

QUIET = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")

# an array of floats of any shape, or a single one: sums over all axes are no arrays
Floats = Any


def gamma(terms: int, unit: float = UNIT) -> float:
    """Bound the relative error of sums of `terms` products; 1 / (1 - x) is at most 1 + 2 x up to x = 1/2."""
    return terms * unit * (1 + 2 * terms * unit) if terms * unit < 0.5 else np.inf


def vanishing(hidden: int, unit: float) -> float:
    """Return what, added to each |A_ij|, makes gamma |A| |h| cover what vanishes in a run below the range of its type.

    A product or a sum loses at most 2^-126 in float32 and 2^-1022 in float64. Matrices have their largest entry above
    2^-20, and states theirs above 2^-40, so that a row loses at most 2 H 2^-66 of |h|. Exact arithmetic loses nothing.
    """
    return hidden * 2.0**-65 / gamma(hidden + 2, unit) if unit else 0.0


def raised(values: Floats, terms: int) -> Floats:
    """Move nonnegative numbers up, past the rounding errors of sums of `terms` products and a few operations more."""
    return values * (1 + (2 * terms + 16) * UNIT) + TINY


def lowered(values: Floats, terms: int) -> Floats:
    """Move nonnegative numbers down in the same way; what is left may be negative."""
    return values * (1 - (2 * terms + 16) * UNIT) - TINY


def length_bound(values: Floats, axis: int | tuple[int, ...] = -1) -> Floats:
    """Bound Euclidean norms of exact floats from above, also where squares vanish."""
    axes = (axis,) if isinstance(axis, int) else axis
    terms = int(np.prod([values.shape[a] for a in axes]))
    return raised(np.sqrt(raised((values * values).sum(axis=axis), terms)), 2)


def transposed(matrices: Balls) -> Balls:
    """Return the transpose of each matrix."""
    return Balls(matrices.mid.swapaxes(-1, -2), matrices.off.swapaxes(-1, -2))


def frobenius(matrices: Balls) -> Floats:
    """Bound the Frobenius norm of each matrix."""
    return length_bound(matrices.largest(), (-2, -1))


@QUIET
def norm_bound(matrices: Balls) -> Floats:
    """Bound the spectral norm of each matrix from above, tightly.

    N^T N is nearly Q diag(l) Q^T with a nearly orthogonal Q, so that |N|^2 = |N^T N| is at most
    max |l| |Q^T Q| + |N^T N - Q diag(l) Q^T|; what is small is bounded by Frobenius norms. Q and l are only guesses.
    """
    rows, columns = matrices.mid.shape[-2:]
    if not rows or not columns:
        return np.zeros(matrices.mid.shape[:-2])
    centre = Balls.exactly(matrices.mid if rows >= columns else matrices.mid.swapaxes(-1, -2))
    square = transposed(centre) @ centre
    if not np.isfinite(square.mid).all():
        return np.full(matrices.mid.shape[:-2], np.inf)
    values, vectors = np.linalg.eigh((square.mid + square.mid.swapaxes(-1, -2)) / 2)
    turned, size = Balls.exactly(vectors), values.shape[-1]
    off = frobenius(square - (turned * values[..., None, :]) @ transposed(turned))
    across = frobenius(transposed(turned) @ turned - np.broadcast_to(np.eye(size), square.mid.shape))
    most = raised(np.abs(values).max(axis=-1) * (1 + across) + off, 2)
    return raised(raised(np.sqrt(most), 1) + length_bound(matrices.off, (-2, -1)), 1)


@dataclass(frozen=True, eq=False)
class Enclosed:
    """A network in float64, each matrix and vector times a power of two, and how far each number may be off.

    Args:
        matrices: A[a].
        initial: h_0.
        readout: U.
        norms: bounds on the spectral norms of the matrices.
    """

    matrices: Balls
    initial: Balls
    readout: Balls
    norms: Float[np.ndarray, " symbol"]

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return self.matrices.mid.shape[-1]

    def margins_of(self, output: int) -> tuple[Balls, Bool[np.ndarray, " classes"]]:
        """Return U_output - U_c for every class c, and which c are rivals."""
        rivals = np.arange(len(self.readout)) != output
        return self.readout[output] - self.readout, rivals


def enclosed(network: Network) -> Enclosed:
    """Return a network in float64 with bounds."""
    given = network.scaled
    return Enclosed(given.matrices, given.initial, given.readout, np.asarray(norm_bound(given.matrices)))


@QUIET
def powers_below(rows: Float[np.ndarray, "row entry"]) -> Float[np.ndarray, "row 1"]:
    """Return 1 over the least power of two above all entries of each row; 1 for a row of zeros."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.where(largest > 0, np.ldexp(1.0, -np.clip(np.frexp(largest)[1], -1000, 1000)), 1.0)
