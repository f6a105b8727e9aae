"""Figures of a paper beside ours, each as PNG, SVG and the numbers behind it as CSV."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.papers import Cell, Row, Table, headings_of, lines_of
from statewise.papers.facts import FrozenScore
from statewise.papers.rotations import PlaneRow
from statewise.report.figure import figure_of, panels_of
from statewise.report.palette import GUIDE, light_kinds, line_style
from statewise.report.table_files import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# by how much of a column curves lie beside each other
_ASIDE = 0.035
# a letter of a legend, in inches
_LETTER = 0.066


def write_figure(out: Path, name: str, draw: "Callable[[Axes], None]") -> list[Path]:
    """Draw one figure into a .png and an .svg file."""
    files = [out / f"{name}.png", out / f"{name}.svg"]
    for file in files:
        with figure_of(file) as axes:
            draw(axes)
    return files


def write_rows(out: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows of plain values as CSV."""
    return write_csv(out / f"{name}.csv", rows)


def cells_of(table: Table) -> list[dict[str, Any]]:
    """Return a row for each cell of a table, as CSV has it."""
    return [
        {
            "model": row.model,
            "label": row.label,
            "reading": row.reading,
            table.column: cell.column,
            "task": cell.task,
            "best": cell.best,
            "scores": _several(cell.scores),
            "training": _several(cell.inside),
            "longer": _several(cell.longer),
            "polished": _several(cell.polished),
            "converged": cell.converged,
            "horizons": " ".join("-" if horizon is None else str(horizon) for horizon in cell.horizons),
            "published": cell.published,
            "constant": cell.guess,
            "ceiling": cell.ceiling,
            "verdict": cell.verdict,
            "note": cell.note,
            "budget": cell.budget,
        }
        for row in table.rows
        for cell in row.cells
    ]


def written_lines(table: Table) -> list[dict[str, Any]]:
    """Return a row for each model in each column, with every reading beside the paper, as CSV has it."""
    headings = headings_of(table)
    return [
        {"model": line.model, "label": line.label, table.column: line.column}
        | {heading.key: line.value(heading) for heading in headings}
        | {"constant": line.constant}
        for line in lines_of(table)
    ]


def write_readings(out: Path, name: str, table: Table, inside: bool = False) -> list[Path]:
    """Draw a panel for each reading, with a curve for each model, and one for what polish makes of ours.

    Args:
        out: a directory.
        name: of the files.
        table: with a number in each column.
        inside: whether scores on training lengths are drawn, and not those at the paper's length.
    """
    scores: list[tuple[str, str, Callable[[Cell], float | None]]] = [
        (reading.title, key, attrgetter("score_id" if inside else "best")) for key, reading in table.readings.items()
    ]
    if not inside:
        scores += [
            (f"{reading.title}, polished", key, attrgetter("score_polished"))
            for key, reading in table.readings.items()
            if "polished" in reading.shows
        ]
    models = list(dict.fromkeys(row.label for row in table.rows))
    found = [score(cell) for _, key, score in scores for row in table.rows if row.reading == key for cell in row.cells]
    lowest = min((value for value in found if value is not None), default=0.0)
    files = [out / f"{name}.png", out / f"{name}.svg"]
    for file in files:
        with panels_of(file, len(scores), 2 if len(scores) > 2 else 1) as panels:
            for axes, (title, key, score) in zip(panels, scores, strict=True):
                _score_axes(axes, table, lowest)
                axes.set_title(title, fontsize=9)
                for row in (row for row in table.rows if row.reading == key):
                    _line(axes, table, row, (models.index(row.label), len(models)), score)
            common_legend(panels, f"{_short_title(table)}: {_what(table, inside)}")
    return files


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


def write_planes(out: Path, name: str, rows: Sequence[PlaneRow], m: int) -> list[Path]:
    """Draw a panel for each stage: the harmonic of each plane against its place by the readout's weights."""
    stages = list(dict.fromkeys(row.stage for row in rows))
    files = [out / f"{name}.png", out / f"{name}.svg"]
    for file in files:
        with panels_of(file, len(stages)) as panels:
            for axes, stage in zip(panels, stages, strict=True):
                _draw_planes(axes, [row for row in rows if row.stage == stage], m)
                axes.set_title(f"Rotations on sums modulo {m}, {stage}", fontsize=9)
            panels[0].set_ylabel(r"harmonic $\theta_1 / (2\pi/m)$")
            # inside, its marks would look like planes
            _legend(panels[-1])
    return files


def _draw_planes(axes: "Axes", rows: Sequence[PlaneRow], m: int) -> None:
    for harmonic in range(-(m // 2), m // 2 + 1):
        axes.axhline(harmonic, color=GUIDE, linewidth=0.5, zorder=0)
    for index, seed in enumerate(sorted({row.seed for row in rows})):
        some = [row for row in rows if row.seed == seed]
        largest = max(row.weight for row in some)
        style = line_style(index)
        axes.scatter(
            [row.place + 0.15 * index for row in some],
            [row.harmonic for row in some],
            s=[10 + 70 * row.weight / largest for row in some],
            marker=style["marker"],
            facecolors=style["markerfacecolor"],
            edgecolors=style["color"],
            label=f"seed {seed}",
        )
    axes.set_xlabel("plane, by the size of the readout's weights")
    axes.locator_params(axis="x", integer=True)


def _score_axes(axes: "Axes", table: Table, lowest: float) -> None:
    for guide in (0, 1):
        axes.axhline(guide, color=GUIDE, linewidth=1)
    axes.set_xticks(range(len(table.columns)), [f"{column:,}" for column in table.columns])
    axes.set_xlabel("training sequences" if table.column == "samples" else table.column)
    axes.set_ylim(min(-0.1, lowest - 0.1), 1.1)


def _line(axes: "Axes", table: Table, row: Row, place: tuple[int, int], score: Callable[[Cell], float | None]) -> None:
    """Draw a row; curves lie beside each other, so that equal scores do not hide each other."""
    index, count = place
    aside = _ASIDE * (index - (count - 1) / 2)
    scored = [(table.columns.index(cell.column) + aside, score(cell)) for cell in row.cells]
    points = [(across, value) for across, value in scored if value is not None]
    if points:
        axes.plot(*zip(*points, strict=True), "-", label=row.label, linewidth=1.2, **line_style(index))


def common_legend(panels: "Sequence[Axes]", title: str) -> None:
    """Write one legend for all panels below them, and what is drawn above them."""
    figure = panels[0].get_figure(root=True)
    assert figure is not None
    found = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.suptitle(title, fontsize=10)
    if found:
        # as many columns as names fit beside each other
        columns = max(1, int(figure.get_size_inches()[0] / (0.6 + _LETTER * max(map(len, found)))))
        figure.legend(
            list(found.values()),
            list(found),
            loc="outside lower center",
            ncols=min(columns, len(found)),
            frameon=False,
            fontsize=8,
        )


def _what(table: Table, inside: bool) -> str:
    return "score on unseen sequences of training lengths" if inside else f"score {table.score.text}"


def _several(scores: Sequence[float]) -> str:
    return " ".join(f"{score:.4f}" for score in scores)


def _short_title(table: Table) -> str:
    """Return the title without what the axes show."""
    return table.title.split(":")[0]


def _legend(axes: "Axes") -> None:
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.5)
