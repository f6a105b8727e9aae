"""A table of a paper as one picture: of every model the published scores, and ours under every reading."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from statewise.models.table import kind_of
from statewise.papers import Line, Table, lines_of
from statewise.papers.contents import Column
from statewise.papers.lines import column_text
from statewise.report.charts import Number, fixed
from statewise.report.heat import step_of
from statewise.report.palette import light_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# in inches: a column at least, all columns at least, a line, the gap between models, and all around
_COLUMN, _COLUMNS, _LINE, _GAP, _AROUND = 0.72, 3.6, 0.205, 0.11, 0.95
# a letter of a column's or reading's name, and of a model's, which is bold
_LETTER, _BOLD = 0.056, 0.073
NO_CELL, QUIET, INK = "#f1f1ef", "#5a6472", "#1c2430"
PAPER, CONSTANT = "the paper", "best constant answer"


@dataclass(frozen=True)
class _Strip:
    """One line of the picture: a model's published scores, or its scores under a reading; top is in inches."""

    name: str
    top: float
    scores: tuple[float | None, ...]
    planned: tuple[bool, ...]


@dataclass(frozen=True)
class _Model:
    """The lines of one model."""

    label: str
    strips: tuple[_Strip, ...]


def draw_table(table: Table) -> "Callable[[Axes], None]":
    """Draw a table as a heat map: a line for each reading below the paper's, a column for each m."""
    models = _models(table)

    def draw(axes: "Axes") -> None:
        down = max((strip.top for model in models for strip in model.strips), default=0.0) + _LINE
        names = max((len(strip.name) for model in models for strip in model.strips), default=0)
        labels = max((len(model.label) for model in models), default=0)
        # all places are in inches, so that names have the room that they need
        named = max(len(column_text(table, column)) for column in table.columns)
        wide = max(_COLUMN, _COLUMNS / len(table.columns), _LETTER * named + 0.15)
        across = wide * len(table.columns)
        left = _LETTER * names + 0.25
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_layout_engine("none")
        size = left + _BOLD * labels + 0.25 + across + 0.15, down + _AROUND
        figure.set_size_inches(*size)
        axes.set_position((1 - (across + 0.15) / size[0], 0.42 / size[1], across / size[0], down / size[1]))
        axes.set_axis_off()
        axes.set_xlim(0, across)
        axes.set_ylim(down, 0)
        write = partial(axes.text, va="center", clip_on=False)
        for place, column in enumerate(table.columns):
            write((place + 0.5) * wide, -0.13, column_text(table, column), ha="center", fontsize=8, color=QUIET)
        for model in models:
            middle = (model.strips[0].top + model.strips[-1].top + _LINE) / 2
            write(-left, middle, model.label, ha="right", fontsize=8.5, fontweight="bold", color=INK)
            for strip in model.strips:
                write(-0.08, strip.top + _LINE / 2, strip.name, ha="right", fontsize=7.5, color=QUIET)
                for place, score in enumerate(strip.scores):
                    if strip.planned[place]:
                        _draw_cell(axes, place * wide, strip.top, wide, score, strip.name == PAPER)
        title = f"{table.title}: score at length {table.length:,}"
        axes.text(-size[0] + across + 0.25, -0.36, title, fontsize=10, ha="left", va="center", color=INK)
        draw_key(axes, down + 0.13)

    return draw


def _models(table: Table) -> list[_Model]:
    """Lay out the models that have been run."""
    by_label: dict[str, list[Line]] = {}
    for line in lines_of(table):
        by_label.setdefault(line.label, []).append(line)
    models, top = [], 0.0
    for label, lines in by_label.items():
        if not any(line.has_run for line in lines):
            continue
        at = {line.column: line for line in lines}
        strips = []
        published = tuple(table.published.get((lines[0].model, column)) for column in table.columns)
        published = published if lines[0].published is not None else (None,) * len(published)
        if any(score is not None for score in published):
            strips.append(_Strip(PAPER, top, published, tuple(score is not None for score in published)))
            top += _LINE
        for name, reading in table.readings.items():
            cells = [at[column].cells.get(name) if column in at else None for column in table.columns]
            if any(cell is not None for cell in cells):
                scores = tuple(None if cell is None else cell.best for cell in cells)
                planned = tuple(cell is not None for cell in cells)
                strips.append(_Strip(_title(lines[0].model, name, reading.title), top, scores, planned))
                top += _LINE
                after = tuple(None if cell is None else cell.score_polished for cell in cells)
                if any(score is not None for score in after):
                    title = f"{reading.title}, polished, at {table.longest:,}"
                    strips.append(_Strip(title, top, after, tuple(score is not None for score in after)))
                    top += _LINE
        models.append(_Model(label, tuple(strips)))
        top += _GAP
    constants = tuple(_constant(table, column) for column in table.columns)
    if any(constant is not None for constant in constants):
        known = tuple(constant is not None for constant in constants)
        models.append(_Model(CONSTANT, (_Strip("same sequences", top, constants, known),)))
    return models


def _constant(table: Table, column: Column) -> float | None:
    """Return the highest score of a constant answer on the test sequences of a column."""
    found = [line.constant for line in lines_of(table) if line.column == column and line.constant is not None]
    return max(found, default=None)


def _title(model: str, name: str, title: str) -> str:
    """Return what a reading is called; baselines get more than the paper's protocol in order to learn at all."""
    kind = kind_of(model)
    if kind is not None and kind.is_level:
        return title
    return {"stated": "cross-entropy", "squared": "squared error"}.get(name, title)


def _draw_cell(axes: "Axes", left: Number, top: Number, width: Number, score: float | None, published: bool) -> None:
    """Draw a score as colour and number; what was not run is grey."""
    step = step_of(score)
    ground, ink = (NO_CELL, QUIET) if step is None else light_scale()[step]
    draw_square(axes, left, top, width, _LINE, ground, 1)
    text = "not run" if score is None else fixed(score)
    weight, style = ("normal", "italic") if published or score is None else ("bold", "normal")
    axes.text(
        left + width / 2,
        top + _LINE / 2 + 0.005,
        text,
        ha="center",
        va="center",
        color=ink,
        fontsize=7.5 if score is not None else 6.5,
        fontweight=weight,
        fontstyle=style,
    )


def draw_key(axes: "Axes", top: Number) -> None:
    """Draw below the cells what their colours mean."""
    scale, width = light_scale(), 0.11
    write = partial(axes.text, va="center", fontsize=7, color=QUIET, clip_on=False)
    write(0.0, top + 0.07, "chance 0", ha="left")
    for step, (ground, _) in enumerate(scale):
        draw_square(axes, 0.55 + step * width, top, width, 0.14, ground, 0)
    write(0.6 + len(scale) * width, top + 0.07, "1 perfect", ha="left")


def draw_square(
    axes: "Axes", left: Number, top: Number, width: Number, height: Number, ground: str, edge: Number
) -> None:
    """Draw a square of a heat map; places are in inches."""
    from matplotlib.patches import Rectangle

    square = Rectangle((left, top), width, height, facecolor=ground, edgecolor="white", linewidth=edge, clip_on=False)
    axes.add_patch(square)
