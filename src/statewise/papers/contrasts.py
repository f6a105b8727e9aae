"""Contrasts between architectures that the paper reports, judged by records of training on equal terms.

A contrast survives in a column if the model that is ahead is right at the paper's length, the one behind has learned
its training lengths, and is not right at the paper's length. One that has not learned its training lengths within the
common budget shows nothing about length generalisation, and is counted apart.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from statewise.papers.comparison import Cell, Table
from statewise.papers.contents import Column, Contrast
from statewise.papers.verdicts import LEARNED
from statewise.wording import fixed

# a score at the paper's length that counts as right
RIGHT = 0.95
SURVIVES, GONE, UNLEARNED, NOT_AHEAD, NOT_RUN = (
    "survives",
    "does not survive",
    "training lengths were not learned",
    "the model ahead is not right either",
    "not run",
)


@dataclass(frozen=True)
class Judged:
    """A contrast in one column, for one of the models behind and one loss.

    Args:
        reading: of both models.
        behind: the model that is behind in the paper.
        column: of the grid.
        outcome: "survives", "does not survive", or why nothing can be concluded.
        numbers: the scores that decide it.
    """

    reading: str
    behind: str
    column: Column
    outcome: str
    numbers: str


def judge_contrast(table: Table, contrast: Contrast) -> list[Judged]:
    """Judge a contrast in every column and for every loss."""
    found = []
    for reading in table.readings:
        for behind in contrast.behind:
            for column in contrast.columns:
                ahead_cell, behind_cell = (_cell(table, model, reading, column) for model in (contrast.ahead, behind))
                # a model may not be planned for every task
                if behind_cell is not None:
                    outcome = _outcome(ahead_cell, behind_cell)
                    numbers = f"{_numbers(contrast.ahead, ahead_cell)}, {_numbers(behind, behind_cell)}"
                    found.append(Judged(reading, behind, column, outcome, numbers))
    return found


def count_outcomes(judged: Iterable[Judged]) -> str:
    """Write how many columns came out how."""
    counts = Counter(one.outcome for one in judged)
    return ", ".join(f"{outcome} {counts[outcome]}" for outcome in _OUTCOMES if counts[outcome])


def _cell(table: Table, model: str, reading: str, column: Column) -> Cell | None:
    rows = (row for row in table.rows if (row.model, row.reading) == (model, reading))
    return next((row.at(column) for row in rows), None)


def _outcome(ahead: Cell | None, behind: Cell) -> str:
    if ahead is None or ahead.best is None or behind.best is None or behind.score_id is None:
        return NOT_RUN
    if behind.best >= RIGHT:
        return GONE
    if ahead.best < RIGHT:
        return NOT_AHEAD
    return SURVIVES if behind.score_id >= LEARNED else UNLEARNED


def _numbers(model: str, cell: Cell | None) -> str:
    if cell is None or cell.best is None or cell.score_id is None:
        return f"{model} not run"
    return f"{model} {fixed(cell.score_id)} on training lengths and {fixed(cell.best)} at 500"


_OUTCOMES = (SURVIVES, GONE, UNLEARNED, NOT_AHEAD, NOT_RUN)
