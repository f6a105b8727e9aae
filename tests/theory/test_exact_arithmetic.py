"""Balls contain what they stand for, dyadic numbers are not rounded, exponentials are enclosed: against fractions."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from statewise.theory.balls import TINY, Balls, norm_above, spectral_norm_above, sum_above
from statewise.theory.dyadic import Dyadic, exponential


def test_balls_contain_what_they_stand_for():
    random = np.random.default_rng(0)

    def draw(*shape):
        mid = random.standard_normal(shape) * 2.0 ** random.integers(-random.choice([3, 600, 1_070]), 4, shape)
        off = np.abs(mid) * random.choice([0.0, 1e-16, 1e-3])
        ball = Balls(mid, off)
        return ball, [[Fraction(x) for x in row] for row in mid]

    def inside(ball, exact):
        for mid, off, true in zip(
            ball.mid.ravel(), ball.off.ravel(), np.array(exact, dtype=object).ravel(), strict=True
        ):
            assert abs(Fraction(mid) - true) <= Fraction(off)

    for _ in range(60):
        (a, xa), (b, xb), (c, xc) = draw(3, 4), draw(4, 2), draw(3, 4)
        inside(
            a @ b,
            [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*xb, strict=True)] for row in xa],
        )
        inside(a + c, [[x + y for x, y in zip(r, s, strict=True)] for r, s in zip(xa, xc, strict=True)])
        inside(a - c, [[x - y for x, y in zip(r, s, strict=True)] for r, s in zip(xa, xc, strict=True)])
        inside(a * c, [[x * y for x, y in zip(r, s, strict=True)] for r, s in zip(xa, xc, strict=True)])
        exact = Balls.exactly(a.mid)
        for row, bound, total in zip(xa, norm_above(exact.largest()), sum_above(exact.largest()), strict=True):
            assert sum(x * x for x in row) <= Fraction(float(bound)) ** 2
            assert sum(abs(x) for x in row) <= Fraction(float(total))
        norm = Fraction(spectral_norm_above(exact))
        vector = [Fraction(x) for x in random.standard_normal(4)]
        moved = [sum(x * y for x, y in zip(row, vector, strict=True)) for row in xa]
        assert sum(x * x for x in moved) <= norm**2 * sum(x * x for x in vector)
        assert all(Fraction(low) <= x for low, x in zip(exact.least().ravel(), itertools.chain(*xa), strict=True))
    # errors in means errors out, and what vanishes is counted
    assert (Balls(np.ones((1, 1)), np.full((1, 1), 0.5)) @ np.ones((1, 1))).off[0, 0] >= 0.5
    assert (Balls.exactly(np.full((1, 1), 1e-200)) @ np.full((1, 1), 1e-200)).off[0, 0] >= TINY


def test_norms_are_tight():
    random = np.random.default_rng(1)
    for power in (0, -900, 900):
        matrix = np.linalg.qr(random.standard_normal((6, 6)))[0]
        assert spectral_norm_above(Balls.exactly(np.ldexp(matrix, power))) < 2.0**power * (1 + 1e-13)
        rows = np.ldexp(np.abs(random.standard_normal((3, 5))), power)
        np.testing.assert_allclose(
            np.ldexp(norm_above(rows), -power), np.linalg.norm(np.ldexp(rows, -power), axis=1), rtol=1e-14
        )


def test_dyadic_numbers_are_floats_without_rounding():
    random = np.random.default_rng(2)
    for trial in range(60):
        values = random.standard_normal((3, 5)) * 2.0 ** random.integers(-1_000, 900, (3, 5))
        values = np.where(random.random((3, 5)) < 0.2, 0.0, np.rint(values * 4) if trial % 3 else values)
        read = Dyadic.of(values * 2.0**-1070 if trial % 5 == 0 else values)
        for value, exact in zip(
            (values * 2.0**-1070 if trial % 5 == 0 else values).ravel(), read.fractions().ravel(), strict=True
        ):
            assert Fraction(value) == exact
    # large products go through digits of floats
    left, right = (
        random.standard_normal((40, 90)),
        random.standard_normal((90, 50)) * 2.0 ** random.integers(-9, 9, (90, 50)),
    )
    product = Dyadic.of(left) @ Dyadic.of(right)
    assert (product.whole == Dyadic.of(left).whole @ Dyadic.of(right).whole).all()
    assert Dyadic.of(np.array([6.0, -4.0, 0.0])).primitive().tolist() == [3, -2, 0]
    assert Dyadic.of(np.zeros(2)).primitive().tolist() == [0, 0]


def test_exponentials_are_enclosed(monkeypatch):
    flint = pytest.importorskip("flint", reason="needs python-flint; install statewise[certify]")
    monkeypatch.setattr(flint.ctx, "prec", 2_000)
    random = np.random.default_rng(3)
    for _ in range(300):
        bits = int(random.choice([10, 64, 128, 700]))
        exponent = Fraction(float(random.standard_normal() * 2.0 ** random.integers(-200, 60)))
        argument = flint.arb(exponent.numerator) / exponent.denominator
        real, imaginary, off = exponential(exponent, bits, turn=True)
        assert abs(argument.cos() * 2**bits - real) <= off
        assert abs(argument.sin() * 2**bits - imaginary) <= off
        decay = -min(abs(exponent), Fraction(1 << 20))
        argument = flint.arb(decay.numerator) / decay.denominator
        assert abs(argument.exp() * 2**bits - exponential(decay, bits)[0]) <= 2
    assert exponential(Fraction(0), 8) == (256, 0, 0)
    with pytest.raises(ValueError, match="at most 0"):
        exponential(Fraction(1), 8)
