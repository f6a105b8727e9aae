"""A task of a machine: the machine, how long sequences are, what is asked for, and where sequences come from.

Batches are a pure function of (seed, position): batch 1,000 is the same whether or not 999 came before it, in any
process, and no global randomness is touched.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from statewise.errors import TaskError
from statewise.machines import Machine
from statewise.randomness import stream
from statewise.tasks.balance import PathCounts, Sampling, constant_share
from statewise.tasks.batches import FORMATS, Batch, Supervision, count_tokens, written_length
from statewise.tasks.drawn_tests import Drawn, DrawnTests
from statewise.tasks.lengths import Lengths

# outputs of this name mark sequences that are not part of a task, such as 1 1 + in arithmetic
ERROR = "error"
# draws without a new sequence before a set is called exhausted
_PATIENCE = 200
# where a constant answer scores more than this on uniform sequences, training sequences are balanced
_SKEWED = 0.05
# blocks that are kept, for several runs that share a task
_BLOCKS_KEPT = 32


def legal_moves(machine: Machine) -> Bool[np.ndarray, "state symbol"]:
    """Return which symbols may follow which states: those that lead to no output named "error", now or later."""
    if ERROR not in machine.output_names:
        return np.ones(machine.delta.shape, dtype=bool)
    legal = machine.outputs[machine.delta] != machine.output_names.index(ERROR)
    # a state from which every move is an error must not be entered either
    while (smaller := legal & legal.any(axis=1)[machine.delta]).sum() < legal.sum():
        legal = smaller
    return legal


def draws_for(machine: Machine, longest: int) -> Sampling:
    """Return how training sequences of a machine are drawn by default: balanced where a constant answer would do well.

    Args:
        machine: what answers.
        longest: the longest training length.
    """
    return "balanced" if Task(machine, Lengths(1, longest)).constant > _SKEWED else "uniform"


@dataclass(frozen=True, eq=False)
class Task:
    """Sequences of a machine's symbols and what it answers.

    For example `Task(machine("parity"))` asks, for sequences of 2 to 10 symbols, whether the ones are odd in number.

    Args:
        machine: gives the answers. Sequences never lead to an output named "error".
        lengths: how long sequences are.
        supervision: whether the answer is asked for at the end ("final"), after one more token that ends the sequence
            ("closed"), after each symbol ("aligned"), or written out after the sequence, output by output, as a chain
            of thought ("chain").
        samples: None draws fresh sequences for ever; a number fixes so many different ones, used over and over.
        validation: how many further sequences, none of them used in training, are set aside (with `samples` only).
        tests: whether test sequences are drawn "uniform", symbol by symbol, or "balanced": with outputs, and states
            within them, as equally frequent as the machine allows.
        draws: the same for training sequences.
    """

    machine: Machine
    lengths: Lengths = field(default_factory=Lengths)
    supervision: Supervision = "final"
    samples: int | None = None
    validation: int = 0
    tests: Sampling = "uniform"
    draws: Sampling = "uniform"

    def __post_init__(self) -> None:
        if self.samples is not None and (self.samples < 1 or self.validation < 0):
            raise TaskError(f"samples is {self.samples} and validation {self.validation}; expected at least 1 and 0")
        if self.samples is None and self.validation:
            raise TaskError("validation sequences are set aside from a fixed set only; give samples too")
        if not self._legal[self.machine.start].any():
            raise TaskError(f"no sequence of {self.machine!r} stays clear of the output {ERROR!r}; use another machine")
        if self.classes < 2:
            raise TaskError(f"sequences of {self.machine!r} end in one output only; expected something to tell apart")
        if self.samples is not None and (self.lengths.growth or self.lengths.late):
            raise TaskError("a fixed set of sequences has one distribution of lengths; set growth and late to 0")

    @property
    def source(self) -> Machine:
        """Where sequences and answers come from."""
        return self.machine

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are: symbols, and those that the supervision adds."""
        return count_tokens(self.supervision, self.machine.symbols, self.machine.classes)

    def written_length(self, length: int) -> int:
        """Return how many tokens a sequence of a length takes."""
        return written_length(self.supervision, length)

    @property
    def classes(self) -> int:
        """How many outputs sequences end in; the error class, and one of the start alone, do not count."""
        return len(self._ends)

    @property
    def constant(self) -> float:
        """The score of the best constant answer on uniform sequences of the longest training length."""
        share = constant_share(self.machine, self._legal, self.lengths.longest)
        return (share - 1 / self.classes) / (1 - 1 / self.classes)

    @property
    def moves(self) -> int:
        """How many pairs of a state and a symbol sequences can walk."""
        return int(self._legal[self._reached | (np.arange(self.machine.states) == self.machine.start)].sum())

    @cached_property
    def _ends(self) -> set[int]:
        return set(self.machine.outputs[self._reached].tolist())

    @cached_property
    def _reached(self) -> Bool[np.ndarray, " state"]:
        """Which states sequences of at least one symbol lead to."""
        reached = np.zeros(self.machine.states, dtype=bool)
        frontier = np.array([self.machine.start])
        while len(frontier):
            following = np.unique(self.machine.delta[frontier][self._legal[frontier]])
            frontier = following[~reached[following]]
            reached[frontier] = True
        return reached

    @cached_property
    def _paths(self) -> PathCounts:
        return PathCounts(self.machine, self._legal)

    @cached_property
    def _legal(self) -> Bool[np.ndarray, "state symbol"]:
        return legal_moves(self.machine)

    def batch(self, seed: int, position: int, size: int = 64) -> Batch:
        """Return batch number `position` of the training sequences."""
        if self.samples is None:
            return self._from_block(seed, position, size)
        tokens, lengths = self._fixed(seed)
        first = position * size
        rows = np.array(
            [self._shuffled(seed, (first + i) // self.samples)[(first + i) % self.samples] for i in range(size)]
        )
        return self._asked(tokens[rows], lengths[rows])

    def _from_block(self, seed: int, position: int, size: int) -> Batch:
        """Take one of several batches that are drawn at once, which costs little more than drawing one."""
        first, after = self.lengths.block(position, size)
        key = (seed, first, size)
        if key not in self._blocks:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            generator = stream(seed, "train", first, size)
            lengths = np.concatenate([self.lengths.draw(generator, size, p) for p in range(first, after)])
            tokens = self._draw(generator, lengths, self.draws)
            self._blocks[key] = tokens, lengths, self._outputs(tokens)
        rows = slice((position - first) * size, (position - first + 1) * size)
        tokens, lengths, outputs = (part[rows] for part in self._blocks[key])
        longest = int(lengths.max())
        return FORMATS[self.supervision](tokens[:, :longest], lengths, outputs[:, :longest], self.machine.symbols)

    def fixed(self, seed: int) -> Batch:
        """Return the sequences of the fixed training set."""
        if self.samples is None:
            raise TaskError("this task draws fresh sequences for ever; give samples")
        tokens, lengths = self._fixed(seed)
        return self._asked(tokens[: self.samples], lengths[: self.samples])

    def held_out(self, seed: int) -> Batch:
        """Return the sequences set aside for validation."""
        if self.samples is None or not self.validation:
            raise TaskError("this task sets no validation sequences aside; give samples and validation")
        tokens, lengths = self._fixed(seed)
        return self._asked(tokens[self.samples :], lengths[self.samples :])

    def test(self, seed: int, length: int, count: int) -> Batch:
        """Return test sequences of one length, answered at their end, from a stream apart from that of training."""
        return self._tests.of_length(seed, length, count)

    def probe(self, seed: int, length: int, count: int) -> Batch:
        """Return the sequences on which training is evaluated on the way: those of the test."""
        return self.test(seed, length, count)

    def familiar(self, seed: int, count: int) -> list[Batch]:
        """Return test sequences of every training length, about so many in all."""
        return self._tests.of_training(seed, self.lengths, count)

    def follow(self, states: Int[np.ndarray, " state"], word: Int[np.ndarray, " time"]) -> Int[np.ndarray, " state"]:
        """Return the state after a word, from each of some states; -1 where the task never draws it."""
        reached = np.array(states, dtype=np.int64)
        for symbol in word:
            inside = (reached >= 0) & self._legal[np.maximum(reached, 0), symbol]
            reached = np.where(inside, self.machine.delta[np.maximum(reached, 0), symbol], -1)
        return reached

    def draw(self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]) -> Batch:
        """Draw training sequences."""
        return self._asked(self._draw(generator, lengths, self.draws), lengths)

    def _draw(
        self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"], sampling: Sampling
    ) -> Int[np.ndarray, "batch time"]:
        """Draw sequences symbol by symbol, uniformly among those that may follow, or balanced."""
        if sampling == "balanced":
            return self._paths.draw_lengths(generator, lengths)
        longest = int(lengths.max()) if len(lengths) else 0
        if self._legal.all():
            tokens = generator.integers(0, self.machine.symbols, size=(len(lengths), longest))
        else:
            tokens = self._walk(generator, len(lengths), longest)
        tokens[np.arange(longest) >= lengths[:, None]] = 0
        return tokens

    def _walk(self, generator: np.random.Generator, count: int, longest: int) -> Int[np.ndarray, "batch time"]:
        """Choose each symbol uniformly among those that may follow."""
        choices = np.argsort(~self._legal, axis=1, kind="stable")
        open_choices = self._legal.sum(axis=1)
        state = np.full(count, self.machine.start)
        tokens = np.empty((count, longest), dtype=np.int64)
        for t in range(longest):
            pick = (generator.random(count) * open_choices[state]).astype(np.int64)
            tokens[:, t] = choices[state, pick]
            state = self.machine.delta[state, tokens[:, t]]
        return tokens

    def _asked(self, tokens: Int[np.ndarray, "batch time"], lengths: Int[np.ndarray, " batch"]) -> Batch:
        return FORMATS[self.supervision](tokens, lengths, self._outputs(tokens), self.machine.symbols)

    def _outputs(self, tokens: Int[np.ndarray, "batch time"]) -> Int[np.ndarray, "batch time"]:
        return self.machine.outputs[self.machine.track(tokens)]

    def _fixed(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw the fixed set: different sequences, the first `samples` for training."""
        if seed not in self._sets:
            assert self.samples is not None
            wanted = self.samples + self.validation
            generator = stream(seed, "fixed", wanted)
            found: dict[tuple[int, bytes], np.ndarray] = {}
            barren = 0
            while len(found) < wanted:
                before = len(found)
                lengths = self.lengths.draw(generator, max(1024, wanted))
                drawn = self._draw(generator, lengths, self.draws)
                for word, length in zip(drawn, lengths.tolist(), strict=True):
                    if len(found) < wanted:
                        found.setdefault((length, word[:length].tobytes()), word[:length])
                barren = 0 if len(found) > before else barren + 1
                if barren > _PATIENCE:
                    raise TaskError(
                        f"there are only about {len(found)} different sequences of these lengths, {wanted} are asked "
                        "for; ask for fewer, or longer ones"
                    )
            tokens = np.zeros((wanted, self.lengths.longest), dtype=np.int64)
            for row, word in enumerate(found.values()):
                tokens[row, : len(word)] = word
            self._sets[seed] = tokens, np.array([length for length, _ in found])
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
    def _tests(self) -> DrawnTests:
        return DrawnTests(self._draw_tests, self.machine.symbols)

    def _draw_tests(self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]) -> Drawn:
        tokens = self._draw(generator, lengths, self.tests)
        return Drawn(tokens, lengths, self._outputs(tokens))

    @cached_property
    def _sets(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def _orders(self) -> dict[tuple[int, int], np.ndarray]:
        return {}
