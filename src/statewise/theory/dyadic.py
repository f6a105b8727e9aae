"""Stored weights as the numbers that they are: every float is a whole number times a power of two.

Sums and products of such numbers are such numbers again, so matrices that a level computes from several weights (the
CP form, embedded tokens) are known exactly. Cosines, sines and exponentials of them are not rational; `exponential`
encloses them as closely as one likes, in whole numbers alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

# products of fewer pairs of numbers are left to Python's integers
_FEW = 100_000


@dataclass(frozen=True, eq=False)
class Dyadic:
    """An array of numbers `whole` * 2^`power`, the first in Python integers."""

    whole: np.ndarray
    power: int

    @staticmethod
    def of(values: Float[np.ndarray, "..."]) -> "Dyadic":
        """Read floats without rounding."""
        mantissas, exponents = np.frexp(values)
        whole = np.ldexp(mantissas, 53).astype(np.int64)
        nonzero = whole != 0
        if not nonzero.any():
            return Dyadic(whole.astype(object), 0)
        # the lowest bit of each number, which is a power of two and so a float
        trailing = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64) - 1
        whole = np.where(nonzero, whole >> np.maximum(trailing, 0), 0)
        powers = exponents.astype(np.int64) - 53 + trailing
        least = int(powers[nonzero].min())
        shifts = np.where(nonzero, powers - least, 0)
        if int(shifts.max()) < 10:
            return Dyadic((whole << shifts).astype(object), least)
        return Dyadic(whole.astype(object) << shifts.astype(object), least)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.whole.shape

    @property
    def T(self) -> "Dyadic":
        """The transposed array."""
        return Dyadic(self.whole.T, self.power)

    def __getitem__(self, place: int | tuple[int, ...] | slice) -> "Dyadic":
        return Dyadic(np.asarray(self.whole[place], dtype=object), self.power)

    def __mul__(self, other: "Dyadic") -> "Dyadic":
        return Dyadic(self.whole * other.whole, self.power + other.power)

    def __matmul__(self, other: "Dyadic") -> "Dyadic":
        return Dyadic(_product(self.whole, other.whole), self.power + other.power)

    def reshape(self, *shape: int) -> "Dyadic":
        """Return the same numbers in another shape."""
        return Dyadic(self.whole.reshape(shape), self.power)

    def fractions(self) -> np.ndarray:
        """Return the numbers as fractions."""
        scale = Fraction(2) ** self.power
        made = np.empty(self.shape, dtype=object)
        made.ravel()[:] = [value * scale for value in self.whole.ravel().tolist()]
        return made

    def primitive(self) -> np.ndarray:
        """Return the numbers without a common divisor: whole numbers, times one positive number."""
        return without_divisor(self.whole)


def without_divisor(whole: np.ndarray) -> np.ndarray:
    """Divide whole numbers by their greatest common divisor; zeros stay."""
    if not whole.size:
        return whole
    if int(abs(whole).max()) < 1 << 62:
        small = whole.astype(np.int64)
        return (small // max(1, int(np.gcd.reduce(small.ravel())))).astype(object)
    return whole // (int(np.gcd.reduce(whole.ravel())) or 1)


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Multiply matrices of whole numbers: large ones in digits so short that float64 rounds no sum of products."""
    rows, inner, columns = left.shape[0], left.shape[1], right.shape[1]
    if rows * inner * columns <= _FEW:
        return left @ right
    width = (53 - inner.bit_length()) // 2
    lefts, rights = _digits(left, width), _digits(right, width)
    if 2 * len(lefts) * len(rights) >= inner:
        return left @ right
    total = np.zeros((rows, columns), dtype=object)
    for place in reversed(range(len(lefts) + len(rights) - 1)):
        pairs = range(max(0, place - len(rights) + 1), min(len(lefts), place + 1))
        # each product is below 2^53, and there are far fewer than 2^10 of them
        digit = sum(((lefts[i] @ rights[place - i]).astype(np.int64) for i in pairs), np.zeros((), dtype=np.int64))
        total = (total << width) + digit.astype(object)
    return total


def _digits(whole: np.ndarray, width: int) -> list[np.ndarray]:
    """Return the digits of whole numbers to the base 2^width, least first, with the sign of the number."""
    signs = np.where(whole < 0, -1.0, 1.0)
    left: Any = abs(whole)
    digits = []
    while not digits or left.any():
        digits.append((left & ((1 << width) - 1)).astype(np.float64) * signs)
        left = left >> width
    return digits


def exponential(exponent: Fraction, bits: int, turn: bool = False) -> tuple[int, int, int]:
    """Enclose exp(x) for x <= 0, or exp(i x) for any x, in whole numbers.

    With y = x / 2^k and |y| <= 1/16 the series sum z^j / j!, z = y or i y, is cut off where its terms are below one
    unit 2^-p, and then squared k times. Products are rounded down to a unit. Each of the J terms is off by at most 2
    units in either part, for the error of the one before counts with |y| / j only; the rest of the series and the
    rounding of y add less than 4. So the modulus of the error is at most 3 J + 8 units. The square of a number of
    modulus at most 1 that is off by e units is off by at most 2 e + e^2 2^-p + 2, which is 2 e + 3 while e^2 < 2^p;
    after k squarings that makes at most 2^k (3 J + 11).

    Args:
        exponent: x.
        bits: how fine the units of the result are.
        turn: whether to enclose exp(i x) instead of exp(x).

    Returns:
        the real and the imaginary part in units 2^-bits, and how many units either may be off.
    """
    if not exponent:
        return 1 << bits, 0, 0
    if exponent > 0 and not turn:
        raise ValueError(f"the exponent is {exponent}; expected at most 0")
    halvings = max(0, abs(exponent.numerator).bit_length() - exponent.denominator.bit_length() + 5)
    p = bits + 2 * halvings + 2 * (bits + halvings).bit_length() + 12
    y = (exponent.numerator << p) // (exponent.denominator << halvings)
    real, imaginary, term, j = 1 << p, 0, (1 << p, 0), 0
    # rounded down, a part may stay at -1
    while not {*term} <= {0, -1}:
        j += 1
        a, b = (-term[1], term[0]) if turn else term
        term = (a * y >> p) // j, (b * y >> p) // j
        real, imaginary = real + term[0], imaginary + term[1]
    for _ in range(halvings):
        real, imaginary = (real * real - imaginary * imaginary) >> p, (2 * real * imaginary) >> p
    off = (3 * j + 11) << halvings
    assert off * off < 1 << p
    assert off < 1 << (p - bits)
    # less than one unit, and less than one more by rounding
    return real >> (p - bits), imaginary >> (p - bits), 2
