"""Check the cones of a certificate: the part of checker.py, beside which this file lies, that proves cones.

A cone has rows w_0, w_1, ... of whole numbers: it is all h with w_0 h > 0 and h^T P h >= 0, where

    P = w_0^T w_0 - w_1^T w_1 - w_2^T w_2 - ...

It is convex: w_0 h >= |(w_1 h, w_2 h, ...)| and w_0 h > 0 are kept by sums. So a continuous function that is nowhere 0
on it has there the sign that it has at any one of its points.
"""

from operator import mul
from typing import Any

# products of numbers, and bits of the fractions that elimination may drop
MAX_WORK, BITS = 300_000_000, 256


def form(rows: Any, columns: Any) -> list[list[int]]:
    """Return B^T P B, for the rows of P and the columns of B."""
    seen = [[sum(map(mul, row, column)) for row in rows] for column in columns]
    return [[2 * x[0] * y[0] - sum(map(mul, x, y)) for y in seen] for x in seen]


def exceeds(p: int, first: Any, q: int, second: Any) -> bool:
    """Return whether p S - q T is positive definite, for p, q > 0 and symmetric S and T; False where that is close.

    One entry after the other is eliminated: a matrix with the first row (d, r) is positive definite if d > 0 and the
    rest less r^T r / d is. Fractions are dropped, which adds less than 1 to each entry, and n is taken from the
    diagonal of a rest of n rows, so that what is added in all is negative by diagonal dominance.
    """
    rest = [[p * x - q * y << BITS for x, y in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]
    while rest:
        (pivot, *row), *others = rest
        if p <= 0 or q <= 0 or pivot <= 0:
            return False
        rest = [
            [x - r * y // pivot for x, y in zip(other, row, strict=True)]
            for r, (_, *other) in zip(row, others, strict=True)
        ]
        for i, other in enumerate(rest):
            other[i] -= len(rest)
    return True


def contains(rows: Any, h: Any, off: Any) -> bool:
    """Return whether h, of which each number may be off, lies in a cone for certain."""
    lead, *others = [(sum(map(mul, row, h)), sum(abs(w) * d for w, d in zip(row, off, strict=True))) for row in rows]
    least = lead[0] - lead[1]
    return least > 0 and least**2 >= sum((abs(x) + d) ** 2 for x, d in others)


def check_cones(case: Any, witness: Any, need: Any) -> None:
    """Lemma 3. All words are right if those of one length lead into cones, and symbols lead from cones into cones.

    Let h lie in a cone of P. If A^T P' A - mu P is positive definite, mu > 0, then (A h)^T P' A h > mu h^T P h >= 0, so
    w'_0 A h is not 0; at one point it is positive, hence everywhere, and A h lies in the cone of P'. If d is the row of
    the output less another one of U, and d^T d - tau P is positive definite, tau > 0, then (d h)^2 > tau h^T P h >= 0,
    and d h is positive everywhere if it is at one point. By induction from `burn_in` symbols on, words lead into a cone
    of their state, and are right.
    """
    cones, size, classes = witness["cones"], len(case.zero), range(len(case.readout))
    work = len(cones) * (len(case.matrices) + len(classes)) * size**3
    need(cones and work < MAX_WORK, "there are no cones, or too many")
    need(
        not any(d for matrix in case.matrices for row in matrix for _, _, d in row), "a matrix is not of whole numbers"
    )
    need(all(len(row) == size for _, rows, point, _ in cones for row in [*rows, point]), "a cone is of another size")
    images = []
    for matrix in case.matrices:
        dense = [{j: x for j, x, _ in row} for row in matrix]
        images.append([[row.get(j, 0) for row in dense] for j in range(size)])
    for (state, rows, point, shares), arrows in zip(cones, witness["arrows"], strict=True):
        need(contains(rows, point, case.zero), "a point lies outside of its cone")
        own, output = form(rows, case.units), case.outputs[state]
        rivals = [
            [x - y for x, y in zip(case.readout[output], case.readout[c], strict=True)] for c in classes if c != output
        ]
        for d, (p, q) in zip(rivals, shares, strict=True):
            square = [[x * y for y in d] for x in d]
            need(sum(map(mul, d, point)) > 0 and exceeds(q, square, p, own), "an answer may be wrong in a cone")
        for a, columns in enumerate(images):
            if case.legal[state][a]:
                target, p, q = arrows[a]
                reached, there = cones[target][:2]
                need(reached == case.delta[state][a], "an arrow leads to another state")
                lead = sum(x * sum(map(mul, there[0], column)) for x, column in zip(point, columns, strict=True))
                need(lead > 0 and exceeds(q, form(there, columns), p, own), "a cone does not hold what leads there")

    def inside(h: Any, off: Any, state: int, length: int) -> bool:
        return length < case.length or any(contains(rows, h, off) for q, rows, _, _ in cones if q == state)

    need(case.length == 0, "cones are about all lengths")
    case.length = witness["burn_in"]
    need(type(case.length) is int and case.length >= 0, "the burn-in is no length")
    case.check_words(witness, inside)
