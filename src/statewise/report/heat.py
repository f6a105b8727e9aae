"""A paper's table as a heat map: of each model the published numbers and the ceilings, and ours in every reading."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from statewise.papers import Cell, Line, Table, lines_of, verdicts
from statewise.papers.verdicts import NOT_LEARNED, NOT_PUBLISHED, NOT_RUN
from statewise.report.entries import Entry
from statewise.store import LENGTH

STEPS = 10
# a mark for each verdict, so that no colour is needed to read it
MARKS = {**verdicts.MARKS, NOT_PUBLISHED: "○", NOT_RUN: "–"}
# of verdicts whose name needs an explanation
MEANINGS = {NOT_LEARNED: "the scores agree, but training lengths were not learned within the budget"}


@dataclass(frozen=True)
class Seed:
    """One run behind a cell."""

    key: str
    seed: int
    score: float | None
    status: str


@dataclass(frozen=True)
class Square:
    """A cell as it is shown.

    Args:
        cell: its numbers and its verdict.
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
    """A model under one reading; columns that it does not have are None.

    Args:
        label: of the model.
        reading: its title.
        squares: by column.
        known: by column, what all readings of the model share.
    """

    label: str
    reading: str
    squares: tuple[Square | None, ...]
    known: tuple[Line | None, ...]


@dataclass(frozen=True)
class Heat:
    """A table as it is shown."""

    table: Table
    rows: tuple[HeatRow, ...]
    counts: Mapping[str, int]
    budgets: tuple[str, ...]


def heat_of(table: Table, entries: Mapping[str, Entry]) -> Heat | None:
    """Lay a table out; None where the store has none of its runs.

    Args:
        table: with our scores.
        entries: the runs of the store, by key.
    """
    if not any(cell.runs for row in table.rows for cell in row.cells):
        return None
    lines = {(line.label, line.column): line for line in lines_of(table)}
    rows, counts, budgets = [], dict.fromkeys(MARKS, 0), []
    for number, row in enumerate(table.rows):
        found = [row.at(column) for column in table.columns]
        squares = [
            None if cell is None else _square(cell, f"cell-{table.name}-{number}-{place}", entries)
            for place, cell in enumerate(found)
        ]
        known = tuple(lines.get((row.label, column)) for column in table.columns)
        rows.append(HeatRow(row.label, table.readings[row.reading].title, tuple(squares), known))
        for cell in row.cells:
            counts[cell.verdict] = counts.get(cell.verdict, 0) + 1
            budgets += [cell.budget] if cell.runs and cell.budget not in budgets else []
    return Heat(table, tuple(rows), counts, tuple(budgets))


def step_of(score: float | None) -> int | None:
    """Return the colour of a score, from 0 to STEPS; what is below chance has the colour of chance."""
    return None if score is None else round(STEPS * min(max(score, 0.0), 1.0))


def _square(cell: Cell, place: str, entries: Mapping[str, Entry]) -> Square:
    known = [entries[key] for key in cell.runs if key in entries]
    rates: dict[str, list[Seed]] = {}
    for entry in sorted(known, key=lambda entry: (-entry.options.lr, entry.options.seed)):
        seed = Seed(entry.key, entry.options.seed, entry.scores.get(LENGTH), entry.status)
        rates.setdefault(f"{entry.options.lr:g}", []).append(seed)
    step = step_of(cell.best)
    best = {rate for rate, scores in cell.by_rate.items() if scores == cell.scores}
    key = _middle([entry for entry in known if f"{entry.options.lr:g}" in best] or known, cell.best)
    return Square(cell, place, step, MARKS.get(cell.verdict, "?"), tuple((r, tuple(s)) for r, s in rates.items()), key)


def _middle(entries: Sequence[Entry], best: float | None) -> str | None:
    """Return the run whose score is nearest to the cell's own number."""
    if not entries:
        return None
    if best is None:
        return entries[0].key
    return min(entries, key=lambda entry: abs(entry.scores.get(LENGTH, -math.inf) - best)).key
