"""Labelled words in files: JSON lines, or CSV with the columns word and label."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from statewise.errors import TooLargeError, WordsError, shorten
from statewise.files import reason_of
from statewise.theory.learning.labelled import LabelledWords, name_of

MAX_FILE_BYTES = 256_000_000
_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
_EXAMPLE = '{"word": ["a", "b"], "label": "x"}'

# the line, the word as it is written, and its label
Entry = tuple[int, str | list[str], str]


def read_words(path: Path) -> LabelledWords:
    """Read labelled words.

    A word is a list of symbols, or text: symbols between spaces if any word of the file has a space, and otherwise
    single characters. The ending .csv or .jsonl decides the format; other files are JSON lines if they begin with a
    brace.
    """
    text = _read(path)
    if not text.strip():
        raise WordsError(f'"{shorten(path.name)}" is empty; expected labelled words; give lines such as {_EXAMPLE}')
    ending = path.suffix.lower()
    as_json = ending in _JSON_ENDINGS or (ending != ".csv" and text.lstrip().startswith("{"))
    try:
        entries = list(_from_json(text) if as_json else _from_csv(text))
        spaced = any(isinstance(word, str) and " " in word.strip() for _, word, _ in entries)
        return LabelledWords.from_pairs((_symbols(word, spaced), label) for _, word, label in entries)
    except WordsError as error:
        raise WordsError(f"{shorten(path.name)}: {error}") from None


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise TooLargeError(f'"{shorten(path)}" has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read')
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else reason_of(error)
        raise WordsError(f'cannot read "{shorten(path)}": {reason}; give a file of labelled words') from None


def _symbols(word: str | list[str], spaced: bool) -> list[str]:
    if isinstance(word, list):
        return word
    return word.split() if spaced else list(word.strip())


def _from_json(text: str) -> Iterator[Entry]:
    # only these end a line: others may stand inside a JSON string
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            what = f'line {number} is not JSON: "{shorten(line, 30)}"'
            raise WordsError(f"{what}; expected an object such as {_EXAMPLE}; correct it") from None
        if not isinstance(entry, dict):
            raise WordsError(f"line {number} holds a {type(entry).__name__}; expected an object such as {_EXAMPLE}")
        for key in ("word", "label"):
            if key not in entry:
                raise WordsError(f'line {number} has no "{key}"; expected an object such as {_EXAMPLE}; add it')
        yield number, _json_word(number, entry["word"]), name_of(f"line {number}", "label", entry["label"])


def _json_word(number: int, word: Any) -> str | list[str]:
    if isinstance(word, str):
        return word
    if not isinstance(word, list):
        raise WordsError(
            f"the word in line {number} is {shorten(json.dumps(word), 30)}; "
            'expected a list of symbols, or text; write it as ["a", "b"] or "ab"'
        )
    return [name_of(f"line {number}", "symbol", symbol) for symbol in word]


def _from_csv(text: str) -> Iterator[Entry]:
    reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        columns = [column.strip() for column in reader.fieldnames or []]
        for needed in ("word", "label"):
            if needed not in columns:
                named = ", ".join(f'"{shorten(column, 20)}"' for column in columns[:5])
                what = f'the first line has no column "{needed}", only {named}'
                raise WordsError(f"{what}; expected the columns word and label; add it, or use JSON lines")
        reader.fieldnames = columns
        for row in reader:
            word, label = row["word"], row["label"]
            if word is None or label is None:
                what = f"line {reader.line_num} has no label"
                raise WordsError(f"{what}; expected a word and a label, with a comma between them; add it")
            yield reader.line_num, word, name_of(f"line {reader.line_num}", "label", label.strip())
    except csv.Error as error:
        what = f"line {reader.line_num + 1} is not CSV: {shorten(error)}"
        raise WordsError(f"{what}; expected the columns word and label; correct it") from None
