"""Test sequences that are drawn: of any length, from a stream apart from that of training."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from statewise.errors import TaskError
from statewise.randomness import stream
from statewise.tasks.batches import Batch, ask_at_end
from statewise.tasks.lengths import BLOCK_SYMBOLS, MAX_LENGTH, Lengths

# test sets that are kept, for several runs that share a task
_KEPT = 32


class Drawn(NamedTuple):
    """Sequences padded with 0, how long each is, and the output after each symbol; only the last need be right."""

    tokens: Int[np.ndarray, "batch time"]
    lengths: Int[np.ndarray, " batch"]
    outputs: Int[np.ndarray, "batch time"]


# draws one sequence for each length, of that length or of the nearest that there is
Draw = Callable[[np.random.Generator, Int[np.ndarray, " batch"]], Drawn]


@dataclass(frozen=True, eq=False)
class DrawnTests:
    """The test sequences of a task, answered at their end; small sets are kept.

    Args:
        draw: what draws them.
        symbols: how many symbols there are.
    """

    draw: Draw
    symbols: int
    kept: dict[tuple[int, int, int], Batch] = field(default_factory=dict, repr=False)

    def of_length(self, seed: int, length: int, count: int) -> Batch:
        """Return so many sequences of one length."""
        if not 1 <= length <= MAX_LENGTH:
            raise TaskError(f"the test length is {length}; expected 1 to {MAX_LENGTH:,}; correct it")
        key = (seed, length, count)
        if key in self.kept:
            return self.kept[key]
        drawn = self.draw(stream(seed, "test", length, count), np.full(count, length))
        batch = ask_at_end(*drawn, self.symbols)
        # evaluations during training ask for the same sequences again and again
        if count * length <= BLOCK_SYMBOLS and len(self.kept) < _KEPT:
            self.kept[key] = batch
        return batch

    def of_training(self, seed: int, lengths: Lengths, count: int) -> list[Batch]:
        """Return sequences of every training length, about so many in all."""
        every = lengths.every()
        return [self.of_length(seed, length, math.ceil(count / len(every))) for length in every]
