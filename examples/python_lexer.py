"""A real task: the state of Python's lexer after each character of the standard library's own source.

Labels come from `tokenize`: code, comment, four kinds of strings, and escape. Networks train on windows of at most 64
characters that begin at a line of code, and are tested on whole files that they have not seen.
Usage: python python_lexer.py [STEPS]
"""

import io
import json
import random
import sys
import sysconfig
import tokenize
from pathlib import Path

import statewise as sw

STRINGS = {"'": "single", '"': "double", "'''": "triple single", '"""': "triple double"}
NAMES = {"\n": "newline", "\t": "tab", " ": "space"}
WINDOW = 64


def lexer_states(source: str) -> list[str]:
    """Return the lexer's state after each character.

    A state depends on what has been read alone: after one quotation mark a string has begun, after two it has ended,
    and only the third makes it a triple one.
    """
    starts = [0]
    for line in io.StringIO(source):
        starts.append(starts[-1] + len(line))
    states = ["code"] * len(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        if token.type == tokenize.COMMENT:
            states[begin:end] = ["comment"] * (end - begin)
        elif token.type == tokenize.STRING:
            _mark_string(source, states, begin, end)
    return states


def _mark_string(source: str, states: list[str], begin: int, end: int) -> None:
    while source[begin] not in "'\"":
        begin += 1
    quote = next(mark for mark in sorted(STRINGS, key=len, reverse=True) if source.startswith(mark, begin))
    if len(quote) == 3:
        states[begin], states[begin + 1] = STRINGS[quote[0]], "code"
        begin += 2
    escaped = False
    for place in range(begin, end - 1):
        escaped = not escaped and source[place] == "\\"
        states[place] = "escape" if escaped else STRINGS[quote]


def symbols_of(source: str) -> list[str]:
    """Return the characters by name; those that are not printable ASCII are one symbol."""
    return [NAMES.get(c, c if c.isascii() and c.isprintable() else "other") for c in source]


def standard_library() -> list[Path]:
    """Return the modules of the standard library that tokenize can read here, in the order of their names."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    return [file for file in files if file.read_bytes().isascii() and file.stat().st_size > WINDOW]


def draw_windows(files: list[Path], count: int, seed: int) -> list[dict[str, list[str]]]:
    """Draw windows of 32 to 64 characters that begin at a line of code, around each state as often as any other."""
    drawn, holding = random.Random(seed), {}
    texts = [(source, lexer_states(source)) for source in (file.read_text() for file in files)]
    for number, (source, states) in enumerate(texts):
        for first in range(len(source)):
            if first == 0 or (source[first - 1] == "\n" and states[first - 1] == "code"):
                for state in set(states[first : first + WINDOW]):
                    holding.setdefault(state, []).append((number, first))
    windows = []
    for turn in range(count):
        number, first = drawn.choice(holding[sorted(holding)[turn % len(holding)]])
        last = first + drawn.randint(WINDOW // 2, WINDOW)
        source, states = (part[first:last] for part in texts[number])
        windows.append({"word": symbols_of(source), "labels": list(states)})
    return windows


def whole_files(files: list[Path]) -> list[dict[str, list[str]]]:
    """Return whole files, character by character."""
    return [{"word": symbols_of(source), "labels": lexer_states(source)} for source in map(Path.read_text, files)]


def write_lines(path: Path, rows: list[dict[str, list[str]]]) -> Path:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def main(steps: int) -> None:
    """Train a full bilinear network on windows, and read a whole file with it."""
    modules = standard_library()
    train = write_lines(Path("windows.jsonl"), draw_windows(modules[:8], 600, seed=0))
    test = write_lines(Path("files.jsonl"), whole_files([file for file in modules if file.stem == "keyword"]))
    run = sw.train(words=train, test_words=test, model="full", steps=steps, hidden=32)
    print(run)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
