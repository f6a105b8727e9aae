"""Figures of a paper beside ours, each as PNG, SVG and the numbers behind it as CSV."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.files import write_whole
from statewise.papers.table import Cell, Row, Table
from statewise.report.figure import figure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers tell apart
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GUIDE = "#9aa5b1"


def write_figure(out: Path, name: str, draw: "Callable[[Axes], None]") -> list[Path]:
    """Draws one figure into a .png and an .svg file."""
    files = [out / f"{name}.png", out / f"{name}.svg"]
    for file in files:
        with figure_of(file) as axes:
            draw(axes)
    return files


def write_rows(out: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """Writes rows of plain values as CSV."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_whole(out / f"{name}.csv", text.getvalue())
    return out / f"{name}.csv"


def cells_of(table: Table) -> list[dict[str, Any]]:
    """Gives a row per cell of a table, for CSV."""
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
    """Draws the rows of one recipe: our score against the column as lines, the paper's as crosses of their colour."""
    rows = [row for row in table.rows if row.recipe == recipe]

    def draw(axes: "Axes") -> None:
        _score_axes(axes, table)
        for index, row in enumerate(rows):
            colour = PALETTE[index % len(PALETTE)]
            dashes = "-" if index < len(PALETTE) else ":"
            _line(axes, row, row.label, colour, MARKERS[index % len(MARKERS)], dashes)
            published = [(p, c.published) for p, c in enumerate(row.cells) if c.published is not None]
            axes.plot([p for p, _ in published], [y for _, y in published], "x", color=colour, markersize=9)
        axes.plot([], [], "x", color="black", label="the paper's")
        axes.set_title(f"{_short(table)}, {_named(recipe)}", fontsize=9)
        _legend(axes)

    return draw


def draw_rows(table: Table, short: bool = False) -> "Callable[[Axes], None]":
    """Draws every row of a table as a line, at the paper's length or on short words; recipes differ in their dashes."""
    models = list(dict.fromkeys(row.label for row in table.rows))

    def draw(axes: "Axes") -> None:
        _score_axes(axes, table, short)
        for row in table.rows:
            index = models.index(row.label)
            several = len({other.recipe for other in table.rows if other.label == row.label}) > 1
            label = f"{row.label} ({row.recipe})" if several else row.label
            dashes = "--" if row.recipe == "stated" else "-"
            _line(axes, row, label, PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)], dashes, short)
        axes.set_title(_short(table), fontsize=9)
        _legend(axes)

    return draw


def draw_frozen_parity(rows: Sequence[dict[str, Any]], examples: int) -> "Callable[[Axes], None]":
    """Draws the score of frozen networks against length, for each additive term, with the middle half of the draws."""
    names = {"none": "no additive term", "constant": "constant term", "input": "term of the input"}

    def draw(axes: "Axes") -> None:
        axes.axhline(0, color=_GUIDE, linewidth=1)
        for index, (terms, name) in enumerate(names.items()):
            some = [row for row in rows if row["additive"] == terms and row["examples"] == examples]
            lengths = [row["length"] for row in some]
            low, high = ([row[end] for row in some] for end in ("low", "high"))
            axes.fill_between(lengths, low, high, color=PALETTE[index], alpha=0.2)
            scores = [row["score"] for row in some]
            axes.plot(lengths, scores, marker=MARKERS[index], color=PALETTE[index], label=name)
        axes.set_xscale("log")
        axes.set_xlabel("word length")
        axes.set_ylabel("score (0 chance, 1 perfect)")
        axes.set_ylim(-0.2, 1.1)
        axes.set_title(f"Parity by frozen random diagonals, readout fitted to {examples} words", fontsize=9)
        axes.legend(frameon=False, fontsize=8)

    return draw


def draw_planes(rows: Sequence[dict[str, Any]], m: int) -> "Callable[[Axes], None]":
    """Draws the harmonic of each plane against its place by the readout's weights, a series per seed."""

    def draw(axes: "Axes") -> None:
        for harmonic in range(-(m // 2), m // 2 + 1):
            axes.axhline(harmonic, color=_GUIDE, linewidth=0.5, zorder=0)
        for index, seed in enumerate(sorted({row["seed"] for row in rows})):
            some = [row for row in rows if row["seed"] == seed]
            largest = max(row["weight"] for row in some)
            sizes = [10 + 70 * row["weight"] / largest for row in some]
            shown = [row["harmonic"] for row in some]
            places = [row["place"] + 0.15 * index for row in some]
            colour, marker = PALETTE[index % len(PALETTE)], MARKERS[index % len(MARKERS)]
            axes.scatter(places, shown, s=sizes, color=colour, marker=marker, label=f"seed {seed}")
        axes.set_xlabel("plane, by the size of the readout's weights")
        axes.set_ylabel(r"harmonic $\theta_1 / (2\pi/m)$")
        axes.set_title(f"Planes of rotations trained on sums modulo {m}", fontsize=9)
        # inside, its marks would look like planes
        _legend(axes)

    return draw


def _score_axes(axes: "Axes", table: Table, short: bool = False) -> None:
    for guide in (0, 1):
        axes.axhline(guide, color=_GUIDE, linewidth=1)
    axes.set_xticks(range(len(table.columns)), [f"{column:,}" for column in table.columns])
    axes.set_xlabel("training words" if table.column == "samples" else table.column)
    axes.set_ylabel("score on unseen words of training lengths" if short else "score at length 500")
    scores = [_score(cell, short) for row in table.rows for cell in row.cells]
    lowest = min((score for score in scores if score is not None), default=0.0)
    axes.set_ylim(min(-0.15, lowest - 0.1), 1.1)


def _line(axes: "Axes", row: Row, label: str, colour: str, marker: str, dashes: str, short: bool = False) -> None:
    found = [(place, _score(cell, short)) for place, cell in enumerate(row.cells)]
    points = [(place, score) for place, score in found if score is not None]
    places, scores = [place for place, _ in points], [score for _, score in points]
    axes.plot(places, scores, dashes, marker=marker, color=colour, label=label, markersize=5)


def _score(cell: Cell, short: bool) -> float | None:
    return cell.short if short else cell.best


def _short(table: Table) -> str:
    """The title without what the axes say."""
    return table.title.split(":")[0]


def _named(recipe: str) -> str:
    return {"stated": "trained as stated", "statewise": "our recipe"}.get(recipe, "baselines")


def _legend(axes: "Axes") -> None:
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.5)
