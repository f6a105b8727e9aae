"""How long training sequences are, and how that changes over training."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from statewise.errors import TaskError

MAX_LENGTH = 10_000_000
# how many batches, and about how many symbols, are drawn at once
_BLOCK_BATCHES, BLOCK_SYMBOLS = 64, 200_000
# the share of sequences of any magnitude among long ones
_SHORTER = 0.25


@dataclass(frozen=True)
class Lengths:
    """Sequence lengths: uniform from `shortest` to `longest`; fixed if they are equal.

    With `stride`, a length that was drawn is shortened to the nearest of `shortest`, `shortest` + `stride` and so on:
    lengths of 3 to 40 with stride 2 are odd, as those of arithmetic expressions.

    With `growth`, a curriculum: over the first `growth` batches the longest length rises evenly from
    `shortest` to `longest`. With `late`, lengths grow at the end: from batch `late_from` to batch `late_to` the longest
    length doubles until it is `late`. Three sequences of four are then at least half as long; the fourth is of any
    order of magnitude, so that what was learned on shorter ones stays.
    """

    shortest: int = 2
    longest: int = 10
    growth: int = 0
    late: int = 0
    late_from: int = 0
    late_to: int = 0
    stride: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= MAX_LENGTH:
            raise TaskError(
                f"lengths go from {self.shortest} to {self.longest}; expected 1 or more, the shorter first; swap them"
            )
        if self.stride < 1:
            raise TaskError(f"the stride of lengths is {self.stride}; expected 1 or more; use 1 for every length")
        if self.growth < 0 or not 0 <= self.late_from <= self.late_to or not 0 <= self.late <= MAX_LENGTH:
            raise TaskError(
                f"growth is {self.growth} and late lengths reach {self.late} from batch {self.late_from} to "
                f"{self.late_to}; expected no negative number, and the earlier batch first; correct them"
            )

    def every(self) -> range:
        """Return every length that is drawn before sequences grow."""
        return range(self.shortest, self.longest + 1, self.stride)

    def bounds(self, position: int) -> tuple[int, int]:
        """Return the shortest and longest length of a batch."""
        if self.late > self.longest and position >= self.late_from:
            doublings = math.ceil(math.log2(self.late / self.longest))
            span = max(1, self.late_to - self.late_from)
            stage = min(doublings, 1 + (position - self.late_from) * doublings // span)
            longest = min(self.late, self.longest * 2**stage)
            return max(self.shortest, longest // 2), longest
        if position < self.growth:
            return self.shortest, self.shortest + (self.longest - self.shortest) * position // self.growth
        return self.shortest, self.longest

    def block(self, position: int, size: int) -> tuple[int, int]:
        """Return the positions, from the first to before the last, of the batches that are drawn with this one.

        Early and late batches are never drawn together, and a block never has more symbols than fit into a cache,
        unless one batch does.
        """
        late = self.late > self.longest and position >= self.late_from
        begin, longest = (self.late_from, self.late) if late else (0, self.longest)
        count = max(1, min(_BLOCK_BATCHES, BLOCK_SYMBOLS // (size * longest)))
        first = begin + (position - begin) // count * count
        after = first + count
        return first, min(after, self.late_from) if self.late > self.longest and not late else after

    def draw(self, generator: np.random.Generator, count: int, position: int = 0) -> Int[np.ndarray, " count"]:
        """Draw lengths for one batch."""
        shortest, longest = self.bounds(position)
        drawn = generator.integers(shortest, longest + 1, size=count)
        if longest <= self.longest:
            return self._shorten(drawn)
        magnitudes = generator.uniform(math.log(self.shortest), math.log(longest + 1), size=count)
        return self._shorten(np.where(generator.random(count) < _SHORTER, np.exp(magnitudes).astype(np.int64), drawn))

    def _shorten(self, drawn: Int[np.ndarray, " count"]) -> Int[np.ndarray, " count"]:
        return drawn - (drawn - self.shortest) % self.stride
