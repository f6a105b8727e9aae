"""What a machine with finitely many states can do on arithmetic with brackets, computed by counting.

A machine reads an expression from the left. For each open bracket it must remember nothing while it reads the left
side, and a value and an operator while it reads the right side: with m values and o operators a stack of at most k
brackets is one of 1 + s + ... + s^k, s = 1 + o m. One that keeps the k outermost brackets, and takes the value of what
is deeper for 0, the most frequent one, is right with a probability that follows from the grammar: for the joint
distribution J_k(n) of an expression's value and the machine's,

    J_k(n) = 1/(n - 4) sum over splits and operators of J_{k-1}(left) o J_{k-1}(right),

and J_0(n) has the machine's value 0 wherever there is a bracket. No k is enough for all lengths. That no machine of so
many states does better is not claimed.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from jaxtyping import Float

from statewise.papers.facts import Fact
from statewise.tasks.brackets import OPERATORS, SHORT, apply_operator

Joint = Float[np.ndarray, "length pair"]
DEEPEST = 6


@dataclass(frozen=True)
class BracketDepth(Fact):
    """How well a machine that keeps so many brackets does on expressions, averaged over lengths."""

    depth: int
    stacks: int
    first: int
    last: int
    accuracy: float
    score: float


def bracket_depths(first: int, last: int, modulus: int = 5, deepest: int = DEEPEST) -> list[BracketDepth]:
    """Compute the mean score over all lengths from a first to a last, for every depth from 0, the constant answer."""
    rows = []
    for depth in range(deepest + 1):
        accuracy = float(np.mean([accuracy_at(length, depth, modulus) for length in range(first, last + 1)]))
        stacks = sum((1 + len(OPERATORS) * modulus) ** kept for kept in range(depth + 1))
        score = (accuracy - 1 / modulus) / (1 - 1 / modulus)
        rows.append(BracketDepth(depth, stacks, first, last, accuracy, score))
    return rows


def accuracy_at(length: int, depth: int, modulus: int = 5) -> float:
    """Return how often a machine that keeps so many brackets is right on expressions of a length."""
    # tables of a power of two serve many lengths
    joint = _joints(1 << max(length, SHORT).bit_length(), depth, modulus)[length]
    return float(np.trace(joint.reshape(modulus, modulus)))


@cache
def _joints(longest: int, depth: int, m: int) -> Joint:
    """Return J_depth(n) for every length n up to the longest, with pairs of value and guess in one axis."""
    joints, numbers = np.zeros((longest + 1, m, m)), np.arange(m)
    joints[1 : SHORT + 1, numbers, numbers] = 1 / m
    if depth == 0:
        # from 3 symbols on there is a bracket, and the machine takes what is in it for 0
        joints[3:] = 0
        joints[3:, :, 0] = _values(longest, m)[3:]
        return joints.reshape(longest + 1, -1)
    inner, flat = _joints(longest, depth - 1, m), joints.reshape(longest + 1, -1)
    combined = _combinations(m, [(value, guess) for value in range(m) for guess in range(m)])
    for n in range(SHORT + 1, longest + 1):
        flat[n] = combined @ _splits(inner, n).ravel()
    return flat


@cache
def _values(longest: int, m: int) -> Float[np.ndarray, "length value"]:
    """Return the distribution of values for every length up to the longest."""
    values = np.zeros((longest + 1, m))
    values[1 : SHORT + 1] = 1 / m
    combined = _combinations(m, [(value, 0) for value in range(m)])[::m]
    for n in range(SHORT + 1, longest + 1):
        values[n] = combined @ _splits(values, n).ravel()
    return values


def _splits(inner: Float[np.ndarray, "length kind"], n: int) -> Float[np.ndarray, "left right"]:
    """Return the joint distribution of the kinds of left and right sides of an expression of n symbols."""
    return inner[1 : n - 3].T @ inner[n - SHORT : 0 : -1] / (n - SHORT)


def _combinations(m: int, kinds: list[tuple[int, int]]) -> Float[np.ndarray, "pair sides"]:
    """Return the probability of each pair of results, for kinds (value, guess) of the left and right sides."""
    table = np.zeros((m * m, len(kinds), len(kinds)))
    for (i, left), (j, right) in product(enumerate(kinds), repeat=2):
        for operator in range(len(OPERATORS)):
            value, guess = (apply_operator(operator, left[side], right[side]) % m for side in (0, 1))
            table[value * m + guess, i, j] += 1 / len(OPERATORS)
    return table.reshape(m * m, -1)
