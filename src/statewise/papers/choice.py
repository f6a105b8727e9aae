"""Which rate speaks for a cell: the best, as the paper chooses."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeVar

Rate = TypeVar("Rate")
# scores of some hundred words at chance lie this close to 0
CHANCE = 0.05


def best_rate(scores: Mapping[Rate, Sequence[tuple[float, float]]], guess: float = 0.0) -> Rate:
    """Gives the rate whose median at the long length is highest.

    Where none is above chance, the highest is a matter of luck; then, and among equals, the rate counts that learned
    most on short words.

    Args:
        scores: of every rate, for each seed at the long length and on short words.
        guess: what giving the most frequent output always scores.
    """

    def rank(rate: Rate) -> tuple[float, float, float]:
        far, near = zip(*scores[rate], strict=True)
        return max(CHANCE, guess, median(far)), median(near), median(far)

    return max(scores, key=rank)
