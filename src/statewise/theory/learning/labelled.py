"""Labelled words: the training data of a learner."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int

from statewise.errors import TooLargeError, WordsError, shorten
from statewise.machines import Machine
from statewise.tasks.word_files import in_order, name_of, read_word_file

Word = tuple[int, ...]
MAX_SYMBOLS_READ = 50_000_000
MAX_NAME = 200
# names that a message lists
_SHOWN = 12


@dataclass(frozen=True, eq=False)
class LabelledWords:
    """Distinct words, and how often each of them has each label; build them with `LabelledWords.from_pairs`.

    Two equal words with one label are one word that counts twice; with two labels they contradict each other, which
    only a method that tolerates label noise accepts.

    Args:
        alphabet: a name per symbol.
        output_names: a name per label.
        words: distinct words, in symbol numbers.
        counts: how often a word has a label.
    """

    alphabet: tuple[str, ...]
    output_names: tuple[str, ...]
    words: tuple[Word, ...]
    counts: Int[np.ndarray, "word label"]

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[str] | Sequence[int], str | int]]) -> "LabelledWords":
        """Build labelled words from pairs of a word and its label.

        For example, `LabelledWords.from_pairs([("ab", "x"), (["a", "b", "b"], "y")])`. Symbols and labels are numbered
        in the order of their names, by value if all are whole numbers.

        Args:
            pairs: a word is a sequence of symbols, or a string of one-character symbols; symbols and labels are text,
                or whole numbers that count as text.
        """
        named = [
            ([name_of("a word", "symbol", symbol) for symbol in word], name_of("a word", "label", label))
            for word, label in pairs
        ]
        alphabet = in_order({name for word, _ in named for name in word})
        output_names = in_order({label for _, label in named})
        symbol_of = {name: a for a, name in enumerate(alphabet)}
        class_of = {name: c for c, name in enumerate(output_names)}
        words = [tuple(symbol_of[name] for name in word) for word, _ in named]
        return count_words(alphabet, output_names, words, [class_of[label] for _, label in named])

    @property
    def total(self) -> int:
        """The number of labelled words, repetitions included."""
        return int(self.counts.sum())

    @cached_property
    def label_of(self) -> dict[Word, int]:
        """The label of each word; of one that has several, the most frequent."""
        return dict(zip(self.words, self.counts.argmax(axis=1).tolist(), strict=True))

    @cached_property
    def contradiction(self) -> Word | None:
        """A shortest word that has two labels; None if there is none."""
        twice = np.flatnonzero((self.counts > 0).sum(axis=1) > 1).tolist()
        return min((self.words[row] for row in twice), key=len, default=None)

    def refuse_contradictions(self, method: str) -> None:
        """Raise the error of an exact method for words with two labels."""
        word = self.contradiction
        if word is not None:
            labels = self.counts[self.words.index(word)].nonzero()[0]
            named = " and ".join(f'"{shorten(self.output_names[c], 20)}"' for c in labels[:2])
            raise WordsError(
                f"the word {self.spell(word)} is labelled both {named}; {method} expects one label for each word; "
                "correct it, or use --method least-squares, which tolerates noise"
            )

    def spell(self, word: Sequence[int]) -> str:
        """Return a word as text for a message."""
        if not word:
            return "of no symbols"
        names = [shorten(self.alphabet[a], 20) for a in word[:_SHOWN]]
        joined = ("" if all(len(name) == 1 for name in self.alphabet) else " ").join(names)
        return f'"{joined}{"…" if len(word) > _SHOWN else ""}"'

    @cached_property
    def padded(self) -> Int[np.ndarray, "word longest"]:
        """The words as rows, padded with a symbol of its own that changes no state."""
        lengths = np.array([len(word) for word in self.words])
        longest = int(lengths.max())
        if longest * len(self.words) > MAX_SYMBOLS_READ:
            raise TooLargeError(
                f"{len(self.words):,} words of up to {longest:,} symbols are more than can be processed together "
                f"({MAX_SYMBOLS_READ:,} symbols); leave the longest words out"
            )
        rows = np.full((len(self.words), longest), len(self.alphabet), dtype=np.int64)
        for row, word in zip(rows, self.words, strict=True):
            row[: len(word)] = word
        return rows

    def explained(self, machine: Machine) -> int:
        """Count the labelled words that a machine answers as they are labelled."""
        ends = walk(self.padded, machine.delta, machine.start)[:, -1]
        return int(self.counts[np.arange(len(ends)), machine.outputs[ends]].sum())

    def adding(self, word: Sequence[int], label: int) -> "LabelledWords":
        """Return these words and one more."""
        rows, labels = np.nonzero(self.counts)
        times = self.counts[rows, labels]
        words = [self.words[row] for row in np.repeat(rows, times)]
        again = np.repeat(labels, times).tolist()
        return count_words(self.alphabet, self.output_names, [*words, tuple(word)], [*again, label])


def read_words(path: Path) -> LabelledWords:
    """Read labelled words from a file; with labels after each symbol, every beginning of a word has one."""
    read = read_word_file(path)
    if read.aligned and sum(len(entry.word) ** 2 for entry in read.words) // 2 > MAX_SYMBOLS_READ:
        raise TooLargeError(
            f"the beginnings of the words of {shorten(path.name)} have more than {MAX_SYMBOLS_READ:,} symbols; "
            "leave the longest words out"
        )
    ends = (
        (entry.word[:end], label)
        for entry in read.words
        for end, label in enumerate(entry.labels, 1 if read.aligned else len(entry.word))
    )
    try:
        return LabelledWords.from_pairs(ends)
    except WordsError as error:
        raise WordsError(f"{shorten(path.name)}: {error}") from None


def count_words(
    alphabet: Sequence[str], output_names: Sequence[str], words: Iterable[Sequence[int]], labels: Iterable[int]
) -> LabelledWords:
    """Build labelled words from numbers, merging equal words.

    Args:
        alphabet: a name per symbol.
        output_names: a name per label.
        words: in symbol numbers.
        labels: a label number per word.
    """
    number: dict[Word, int] = {}
    places = [(number.setdefault(tuple(word), len(number)), label) for word, label in zip(words, labels, strict=True)]
    counts = np.zeros((len(number), len(output_names)), dtype=np.int64)
    if places:
        np.add.at(counts, tuple(np.array(places).T), 1)
    made = LabelledWords(tuple(alphabet), tuple(output_names), tuple(number), counts)
    _check(made)
    return made


def walk(
    padded: Int[np.ndarray, "word longest"], delta: Int[np.ndarray, "state symbol"], start: int
) -> Int[np.ndarray, "word time"]:
    """Return the states that each padded word passes, the start first, its last state repeated to the end."""
    states = np.empty((len(padded), padded.shape[1] + 1), dtype=np.int64)
    states[:, 0] = start
    resting = np.column_stack([delta, np.arange(len(delta))])
    for t in range(padded.shape[1]):
        states[:, t + 1] = resting[states[:, t], padded[:, t]]
    return states


def _check(data: LabelledWords) -> None:
    if not data.words:
        raise WordsError("there are no labelled words; expected some, each with a label; give words")
    if not data.alphabet:
        raise WordsError("no word has a symbol; expected longer words; give some")
    for what, names in (("symbol", data.alphabet), ("label", data.output_names)):
        for name in names:
            if len(name) > MAX_NAME:
                raise WordsError(
                    f'the {what} "{shorten(name, 20)}" has {len(name)} characters; expected at most {MAX_NAME}; '
                    "shorten it, or put spaces between symbols"
                )
    used = np.flatnonzero(data.counts.sum(axis=0))
    if len(used) < 2:
        raise WordsError(
            f'all words have the label "{shorten(data.output_names[used[0]], 20)}"; '
            "expected at least two different labels; give words of another label"
        )
