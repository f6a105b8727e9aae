"""Labelled sequences to polish with: drawn from a task, or a user's own.

Each sequence has the answer at its end, and a label: sequences with the same answers to all continuations share one
(the classes of Myhill and Nerode, as far as short continuations distinguish them). Where answers are states, labels are
answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from statewise.errors import NetworkError
from statewise.randomness import stream
from statewise.tasks import Lengths, Task

# long enough to tie symbols together, short enough to be learned
SHORTEST, LONGEST = 1, 8
# continuations that distinguish sequences, how long they may be, and what they follow: no more than ten symbols in all
_CONTINUATIONS, _LONGEST_CONTINUATION, _LONGEST_PREFIX = 400, 4, 6


@dataclass(frozen=True)
class Labelled:
    """Sequences with the answer at the end of each, and the label after each symbol; -1 where that is not known."""

    tokens: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"]
    answers: Int[Tensor, " batch"]
    path: Int[Tensor, "batch time"]

    @property
    def labels(self) -> Int[Tensor, " batch"]:
        """The label at the end of each sequence."""
        return self.path[torch.arange(len(self.lengths)), self.lengths - 1]


class LabelledSource(ABC):
    """Where labelled sequences come from.

    Args:
        classes: how many answers there are.
    """

    classes: int

    @abstractmethod
    def draw(self, seed: int, count: int, longest: int = LONGEST) -> Labelled:
        """Return about so many sequences of at most a length."""

    @property
    @abstractmethod
    def answer_of(self) -> Int[Tensor, " label"]:
        """The answer of each label."""

    @property
    @abstractmethod
    def start(self) -> int:
        """The label of the empty sequence; -1 where it is not known."""

    @abstractmethod
    def hankel_rank(self, centred: bool = False) -> int | None:
        """Return the rank of the answers f(u v), one-hot, over short prefixes u and suffixes v; None if unknown.

        It is the smallest hidden size of a weighted automaton with these answers.

        Args:
            centred: of one-hot answers less their mean over classes.
        """


class TaskSequences(LabelledSource):
    """Sequences drawn from a task, with all the answers that it gives."""

    def __init__(self, task: Task) -> None:
        self.task = Task(task.machine, Lengths(SHORTEST, LONGEST), "final")
        self.classes = task.machine.classes

    def draw(self, seed: int, count: int, longest: int = LONGEST) -> Labelled:
        """Draw sequences symbol by symbol, uniformly among those that may follow."""
        generator = stream(seed, "polish", count, longest)
        batch = self.task.draw(generator, generator.integers(SHORTEST, longest + 1, size=count))
        states = self.task.machine.track(batch.tokens)
        path = np.where(np.arange(states.shape[1]) < batch.lengths[:, None], self._label_of_state[states], -1)
        return Labelled(*(torch.from_numpy(np.ascontiguousarray(p)) for p in (batch.tokens, batch.lengths)), *(
            torch.from_numpy(np.ascontiguousarray(p)) for p in (batch.finals, path)
        ))  # fmt: skip

    @property
    def answer_of(self) -> Int[Tensor, " label"]:
        """The answer of each label."""
        found = np.zeros(int(self._label_of_state.max()) + 1, dtype=np.int64)
        known = self._label_of_state >= 0
        found[self._label_of_state[known]] = self.task.machine.outputs[known]
        return torch.from_numpy(found)

    @property
    def start(self) -> int:
        """The label of the empty sequence, where longer ones share it."""
        return int(self._label_of_state[self.task.machine.start])

    def hankel_rank(self, centred: bool = False, most: int = 1_600) -> int:
        """Return the rank of the answers; where the task never draws some pairs, a lower bound.

        Pairs that are never drawn have free answers: the rank is then that of the largest group of prefixes with the
        same suffixes. Prefixes and suffixes are added until the rank stays.
        """
        before, rows = 0, 100
        while True:
            _, ends = self._continued(rows)
            groups = _alike(ends >= 0)
            outputs = self.task.machine.outputs
            rank = max(_answer_rank(outputs[ends[group]], self.classes, centred) for group in groups)
            if rank == before or rows >= most:
                return rank
            before, rows = rank, 2 * rows

    @cached_property
    def _label_of_state(self) -> Int[np.ndarray, " state"]:
        """Number the classes of sequences with the same answers to continuations, by the state they lead to."""
        states, ends = self._continued(_CONTINUATIONS)
        answers = np.where(ends >= 0, self.task.machine.outputs[np.maximum(ends, 0)], -1)
        own = self.task.machine.outputs[states][:, None]
        _, labels = np.unique(np.concatenate([own, answers], axis=1), axis=0, return_inverse=True)
        found = np.full(self.task.machine.states, -1)
        found[states] = labels.ravel()
        return found

    def _continued(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the states of short prefixes, and the state after each continuation; -1 where it is never drawn."""
        machine, generator = self.task.machine, stream(0, "continuations", count)
        drawn = self.task.draw(generator, generator.integers(SHORTEST, LONGEST + 1, size=8 * count))
        cuts = generator.integers(0, drawn.lengths + 1)
        inside = np.arange(drawn.tokens.shape[1]) < np.minimum(drawn.lengths, _LONGEST_PREFIX)[:, None]
        seen = machine.track(drawn.tokens)[inside]
        # prefixes that lead to one state have one row
        states = np.unique(np.append(seen, machine.start))
        cut = list(zip(drawn.tokens, cuts.tolist(), drawn.lengths.tolist(), strict=True))[:count]
        words = [word[begin : min(end, begin + _LONGEST_CONTINUATION)] for word, begin, end in cut]
        return states, np.stack([self.task.follow(states, word) for word in words], axis=1)


class OwnSequences(LabelledSource):
    """A user's own labelled sequences; answers are taken for states where nothing else is known.

    Args:
        words: symbol numbers of each sequence.
        answers: the class at the end of each.
        classes: how many there are.
    """

    def __init__(self, words: Sequence[Sequence[int]], answers: Sequence[int], classes: int) -> None:
        self.classes = classes
        kept = {tuple(word): answer for word, answer in zip(words, answers, strict=True) if len(word)}
        if not kept:
            raise NetworkError("there are no labelled sequences of at least one symbol; give some")
        self._known = kept
        self._empty = next((a for word, a in zip(words, answers, strict=True) if not len(word)), -1)

    def draw(self, seed: int, count: int, longest: int = LONGEST) -> Labelled:
        """Choose from the sequences, shortest lengths first if there are more than asked for."""
        short = [word for word in self._known if len(word) <= longest] or sorted(self._known, key=len)[:count]
        order = stream(seed, "polish", count, longest).permutation(len(short))[:count]
        words = [short[place] for place in order]
        width = max(map(len, words))
        tokens, path = torch.zeros(len(words), width, dtype=torch.int64), torch.full((len(words), width), -1)
        for row, word in enumerate(words):
            tokens[row, : len(word)] = torch.tensor(word)
            path[row, : len(word)] = torch.tensor([self._known.get(word[: t + 1], -1) for t in range(len(word))])
        lengths = torch.tensor([len(word) for word in words])
        return Labelled(tokens, lengths, torch.tensor([self._known[word] for word in words]), path)

    @property
    def answer_of(self) -> Int[Tensor, " label"]:
        """The answer of each label: labels are answers here."""
        return torch.arange(self.classes)

    @property
    def start(self) -> int:
        """The answer of the empty sequence; -1 where none was given."""
        return self._empty

    def hankel_rank(self, centred: bool = False) -> None:
        """Return None: a set of sequences has no answer for most pairs."""
        return


def _alike(drawn: Bool[np.ndarray, "prefix suffix"]) -> list[tuple[np.ndarray, ...]]:
    """Group prefixes by the suffixes that may follow; return an index of rows and columns for each group."""
    patterns, group = np.unique(drawn, axis=0, return_inverse=True)
    return [np.ix_(np.flatnonzero(group.ravel() == g), np.flatnonzero(pattern)) for g, pattern in enumerate(patterns)]


def _answer_rank(answers: Int[np.ndarray, "prefix suffix"], classes: int, centred: bool) -> int:
    targets = np.eye(classes) - (1 / classes if centred else 0)
    values = targets[answers].reshape(len(answers), -1)
    return int(np.linalg.matrix_rank(values @ values.T)) if values.size else 0
