"""Colours and marks of kinds, on the page and in figures alike: the page's style sheet is the home of the colours."""

import re
from functools import cache
from importlib import resources
from typing import TypedDict

KINDS, DEGREES = 8, 6
# one for each class, since eight colours are never far apart for every eye; the last two are open
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "ring", "frame")
OPEN = frozenset({"ring", "frame"})
# of lines that only guide the eye
GUIDE = "#9aa5b1"
_MARKERS = dict(zip(SHAPES, ("o", "s", "^", "D", "v", "P", "o", "s"), strict=True))


def shape_of(colour: str) -> str:
    """Return the mark of a class of the style sheet: that of its number."""
    return SHAPES[int(colour[1:])]


class LineStyle(TypedDict):
    """How matplotlib draws a curve and its marks."""

    color: str
    marker: str
    markerfacecolor: str
    markersize: int


@cache
def light_kinds() -> tuple[str, ...]:
    """Return the colours of kinds on a light ground, from the style sheet."""
    return tuple(re.findall(r"\.c\d \{ --own: light-dark\((#\w+),", _style()))


@cache
def light_scale() -> tuple[tuple[str, str], ...]:
    """Return the colours of scores on a light ground, from 0 to 1: of the cell and of its text."""
    return tuple(re.findall(r"\.h\d+ \{ background: light-dark\((#\w+), .*?; color: light-dark\((#\w+),", _style()))


def line_style(index: int) -> LineStyle:
    """Return matplotlib's options for a curve of the kind with this number; past eight they begin again."""
    colour, shape = light_kinds()[index % KINDS], SHAPES[index % KINDS]
    return {
        "color": colour,
        "marker": _MARKERS[shape],
        "markerfacecolor": "white" if shape in OPEN else colour,
        "markersize": 5,
    }


@cache
def _style() -> str:
    return (resources.files("statewise.report") / "template" / "style.css").read_text(encoding="utf-8")
