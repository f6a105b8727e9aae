"""Blocks whose matrices are whole in some basis although their hidden states are not: the first state is rounded.

The three corners of a triangle are whole in a basis of two of them, and so are the symmetries of the triangle. A block
that was trained to these symmetries starts anywhere in the plane, so that its six hidden states are whole in no basis.
The matrices are, and a first state near the trained one is as good. The matrices' basis is found from an eigenvector of
some product of them: its images are a finite set of points like any other.

A block of two entries may also be whole up to a factor for each symbol. Turns by an eighth are whole up to sqrt(2),
turns by a twelfth up to sqrt(3); by Theorem X there are no others. Answers do not depend on the factor as long as no
other block is there to compare with.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from jaxtyping import Float, Int

from statewise.theory.learning.hankel import Basis
from statewise.theory.network import Network
from statewise.theory.polish.coincidence import all_points
from statewise.theory.polish.lattices import nearest_fraction
from statewise.theory.polish.rational import whole_coordinates, whole_matrices

# products of matrices whose eigenvectors are tried
_MOST_WORDS = 60
# eigenvalues that differ by less than this are one
_SIMPLE = 1e-3
# bits of a first state that is rounded, relative to its largest entry
BITS = (2, 4, 6, 9, 12, 16)
# denominators of entries of matrices that are whole up to a factor
_DENOMINATORS = 100

Matrices = Int[np.ndarray, "symbol out in"]


@dataclass(frozen=True, eq=False)
class BlockBasis:
    """A basis in which the matrices of a block are whole.

    Args:
        matrices: in this basis; where a factor for each symbol is allowed, up to that.
        into: turns a hidden state of the block into its coordinates.
    """

    matrices: Matrices
    into: Float[np.ndarray, "entry hidden"]


def anchored_basis(
    matrices: Float[np.ndarray, "symbol out in"], vectors: Float[np.ndarray, "point in"], accuracy: float
) -> BlockBasis | None:
    """Find a basis in which the matrices of a block are whole, on the span of its hidden states; None if none is found.

    Args:
        matrices: of the block.
        vectors: its hidden states.
        accuracy: to which their entries are known.
    """
    axes = _span(vectors)
    inside = axes @ matrices @ axes.T
    relative = accuracy / float(np.linalg.norm(vectors, axis=1).max())
    for anchor in _eigenvectors(inside):
        network = Network(inside, anchor, np.eye(len(axes)))
        points = all_points(network, relative**2)
        if points is None or len(_span(points.vectors)) < len(axes):
            continue
        least = max(points.distance, relative)
        found = whole_coordinates(points.vectors, points.moves, least)[0]
        whole = whole_matrices(found.points, points.moves) if found.size == len(axes) else None
        if whole is not None:
            turned = np.linalg.lstsq(points.vectors, found.points.astype(np.float64), rcond=None)[0].T
            return BlockBasis(whole, turned @ axes)
    return None


def _span(vectors: Float[np.ndarray, "point in"]) -> Float[np.ndarray, "rank in"]:
    _, sizes, axes = np.linalg.svd(vectors, full_matrices=False)
    return axes[sizes > 1e-6 * sizes[0]]


def _eigenvectors(matrices: Float[np.ndarray, "symbol out in"]) -> Iterator[Float[np.ndarray, " in"]]:
    """Return eigenvectors of short products that are determined up to a factor: those of simple real eigenvalues."""
    symbols = range(len(matrices))
    words = [(a,) for a in symbols] + list(product(symbols, repeat=2))
    for word in words[:_MOST_WORDS]:
        values, vectors = np.linalg.eig(np.linalg.multi_dot([np.eye(matrices.shape[1]), *matrices[list(word)]]))
        for place, value in enumerate(values):
            apart = np.abs(np.delete(values, place) - value)
            if abs(value.imag) < _SIMPLE and (apart > _SIMPLE).all():
                vector = np.real(vectors[:, place])
                yield vector / np.linalg.norm(vector)


def near_points(
    matrices: Matrices, first: Float[np.ndarray, " entry"], moves: Int[np.ndarray, "point symbol"], bits: int
) -> Int[np.ndarray, "point entry"] | None:
    """Return whole points near those of a block, equal where those are equal; None if there are none.

    Args:
        matrices: of the block, whole.
        first: the coordinates of its first state.
        moves: the point after each symbol; -1 where it is not known. Points are in order of discovery.
        bits: of the coordinates.
    """
    reach: list[np.ndarray | None] = [None] * len(moves)
    reach[0] = np.eye(len(first), dtype=object)
    equal = Basis()
    for point, following in enumerate(moves.tolist()):
        here = reach[point]
        assert here is not None, "points are in order of discovery"
        for symbol, there in enumerate(following):
            if there < 0:
                continue
            moved, known = matrices[symbol].astype(object) @ here, reach[there]
            if known is None:
                reach[there] = moved
                continue
            for row in (moved - known).tolist():
                fractions = [Fraction(int(x)) for x in row]
                if equal.express(fractions) is None:
                    equal.add(fractions)
    free = null_space(equal, len(first))
    if not free:
        return None
    spanning = np.array([[float(x) for x in row] for row in free]).T
    weights, *_ = np.linalg.lstsq(spanning, first, rcond=None)
    if np.abs(spanning @ weights - first).max() > 1e-6 * np.abs(first).max():
        return None
    rounded = np.rint(weights / np.abs(weights).max() * 2**bits).astype(np.int64).tolist()
    begun = [sum((x * row[i] for x, row in zip(rounded, free, strict=True)), Fraction(0)) for i in range(len(first))]
    scale = math.lcm(*(x.denominator for x in begun))
    start = np.array([int(x * scale) for x in begun], dtype=object)
    found = np.array([matrix @ start for matrix in reach], dtype=object)
    return found.astype(np.int64) if abs(found).max() < np.iinfo(np.int32).max else None


def null_space(basis: Basis, size: int) -> list[list[Fraction]]:
    """Return a basis of the vectors on which all rows of an echelon basis vanish."""
    pivots = [pivot for pivot, _, _ in basis.rows]
    found = []
    for free in (place for place in range(size) if place not in pivots):
        vector = [Fraction(int(place == free)) for place in range(size)]
        # a row is 0 at the pivots of rows before it, so the last is solved first
        for pivot, row, _ in reversed(basis.rows):
            vector[pivot] = -sum(
                (x * y for i, (x, y) in enumerate(zip(row, vector, strict=True)) if i != pivot), Fraction(0)
            )
        found.append(vector)
    return found


def turned_basis(
    matrices: Float[np.ndarray, "symbol out in"], first: Float[np.ndarray, " in"], accuracy: float
) -> BlockBasis | None:
    """Find a basis in which 2 x 2 matrices are whole up to a factor for each, with the first state in it.

    If some matrix B has trace t, then B / t has trace 1 and determinant det B / t^2; in the basis of h and B h / t it
    is their companion matrix. Theorem X: a turn can be written so if it is a multiple of an eighth or of a twelfth.

    Args:
        matrices: of a block of two entries.
        first: its first state.
        accuracy: to which entries are known, relative to their size.
    """
    for matrix in matrices:
        trace = float(np.trace(matrix))
        if abs(trace) < _SIMPLE * float(np.abs(matrix).max()):
            continue
        basis = np.stack([first, matrix @ first / trace], axis=1)
        if np.linalg.cond(basis) > 1 / _SIMPLE:
            continue
        turned = np.linalg.inv(basis) @ matrices @ basis
        whole = [_whole_up_to_a_factor(each, 1e6 * accuracy) for each in turned]
        if all(each is not None for each in whole):
            return BlockBasis(np.stack([each for each in whole if each is not None]), np.linalg.inv(basis))
    return None


def _whole_up_to_a_factor(matrix: np.ndarray, tolerance: float) -> Int[np.ndarray, "2 2"] | None:
    ratios = (matrix / np.abs(matrix).max()).ravel().tolist()
    near = [nearest_fraction(x, _DENOMINATORS) for x in ratios]
    if max(abs(x - float(y)) for x, y in zip(ratios, near, strict=True)) > tolerance:
        return None
    scale = math.lcm(*(x.denominator for x in near))
    whole = np.array([int(x * scale) for x in near], dtype=np.int64)
    return (whole // max(1, int(np.gcd.reduce(whole)))).reshape(matrix.shape)


def directions(
    matrices: Matrices, first: Sequence[int], moves: Int[np.ndarray, "point symbol"]
) -> Int[np.ndarray, "point entry"] | None:
    """Return the directions that whole matrices lead to; None where they do not move as the points do."""
    found: list[np.ndarray | None] = [None] * len(moves)
    found[0] = np.array(first, dtype=np.int64)
    for point, following in enumerate(moves.tolist()):
        here = found[point]
        assert here is not None, "points are in order of discovery"
        for symbol, there in enumerate(following):
            if there < 0:
                continue
            moved = matrices[symbol] @ here
            moved = moved // max(1, int(np.gcd.reduce(moved)))
            known = found[there]
            if known is None:
                found[there] = moved
            elif (known != moved).any():
                return None
    return np.array(found)
