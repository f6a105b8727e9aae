"""A task of labelled sequences: batches of a fixed training set, and test scores by length.

With a label after each symbol, a sequence is read up to `longest` symbols in training: its beginning, since the state
inside it is not known. With a label at the end it is read whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int

from statewise.errors import TaskError
from statewise.randomness import stream
from statewise.tasks.batches import FORMATS, Batch, Supervision
from statewise.tasks.lengths import Lengths
from statewise.tasks.source import Source

# test sets with more different lengths than this are reported by powers of two
_FEW_LENGTHS = 8
# lengths that a message lists
_SHOWN = 8
# orders of a training set that are kept
_ORDERS_KEPT = 4


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Sequences in symbol numbers, with the labels of each: one after each symbol, or the one at the end.

    Args:
        words: the sequences.
        labels: of each.
        exact: whether scores are reported by every length, however many there are.
    """

    words: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    exact: bool = False

    def __len__(self) -> int:
        """Return how many sequences there are."""
        return len(self.words)

    @cached_property
    def lengths(self) -> Int[np.ndarray, " sequence"]:
        """How long each sequence is."""
        return np.array([len(word) for word in self.words], dtype=np.int64)

    @cached_property
    def buckets(self) -> tuple[int, ...]:
        """The lengths at which scores are reported: all if they are few, and else powers of two as upper bounds."""
        return tuple(np.unique(self.bucket_of).tolist())

    @cached_property
    def bucket_of(self) -> Int[np.ndarray, " sequence"]:
        """The bucket of each sequence."""
        if self.exact or len(np.unique(self.lengths)) <= _FEW_LENGTHS:
            return self.lengths
        return 2 ** np.ceil(np.log2(self.lengths)).astype(np.int64)

    def only(self, lengths: Sequence[int]) -> "LabelledSet":
        """Return the sequences of some lengths; a length that no sequence has is refused."""
        there = np.unique(self.lengths).tolist()
        strange = [length for length in lengths if length not in there]
        if strange:
            shown = ", ".join(map(str, there[:_SHOWN]))
            known = shown if len(there) <= _SHOWN else f"{shown}, … up to {there[-1]}"
            raise TaskError(
                f"no test sequence has length {strange[0]}; the sequences have lengths {known}; "
                "choose among these, or leave the lengths out"
            )
        rows = np.flatnonzero(np.isin(self.lengths, lengths)).tolist()
        return LabelledSet(tuple(self.words[row] for row in rows), tuple(self.labels[row] for row in rows), exact=True)

    def rows(self, rows: Sequence[int] | np.ndarray, longest: int | np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        """Return sequences padded with 0, their lengths, and the labels after each symbol that has one.

        Args:
            rows: which sequences.
            longest: read each up to so many symbols; None reads it whole.
        """
        bounds = np.broadcast_to(np.int64(2**62) if longest is None else longest, len(rows))
        lengths = np.minimum(self.lengths[rows], bounds)
        tokens, outputs = (np.zeros((len(rows), int(lengths.max(initial=1))), dtype=np.int64) for _ in range(2))
        for place, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
            tokens[place, :length] = self.words[row][:length]
            labels = self.labels[row]
            if len(labels) == len(self.words[row]):
                outputs[place, :length] = labels[:length]
            else:
                outputs[place, length - 1] = labels[-1]
        return tokens, lengths, outputs


@dataclass(frozen=True, eq=False)
class WordsTask:
    """A task of labelled sequences.

    Args:
        source: the names of symbols and labels.
        sets: for training, validation and test.
        aligned: whether there is a label after each symbol.
        lengths: up to which length training reads sequences that have a label after each symbol.
        supervision: after which symbols answers are asked for in training.
    """

    source: Source
    sets: tuple[LabelledSet, LabelledSet, LabelledSet]
    aligned: bool
    lengths: Lengths
    supervision: Supervision

    @property
    def samples(self) -> int:
        """How many training sequences there are."""
        return len(self.sets[0])

    @property
    def validation(self) -> int:
        """How many sequences are set aside for validation."""
        return len(self.sets[1])

    @property
    def classes(self) -> int:
        """How many labels there are."""
        return self.source.classes

    @property
    def vocabulary(self) -> int:
        """How many different tokens there are."""
        return self.source.symbols

    @property
    def buckets(self) -> tuple[int, ...]:
        """The lengths at which the test set is reported."""
        return self.sets[2].buckets

    def at_lengths(self, lengths: Sequence[int]) -> "WordsTask":
        """Return the same task with the test sequences of some lengths alone."""
        train, validation, test = self.sets
        return replace(self, sets=(train, validation, test.only(lengths)))

    def written_length(self, length: int) -> int:
        """Return how many tokens a sequence of a length takes."""
        return length

    def batch(self, seed: int, position: int, size: int = 64) -> Batch:
        """Return batch number `position` of the training sequences: each once before any comes again."""
        first, count = position * size, self.samples
        rows = np.array([self._shuffled(seed, (first + i) // count)[(first + i) % count] for i in range(size)])
        if not self.aligned:
            return self._asked(self.sets[0], rows, None, self.supervision)
        bound = np.minimum(self.sets[0].lengths[rows], self.lengths.bounds(position)[1])
        if self.supervision == "final":
            # any beginning has its label
            least = np.minimum(self.lengths.shortest, bound)
            bound = stream(seed, "prefix", position, size).integers(least, bound + 1)
        return self._asked(self.sets[0], rows, bound, self.supervision)

    def fixed(self, seed: int) -> Batch:
        """Return all training sequences."""
        return self._asked(self.sets[0], np.arange(self.samples), self._longest, self._labels)

    def held_out(self, seed: int) -> Batch:
        """Return the sequences set aside for validation, as training reads them."""
        if not self.validation:
            raise TaskError("this task sets no validation sequences aside; give some")
        return self._asked(self.sets[1], np.arange(self.validation), self._longest, self.supervision)

    def test(self, seed: int, length: int, count: int) -> Batch:
        """Return test sequences of one bucket, whole: all of them, or so many if there are more."""
        test = self.sets[2]
        rows = np.flatnonzero(test.bucket_of == length)
        if not len(rows):
            raise TaskError(
                f"no test sequence has length {length}; expected one of {', '.join(map(str, self.buckets))}; choose one"
            )
        if len(rows) > count:
            rows = np.sort(stream(seed, "test", length, count).permutation(rows)[:count])
        return self._asked(test, rows, None, self._labels)

    def probe(self, seed: int, length: int, count: int) -> Batch:
        """Return validation sequences, or training sequences where there are none, of up to a length."""
        watched = self.sets[1] if self.validation else self.sets[0]
        rows = np.sort(stream(seed, "probe", count).permutation(len(watched))[:count])
        return self._asked(watched, rows, length if self.aligned else None, self._labels)

    def familiar(self, seed: int, count: int) -> list[Batch]:
        """Return about so many validation sequences, or training sequences where there are none."""
        return [self.probe(seed, int(self.lengths.longest), count)]

    @property
    def _labels(self) -> Supervision:
        """After which symbols there are labels to compare answers with."""
        return "aligned" if self.aligned else "final"

    @property
    def _longest(self) -> int | None:
        return self.lengths.longest if self.aligned else None

    def _asked(
        self, part: LabelledSet, rows: np.ndarray, longest: int | np.ndarray | None, supervision: Supervision
    ) -> Batch:
        tokens, lengths, outputs = part.rows(rows, longest)
        return FORMATS[supervision](tokens, lengths, outputs, self.source.symbols)

    def _shuffled(self, seed: int, epoch: int) -> Int[np.ndarray, " sample"]:
        if (seed, epoch) not in self._orders:
            if len(self._orders) > _ORDERS_KEPT:
                self._orders.clear()
            self._orders[seed, epoch] = stream(seed, "epoch", epoch).permutation(self.samples)
        return self._orders[seed, epoch]

    @cached_property
    def _orders(self) -> dict[tuple[int, int], np.ndarray]:
        return {}
