"""A user's own labelled sequences as a source: read, split into sets for training, validation and test, and checked.

The names of symbols and labels are those of the training set. Sequences of no symbols have no symbol to answer after,
and are left out.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from statewise.errors import TaskError, WordsError, shorten
from statewise.expressions import Call
from statewise.tasks.batches import BEYOND_SYMBOLS, Supervision
from statewise.tasks.lengths import MAX_LENGTH, Lengths
from statewise.tasks.source import Names, SequenceSource, Source
from statewise.tasks.word_files import LABELS, TOKENS, LabelledWord, WordFile, in_order, read_word_file
from statewise.tasks.words_task import LabelledSet, WordsTask

SETS = ("training", "validation", "test")
SHARES = (0.8, 0.1, 0.1)
# where a folder of FLaRe keeps its other sets
_FLARE_SETS = ("datasets/validation-short", "datasets/test")
# symbols that a message lists, and how many files are kept in memory
_SHOWN, _FILES_KEPT = 12, 8


@dataclass(frozen=True, eq=False)
class WordsSource(SequenceSource):
    """Labelled sequences, in sets for training, validation and test.

    Args:
        name: the expression that reads them.
        alphabet: a name per symbol.
        output_names: a name per label.
        aligned: whether there is a label after each symbol.
        sets: for training, validation and test; that for validation may be empty.
    """

    aligned: bool
    sets: tuple[LabelledSet, LabelledSet, LabelledSet] = field(repr=False)

    @property
    def digest(self) -> str:
        """The hash of names and sets."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        found = hashlib.sha256(json.dumps([self.alphabet, self.output_names, self.aligned]).encode())
        for part in self.sets:
            found.update(np.asarray([len(part), *map(len, part.words)], dtype=np.int64).tobytes())
            for array in (*part.words, *part.labels):
                found.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
        return found.hexdigest()

    def defaults(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options that a run on it has unless others are given: lengths and sets are those of the files."""
        train, validation, test = self.sets
        longest = int((validation if len(validation) else train).lengths.max())
        bound = given.get("longest")
        read = min(longest, bound) if self.aligned and isinstance(bound, int) else longest
        return {
            "sequences": self.digest,
            "supervision": "aligned" if self.aligned else "final",
            # with a label after each symbol, every beginning of a sequence is one of training
            "shortest": 1 if self.aligned else int(train.lengths.min()),
            "longest": int(train.lengths.max()),
            "late": 0,
            "growth_share": 0.0,
            "probe": (read,),
            "test_lengths": test.buckets,
            "words": len(test),
        }

    def task(self, lengths: Lengths, supervision: Supervision, samples: int | None, validation: int) -> WordsTask:
        """Make a task of these sequences."""
        if samples is not None or validation:
            raise TaskError("sets of sequences are as large as they are; leave samples and validation out")
        if supervision in BEYOND_SYMBOLS or (supervision == "aligned" and not self.aligned):
            known = "after each symbol" if self.aligned else "at the end only"
            raise TaskError(
                f"the sequences have labels {known}, supervision is {supervision}; "
                f"use supervision {'aligned or final' if self.aligned else 'final'}"
            )
        if not self.aligned and (lengths.growth or lengths.late > lengths.longest):
            raise TaskError("sequences with a label at the end are read whole; set growth and late to 0")
        return WordsTask(self, self.sets, self.aligned, lengths, supervision)


def words(file: str, validation: str = "", test: str = "", shares: str = "") -> WordsSource:
    """Read labelled sequences from files.

    Args:
        file: of training, or of all sets if no other is given
        validation: of validation
        test: of test
        shares: of training, validation and test, of one file: 0.8,0.1,0.1 unless others are given
    """
    name = str(Call("words", (file,), _given(validation=validation, test=test, shares=shares)))
    folder = Path(file)
    if not (validation or test or shares) and os.path.isdir(folder / _FLARE_SETS[1]):
        validation, test = (str(folder / part) if os.path.isdir(folder / part) else "" for part in _FLARE_SETS)
    if shares and (validation or test):
        raise WordsError("shares split one file, and other files are given too; leave the shares or the files out")
    if validation and not test:
        raise WordsError("there is a file for validation and none for test; give one for test too")
    if not test:
        return split_words(_kept(file), shares_of(shares) if shares else SHARES, name)
    none = WordFile("", (), _kept(file).aligned)
    return source_of_files([_kept(file), _kept(validation) if validation else none, _kept(test)], name)


def split_words(file: WordFile, shares: Sequence[float], name: str) -> WordsSource:
    """Split one set of sequences by a hash of each, so that equal ones are never in two sets.

    Args:
        file: all sequences.
        shares: of training, validation and test.
        name: of the source.
    """
    # what is wrong with all sequences is said before any set is found empty
    _check_labels([file])
    bounds = np.cumsum(shares)
    parts: list[list[LabelledWord]] = [[], [], []]
    for entry in file.words:
        hashed = hashlib.blake2b("\x1f".join(entry.word).encode(), digest_size=8).digest()
        place = int.from_bytes(hashed, "little") / 2**64
        parts[min(2, int(np.searchsorted(bounds, place, side="right")))].append(entry)
    for part, share, kind in zip(parts, shares, SETS, strict=True):
        if not part and share > 0:
            raise WordsError(
                f"{shorten(file.name)} has {len(file.words):,} sequences, and none of them is left for {kind} "
                f"with a share of {share:g}; give more sequences, or a larger share"
            )
    return source_of_files([WordFile(file.name, tuple(part), file.aligned) for part in parts], name)


def source_of_files(files: Sequence[WordFile], name: str) -> WordsSource:
    """Make a source of the files of training, validation and test; what contradicts itself is refused.

    Args:
        files: the second may be empty.
        name: of the source.
    """
    files = [WordFile(f.name, tuple(entry for entry in f.words if entry.word), f.aligned) for f in files]
    train, _, test = files
    _check_alike(files)
    _check_labels(files)
    if not test.words:
        raise WordsError(f"{shorten(test.name)} has no sequence for test; expected some; give more")
    alphabet = tuple(in_order({symbol for entry in train.words for symbol in entry.word}))
    output_names = tuple(in_order({label for entry in train.words for label in entry.labels}))
    names = Names(name, alphabet, output_names)
    sets = [number_words(file, names) for file in files]
    return WordsSource(name, alphabet, output_names, train.aligned, (sets[0], sets[1], sets[2]))


def number_words(file: WordFile, names: Source, whose: str = "training") -> LabelledSet:
    """Number the symbols and labels of a file as names do; others are refused.

    Args:
        file: the sequences.
        names: of symbols and labels.
        whose: where these names come from, for a message.
    """
    symbol_of, label_of = ({n: i for i, n in enumerate(part)} for part in (names.alphabet, names.output_names))
    for entry in file.words:
        for kind, given, known in (("symbol", entry.word, symbol_of), ("label", entry.labels, label_of)):
            strange = next((name for name in given if name not in known), None)
            if strange is not None:
                raise WordsError(
                    f'line {entry.line} of {shorten(file.name)} has the {kind} "{shorten(strange, 20)}", which never '
                    f"occurs in {whose}; expected {shorten(', '.join(known), 80)}; leave the sequence out"
                )
    return LabelledSet(
        tuple(_numbers(entry.word, symbol_of) for entry in file.words),
        tuple(_numbers(entry.labels, label_of) for entry in file.words),
    )


def evaluation_source(path: Path, names: Source, whose: str) -> WordsSource:
    """Read a file of sequences to evaluate on, in the names of a network.

    Args:
        path: of the file, or of a folder of FLaRe.
        names: of the network's symbols and outputs.
        whose: what has these names, for a message.
    """
    file = read_word_file(path)
    kept = WordFile(file.name, tuple(entry for entry in file.words if entry.word), file.aligned)
    if not kept.words:
        raise WordsError(f"{shorten(file.name)} has no sequence of at least one symbol; give some")
    _check_contradictions([kept])
    found, none = number_words(kept, names, whose), LabelledSet((), ())
    return WordsSource(
        str(Call("words", (str(path),))), names.alphabet, names.output_names, file.aligned, (none, none, found)
    )


def shares_of(shares: str | Iterable[float]) -> tuple[float, float, float]:
    """Return the shares of training, validation and test; three numbers that do not add up to 1 are refused."""
    try:
        found = [float(part) for part in (shares.split(",") if isinstance(shares, str) else shares)]
    except (TypeError, ValueError):
        found = []
    if len(found) != 3 or not all(0 <= part <= 1 for part in found) or not math.isclose(sum(found), 1, abs_tol=1e-9):
        shown = shares if isinstance(shares, str) else repr(shares)
        raise WordsError(
            f"shares are {shorten(shown)}; expected three numbers that add up to 1, of training, validation and test; "
            "write them as 0.8,0.1,0.1"
        )
    if not found[0] or not found[2]:
        raise WordsError(f"shares are {shorten(str(shares))}; training and test need more than 0; correct them")
    return found[0], found[1], found[2]


def words_task(
    file: str, validation: str | None = None, test: str | None = None, shares: str | Iterable[float] | None = None
) -> str:
    """Return the name of a task on labelled sequences, which options, sweeps and comparisons take like a machine's.

    Args:
        file: of training, or of all sets if no other is given.
        validation: of validation.
        test: of test.
        shares: of training, validation and test, of one file.
    """
    written = "" if shares is None else ",".join(f"{share:g}" for share in shares_of(shares))
    return str(Call("words", (file,), _given(validation=validation or "", test=test or "", shares=written)))


def _given(**texts: str) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}


def _kept(path: str) -> WordFile:
    """Read a file, or take it from memory if it has not changed: many runs may read the same."""
    files = [os.path.join(path, file) for file in (TOKENS, LABELS)] if os.path.isdir(path) else [path]
    stamps = tuple((os.path.getmtime(file), os.path.getsize(file)) for file in files if os.path.isfile(file))
    return _read_again(path, os.getcwd(), stamps)


@lru_cache(maxsize=_FILES_KEPT)
def _read_again(path: str, folder: str, stamps: tuple[tuple[float, int], ...]) -> WordFile:
    return read_word_file(Path(path))


def _numbers(names: Sequence[str], number: Mapping[str, int]) -> Int[np.ndarray, " time"]:
    return np.fromiter((number[name] for name in names), dtype=np.int64, count=len(names))


def _check_alike(files: Sequence[WordFile]) -> None:
    train = files[0]
    for file in files[1:]:
        if file.words and file.aligned != train.aligned:
            where = ["at the end", "after each symbol"]
            raise WordsError(
                f"{shorten(file.name)} has labels {where[file.aligned]}, and {shorten(train.name)} "
                f"{where[train.aligned]}; expected the same of all files; correct one"
            )
    longest = max((len(entry.word) for file in files for entry in file.words), default=0)
    if longest > MAX_LENGTH:
        raise WordsError(f"a sequence has {longest:,} symbols; at most {MAX_LENGTH:,} are read; cut it")


def _check_labels(files: Sequence[WordFile]) -> None:
    """Refuse training sequences of one label only, and a sequence that has other labels on another line."""
    train = files[0]
    labels = {label for entry in train.words if entry.word for label in entry.labels}
    if not labels:
        raise WordsError(f"{shorten(train.name)} has no sequence of at least one symbol; expected some; give more")
    if len(labels) < 2:
        raise WordsError(
            f'all training sequences of {shorten(train.name)} have the label "{shorten(labels.pop(), 20)}"; '
            "expected at least two different labels; give sequences of another label"
        )
    _check_contradictions(files)


def _check_contradictions(files: Sequence[WordFile]) -> None:
    """Refuse a sequence that has other labels on another line."""
    seen: dict[tuple[str, ...], tuple[WordFile, LabelledWord]] = {}
    for file in files:
        for entry in file.words:
            before, first = seen.setdefault(tuple(entry.word), (file, entry))
            if list(first.labels) == list(entry.labels):
                continue
            place = next(i for i, pair in enumerate(zip(first.labels, entry.labels, strict=True)) if pair[0] != pair[1])
            shown = " ".join(entry.word[:_SHOWN]) + (" …" if len(entry.word) > _SHOWN else "")
            lines = f"line {first.line} of {shorten(before.name)} and line {entry.line} of {shorten(file.name)}"
            raise WordsError(
                f'the sequence "{shorten(shown, 60)}" is labelled both "{shorten(first.labels[place], 20)}" and '
                f'"{shorten(entry.labels[place], 20)}" ({lines}); expected one label for each; correct it'
            )
