"""Regular expressions as machines: the position automaton (Glushkov, 1961), then the subset construction."""

from dataclasses import dataclass

import numpy as np

from statewise.errors import RegexError, TooLargeError, shorten
from statewise.machines.machine import Machine

MAX_POSITIONS = 2_000
MAX_SUBSETS = 50_000
MAX_PATTERN = 2_000
MAX_NESTING = 50
MAX_SYMBOLS = 1_000
MAX_SUBSET_ENTRIES = 2_000_000

_SPECIAL = set("|*+?{}()[].\\")


@dataclass(frozen=True)
class _Part:
    """A piece of a pattern: whether it may be empty, and which of its positions can come first and last."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


class _Glushkov:
    """A parser that reads a pattern from left to right and collects the letters and followers of each position."""

    def __init__(self, pattern: str, alphabet: tuple[str, ...]) -> None:
        self.pattern = pattern
        self.alphabet = alphabet
        self.index = 0
        self.letters: list[frozenset[str]] = []
        self.follow: list[set[int]] = []
        self.copies = 0

    def error(self, what: str) -> RegexError:
        return RegexError(f'the pattern "{shorten(self.pattern)}" {what}; correct it')

    def too_large(self) -> TooLargeError:
        what = f'the pattern "{shorten(self.pattern)}" is longer than {MAX_POSITIONS:,} symbols'
        return TooLargeError(f"{what} with its counts written out; use smaller counts")

    def peek(self) -> str:
        return self.pattern[self.index] if self.index < len(self.pattern) else ""

    def union(self, depth: int = 0) -> _Part:
        if depth > MAX_NESTING:
            raise self.error(f"nests more than {MAX_NESTING} parentheses")
        part = self.sequence(depth)
        while self.peek() == "|":
            self.index += 1
            other = self.sequence(depth)
            part = _Part(part.empty or other.empty, part.first | other.first, part.last | other.last)
        return part

    def sequence(self, depth: int) -> _Part:
        part = _Part(True, frozenset(), frozenset())
        while self.peek() not in ("", "|", ")"):
            part = self.join(part, self.repeated(depth))
        return part

    def join(self, left: _Part, right: _Part) -> _Part:
        for p in left.last:
            self.follow[p] |= right.first
        return _Part(
            left.empty and right.empty,
            left.first | right.first if left.empty else left.first,
            right.last | left.last if right.empty else right.last,
        )

    def repeated(self, depth: int) -> _Part:
        start = self.index
        part = self.atom(depth)
        end = self.index
        while self.peek() and self.peek() in "*+?{":
            mark = self.peek()
            if mark == "{":
                part = self.counted(start, end, depth)
            else:
                self.index += 1
                part = self.loop(part) if mark in "*+" else part
                part = _Part(part.empty or mark in "*?", part.first, part.last)
            end = self.index
        return part

    def loop(self, part: _Part) -> _Part:
        for p in part.last:
            self.follow[p] |= part.first
        return part

    def counted(self, start: int, end: int, depth: int) -> _Part:
        """Read {m}, {m,} or {m,n} after the piece of the pattern from start to end, and write that piece out."""
        close = self.pattern.find("}", end)
        least, comma, most = self.pattern[end + 1 : close].partition(",")
        if close < 0 or not least.isdecimal() or not (most == "" or most.isdecimal()) or len(least + most) > 6:
            raise self.error("has a count that is not {m}, {m,} or {m,n}")
        low = int(least)
        high = low if not comma else (int(most) if most else None)
        if high is not None and high < low:
            raise self.error(f"counts from {low} down to {high}")
        copies = max(low, 1) if high is None else high
        self.copies += copies
        if self.copies > MAX_POSITIONS:
            raise self.too_large()
        part = _Part(True, frozenset(), frozenset())
        for copy in range(copies):
            self.index = start
            piece = self.piece(end, depth)
            if high is None and copy == copies - 1:
                piece = self.loop(piece)
            if copy >= low:
                piece = _Part(True, piece.first, piece.last)
            part = self.join(part, piece)
        self.index = close + 1
        return part

    def piece(self, end: int, depth: int) -> _Part:
        """Read the pattern again from here to `end`, with fresh positions."""
        whole = self.pattern
        self.pattern = whole[:end]
        part = self.repeated(depth)
        self.pattern = whole
        return part

    def atom(self, depth: int) -> _Part:
        mark = self.peek()
        self.index += 1
        if mark == "(":
            part = self.union(depth + 1)
            if self.peek() != ")":
                raise self.error("has a parenthesis that never closes")
            self.index += 1
            return part
        if mark == ".":
            return self.position(frozenset(self.alphabet))
        if mark == "[":
            return self.position(self.bracket())
        if mark == "\\":
            mark = self.peek()
            if not mark:
                raise self.error("ends in a backslash")
            self.index += 1
        elif mark in "^$":
            raise self.error(
                f'has the anchor "{mark}", but the whole word must match anyway: write \\{mark} for the symbol'
            )
        elif mark in _SPECIAL:
            raise self.error(f'has "{mark}" where a symbol should stand')
        return self.position(frozenset([mark]))

    def bracket(self) -> frozenset[str]:
        close = _closing_bracket(self.pattern, self.index)
        if close >= len(self.pattern):
            raise self.error("has a bracket that never closes")
        letters, negated = _bracket_letters(self.pattern[self.index : close])
        if letters is None:
            raise self.error("has a range that goes down")
        self.index = close + 1
        chosen = frozenset(self.alphabet) - letters if negated else letters
        if not chosen and self.alphabet:
            raise self.error("has a bracket that matches no symbol of the alphabet")
        return chosen

    def position(self, letters: frozenset[str]) -> _Part:
        if len(self.letters) >= MAX_POSITIONS:
            raise self.too_large()
        self.letters.append(letters)
        self.follow.append(set())
        here = frozenset([len(self.letters) - 1])
        return _Part(False, here, here)


def _closing_bracket(pattern: str, begin: int) -> int:
    """Return where a bracket whose inside begins there closes; the first character inside never closes it."""
    close = begin
    while close < len(pattern) and (pattern[close] != "]" or close == begin):
        close += 2 if pattern[close] == "\\" else 1
    return close


def _bracket_letters(body: str) -> tuple[frozenset[str] | None, bool]:
    """Return the letters of a bracket, None if a range goes down, and whether they are the ones excluded."""
    negated = body.startswith("^") and len(body) > 1
    plain: list[str | None] = []
    characters = iter(body[negated:])
    for character in characters:
        # None stands for a range mark
        plain.append(None if character == "-" else next(characters, "\\") if character == "\\" else character)
    letters: set[str] = set()
    index = 0
    while index < len(plain):
        here = plain[index] or "-"
        if index + 2 < len(plain) and plain[index + 1] is None and plain[index] is not None:
            last = plain[index + 2] or "-"
            if last < here:
                return None, negated
            letters |= {chr(code) for code in range(ord(here), ord(last) + 1)}
            index += 3
        else:
            letters.add(here)
            index += 1
    return frozenset(letters), negated


def _named_letters(pattern: str) -> tuple[str, ...]:
    """Return the symbols that a pattern names, in sorted order."""
    names: set[str] = set()
    index = 0
    while index < len(pattern):
        mark = pattern[index]
        if mark == "\\" and index + 1 < len(pattern):
            names.add(pattern[index + 1])
            index += 1
        elif mark == "[":
            close = _closing_bracket(pattern, index + 1)
            names |= _bracket_letters(pattern[index + 1 : close])[0] or frozenset()
            index = close
        elif mark == "{":
            close = pattern.find("}", index)
            index = len(pattern) if close < 0 else close
        elif mark not in _SPECIAL and mark not in "^$":
            names.add(mark)
        index += 1
    return tuple(sorted(names))


def compile_regex(pattern: str, alphabet: str = "") -> Machine:
    """Return the complete machine of a pattern, which answers 1 for the words that match as a whole."""
    if len(pattern) > MAX_PATTERN:
        raise TooLargeError(f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN} are read; use a file")
    symbols = tuple(dict.fromkeys(alphabet)) or _named_letters(pattern)
    if len(symbols) > MAX_SYMBOLS:
        raise TooLargeError(f"the pattern has {len(symbols):,} different symbols; at most {MAX_SYMBOLS:,} are handled")
    reader = _Glushkov(pattern, symbols)
    whole = reader.union()
    if reader.index < len(pattern):
        raise reader.error('has a ")" that nothing opens')
    if not symbols:
        raise RegexError(f'the pattern "{shorten(pattern)}" names no symbol; give an alphabet, as in alphabet="ab"')
    unknown = sorted(set().union(*reader.letters) - set(symbols)) if reader.letters else []
    if unknown:
        raise RegexError(f'the pattern names "{unknown[0]}", which is not in the alphabet "{shorten(alphabet)}"')
    return _subsets(reader, whole, symbols)


def _subsets(reader: _Glushkov, whole: _Part, symbols: tuple[str, ...]) -> Machine:
    # position -1 is the start, before any symbol
    start = frozenset([-1])
    number = {start: 0}
    rows: list[list[int]] = []
    waiting = [start]
    for subset in waiting:
        ahead = set().union(*(whole.first if p < 0 else reader.follow[p] for p in subset))
        row = []
        for symbol in symbols:
            following = frozenset(p for p in ahead if symbol in reader.letters[p])
            if following not in number:
                if len(number) == MAX_SUBSETS or len(number) * len(symbols) > MAX_SUBSET_ENTRIES:
                    raise TooLargeError(f'the pattern "{shorten(reader.pattern)}" needs over {len(number):,} states')
                number[following] = len(number)
                waiting.append(following)
            row.append(number[following])
        rows.append(row)
    accepts = [any(p in whole.last for p in subset) or (subset == start and whole.empty) for subset in waiting]
    return Machine(rows, outputs=np.array(accepts, dtype=np.int64), alphabet=symbols, output_names=("0", "1"))
