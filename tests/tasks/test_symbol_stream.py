"""Symbols are read from streams in pieces of any size, and memory does not grow with their number."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewise.errors import StatewiseError, WordError
from statewise.tasks.symbol_stream import number_symbols, read_symbols


class Pieces:
    """A stream that hands out given pieces."""

    def __init__(self, pieces):
        self.pieces = iter(pieces)

    def read1(self, size=-1, /):
        return next(self.pieces, b"")


def symbols(text, alphabet, cuts=()):
    content, edges = text.encode(), [0, *sorted(cuts), None]
    pieces = [content[a:b] for a, b in itertools.pairwise(edges)]
    return [number for some in read_symbols(Pieces(filter(None, pieces)), alphabet) for number in some]


@pytest.mark.parametrize(
    ("text", "alphabet", "expected"),
    [
        ("0 1\n1\t0", "01", [0, 1, 1, 0]),
        ("0110\n01", "01", [0, 1, 1, 0, 0, 1]),
        ("\ufeff0 1", "01", [0, 1]),
        ("", "01", []),
        ("  \n", "01", []),
        ("ACK SYN+ACK\nSYN", ["SYN", "ACK", "SYN+ACK"], [1, 2, 0]),
        ("set 1\nhold\r\n\nset 1\n", ["hold", "set 1"], [1, 0, 1]),
        ("é π é", ["π", "é"], [1, 0, 1]),
        ("(0 1)\n(0 1 2)", ["(0 1)", "(0 1 2)"], [0, 1]),
    ],
)
def test_names_stand_between_spaces_on_lines_or_side_by_side(text, alphabet, expected):
    assert symbols(text, list(alphabet)) == expected
    # wherever the stream is cut, in the middle of a name or of a character
    for cut in range(1, len(text.encode())):
        assert symbols(text, list(alphabet), [cut]) == expected


@given(st.lists(st.sampled_from(["a", "bb", "ccc"])), st.lists(st.integers(1, 60)))
def test_any_cuts_read_the_same(names, cuts):
    text = " ".join(names)
    assert symbols(text, ["a", "bb", "ccc"], cuts) == [len(name) - 1 for name in names]


def test_an_unknown_symbol_has_a_place_and_those_before_it_are_read():
    reading = read_symbols(Pieces([b"0 1 ", b"1 x 1"]), "01")
    assert [*next(reading), *next(reading)] == [0, 1, 1]
    with pytest.raises(WordError, match='symbol 4 is "x"; expected one of 0, 1; correct it'):
        next(reading)
    with pytest.raises(WordError, match=r'symbol 5,001 is "7"'):
        list(number_symbols(["0"] * 5_000 + ["7"], "01"))
    with pytest.raises(StatewiseError, match="follows upon symbol 0 is not UTF-8"):
        list(read_symbols(Pieces([b"\xff\xfe"]), "01"))


def test_text_without_end_is_refused_before_it_is_kept():
    endless = Pieces(b"abcd" * 10_000 for _ in range(10_000))
    with pytest.raises(WordError, match='symbol 1 is "abcdabcd'):
        list(read_symbols(endless, ["ab", "cd"]))


def test_memory_does_not_grow_with_the_number_of_symbols():
    def peak(pieces):
        tracemalloc.start()
        count = sum(map(len, read_symbols(Pieces(b"0 1 1 0 " * 1_000 for _ in range(pieces)), "01")))
        assert count == 4_000 * pieces
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    # two hundred times as many symbols, at a generous bound: all of them would take 6.4 MB
    assert peak(200) < peak(1) + 1_000_000
