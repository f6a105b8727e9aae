"""Small charts as SVG whose colours are the page's own, so that they follow its light and its dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal

from markupsafe import Markup

from statewise import wording
from statewise.report.palette import DEGREES, KINDS, OPEN, shape_of

Number = int | float
Place = tuple[Number, Number]
Point = tuple[float, float]

# curves with more points than these have one mark
_FEW = 12
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 280, 38, 10, 8, 22
_NOTHING = Markup("")
# of marks that are not round, in units of a circle's radius
_CORNERS = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "frame": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    "triangle": ((0, -1.3), (1.25, 0.9), (-1.25, 0.9)),
    "wedge": ((0, 1.3), (1.25, -0.9), (-1.25, -0.9)),
    "diamond": ((0, -1.35), (1.2, 0), (0, 1.35), (-1.2, 0)),
    "plus": (
        (-0.45, -1.3), (0.45, -1.3), (0.45, -0.45), (1.3, -0.45), (1.3, 0.45), (0.45, 0.45),
        (0.45, 1.3), (-0.45, 1.3), (-0.45, 0.45), (-1.3, 0.45), (-1.3, -0.45), (-0.45, -0.45),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A curve, or dots.

    Args:
        points: x and y; gaps are left out.
        colour: a class of the style sheet: c0 to c7 for kinds, q0 to q5 for degrees.
        title: shown on hover.
        kind: "line" is the main curve, "faint" one of many behind it, "dots" are marks alone; "guide" is a dotted line
            without a colour of its own.
        cross: whether the curve ends in a cross: what followed was not finite.
        marked: whether a faint curve has a mark of its class, where no main curve shows its colour.
    """

    points: Sequence[tuple[Number, Number]]
    colour: str
    title: str = ""
    kind: Literal["line", "faint", "dots", "guide"] = "line"
    cross: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, with its ticks."""

    low: Number
    high: Number
    ticks: tuple[tuple[Number, str], ...]
    label: str = ""
    logarithmic: bool = False

    def place(self, value: Number) -> float:
        """Return where a value lies, from 0 to 1; what is outside is put on the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(self.low), math.log(self.high), math.log(value)
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True)
class Key:
    """One entry of a legend; without a colour it is that of a guide."""

    colour: str
    text: str

    @property
    def picture(self) -> Markup:
        """A piece of the curve, with its mark."""
        opening = Markup('<svg viewBox="0 0 21 8" aria-hidden="true">')
        if not self.colour:
            return opening + Markup('<path class="guide" d="M0 4H21"/></svg>')
        piece = Markup('<path class="line {}" d="M0 4H21"/>').format(self.colour)
        return Markup("").join([opening, piece, _mark("point", self.colour, (10.5, 4), 2.8), Markup("</svg>")])


@dataclass(frozen=True)
class Panel:
    """A chart, or several above each other, with a title."""

    title: str
    note: str
    charts: tuple[Markup, ...]


def score_axis(scores: Sequence[Number], label: str = "") -> Axis:
    """Return an axis for scores: 0 is chance, 1 is perfect; lower scores make room for themselves."""
    low = min([0, *scores])
    # what is hardly below 0 is noise around it, and has no room for a tick
    below = [tick for tick in (-1, -0.5) if low <= tick + 0.1] or ([-0.25] if low < -0.1 else [])
    ticks = tuple((tick, f"{tick:g}".replace("-", "−")) for tick in (*below, 0, 0.5, 1))
    return Axis(min([low, *below]) - 0.05, 1.05, ticks, label)


def log_axis(values: Sequence[Number], label: str = "", ticks: Sequence[Number] | None = None) -> Axis:
    """Return a logarithmic axis around positive values, with ticks at some powers of ten or at given values."""
    low, high = min(values, default=1.0), max(values, default=10.0)
    if low == high:
        low, high = low / 2, high * 2
    if ticks is None:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        stride = max(1, math.ceil((last - first + 1) / 4))
        ticks = [10.0**power for power in range(first, last + 1, stride)]
        ticks = ticks if len(ticks) > 1 else [low, high]
    return Axis(low, high, tuple((tick, short_number(tick)) for tick in ticks), label, True)


def step_axis(longest: Number, label: str = "steps") -> Axis:
    """Return an axis from 0 to the last step."""
    ticks = tuple((longest * part, short_number(longest * part)) for part in (0, 0.5, 1))
    return Axis(0, max(longest, 1), ticks, label)


def short_number(value: Number) -> str:
    """Write a number that is not negative in few characters: 10k, 2,500, 0.01, 1e-6."""
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 1e4:
        return f"{value / 1e3:.3g}k"
    if value >= 1e3:
        return f"{value:,.0f}"
    if 0 < value < 1e-3:
        digits, power = f"{value:.0e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{value:.1g}" if value < 0.1 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def fixed(value: Number, digits: int = 2) -> str:
    """Write a number with so many digits after the point, and with a true minus."""
    return wording.fixed(value, digits).replace("-", "−")


def score_text(value: Number | None) -> str:
    """Write a score as cells have it, with two digits; a dash for none."""
    return "–" if value is None else fixed(value)


def draw_chart(lines: Sequence[Line], x: Axis, y: Axis, name: str, height: int = 132) -> Markup:
    """Draw curves over two axes.

    Args:
        lines: from the back to the front.
        x: across.
        y: up.
        name: what the chart shows, for those who do not see it.
        height: in the units in which the chart is 280 wide.
    """
    top = _TOP + (12 if y.label else 0)
    bottom = height - _BOTTOM - (12 if x.label else 0)

    def at(px: Number, py: Number) -> tuple[float, float]:
        return _LEFT + x.place(px) * (_WIDTH - _LEFT - _RIGHT), bottom - y.place(py) * (bottom - top)

    parts = [Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(_WIDTH, height, name)]
    for tick, text in y.ticks:
        _, up = at(x.low, tick)
        parts.append(Markup('<path class="grid" d="M{} {:.1f}H{}"/>').format(_LEFT, up, _WIDTH - _RIGHT))
        parts.append(Markup('<text x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(_LEFT - 6, up + 3.5, text))
    for place, (tick, text) in enumerate(x.ticks):
        across, _ = at(tick, y.low)
        # the last text must not stand out of the picture
        anchor = "end" if place and x.place(tick) > 0.93 else "middle"
        across_text = across + 4 if anchor == "end" else across
        parts.append(Markup('<path class="tick" d="M{:.1f} {:.1f}v4"/>').format(across, bottom))
        parts.append(
            Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
                across_text, bottom + 15, anchor, text
            )
        )
    parts.append(Markup('<path class="axis" d="M{} {:.1f}H{}"/>').format(_LEFT, bottom, _WIDTH - _RIGHT))
    if y.label:
        parts.append(Markup('<text class="name" x="{}" y="10">{}</text>').format(_LEFT, y.label))
    if x.label:
        parts.append(
            Markup('<text class="name" x="{}" y="{}" text-anchor="end">{}</text>').format(
                _WIDTH - _RIGHT, height - 3, x.label
            )
        )
    placed = [(line, [at(*point) for point in line.points]) for line in lines if line.points]
    # no curve runs over a mark
    parts += [*(_curve(*one) for one in placed), *(_marks(*one) for one in placed)]
    return Markup("").join([*parts, Markup("</svg>")])


def _curve(line: Line, places: Sequence[Place]) -> Markup:
    if line.kind == "dots" or len(places) == 1:
        return Markup("")
    path = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
    return Markup('<path class="{} {}" d="{}">{}</path>').format(line.kind, line.colour, path, _title(line))


def _marks(line: Line, places: Sequence[Place]) -> Markup:
    made = []
    if line.kind == "guide":
        return _NOTHING
    if line.kind == "dots" or len(places) == 1:
        made = [_mark("dot", line.colour, place, 2.2, _title(line)) for place in places]
    elif line.kind == "line" and len(places) <= _FEW:
        made = [_mark("point", line.colour, place, 2.8) for place in places]
    elif line.kind == "line" or line.marked:
        made = [_mark("point", line.colour, places[_one_of(len(places), line.colour)], 2.4)]
    if line.cross:
        across, up = places[-1]
        cross = Markup('<path class="cross {}" d="M{:.1f} {:.1f}l6 6m0 -6l-6 6">{}</path>')
        made.append(cross.format(line.colour, across - 3, up - 3, _title(line)))
    return Markup("").join(made)


def _title(line: Line) -> Markup:
    return Markup("<title>{}</title>").format(line.title) if line.title else Markup("")


def _one_of(count: int, colour: str) -> int:
    """Choose the point that has the mark: for each class another, so that curves on each other are all visible."""
    golden = (math.sqrt(5) - 1) / 2
    return round((int(colour[1:]) + 1) * golden % 1 * (count - 1))


def _mark(kind: str, colour: str, place: Place, size: float, title: Markup = _NOTHING) -> Markup:
    """Draw the mark of a class, all of about the same area."""
    shape = shape_of(colour)
    names = f"{kind} open {colour}" if shape in OPEN else f"{kind} {colour}"
    made = Markup('<path class="{}" d="M{:.1f} {:.1f}{}">{}</path>')
    return made.format(names, *place, _outline(shape, size), title)


@cache
def _outline(shape: str, size: float) -> str:
    """Return the outline of a shape around a point as steps of a path."""
    if shape in ("circle", "ring"):
        half = f"a{size:.3g} {size:.3g} 0 1 0 "
        return f"m-{size:.3g} 0{half}{2 * size:.3g} 0{half}-{2 * size:.3g} 0z"
    corners = _CORNERS[shape]
    steps = [corners[0], *((b[0] - a[0], b[1] - a[1]) for a, b in pairwise(corners))]
    return "m" + "l".join(f"{size * across:.3g} {size * up:.3g}" for across, up in steps) + "z"


def degrees(count: int) -> list[str]:
    """Return classes for so many ordered values, spread over the scale."""
    return [f"q{round(place * (DEGREES - 1) / max(1, count - 1))}" for place in range(count)]


def kinds(count: int) -> list[str]:
    """Return classes for so many unordered values; past eight they begin again."""
    return [f"c{place % KINDS}" for place in range(count)]


def beside(point: Point, angle: float, distance: float) -> Point:
    """Return the point at a distance from another, in the direction of an angle."""
    return point[0] + distance * math.cos(angle), point[1] + distance * math.sin(angle)


def at_point(point: Point) -> str:
    """Write a point as a path has it."""
    return f"{point[0]:.1f} {point[1]:.1f}"
