"""A paper's table as a heat map: ours, the published number and the ceiling in one cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statewise.papers import Cell, Table, verdicts
from statewise.papers.verdicts import NOT_LEARNED, NOT_PUBLISHED, NOT_RUN
from statewise.report.entries import FAR, Run

STEPS = 10
# a mark for each verdict, so that no colour is needed to read it
MARKS = {**verdicts.MARKS, NOT_PUBLISHED: "○", NOT_RUN: "–"}
# what a verdict's name does not say
MEANINGS = {NOT_LEARNED: "it agrees, but short words were not learned in this budget, so that it says little"}


@dataclass(frozen=True)
class Seed:
    """One run behind a cell."""

    key: str
    seed: str
    score: float | None
    status: str


@dataclass(frozen=True)
class Square:
    """A cell as it is shown.

    Args:
        cell: what it says.
        place: its name on the page.
        step: its colour, from 0 to STEPS; None where nothing was run.
        mark: its verdict as one character.
        rates: all seeds, by rate.
        key: of the run that its number leads to: the one in the middle at the best rate.
    """

    cell: Cell
    place: str
    step: int | None
    mark: str
    rates: tuple[tuple[str, tuple[Seed, ...]], ...]
    key: str | None


@dataclass(frozen=True)
class HeatRow:
    """A model's row; columns that the table does not have are None."""

    label: str
    recipe: str
    squares: tuple[Square | None, ...]


@dataclass(frozen=True)
class Heat:
    """A table as it is shown."""

    table: Table
    rows: tuple[HeatRow, ...]
    counts: Mapping[str, int]
    budgets: tuple[str, ...]


def heat_of(table: Table, runs: Mapping[str, Run]) -> Heat | None:
    """Lays a table out; None where the store has none of its runs."""
    if not any(cell.runs for row in table.rows for cell in row.cells):
        return None
    rows, counts, budgets = [], dict.fromkeys(MARKS, 0), []
    for number, row in enumerate(table.rows):
        cells = {cell.m: cell for cell in row.cells}
        squares = [
            _square(cells[m], f"cell-{table.name}-{number}-{m}", runs) if m in cells else None for m in table.columns
        ]
        rows.append(HeatRow(row.label, row.recipe, tuple(squares)))
        for cell in row.cells:
            counts[cell.verdict] = counts.get(cell.verdict, 0) + 1
            budgets += [cell.budget] if cell.runs and cell.budget not in budgets else []
    return Heat(table, tuple(rows), counts, tuple(budgets))


def step_of(score: float | None) -> int | None:
    """Gives the colour of a score, from 0 to STEPS; what is below guessing has the colour of guessing."""
    return None if score is None else round(STEPS * min(max(score, 0.0), 1.0))


def _square(cell: Cell, place: str, runs: Mapping[str, Run]) -> Square:
    known = [runs[key] for key in cell.runs if key in runs]
    rates: dict[str, list[Seed]] = {}
    for run in sorted(known, key=lambda run: (-run.rate, run.config.get("seed") or 0)):
        seed = Seed(run.key, str(run.config.get("seed")), run.scores.get(FAR), run.status)
        rates.setdefault(f"{run.rate:g}", []).append(seed)
    step = step_of(cell.best)
    best = {rate for rate, scores in cell.by_rate.items() if scores == cell.scores}
    key = _middle([run for run in known if f"{run.rate:g}" in best] or known, cell.best)
    return Square(cell, place, step, MARKS.get(cell.verdict, "?"), tuple((r, tuple(s)) for r, s in rates.items()), key)


def _middle(runs: Sequence[Run], best: float | None) -> str | None:
    """Gives the run whose score is nearest to the cell's own number."""
    if not runs:
        return None
    if best is None:
        return runs[0].key
    return min(runs, key=lambda run: abs(run.scores.get(FAR, -FAR) - best)).key
