"""Labelled sequences in files: JSON lines, CSV, and the layouts of two published benchmarks.

| layout | a sequence | its labels |
| --- | --- | --- |
| CSV | column `word` | column `label` (at the end) or `labels` (after each symbol) |
| JSON lines | `{"word": ["a", "b"]` | `"label": "x"}`, or `"labels": ["x", "y"]}` |
| CSV of jopetty/word-problem | column `input` | column `target`, after each symbol |
| a folder of FLaRe | a line of `main.tok` | the same line of `labels.txt`, at the end |
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from statewise.errors import TooLargeError, UnreadableError, WordsError, shorten
from statewise.reading import parse_json, read_text

MAX_FILE_BYTES = 256_000_000
_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
_EXAMPLE = '{"word": ["a", "b"], "label": "x"}'
# of CSV files, the column of sequences, that of labels, and whether these stand after each symbol
_COLUMNS = (("word", "label", False), ("word", "labels", True), ("input", "target", True))
# of a folder of FLaRe
TOKENS, LABELS = "main.tok", "labels.txt"


@dataclass(frozen=True)
class LabelledWord:
    """A sequence of named symbols with its label, or with one after each symbol.

    Args:
        line: where it stands.
        word: names of symbols.
        labels: names of labels: as many as symbols, or the one at the end.
    """

    line: int
    word: Sequence[str]
    labels: Sequence[str]


@dataclass(frozen=True)
class WordFile:
    """The labelled sequences of a file.

    Args:
        name: of the file, for messages.
        words: in the order of the file.
        aligned: whether there is a label after each symbol.
    """

    name: str
    words: tuple[LabelledWord, ...]
    aligned: bool

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Sequence[Any], Any]], name: str = "words") -> "WordFile":
        """Take pairs of a sequence and its label, or of a sequence and a list of labels, as lines 1, 2, and so on."""
        found = [_pair(line, pair) for line, pair in enumerate(_listed(pairs), 1)]
        aligned = any(isinstance(labels, list | tuple) for _, labels in found)
        words = []
        for line, (word, labels) in enumerate(found, 1):
            where = f"line {line}"
            symbols = [name_of(where, "symbol", symbol) for symbol in word]
            listed = labels if isinstance(labels, list | tuple) else [labels]
            words.append(_checked(line, symbols, [name_of(where, "label", label) for label in listed], aligned))
        return cls(name, tuple(words), aligned)


def _listed(pairs: object) -> list[Any]:
    if isinstance(pairs, Iterable):
        return list(pairs)
    raise WordsError(f"the sequences are {shorten(repr(pairs))}; expected a file, or pairs of a sequence and its label")


def _pair(line: int, pair: Any) -> tuple[Sequence[Any], Any]:
    """Return a sequence and its label or labels; what is no such pair is one sentence."""
    try:
        word, labels = pair
        return list(word), labels.tolist() if hasattr(labels, "tolist") else labels
    except (TypeError, ValueError):
        raise WordsError(
            f"pair {line} is {shorten(repr(pair), 40)}; expected a sequence of symbols and its label, or its labels"
        ) from None


# the line, the sequence and the labels as they are written
_Entry = tuple[int, str | list[str], str | list[str]]


def read_word_file(path: Path) -> WordFile:
    """Read labelled sequences.

    A sequence is a list of symbols, or text: symbols between spaces if any sequence of the file has a space, and
    otherwise single characters; labels after each symbol likewise. The ending .csv or .jsonl decides the format; other
    files are JSON lines if they begin with a brace.
    """
    # a name that no file can have is none of a folder
    if os.path.isdir(path):
        return _from_folder(path)
    text = _read(path)
    if not text.strip():
        raise WordsError(f'"{shorten(path.name)}" is empty; expected labelled words; give lines such as {_EXAMPLE}')
    ending = path.suffix.lower()
    as_json = ending in _JSON_ENDINGS or (ending != ".csv" and text.lstrip().startswith("{"))
    try:
        aligned, entries = _from_json(text) if as_json else _from_csv(text)
        by_space = [any(isinstance(part, str) and " " in part.strip() for part in parts) for parts in _columns(entries)]
        words = [
            _checked(
                line, _split(word, by_space[0]), _split(labels, by_space[1]) if aligned else [str(labels)], aligned
            )
            for line, word, labels in entries
        ]
    except WordsError as error:
        raise WordsError(f"{shorten(path.name)}: {error}") from None
    return WordFile(path.name, tuple(words), aligned)


def name_of(where: str, what: str, value: object) -> str:
    """Return a symbol or a label as text.

    Args:
        where: what has it, for a message.
        what: "symbol" or "label".
        value: text, a whole number, or true or false.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | Integral):
        shown = shorten(json.dumps(value, default=repr), 30)
        raise WordsError(f"{where} has the {what} {shown}; expected text or a whole number; correct it")
    if value == "":
        raise WordsError(f"{where} has a {what} without a name; expected at least one character; name it")
    try:
        return str(value)
    except ValueError:
        raise WordsError(f"{where} has a {what} that is a number past all bounds; expected text") from None


def in_order(names: set[str]) -> list[str]:
    """Sort names, by value if all are small whole numbers."""
    plain = all(name.isdecimal() and name.isascii() and len(name) < 10 for name in names)
    return sorted(names, key=lambda name: (int(name), name)) if plain else sorted(names)


def _columns(entries: list[_Entry]) -> tuple[list[str | list[str]], list[str | list[str]]]:
    return [word for _, word, _ in entries], [labels for _, _, labels in entries]


def _checked(line: int, word: list[str], labels: list[str], aligned: bool) -> LabelledWord:
    if aligned and len(labels) != len(word):
        raise WordsError(
            f"line {line} has {len(word)} symbols and {len(labels)} labels; expected a label after each symbol; "
            "correct it"
        )
    return LabelledWord(line, word, labels)


def _read(path: Path) -> str:
    try:
        return read_text(path, MAX_FILE_BYTES)
    except UnreadableError as error:
        kind = TooLargeError if isinstance(error, TooLargeError) else WordsError
        raise kind(f'cannot read "{shorten(path)}": {error}; give a file of labelled words') from None


def _split(word: str | list[str], by_space: bool) -> list[str]:
    if isinstance(word, list):
        return word
    return word.split() if by_space else list(word.strip())


def _from_json(text: str) -> tuple[bool, list[_Entry]]:
    entries: list[_Entry] = []
    aligned: bool | None = None
    for number, entry in _objects(text):
        key = "labels" if "labels" in entry and "label" not in entry else "label"
        for needed in ("word", key):
            if needed not in entry:
                raise WordsError(f'line {number} has no "{needed}"; expected an object such as {_EXAMPLE}; add it')
        if aligned is not None and aligned != (key == "labels"):
            raise WordsError(
                f'line {number} has "{key}", which lines before it have not; '
                "expected a label at the end of every word, or labels after each symbol of every word; correct it"
            )
        aligned = key == "labels"
        word = _json_list(number, "word", "symbol", entry["word"])
        labels = (
            _json_list(number, "labels", "label", entry["labels"])
            if aligned
            else name_of(f"line {number}", "label", entry["label"])
        )
        entries.append((number, word, labels))
    return bool(aligned), entries


def _objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    # only these end a line: others may stand inside a JSON string
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = parse_json(line)
        except UnreadableError as error:
            fault = "is not JSON" if "not JSON" in str(error) else f"cannot be read ({error})"
            what = f'line {number} {fault}: "{shorten(line, 30)}"'
            raise WordsError(f"{what}; expected an object such as {_EXAMPLE}; correct it") from None
        if not isinstance(entry, dict):
            raise WordsError(f"line {number} holds a {type(entry).__name__}; expected an object such as {_EXAMPLE}")
        yield number, entry


def _json_list(number: int, key: str, what: str, value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise WordsError(
            f"the {key} in line {number} is {shorten(json.dumps(value), 30)}; "
            f'expected a list of {what}s, or text; write it as ["a", "b"] or "ab"'
        )
    return [name_of(f"line {number}", what, part) for part in value]


def _from_csv(text: str) -> tuple[bool, list[_Entry]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    entries: list[_Entry] = []
    try:
        columns = [column.strip() for column in reader.fieldnames or []]
        of_words, of_labels, aligned = _layout(columns)
        reader.fieldnames = columns
        for row in reader:
            word, label = row[of_words], row[of_labels]
            if word is None or label is None:
                what = f"line {reader.line_num} has no label"
                raise WordsError(f"{what}; expected a word and a label, with a comma between them; add it")
            named = label if aligned else name_of(f"line {reader.line_num}", "label", label.strip())
            entries.append((reader.line_num, word, named))
    except csv.Error as error:
        what = f"line {reader.line_num + 1} is not CSV: {shorten(error)}"
        raise WordsError(f"{what}; expected the columns word and label; correct it") from None
    return aligned, entries


def _layout(columns: list[str]) -> tuple[str, str, bool]:
    """Return which columns hold sequences and labels."""
    for layout in _COLUMNS:
        if layout[0] in columns and layout[1] in columns:
            return layout
    needed = "word" if "word" not in columns else "label"
    named = ", ".join(f'"{shorten(column, 20)}"' for column in columns[:5])
    what = f'the first line has no column "{needed}", only {named}'
    raise WordsError(f"{what}; expected the columns word and label; add it, or use JSON lines")


def _from_folder(path: Path) -> WordFile:
    """Read a folder of FLaRe: sequences and labels on the same lines of two files."""
    if not (path / TOKENS).is_file():
        raise WordsError(f'"{shorten(path)}" is a directory without {TOKENS}; give a file, or a folder of FLaRe')
    lines, labels = ((_read(path / file).removesuffix("\n").split("\n")) for file in (TOKENS, LABELS))
    if len(lines) != len(labels):
        raise WordsError(
            f"{shorten(path.name)}: {TOKENS} has {len(lines):,} lines and {LABELS} {len(labels):,}; "
            "expected a label for each sequence; correct them"
        )
    found = zip(range(1, len(lines) + 1), lines, labels, strict=True)
    words = [LabelledWord(n, line.split(), [name_of(f"line {n}", "label", label.strip())]) for n, line, label in found]
    return WordFile(path.name, tuple(words), False)
