"""Balanced sequences: of one length, with outputs as equally frequent as the machine allows, and states within them.

On a skewed machine nearly all sequences end in one state, and a constant answer is nearly always right. Here an output
is drawn first, then one of its states, both uniformly among those that sequences of the length reach, and then a
sequence, uniformly among all that end there. For that, sequences are counted: F_t(q) is the number of those of t
symbols that lead from the start to q. From the end backwards, a symbol and the state before it have probability
F_{t-1}(before) / F_t(after).
"""

import math
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.errors import TaskError, unknown_name
from statewise.machines import Machine

Sampling = Literal["uniform", "balanced"]
LogCounts = Float[np.ndarray, " state"]
# counts that differ by no more than this factor are added as they are; others as logarithms
_RANGE = 1e-200


def sampling_of(name: str) -> Sampling:
    """Return a way to draw sequences by its name; any other name is one sentence."""
    if name == "uniform" or name == "balanced":
        return name
    raise unknown_name("way to draw sequences", name, get_args(Sampling))


def constant_share(machine: Machine, legal: Bool[np.ndarray, "state symbol"], length: int) -> float:
    """Return how often the best constant answer is right where each symbol is uniform among those that may follow."""
    chances = np.zeros(machine.states)
    chances[machine.start] = 1.0
    before, symbol = np.nonzero(legal)
    after, shares = machine.delta[before, symbol], 1.0 / legal.sum(axis=1)[before]
    for _ in range(length):
        chances = np.bincount(after, weights=chances[before] * shares, minlength=machine.states)
    return float(np.bincount(machine.outputs, weights=chances).max())


class PathCounts:
    """How many sequences of each length lead to each state, and draws among those that do.

    Args:
        machine: what sequences are of.
        legal: which symbols may follow which states.
    """

    def __init__(self, machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> None:
        self.machine, self.legal = machine, legal
        before, symbol = np.nonzero(legal)
        after = machine.delta[before, symbol]
        # one row of counts for each pair of states, however many symbols join them
        self._moves = np.zeros((machine.states, machine.states))
        np.add.at(self._moves, (before, after), 1.0)
        self._from, self._to = np.nonzero(self._moves)
        self._times = np.log(self._moves[self._from, self._to])
        # the edges into each state, padded with edges that are never drawn
        order = np.argsort(after, kind="stable")
        counts = np.bincount(after, minlength=machine.states)
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        width = max(1, int(counts.max()))
        self._before, self._symbol = (np.zeros((machine.states, width), dtype=np.int64) for _ in range(2))
        self._there = np.zeros((machine.states, width), dtype=bool)
        self._before[after[order], place], self._symbol[after[order], place] = before[order], symbol[order]
        self._there[after[order], place] = True

    def begin(self) -> LogCounts:
        """Return the logarithms of the counts of the empty sequence."""
        counts = np.full(self.machine.states, -np.inf)
        counts[self.machine.start] = 0.0
        return counts

    def longer(self, counts: LogCounts) -> LogCounts:
        """Return the counts of sequences that are one symbol longer, less their largest."""
        plain = np.exp(counts)
        if plain[counts > -np.inf].min() > _RANGE:
            with np.errstate(divide="ignore"):
                found = np.log(plain @ self._moves)
        else:
            found = np.full(len(counts), -np.inf)
            np.logaddexp.at(found, self._to, counts[self._from] + self._times)
        largest = found.max()
        if largest == -np.inf:
            raise TaskError("no sequence of this length is part of the task; ask for a shorter one")
        return found - largest

    def draw(self, generator: np.random.Generator, length: int, count: int) -> Int[np.ndarray, "batch time"]:
        """Draw balanced sequences of one length.

        Counts are computed forwards, where every so many are kept, and once more between those on the way back.
        """
        piece, kept, counts = max(1, math.isqrt(length)), [], self.begin()
        for t in range(length):
            if t % piece == 0:
                kept.append(counts)
            counts = self.longer(counts)
        state = self._ends(generator, counts, count)
        tokens = np.empty((count, length), dtype=np.int64)
        for place, first in reversed(list(enumerate(range(0, length, piece)))):
            inside = [kept[place]]
            for _ in range(first, min(length, first + piece) - 1):
                inside.append(self.longer(inside[-1]))
            for t in reversed(range(len(inside))):
                state, tokens[:, first + t] = self._back(generator, inside[t], state)
        return tokens

    def draw_lengths(
        self, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]
    ) -> Int[np.ndarray, "batch time"]:
        """Draw a sequence of each length, balanced among those of the same length, padded with 0."""
        tokens = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int64)
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            tokens[rows, :length] = self.draw(generator, length, len(rows))
        return tokens

    def _ends(self, generator: np.random.Generator, counts: LogCounts, count: int) -> Int[np.ndarray, " batch"]:
        """Choose the states at the end: each output as often as any other, and each state of an output, up to one."""
        reached = np.flatnonzero(counts > -np.inf)
        of_output = [reached[self.machine.outputs[reached] == output] for output in self.machine.outputs[reached]]
        groups = [generator.permutation(states) for states in {tuple(states): states for states in of_output}.values()]
        groups = [groups[place] for place in generator.permutation(len(groups))]
        turns = np.arange(count)
        chosen = [groups[turn % len(groups)][turn // len(groups) % len(groups[turn % len(groups)])] for turn in turns]
        return generator.permutation(np.array(chosen, dtype=np.int64))

    def _back(
        self, generator: np.random.Generator, counts: LogCounts, state: Int[np.ndarray, " batch"]
    ) -> tuple[Int[np.ndarray, " batch"], Int[np.ndarray, " batch"]]:
        """Choose the state and the symbol before each state, by the counts of sequences that lead there."""
        here, row = np.unique(state, return_inverse=True)
        logs = np.where(self._there[here], counts[self._before[here]], -np.inf)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = generator.random(len(state)) * shares[row, -1]
        edge = np.minimum((shares[row] <= drawn[:, None]).sum(axis=1), shares.shape[1] - 1)
        return self._before[state, edge], self._symbol[state, edge]
