"""A task: a machine, how long words are, what is asked for, and where words come from.

Batches are a pure function of (seed, position): batch 1,000 is the same whether or not 999 came before it, in any
process, and no global randomness is touched.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from statewise.errors import TaskError
from statewise.machines import Machine
from statewise.randomness import stream

Supervision = Literal["final", "aligned", "chain"]
# outputs of this name mark words that are not part of a task, such as 1 1 + in arithmetic
ERROR = "error"
# draws without a new word before a set is called exhausted
_PATIENCE = 200
MAX_LENGTH = 10_000_000
# how many batches, and about how many symbols, are drawn at once
_BLOCK_BATCHES, _BLOCK_SYMBOLS = 64, 200_000
# blocks that are kept, for several runs that share a task
_BLOCKS_KEPT = 32
# the share of words of any magnitude among long ones
_SHORTER = 0.25


@dataclass(frozen=True)
class Lengths:
    """How long words are: uniform from `shortest` to `longest`; fixed if they are equal.

    With `growth`, short words come first: over the first `growth` batches the longest length rises evenly from
    `shortest` to `longest`. With `late`, words grow at the end: from batch `late_from` to batch `late_to` the longest
    length doubles until it is `late`. Three words of four are then at least half as long; the fourth is of any order
    of magnitude, so that what was learned of shorter words stays.
    """

    shortest: int = 2
    longest: int = 10
    growth: int = 0
    late: int = 0
    late_from: int = 0
    late_to: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest <= MAX_LENGTH:
            raise TaskError(
                f"lengths go from {self.shortest} to {self.longest}; expected 1 or more, the shorter first; swap them"
            )
        if self.growth < 0 or not 0 <= self.late_from <= self.late_to or not 0 <= self.late <= MAX_LENGTH:
            raise TaskError(
                f"growth is {self.growth} and late lengths reach {self.late} from batch {self.late_from} to "
                f"{self.late_to}; expected no negative number, and the earlier batch first; correct them"
            )

    def bounds(self, position: int) -> tuple[int, int]:
        """Gives the shortest and longest length of a batch."""
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
        """Gives the positions, from the first to before the last, of the batches that are drawn with this one.

        Early and late batches are never drawn together, and a block never has more symbols than fit into a cache,
        unless one batch does.
        """
        late = self.late > self.longest and position >= self.late_from
        begin, longest = (self.late_from, self.late) if late else (0, self.longest)
        count = max(1, min(_BLOCK_BATCHES, _BLOCK_SYMBOLS // (size * longest)))
        first = begin + (position - begin) // count * count
        after = first + count
        return first, min(after, self.late_from) if self.late > self.longest and not late else after

    def draw(self, generator: np.random.Generator, count: int, position: int = 0) -> Int[np.ndarray, " count"]:
        """Draws lengths for one batch."""
        shortest, longest = self.bounds(position)
        drawn = generator.integers(shortest, longest + 1, size=count)
        if longest <= self.longest:
            return drawn
        magnitudes = generator.uniform(math.log(self.shortest), math.log(longest + 1), size=count)
        return np.where(generator.random(count) < _SHORTER, np.exp(magnitudes).astype(np.int64), drawn)


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens padded with 0 to one length, how long each row is, and the output class that is right after each token.

    `asked` says after which tokens the answer is asked for; None is the last of each row.
    """

    words: Int[np.ndarray, "batch time"]
    lengths: Int[np.ndarray, " batch"]
    outputs: Int[np.ndarray, "batch time"]
    asked: Bool[np.ndarray, "batch time"] | None

    @property
    def finals(self) -> Int[np.ndarray, " batch"]:
        """The output class at the end of each word."""
        return self.outputs[np.arange(len(self.lengths)), self.lengths - 1]


def _ask_at_end(words: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Asks for the output at the end of a word."""
    return Batch(words, lengths, outputs, None)


def _ask_after_each(words: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Asks for the output after each symbol."""
    return Batch(words, lengths, outputs, np.arange(words.shape[1]) < lengths[:, None])


def _ask_for_chain(words: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Writes the outputs out after the word, and asks for each of them.

    A word a b c with outputs p q r becomes the tokens a b c = p q, and after the last three p q r are asked for.
    """
    count, longest = words.shape
    written = np.zeros((count, 2 * longest), dtype=np.int64)
    right = np.zeros((count, 2 * longest), dtype=np.int64)
    written[:, :longest] = words
    rows, places = np.nonzero(np.arange(longest) < lengths[:, None])
    after = lengths[rows] + places
    right[rows, after] = outputs[rows, places]
    written[np.arange(count), lengths] = symbols
    follows = places < lengths[rows] - 1
    written[rows[follows], after[follows] + 1] = symbols + 1 + outputs[rows[follows], places[follows]]
    time = np.arange(2 * longest)
    return Batch(written, 2 * lengths, right, (time >= lengths[:, None]) & (time < 2 * lengths[:, None]))


_FORMATS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], Batch]] = {
    "final": _ask_at_end,
    "aligned": _ask_after_each,
    "chain": _ask_for_chain,
}


@dataclass(frozen=True, eq=False)
class Task:
    """Words of a machine and what it answers.

    For example `Task(machine("parity"))` asks, for words of 2 to 10 symbols, whether the ones are odd in number.

    Args:
        machine: gives the answers. Words never lead to an output named "error".
        lengths: how long words are.
        supervision: whether the answer is asked for at the end of a word ("final"), after each symbol ("aligned"), or
            written out after the word, output by output, as a chain of thought ("chain").
        samples: None draws fresh words for ever; a number fixes so many different words, used over and over.
        validation: how many further words, none of them a training word, are set aside (with `samples` only).
    """

    machine: Machine
    lengths: Lengths = field(default_factory=Lengths)
    supervision: Supervision = "final"
    samples: int | None = None
    validation: int = 0

    def __post_init__(self) -> None:
        if self.samples is not None and (self.samples < 1 or self.validation < 0):
            raise TaskError(f"samples is {self.samples} and validation {self.validation}; expected at least 1 and 0")
        if self.samples is None and self.validation:
            raise TaskError("validation words are set aside from a fixed set only; give samples too")
        if not self._legal[self.machine.start].any():
            raise TaskError(f"no word of {self.machine!r} stays clear of the output {ERROR!r}; use another machine")
        if self.classes < 2:
            raise TaskError(f"words of {self.machine!r} end in one output only; expected something to tell apart")
        if self.samples is not None and (self.lengths.growth or self.lengths.late):
            raise TaskError("a fixed set of words has one distribution of lengths; set growth and late to 0")

    @property
    def tokens(self) -> int:
        """How many different tokens there are; a chain has one more for each output, and one that ends the word."""
        return self.machine.symbols + (1 + self.machine.classes if self.supervision == "chain" else 0)

    def written_length(self, length: int) -> int:
        """Gives how many tokens a word of a length takes."""
        return 2 * length if self.supervision == "chain" else length

    @property
    def classes(self) -> int:
        """How many outputs words end in; the error class, and one of the start alone, do not count."""
        return len(self._ends)

    @cached_property
    def _ends(self) -> set[int]:
        reached = np.zeros(self.machine.states, dtype=bool)
        frontier = np.array([self.machine.start])
        while len(frontier):
            following = np.unique(self.machine.delta[frontier][self._legal[frontier]])
            frontier = following[~reached[following]]
            reached[frontier] = True
        return set(self.machine.outputs[reached].tolist())

    @cached_property
    def _legal(self) -> Bool[np.ndarray, "state symbol"]:
        if ERROR not in self.machine.output_names:
            return np.ones(self.machine.delta.shape, dtype=bool)
        legal = self.machine.outputs[self.machine.delta] != self.machine.output_names.index(ERROR)
        # a state from which every move is an error must not be entered either
        while (smaller := legal & legal.any(axis=1)[self.machine.delta]).sum() < legal.sum():
            legal = smaller
        return legal

    def batch(self, seed: int, position: int, size: int = 64) -> Batch:
        """Gives batch number `position` of the training words."""
        if self.samples is None:
            return self._from_block(seed, position, size)
        words, lengths = self._fixed(seed)
        first = position * size
        rows = np.array(
            [self._shuffled(seed, (first + i) // self.samples)[(first + i) % self.samples] for i in range(size)]
        )
        return self._asked(words[rows], lengths[rows])

    def _from_block(self, seed: int, position: int, size: int) -> Batch:
        """Takes one of several batches that are drawn at once, which costs little more than drawing one."""
        first, after = self.lengths.block(position, size)
        key = (seed, first, size)
        if key not in self._blocks:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            generator = stream(seed, "train", first, size)
            lengths = np.concatenate([self.lengths.draw(generator, size, p) for p in range(first, after)])
            words = self._draw(generator, lengths)
            self._blocks[key] = words, lengths, self._outputs(words)
        rows = slice((position - first) * size, (position - first + 1) * size)
        words, lengths, outputs = (part[rows] for part in self._blocks[key])
        longest = int(lengths.max())
        return _FORMATS[self.supervision](words[:, :longest], lengths, outputs[:, :longest], self.machine.symbols)

    def held_out(self, seed: int) -> Batch:
        """Gives the words set aside for validation."""
        if self.samples is None or not self.validation:
            raise TaskError("this task sets no validation words aside; give samples and validation")
        words, lengths = self._fixed(seed)
        return self._asked(words[self.samples :], lengths[self.samples :])

    def test(self, seed: int, length: int, count: int) -> Batch:
        """Gives test words of one length, answered at their end, drawn apart from all training words' stream."""
        if not 1 <= length <= MAX_LENGTH:
            raise TaskError(f"the test length is {length}; expected 1 to {MAX_LENGTH:,}; correct it")
        key = (seed, length, count)
        if key in self._tests:
            return self._tests[key]
        lengths = np.full(count, length)
        words = self._draw(stream(seed, "test", length, count), lengths)
        batch = _ask_at_end(words, lengths, self._outputs(words), self.machine.symbols)
        # looks during training ask for the same words again and again
        if count * length <= _BLOCK_SYMBOLS and len(self._tests) < _BLOCKS_KEPT:
            self._tests[key] = batch
        return batch

    def draw(self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]) -> Batch:
        """Draws words symbol by symbol, uniformly among those that may follow."""
        return self._asked(self._draw(generator, lengths), lengths)

    def _draw(
        self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]
    ) -> Int[np.ndarray, "batch time"]:
        longest = int(lengths.max()) if len(lengths) else 0
        if self._legal.all():
            words = generator.integers(0, self.machine.symbols, size=(len(lengths), longest))
        else:
            words = self._walk(generator, len(lengths), longest)
        words[np.arange(longest) >= lengths[:, None]] = 0
        return words

    def _walk(self, generator: np.random.Generator, count: int, longest: int) -> Int[np.ndarray, "batch time"]:
        """Chooses each symbol uniformly among those that may follow."""
        choices = np.argsort(~self._legal, axis=1, kind="stable")
        open_choices = self._legal.sum(axis=1)
        state = np.full(count, self.machine.start)
        words = np.empty((count, longest), dtype=np.int64)
        for t in range(longest):
            pick = (generator.random(count) * open_choices[state]).astype(np.int64)
            words[:, t] = choices[state, pick]
            state = self.machine.delta[state, words[:, t]]
        return words

    def _asked(self, words: Int[np.ndarray, "batch time"], lengths: Int[np.ndarray, " batch"]) -> Batch:
        return _FORMATS[self.supervision](words, lengths, self._outputs(words), self.machine.symbols)

    def _outputs(self, words: Int[np.ndarray, "batch time"]) -> Int[np.ndarray, "batch time"]:
        return self.machine.outputs[self.machine.track(words)]

    def _fixed(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws the fixed set: different words, the first `samples` for training."""
        if seed not in self._sets:
            assert self.samples is not None
            wanted = self.samples + self.validation
            generator = stream(seed, "fixed", wanted)
            found: dict[tuple[int, bytes], np.ndarray] = {}
            barren = 0
            while len(found) < wanted:
                before = len(found)
                lengths = self.lengths.draw(generator, max(1024, wanted))
                for word, length in zip(self._draw(generator, lengths), lengths.tolist(), strict=True):
                    if len(found) < wanted:
                        found.setdefault((length, word[:length].tobytes()), word[:length])
                barren = 0 if len(found) > before else barren + 1
                if barren > _PATIENCE:
                    raise TaskError(
                        f"there are only about {len(found)} different words of these lengths, {wanted} are asked for; "
                        "ask for fewer, or longer words"
                    )
            words = np.zeros((wanted, self.lengths.longest), dtype=np.int64)
            for row, word in enumerate(found.values()):
                words[row, : len(word)] = word
            self._sets[seed] = words, np.array([length for length, _ in found])
        return self._sets[seed]

    def _shuffled(self, seed: int, epoch: int) -> Int[np.ndarray, " samples"]:
        if (seed, epoch) not in self._orders:
            if len(self._orders) > 4:
                self._orders.clear()
            assert self.samples is not None
            self._orders[seed, epoch] = stream(seed, "epoch", epoch).permutation(self.samples)
        return self._orders[seed, epoch]

    @cached_property
    def _blocks(self) -> dict[tuple[int, int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def _tests(self) -> dict[tuple[int, int, int], Batch]:
        return {}

    @cached_property
    def _sets(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def _orders(self) -> dict[tuple[int, int], np.ndarray]:
        return {}
