"""Small charts as SVG whose colours are the page's own, so that they follow its light and its dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from statewise import wording

Number = int | float

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 280, 38, 10, 8, 22


@dataclass(frozen=True)
class Line:
    """A curve, or dots.

    Args:
        points: x and y; gaps are left out.
        colour: a class of the style sheet: c0 to c7 for kinds, q0 to q5 for degrees.
        title: shown on hover.
        kind: "line" is the main curve, "faint" one of many behind it, "dots" are marks alone.
        cross: whether the curve ends in a cross: what followed was not finite.
        dashed: whether the curve is broken, to tell two of one colour apart.
    """

    points: Sequence[tuple[Number, Number]]
    colour: str
    title: str = ""
    kind: Literal["line", "faint", "dots"] = "line"
    cross: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, with its ticks."""

    low: Number
    high: Number
    ticks: tuple[tuple[Number, str], ...]
    label: str = ""
    logarithmic: bool = False

    def place(self, value: Number) -> float:
        """Gives where a value lies, from 0 to 1; what is outside is put on the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(self.low), math.log(self.high), math.log(value)
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    colour: str
    text: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart, or several above each other, with a title."""

    title: str
    note: str
    charts: tuple[Markup, ...]


def score_axis(scores: Sequence[Number], label: str = "") -> Axis:
    """Gives an axis for scores: 0 is guessing, 1 is perfect; lower scores make room for themselves."""
    low = min([0, *scores])
    # what is hardly below 0 is noise around it, and has no room for a tick
    below = [tick for tick in (-1, -0.5) if low <= tick + 0.1] or ([-0.25] if low < -0.1 else [])
    ticks = tuple((tick, f"{tick:g}".replace("-", "−")) for tick in (*below, 0, 0.5, 1))
    return Axis(min([low, *below]) - 0.05, 1.05, ticks, label)


def log_axis(values: Sequence[Number], label: str = "", ticks: Sequence[Number] | None = None) -> Axis:
    """Gives a logarithmic axis around positive values, with a tick at some powers of ten or where it is told."""
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
    """Gives an axis from 0 to the last step."""
    ticks = tuple((longest * part, short_number(longest * part)) for part in (0, 0.5, 1))
    return Axis(0, max(longest, 1), ticks, label)


def short_number(value: Number) -> str:
    """Writes a number that is not negative in few characters: 10k, 2,500, 0.01, 1e-6."""
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
    """Writes a number with so many digits after the point, and with a true minus."""
    return wording.fixed(value, digits).replace("-", "−")


def draw_chart(lines: Sequence[Line], x: Axis, y: Axis, name: str, height: int = 132) -> Markup:
    """Draws curves over two axes.

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
    parts += [_drawn(line, [at(*point) for point in line.points]) for line in lines if line.points]
    return Markup("").join([*parts, Markup("</svg>")])


def _drawn(line: Line, places: Sequence[tuple[Number, Number]]) -> Markup:
    title = Markup("<title>{}</title>").format(line.title) if line.title else Markup("")
    made = []
    if line.kind != "dots" and len(places) > 1:
        path = "M" + "L".join(f"{across:.1f} {up:.1f}" for across, up in places)
        kind = f"{line.kind} dashed" if line.dashed else line.kind
        made.append(Markup('<path class="{} {}" d="{}">{}</path>').format(kind, line.colour, path, title))
    if line.kind == "dots" or len(places) == 1:
        small = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="2.2">{}</circle>')
        made += [small.format(line.colour, across, up, title) for across, up in places]
    elif line.kind == "line" and len(places) <= 12:
        mark = Markup('<circle class="mark {}" cx="{:.1f}" cy="{:.1f}" r="2.6"/>')
        made += [mark.format(line.colour, across, up) for across, up in places]
    if line.cross:
        across, up = places[-1]
        cross = Markup('<path class="cross {}" d="M{:.1f} {:.1f}l6 6m0 -6l-6 6">{}</path>')
        made.append(cross.format(line.colour, across - 3, up - 3, title))
    return Markup("").join(made)


def degrees(count: int) -> list[str]:
    """Gives classes for so many ordered values, spread over the scale."""
    return [f"q{round(place * 5 / max(1, count - 1))}" for place in range(count)]


def kinds(count: int) -> list[str]:
    """Gives classes for so many unordered values; past eight they begin again."""
    return [f"c{place % 8}" for place in range(count)]
