"""Figures of a paper beside ours, each as PNG, SVG and the numbers behind it as CSV."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.files import write_whole
from statewise.papers import Cell, Row, Table
from statewise.papers.facts import FrozenScore
from statewise.papers.rotations import PlaneRow
from statewise.papers.verdicts import NOT_RUN
from statewise.report.charts import Number, fixed, score_text
from statewise.report.figure import figure_of
from statewise.report.heat import MARKS, step_of
from statewise.report.palette import GUIDE, light_kinds, light_scale, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# of a table's picture in inches: a column, all columns at least, a row, a letter of a label, the title and the key
_COLUMN, _COLUMNS, _ROW, _LETTER, _AROUND = 0.92, 5.4, 0.5, 0.064, 1.3
# the width of curves with their axes
_CURVES = 5.4
_NO_CELL, _QUIET = "#f1f1ef", "#5a6472"


def write_figure(out: Path, name: str, draw: "Callable[[Axes], None]") -> list[Path]:
    """Draw one figure into a .png and an .svg file."""
    files = [out / f"{name}.png", out / f"{name}.svg"]
    for file in files:
        with figure_of(file) as axes:
            draw(axes)
    return files


def write_rows(out: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows of plain values as CSV."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_whole(out / f"{name}.csv", text.getvalue())
    return out / f"{name}.csv"


def cells_of(table: Table) -> list[dict[str, Any]]:
    """Return a row for each cell of a table, as CSV has it."""
    return [
        {
            "model": row.model,
            "label": row.label,
            "recipe": row.recipe,
            table.column: cell.m,
            "task": cell.task,
            "best": cell.best,
            "scores": " ".join(f"{score:.4f}" for score in cell.scores),
            "longer": " ".join(f"{score:.4f}" for score in cell.longer),
            "published": cell.published,
            "ceiling": cell.ceiling,
            "verdict": cell.verdict,
            "note": cell.note,
            "budget": cell.budget,
        }
        for row in table.rows
        for cell in row.cells
    ]


def draw_table(table: Table, recipe: str) -> "Callable[[Axes], None]":
    """Draw one recipe's rows as a heat map: our score as colour and number, below it the paper's and the ceiling."""
    rows = [row for row in table.rows if row.recipe == recipe]

    def draw(axes: "Axes") -> None:
        across, down = len(table.columns), len(rows)
        left = 0.2 + _LETTER * max(len(row.label) for row in rows)
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(left + max(_COLUMNS, _COLUMN * across), _AROUND + _ROW * down)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=8)
        axes.xaxis.tick_top()
        named = [f"${table.column}$ = {column:,}" for column in table.columns]
        axes.set_xticks([place + 0.5 for place in range(across)], named)
        axes.set_yticks([place + 0.5 for place in range(down)], [row.label for row in rows])
        for place, row in enumerate(rows):
            cells = {cell.m: cell for cell in row.cells}
            for column, m in enumerate(table.columns):
                _draw_cell(axes, column, place, cells.get(m))
        _draw_key(axes, across, down, [cell for row in rows for cell in row.cells])
        axes.set_xlim(0, across)
        axes.set_ylim(down + 1.2, 0)
        axes.set_title(f"{table.title}, {_named(recipe)}", fontsize=9, loc="left", pad=8)

    return draw


def draw_rows(table: Table, inside: bool = False) -> "Callable[[Axes], None]":
    """Draw every row of a table as a line, at the paper's length or on training lengths; recipes differ in dashes."""
    models = list(dict.fromkeys(row.label for row in table.rows))

    def draw(axes: "Axes") -> None:
        _score_axes(axes, table, inside)
        for row in table.rows:
            index = models.index(row.label)
            several = len({other.recipe for other in table.rows if other.label == row.label}) > 1
            label = f"{row.label} ({row.recipe})" if several else row.label
            _line(axes, row, label, index, "--" if row.recipe == "stated" else "-", inside)
        axes.set_title(_short_title(table), fontsize=9)
        _legend(axes)
        # the legend beside the curves takes no room from them
        named = max(len(str(text)) for text in axes.get_legend_handles_labels()[1])
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(_CURVES + _LETTER * named, 3.6)

    return draw


def draw_frozen_parity(rows: Sequence[FrozenScore], examples: int) -> "Callable[[Axes], None]":
    """Draw the score of frozen networks against length, for each additive term, with the middle half of the draws."""
    names = {"none": "no additive term", "constant": "constant term", "input": "term of the input"}

    def draw(axes: "Axes") -> None:
        axes.axhline(0, color=GUIDE, linewidth=1)
        for index, (terms, name) in enumerate(names.items()):
            some = [row for row in rows if row.additive == terms and row.examples == examples]
            lengths = [row.length for row in some]
            low, high = [row.low for row in some], [row.high for row in some]
            axes.fill_between(lengths, low, high, color=light_kinds()[index], alpha=0.2, linewidth=0)
            axes.plot(lengths, [row.score for row in some], label=name, **line_style(index))
        axes.set_xscale("log")
        axes.set_xlabel("sequence length")
        axes.set_ylabel("score (0 chance, 1 perfect)")
        axes.set_ylim(-0.2, 1.1)
        axes.set_title(f"Parity by frozen random diagonals, readout fitted to {examples} sequences", fontsize=9)
        axes.legend(frameon=False, fontsize=8)

    return draw


def draw_planes(rows: Sequence[PlaneRow], m: int) -> "Callable[[Axes], None]":
    """Draw the harmonic of each plane against its place by the readout's weights, a series per seed."""

    def draw(axes: "Axes") -> None:
        for harmonic in range(-(m // 2), m // 2 + 1):
            axes.axhline(harmonic, color=GUIDE, linewidth=0.5, zorder=0)
        for index, seed in enumerate(sorted({row.seed for row in rows})):
            some = [row for row in rows if row.seed == seed]
            largest = max(row.weight for row in some)
            sizes = [10 + 70 * row.weight / largest for row in some]
            shown = [row.harmonic for row in some]
            places = [row.place + 0.15 * index for row in some]
            style = line_style(index)
            face, edge = style["markerfacecolor"], style["color"]
            axes.scatter(
                places, shown, s=sizes, marker=style["marker"], facecolors=face, edgecolors=edge, label=f"seed {seed}"
            )
        axes.set_xlabel("plane, by the size of the readout's weights")
        axes.set_ylabel(r"harmonic $\theta_1 / (2\pi/m)$")
        axes.set_title(f"Planes of rotations trained on sums modulo {m}", fontsize=9)
        # inside, its marks would look like planes
        _legend(axes)

    return draw


def _draw_cell(axes: "Axes", column: int, place: int, cell: Cell | None) -> None:
    """Draw a cell whose top left corner is there; what was not run is grey."""
    step = None if cell is None else step_of(cell.best)
    ground, ink = (_NO_CELL, _QUIET) if step is None else light_scale()[step]
    # the white edge parts the cells
    _draw_square(axes, column, place, 1, 1, ground)
    if cell is None:
        return
    middle = column + 0.5
    write = partial(axes.text, ha="center", va="center", color=ink)
    write(middle, place + 0.75, f"{score_text(cell.published)} / {score_text(cell.ceiling)}", fontsize=6.5)
    if cell.best is None:
        write(middle, place + 0.38, cell.verdict, fontsize=7)
        return
    write(middle, place + 0.38, fixed(cell.best), fontsize=9.5, fontweight="bold")
    write(column + 0.95, place + 0.07, MARKS.get(cell.verdict, "?"), fontsize=8, ha="right", va="top")


def _draw_key(axes: "Axes", across: int, down: int, cells: Sequence[Cell]) -> None:
    """Draw below the cells what their colours, numbers and marks mean."""
    scale, top = light_scale(), down + 0.35
    write = partial(axes.text, ha="left", va="center", fontsize=7, color=_QUIET)
    # a quarter of the columns, with its ends named beside it
    first, width = 0.02 * across, 0.22 * across / len(scale)
    for step, (ground, _) in enumerate(scale):
        _draw_square(axes, first + step * width, top, width, 0.28, ground, 0)
    last = first + len(scale) * width
    write(0, top + 0.15, "0")
    write(last + 0.008 * across, top + 0.15, "1")
    meaning = "our score, as number and colour; below it the paper’s / the ceiling of algebra"
    write(last + 0.05 * across, top + 0.15, meaning)
    verdicts = {cell.verdict for cell in cells} - {NOT_RUN}
    marks = [f"{mark} {verdict}" for verdict, mark in MARKS.items() if verdict in verdicts]
    marks += ["– none known"] if any(cell.published is None or cell.ceiling is None for cell in cells) else []
    write(0, top + 0.68, "     ".join(marks))


def _draw_square(
    axes: "Axes", left: Number, top: Number, width: Number, height: Number, ground: str, edge: Number = 1.5
) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((left, top), width, height, facecolor=ground, edgecolor="white", linewidth=edge))


def _score_axes(axes: "Axes", table: Table, inside: bool) -> None:
    for guide in (0, 1):
        axes.axhline(guide, color=GUIDE, linewidth=1)
    axes.set_xticks(range(len(table.columns)), [f"{column:,}" for column in table.columns])
    axes.set_xlabel("training sequences" if table.column == "samples" else table.column)
    axes.set_ylabel("score on unseen sequences of training lengths" if inside else "score at length 500")
    scores = [_score(cell, inside) for row in table.rows for cell in row.cells]
    lowest = min((score for score in scores if score is not None), default=0.0)
    axes.set_ylim(min(-0.15, lowest - 0.1), 1.1)


def _line(axes: "Axes", row: Row, label: str, index: int, dashes: str, inside: bool) -> None:
    found = [(place, _score(cell, inside)) for place, cell in enumerate(row.cells)]
    points = [(place, score) for place, score in found if score is not None]
    places, scores = [place for place, _ in points], [score for _, score in points]
    axes.plot(places, scores, dashes, label=label, **line_style(index))


def _score(cell: Cell, inside: bool) -> float | None:
    return cell.score_id if inside else cell.best


def _short_title(table: Table) -> str:
    """Return the title without what the axes show."""
    return table.title.split(":")[0]


def _named(recipe: str) -> str:
    return {"stated": "trained as stated", "statewise": "our recipe"}.get(recipe, "baselines")


def _legend(axes: "Axes") -> None:
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.5)
