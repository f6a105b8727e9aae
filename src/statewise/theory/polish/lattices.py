"""Whole numbers: short vectors of a lattice, relations among real vectors, and a basis of what whole multiples span."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from jaxtyping import Float

Row = list[int]
# a swap is made where it shortens by this factor (Lenstra, Lenstra and Lovasz)
_SHORTER = Fraction(3, 4)


def nearest_fraction(value: float, largest: int) -> Fraction:
    """Return the fraction of a bounded denominator that is nearest to a number: the last such continued fraction."""
    return Fraction(value).limit_denominator(largest)


def reduce_lattice(rows: Sequence[Sequence[int]]) -> list[Row]:
    """Return short vectors that span the same lattice as independent rows (Lenstra, Lenstra and Lovasz 1982).

    All numbers are whole: d holds determinants of the first rows' inner products, and turned[i][j] is d[j + 1] times
    the Gram-Schmidt coefficient (de Weger 1987).
    """
    b = [list(row) for row in rows]
    count = len(b)
    d, turned = [1] + [0] * count, [[0] * count for _ in range(count)]
    d[1], k, known = _dot(b[0], b[0]), 1, 0
    while k < count:
        if k > known:
            known = k
            for j in range(k + 1):
                u = _dot(b[k], b[j])
                for i in range(j):
                    u = (d[i + 1] * u - turned[k][i] * turned[j][i]) // d[i]
                if j < k:
                    turned[k][j] = u
                else:
                    d[k + 1] = u
        _shorten(b, d, turned, k, k - 1)
        last = turned[k][k - 1]
        if d[k + 1] * d[k - 1] < _SHORTER * d[k] ** 2 - last**2:
            _swap(b, d, turned, k, known)
            k = max(1, k - 1)
        else:
            for j in range(k - 2, -1, -1):
                _shorten(b, d, turned, k, j)
            k += 1
    return b


def _dot(a: Row, b: Row) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _shorten(b: list[Row], d: list[int], turned: list[Row], k: int, j: int) -> None:
    if 2 * abs(turned[k][j]) <= d[j + 1]:
        return
    times = round(Fraction(turned[k][j], d[j + 1]))
    b[k] = [x - times * y for x, y in zip(b[k], b[j], strict=True)]
    turned[k][j] -= times * d[j + 1]
    for i in range(j):
        turned[k][i] -= times * turned[j][i]


def _swap(b: list[Row], d: list[int], turned: list[Row], k: int, known: int) -> None:
    b[k], b[k - 1] = b[k - 1], b[k]
    for j in range(k - 1):
        turned[k][j], turned[k - 1][j] = turned[k - 1][j], turned[k][j]
    last = turned[k][k - 1]
    changed = (d[k - 1] * d[k + 1] + last**2) // d[k]
    for i in range(k + 1, known + 1):
        before = turned[i][k]
        turned[i][k] = (d[k + 1] * turned[i][k - 1] - last * before) // d[k]
        turned[i][k - 1] = (changed * before + last * turned[i][k]) // d[k + 1]
    d[k] = changed


def find_relation(vectors: Float[np.ndarray, "vector size"], accuracy: float) -> Row | None:
    """Return small whole numbers c with sum c_i v_i = 0 up to rounding and the last not 0; None if none stands out.

    Of s vectors known to an accuracy e in r dimensions, e^(-r/s) is the size at which whole numbers meet such a
    relation by chance. What is accepted is at most the root of that.

    Args:
        vectors: of about unit size.
        accuracy: to which their entries are known.
    """
    count, size = vectors.shape
    largest = math.floor(accuracy ** (-size / count / 2))
    if largest < 1:
        return None
    scaled = np.rint(vectors / accuracy).astype(object)
    rows = [[int(i == j) for j in range(count)] + [int(x) for x in scaled[i]] for i in range(count)]
    for row in reduce_lattice(rows):
        found, rest = row[:count], row[count:]
        most = max(map(abs, found))
        # each term was rounded to a unit
        if found[-1] and most <= largest and max(map(abs, rest)) <= count * most:
            return found
    return None


def spanning_basis(vectors: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """Return short vectors whose whole multiples add up to exactly what those of the given vectors do.

    Args:
        vectors: that span their whole space.
    """
    scale = math.lcm(*(x.denominator for row in vectors for x in row))
    rows = [[int(x * scale) for x in row] for row in vectors]
    basis: list[Row] = []
    for place in range(len(rows[0])):
        # Euclid's algorithm on one column at a time
        while len(alive := [row for row in rows if row[place]]) > 1:
            sizes = [abs(row[place]) for row in alive]
            least = alive[sizes.index(min(sizes))]
            rows = [least] + [
                [x - row[place] // least[place] * y for x, y in zip(row, least, strict=True)]
                for row in rows
                if row is not least
            ]
        basis += alive
        rows = [row for row in rows if not row[place] and any(row)]
    return [[Fraction(x, scale) for x in row] for row in reduce_lattice(basis)]
