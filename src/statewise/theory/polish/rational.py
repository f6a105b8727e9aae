"""Whole-number coordinates of the points of a polished network, from the points alone.

The hidden states of a polished network are finitely many points v_1, ..., v_n, and every symbol moves them among
themselves. So the whole multiples of points add up to a group that every symbol maps into itself: finitely generated
and without torsion, hence Z^s for some s. In a basis of it the points, and all matrices, have whole entries. The number
s is the dimension of the points over the rationals: it is their dimension r over the reals exactly if the network is
rational in some basis of its own, and larger otherwise. Corners of a pentagon in the plane have s = 4, the degree of
the fifth cyclotomic field.

Coordinates are found by continued fractions (s = r), or by lattice reduction, which finds all whole relations among the
points (s > r); where neither ends, points are one-hot (s = n). What is found is checked against every move in whole
numbers, so a wrong guess is not more than a loss of time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from statewise.theory.learning.hankel import Basis
from statewise.theory.polish.lattices import find_relation, nearest_fraction, spanning_basis

# denominators that are tried at most
_LARGEST_DENOMINATOR = 1_000
# points of which relations are sought, and how many may be independent
_MOST_RELATED, _MOST_INDEPENDENT = 64, 24
# errors of coordinates are a few times those of points
_SLACK = 16.0
# the coordinates of a basis that is nearly dependent are not known
_WORST_CONDITION = 1e8
# whole numbers beyond this are no coordinates that anyone would choose
_LARGEST_ENTRY = 2**31 - 1

Vector = list[Fraction]
Whole = Int[np.ndarray, "point entry"]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Points in whole numbers.

    Args:
        points: one row for each point; the rows span.
        rank: the dimension of the points over the reals.
        distance: the largest distance of a coordinate, in a basis of points, from a fraction of small denominator; None
            where coordinates are not known well enough.
    """

    points: Whole
    rank: int
    distance: float | None

    @property
    def size(self) -> int:
        """How many whole numbers a point has."""
        return self.points.shape[1]


def whole_coordinates(
    vectors: Float[np.ndarray, "point hidden"], moves: Int[np.ndarray, "point symbol"], accuracy: float
) -> list[Coordinates]:
    """Return whole-number coordinates of points to try, the smallest first; the last are one-hot.

    Args:
        vectors: the points; equal ones have equal coordinates.
        moves: the point after each symbol; -1 where it is not known.
        accuracy: to which entries of the points are known.
    """
    kind = _kinds(vectors, 2 * _SLACK * accuracy)
    first = np.unique(kind, return_index=True)[1]
    table = _moves_of_kinds(kind, moves)
    distinct = vectors[first]
    largest = float(np.linalg.norm(distinct, axis=1).max())
    if not largest > _SLACK * accuracy:
        return [Coordinates(np.zeros((len(vectors), 0), dtype=np.int64), 0, 0.0)]
    chosen, real, tolerance = _in_points(distinct / largest, accuracy / largest)
    fractions, distance = _fractions(real, tolerance)
    found: list[Coordinates] = []

    def add(rows: Sequence[Vector]) -> None:
        whole = _as_whole(rows)
        if whole is not None:
            found.append(Coordinates(whole[kind], len(chosen), distance))

    if all(row is not None for row in fractions):
        add([row for row in fractions if row is not None])
    elif len(distinct) <= _MOST_RELATED:
        rows = _related(real, fractions, chosen, table, tolerance)
        if rows is not None:
            add(rows)
    if not found or found[-1].size < len(distinct):
        found.append(Coordinates(np.eye(len(distinct), dtype=np.int64)[kind], len(chosen), distance))
    return found


def distance_from_fractions(vectors: Float[np.ndarray, "point hidden"], accuracy: float) -> tuple[float | None, bool]:
    """Return the largest distance of a coordinate, in a basis of the vectors, from a fraction; and whether all are one.

    Args:
        vectors: any.
        accuracy: to which their entries are known.
    """
    largest = float(np.linalg.norm(vectors, axis=1).max())
    _, real, tolerance = _in_points(vectors / largest, accuracy / largest)
    fractions, distance = _fractions(real, tolerance)
    return distance, all(row is not None for row in fractions)


def _kinds(vectors: np.ndarray, near: float) -> Int[np.ndarray, " point"]:
    """Number points by their value."""
    kinds = np.full(len(vectors), -1)
    count = 0
    for place, vector in enumerate(vectors):
        if kinds[place] < 0:
            same = (kinds < 0) & (np.linalg.norm(vectors - vector, axis=1) <= near)
            kinds[same] = count
            count += 1
    return kinds


def _moves_of_kinds(kind: np.ndarray, moves: np.ndarray) -> Int[np.ndarray, "kind symbol"]:
    table = np.full((int(kind.max()) + 1, moves.shape[1]), -1)
    for point, symbol in np.argwhere(moves >= 0):
        table[kind[point], symbol] = kind[moves[point, symbol]]
    return table


def _in_points(vectors: np.ndarray, accuracy: float) -> tuple[list[int], np.ndarray, float]:
    """Return points that are a basis over the reals, the coordinates of all points in it, and their accuracy."""
    _, sizes, axes = np.linalg.svd(vectors, full_matrices=False)
    rank = max(1, int((sizes > math.sqrt(accuracy) * sizes[0]).sum()))
    inside = vectors @ axes[:rank].T
    chosen: list[int] = []
    rest = inside.copy()
    for _ in range(rank):
        # the point that is farthest from the span of those before
        norms = np.linalg.norm(rest, axis=1)
        chosen.append(int((norms > 0.999 * norms.max()).argmax()))
        unit = rest[chosen[-1]] / norms[chosen[-1]]
        rest = rest - np.outer(rest @ unit, unit)
    basis = inside[chosen]
    return chosen, inside @ np.linalg.inv(basis), _SLACK * accuracy * float(np.linalg.cond(basis))


def _fractions(real: np.ndarray, tolerance: float) -> tuple[list[Vector | None], float | None]:
    """Return the fractions that coordinates are, None where some is none; and the largest distance from a fraction."""
    if not tolerance < 1 / _WORST_CONDITION:
        return [None] * len(real), None
    # by chance a number is so near to a fraction of such a denominator with probability tolerance^(1/3)
    largest = min(_LARGEST_DENOMINATOR, math.floor(tolerance ** (-1 / 3)))
    farthest, found = 0.0, []
    for row in real.tolist():
        near = [nearest_fraction(x, largest) for x in row]
        away = max(abs(x - float(y)) for x, y in zip(row, near, strict=True))
        farthest = max(farthest, away)
        found.append(near if away <= tolerance * (1 + max(map(abs, row))) else None)
    return found, farthest


def _related(
    real: np.ndarray,
    fractions: Sequence[Vector | None],
    chosen: Sequence[int],
    moves: Int[np.ndarray, "kind symbol"],
    tolerance: float,
) -> list[Vector] | None:
    """Express all points by rational combinations of as few as possible; None where that is too many.

    A relation among points holds for the points after each symbol too, so that few must be sought.
    """
    if not tolerance < 1 / _WORST_CONDITION:
        return None
    independent = list(chosen)
    expressed: dict[int, dict[int, Fraction]] = {point: {point: Fraction(1)} for point in chosen}
    for point, row in enumerate(fractions):
        if row is not None:
            expressed[point] = {c: x for c, x in zip(chosen, row, strict=True) if x}
    for point in range(len(real)):
        _propagate(expressed, independent, moves)
        if point in expressed:
            continue
        relation = find_relation(real[[*independent, point]], tolerance)
        if relation is not None:
            expressed[point] = {c: Fraction(-x, relation[-1]) for c, x in zip(independent, relation, strict=False) if x}
            continue
        expressed[point] = {point: Fraction(1)}
        independent.append(point)
        if len(independent) > _MOST_INDEPENDENT:
            return None
    return [[expressed[point].get(c, Fraction(0)) for c in independent] for point in range(len(real))]


def _propagate(
    expressed: dict[int, dict[int, Fraction]], independent: Sequence[int], moves: Int[np.ndarray, "kind symbol"]
) -> None:
    """Move each relation by each symbol, as long as that expresses further points."""
    waiting = [point for point in expressed if point not in independent]
    for point in waiting:
        for symbol in range(moves.shape[1]):
            there = int(moves[point, symbol])
            parts = [(int(moves[c, symbol]), x) for c, x in expressed[point].items()]
            if there < 0 or there in expressed or any(part not in expressed for part, _ in parts):
                continue
            total: dict[int, Fraction] = {}
            for part, x in parts:
                for c, y in expressed[part].items():
                    total[c] = total.get(c, Fraction(0)) + x * y
            expressed[there] = {c: x for c, x in total.items() if x}
            waiting.append(there)


def _as_whole(rows: Sequence[Vector]) -> Whole | None:
    """Change the basis so that all coordinates are whole; None where they become large."""
    if any(x.denominator > 1 for row in rows for x in row):
        basis = Basis()
        for row in spanning_basis(rows):
            basis.add(row)
        turned = [basis.express(row) for row in rows]
        assert all(row is not None for row in turned), "a basis spans what it was made of"
        rows = [[(row or {}).get(i, Fraction(0)) for i in range(len(basis.rows))] for row in turned]
    assert all(x.denominator == 1 for row in rows for x in row), "a spanning basis gives whole coordinates"
    if max(abs(x) for row in rows for x in row) > _LARGEST_ENTRY:
        return None
    return np.array([[int(x) for x in row] for row in rows], dtype=np.int64)


def whole_matrices(points: Whole, moves: Int[np.ndarray, "point symbol"]) -> Int[np.ndarray, "symbol out in"] | None:
    """Return whole matrices that move every point as it moves, up to a factor for each symbol; None if there are none.

    Directions that no known move begins in are mapped to 0.

    Args:
        points: in whole numbers.
        moves: the point after each symbol; -1 where it is not known.
    """
    made = []
    for following in moves.T:
        matrix = _matrix(points, following)
        if matrix is None:
            return None
        made.append(matrix)
    return np.stack(made)


def _matrix(points: Whole, following: Int[np.ndarray, " point"]) -> Int[np.ndarray, "out in"] | None:
    known = np.flatnonzero(following >= 0)
    before, after = points[known], points[following[known]]
    one_hot = ((before != 0).sum(axis=1) == 1) & (before.max(axis=1, initial=0) == 1)
    ones = {int(row.argmax()): place for place, row in enumerate(before) if one_hot[place]}
    if len(ones) == points.shape[1] or one_hot.all():
        # a one-hot point shows its column
        matrix, scale = np.zeros((points.shape[1], points.shape[1]), dtype=np.int64), 1
        for k, place in ones.items():
            matrix[:, k] = after[place]
    else:
        scale, matrix = _solved(before, after)
    if abs(matrix).max(initial=0) > _LARGEST_ENTRY:
        return None
    exact = np.int64 if _fits(before, matrix) and _fits(after, np.array([[scale]])) else object
    off = before.astype(exact) @ matrix.T.astype(exact) - scale * after.astype(exact)
    return None if off.any() else matrix.astype(np.int64)


def _fits(points: np.ndarray, matrix: np.ndarray) -> bool:
    """Return whether all sums of products fit into 62 bits."""
    return int(abs(points).max(initial=0)) * int(abs(matrix).max(initial=0)) * len(matrix) < 2**62


def _solved(before: Whole, after: Whole) -> tuple[int, np.ndarray]:
    """Return a number, and so many times a matrix that moves points as they move and maps a complement to 0."""
    size = before.shape[1]
    basis, images = Basis(), []
    units = [[Fraction(int(i == k)) for i in range(size)] for k in range(size)]
    rows = [([Fraction(int(x)) for x in row], image) for row, image in zip(before, after, strict=True)]
    for row, image in [*rows, *((unit, np.zeros(size, dtype=np.int64)) for unit in units)]:
        if len(images) < size and basis.express(row) is None:
            basis.add(row)
            images.append(image)
    columns = []
    for unit in units:
        parts = basis.express(unit)
        assert parts is not None, "the units were added"
        columns.append([sum((x * int(images[i][j]) for i, x in parts.items()), Fraction(0)) for j in range(size)])
    scale = math.lcm(*(x.denominator for column in columns for x in column)) if size else 1
    matrix = np.array([[int(x * scale) for x in column] for column in columns], dtype=object)
    return scale, matrix.T.reshape(size, size)
