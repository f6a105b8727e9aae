"""Score against length, all models of a task in one panel: for the page, and as pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

from statewise.report.charts import (
    Key,
    Line,
    Number,
    Panel,
    Place,
    draw_chart,
    fixed,
    kinds,
    log_axis,
    score_axis,
    short_number,
)
from statewise.report.entries import grouped
from statewise.report.figure import panels_of, plain_text
from statewise.report.palette import GUIDE, KINDS, light_kinds, line_style
from statewise.report.panels import Sheet
from statewise.report.paper_figures import common_legend
from statewise.report.results import ResultRow, Spread, TaskResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Item = TypeVar("_Item")

CONSTANT = "best constant answer"
# of one picture
_MOST_PANELS = 12
_ACROSS = 3


@dataclass(frozen=True)
class Curve:
    """One row of the results: its name in the legend, its setting, and its scores by length."""

    name: str
    setting: str
    scores: tuple[tuple[int, Spread], ...]

    @property
    def title(self) -> str:
        """What it shows, in words."""
        setting = f", {self.setting}" if self.setting else ""
        seeds = max(len(spread.scores) for _, spread in self.scores)
        what = f"mean of {seeds} seeds" if seeds > 1 else "one seed"
        end = ", ".join(f"{fixed(spread.mean)} at {short_number(length)}" for length, spread in self.scores)
        return f"{self.name}{setting}, {what}: {end}"


@dataclass(frozen=True)
class TaskCurves:
    """All curves of one task.

    Args:
        title: the task.
        note: what all of its curves were trained on; what differs between them is in their names.
        curves: one for each row.
        constants: the best constant answer by length, for each kind of test sequences.
    """

    title: str
    note: str
    curves: tuple[Curve, ...]
    constants: tuple[tuple[str, tuple[tuple[int, float], ...]], ...]

    def only(self, names: Sequence[str]) -> "TaskCurves":
        """Return the panel with some of its curves."""
        return TaskCurves(self.title, self.note, tuple(c for c in self.curves if c.name in names), self.constants)


def curves_of(tasks: Sequence[TaskResults]) -> list[tuple[Sequence[str], list[TaskCurves]]]:
    """Lay out the curves: no more names together than there are colours, and a panel for each task."""
    panels = [panel for task in tasks if (panel := _task_curves(task)).curves]
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    return [(some, [part for panel in panels if (part := panel.only(some)).curves]) for some in in_parts(names, KINDS)]


def result_sheets(tasks: Sequence[TaskResults]) -> list[Sheet]:
    """Draw the curves for the page: means over seeds, the seeds as dots, the constant answer as a dotted line."""
    parts, sheets = curves_of(tasks), []
    for number, (names, panels) in enumerate(parts):
        colour = dict(zip(names, kinds(len(names)), strict=True))
        drawn = tuple(_panel(panel, colour) for panel in panels)
        legend = tuple(Key(colour[name], name) for name in names)
        title = f"Models {number * KINDS + 1} to {number * KINDS + len(names)}" if len(parts) > 1 else ""
        sheets.append(Sheet(title, (*legend, Key("", CONSTANT)), drawn))
    return sheets


def write_curves(out: Path, name: str, tasks: Sequence[TaskResults]) -> list[Path]:
    """Draw the curves into .png and .svg files; return them."""
    parts = [(names, some) for names, panels in curves_of(tasks) for some in in_parts(panels, _MOST_PANELS)]
    files = []
    for number, (names, panels) in enumerate(parts):
        stem = name if len(parts) == 1 else f"{name}-{number + 1}"
        pictures = out / f"{stem}.png", out / f"{stem}.svg"
        lowest = min(spread.mean for panel in panels for curve in panel.curves for _, spread in curve.scores)
        with panels_of(pictures[0], len(panels), -(-len(panels) // _ACROSS), pictures[1]) as drawn:
            for axes, panel in zip(drawn, panels, strict=True):
                _draw(axes, panel, names)
                axes.set_ylim(min(-0.1, lowest - 0.05), 1.08)
            for axes in drawn[::_ACROSS]:
                axes.set_ylabel("score (0 chance, 1 perfect)")
            common_legend(drawn, "Score against length, mean over seeds")
        files += pictures
    return files


def in_parts(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    """Split a list into parts of at most so many."""
    return [items[first : first + size] for first in range(0, len(items), size)]


def _task_curves(task: TaskResults) -> TaskCurves:
    tested = replace(task, rows=tuple(row for row in task.rows if row.best.scores))
    curves = tuple(
        # what of a row's training differs from other curves of the panel is in its name
        Curve(", ".join(filter(None, (row.name, tested.own_terms(row)))), row.best.name, tuple(_placed(row)))
        for row in tested.rows
    )
    by_tests = grouped(tested.rows, lambda row: row.options.tests)
    constants = tuple((tests, tuple(_constants(some))) for tests, some in by_tests.items())
    return TaskCurves(task.title, tested.shared if curves else "", curves, constants)


def _placed(row: ResultRow) -> Iterator[tuple[int, Spread]]:
    """Return the scores of a row by the length of the longest sequences that each is of."""
    for length, spread in row.best.scores.items():
        yield (length if spread.span is None else spread.span[1]), spread


def _constants(rows: Sequence[ResultRow]) -> Iterator[tuple[int, float]]:
    by_length = grouped((pair for row in rows for pair in _placed(row)), lambda pair: pair[0])
    for length in sorted(by_length):
        spreads = [spread for _, spread in by_length[length]]
        known = [spread.constant for spread in spreads if spread.constant is not None]
        if known:
            yield length, fmean(known)


def _panel(panel: TaskCurves, colour: dict[str, str]) -> Panel:
    lengths = sorted({length for curve in panel.curves for length, _ in curve.scores})
    x = log_axis(lengths, "sequence length", lengths if len(lengths) <= 4 else None)
    lines = [
        Line(_across(points, x.low, x.high), "", f"{CONSTANT}, {tests} tests", "guide")
        for tests, points in panel.constants
    ]
    for curve in panel.curves:
        seeds = [
            (length, score) for length, spread in curve.scores if len(spread.scores) > 1 for score in spread.scores
        ]
        lines.append(Line(seeds, colour[curve.name], kind="dots"))
    for curve in panel.curves:
        points = [(length, spread.mean) for length, spread in curve.scores]
        lines.append(Line(points, colour[curve.name], curve.title))
    heights = [up for line in lines for _, up in line.points]
    name = f"Score against length on {panel.title}, {len(panel.curves)} models"
    return Panel(panel.title, panel.note, (draw_chart(lines, x, score_axis(heights, "score"), name, 190),))


def _across(points: Sequence[Place], low: Number, high: Number) -> Sequence[Place]:
    """Draw what is known of one length over the whole panel."""
    return [(low, points[0][1]), (high, points[0][1])] if len(points) == 1 else points


def _draw(axes: "Axes", panel: TaskCurves, names: Sequence[str]) -> None:
    for guide in (0, 1):
        axes.axhline(guide, color=GUIDE, linewidth=0.6)
    axes.set_xscale("log")
    for _, points in panel.constants:
        if points:
            axes.plot(*zip(*points, strict=True), ":", color="#1c2430", linewidth=1.4, label=CONSTANT)
    for curve in panel.curves:
        place = names.index(curve.name)
        lengths = [length for length, _ in curve.scores]
        spreads = [spread for _, spread in curve.scores]
        low = [spread.mean - (spread.deviation or 0.0) for spread in spreads]
        high = [spread.mean + (spread.deviation or 0.0) for spread in spreads]
        axes.fill_between(lengths, low, high, color=light_kinds()[place % KINDS], alpha=0.15, linewidth=0)
        axes.plot(lengths, [spread.mean for spread in spreads], label=plain_text(curve.name), **line_style(place))
    axes.set_xlabel("sequence length")
    axes.set_title("\n".join(filter(None, (plain_text(panel.title), panel.note))), fontsize=8.5)
