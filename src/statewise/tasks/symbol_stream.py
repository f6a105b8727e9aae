"""Symbols read from a stream, a piece at a time: memory does not grow with the length of what is read.

Names stand between spaces or on lines of their own. Where every name is one character, they may also stand side by
side, as in 0110; where a name has a space in it, each line is one symbol.
"""

import codecs
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from statewise.errors import WordError, WordsError, shorten

_PIECE = 1 << 16
# names of an iterable that are taken at once
_AT_ONCE = 4_096
# how long a file that has ended is left alone before it is read on, in seconds
_PAUSE = 0.2


@runtime_checkable
class ByteStream(Protocol):
    """What is read from: standard input, or a file opened for bytes."""

    def read1(self, size: int = -1, /) -> bytes:
        """Return what there is, at most so many bytes; nothing at the end."""
        ...


def read_symbols(stream: ByteStream, alphabet: Sequence[str], follow: bool = False) -> Iterator[list[int]]:
    """Yield the numbers of symbols as they are read.

    Args:
        stream: where names are read from.
        alphabet: the names.
        follow: wait for more at the end, as `tail -f` does, for ever.
    """
    split, longest = _splitter(alphabet), max(map(len, alphabet))
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    numbers, count, rest = _Numbers(alphabet), 0, ""
    while True:
        piece = stream.read1(_PIECE)
        if not piece and follow:
            time.sleep(_PAUSE)
            continue
        try:
            text = rest + decoder.decode(piece, final=not piece)
        except UnicodeDecodeError:
            raise WordsError(f"what follows upon symbol {count:,} is not UTF-8 text; give names of symbols") from None
        names, rest = split(text, not piece)
        # a name that is longer than all others is none, however much of it is still to come
        if len(rest) > longest + 2:
            names, rest = [*names, rest], ""
        if names:
            yield from numbers.of(names, count)
            count += len(names)
        if not piece:
            return


def number_symbols(names: Iterable[str], alphabet: Sequence[str]) -> Iterator[list[int]]:
    """Yield the numbers of named symbols, a few at a time."""
    numbers, count, left = _Numbers(alphabet), 0, iter(names)
    while some := list(itertools.islice(left, _AT_ONCE)):
        yield from numbers.of(some, count)
        count += len(some)


class _Numbers:
    def __init__(self, alphabet: Sequence[str]) -> None:
        self.alphabet, self.index = alphabet, {name: number for number, name in enumerate(alphabet)}

    def of(self, names: list[str], before: int) -> Iterator[list[int]]:
        """Yield the numbers of names; at one that is unknown, those before it, and then an error with its place."""
        found = [self.index.get(name, -1) for name in names]
        if -1 not in found:
            yield found
            return
        wrong = found.index(-1)
        yield found[:wrong]
        known = ", ".join(shorten(name) for name in self.alphabet[:10]) + (", ..." if len(self.alphabet) > 10 else "")
        place = before + wrong + 1
        raise WordError(f'symbol {place:,} is "{shorten(names[wrong])}"; expected one of {known}; correct it')


def _splitter(alphabet: Sequence[str]) -> Callable[[str, bool], tuple[list[str], str]]:
    """Return what splits a text into names and the beginning of the next, which may not have been read to its end."""
    if any(len(name.split()) != 1 or name != name.strip() for name in alphabet):
        return _by_lines
    return _by_characters if all(len(name) == 1 for name in alphabet) else _by_spaces


def _by_characters(text: str, ended: bool) -> tuple[list[str], str]:
    return list("".join(text.split())), ""


def _by_spaces(text: str, ended: bool) -> tuple[list[str], str]:
    names = text.split()
    if ended or not names or text[-1].isspace():
        return names, ""
    return names[:-1], names[-1]


def _by_lines(text: str, ended: bool) -> tuple[list[str], str]:
    lines = text.split("\n")
    rest = "" if ended else lines.pop()
    return [line for line in (line.removesuffix("\r") for line in lines) if line], rest
