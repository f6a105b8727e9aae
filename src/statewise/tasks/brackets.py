"""Modular arithmetic with brackets: a context-free task, which no finite-state machine answers at every length."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from statewise.errors import TaskError
from statewise.tasks.drawn_tests import Drawn
from statewise.tasks.generated import GeneratedSource

OPERATORS = "+-x"
# the shortest expressions are a number, its negative, and both in brackets
SHORT = 4


def bracket_arithmetic(modulus: int = 5, multiply: bool = True) -> GeneratedSource:
    """Return the source of expressions with brackets and their values mod m: for m = 5, (3 - (2 x 4)) -> 0.

    The grammar and its probabilities are those of the Chomsky-hierarchy suite (Deletang et al., 2023). An expression of
    1, 2, 3 or 4 symbols is d, -d, (d) or (-d), with a uniform number d. A longer one of n symbols is (L o R): L has
    uniformly 1 to n - 4 symbols, R the others, and o is uniform among the operators. Brackets are around every
    operation, so that there is no precedence.

    Args:
        modulus: m.
        multiply: whether x is an operator beside + and -.
    """
    if modulus < 2:
        raise TaskError(f"bracket_arithmetic has modulus {modulus}; expected 2 or more; use 5, as the suite does")
    numbers = tuple(map(str, range(modulus)))
    operators = len(OPERATORS) if multiply else 2
    opening = modulus + len(OPERATORS)
    minus = modulus + OPERATORS.index("-")

    def write(written: list[int], length: int, uniform: Iterator[float]) -> int:
        """Append an expression of a length to what is written, and return its value."""
        if length <= SHORT:
            number = int(next(uniform) * modulus)
            bracketed, negative = length > 2, length % 2 == 0
            sign = [minus] * negative
            written += [opening, *sign, number, opening + 1] if bracketed else [*sign, number]
            return -number % modulus if negative else number
        left = 1 + int(next(uniform) * (length - SHORT))
        operator = int(next(uniform) * operators)
        written.append(opening)
        one = write(written, left, uniform)
        written.append(modulus + operator)
        other = write(written, length - 3 - left, uniform)
        written.append(opening + 1)
        return apply_operator(operator, one, other) % modulus

    def draw(generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]) -> Drawn:
        tokens, outputs = (np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int64) for _ in range(2))
        # an expression takes no more numbers than it has symbols
        uniform = iter(generator.random(int(lengths.sum())).tolist())
        for row, length in enumerate(lengths.tolist()):
            written: list[int] = []
            outputs[row, length - 1] = write(written, length, uniform)
            tokens[row, :length] = written
        return Drawn(tokens, lengths, outputs)

    name = f"bracket_arithmetic({modulus}{'' if multiply else ', multiply=false'})"
    options = {"shortest": 3, "longest": 40, "probe": (40, 256), "test_lengths": (40, 256)}
    return GeneratedSource(name, (*numbers, *OPERATORS, "(", ")"), numbers, draw, options=options)


def apply_operator(operator: int, one: int, other: int) -> int:
    """Return the result of an operation, before it is taken mod m."""
    return (one + other, one - other, one * other)[operator]
