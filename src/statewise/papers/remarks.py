"""What the paper says in words, beside what the records of a table say to it."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from statewise.papers.table import Cell, Row, Table
from statewise.wording import counted, fixed

# a score that counts as right, and a difference that counts as one
RIGHT, APART = 0.95, 0.1


def reply(table: Table) -> list[str]:
    """Gives what a table's records say to the paper's words, first what is told and then a line for each row.

    Empty for tables that the paper says nothing of in words, and where nothing was run yet.
    """
    rows = [row for row in table.rows if any(cell.best is not None for cell in row.cells)]
    return _REPLIES[table.name](rows) if table.name in _REPLIES and rows else []


def _least_words(rows: Sequence[Row]) -> list[str]:
    def least(row: Row, score: Callable[[Cell], float | None]) -> str:
        tried = [(cell.m, score(cell)) for cell in row.cells]
        enough = [words for words, reached in tried if reached is not None and reached >= RIGHT]
        most = max(words for words, reached in tried if reached is not None)
        return f"{min(enough):,}" if enough else f"not with {most:,}"

    told = (
        f"The least number of words with which the median seed scores {RIGHT} or more, "
        "on unseen words of the training length and at 500:"
    )
    short, best = attrgetter("short"), attrgetter("best")
    lines = [
        f"{row.label} ({row.recipe}): {least(row, short)} on the training length, {least(row, best)} at 500"
        for row in rows
    ]
    near_and_far = [pair for row in rows for cell in row.cells for pair in zip(cell.inside, cell.scores, strict=True)]
    far = [far for near, far in near_and_far if near >= RIGHT]
    shifted = (
        f"words of one length leave a turn open that all symbols share: of {counted(len(far), 'seed')} that are right "
        f"on the training length, {sum(score < -APART for score in far)} are below chance by more than {APART} at 500"
    )
    return [told, *lines, shifted]


def _with_terms(rows: Sequence[Row]) -> list[str]:
    told = (
        f"Of the columns in which a model without an additive term scores {RIGHT} or more, in how many does one lower "
        f"it by more than {APART}?"
    )
    without: dict[tuple[str, str], Row] = {}
    lines = []
    for row in rows:
        # a model's first row is the one without a term
        plain = without.setdefault((row.model, row.recipe), row)
        if row is plain:
            continue
        pairs = [(a.best, b.best) for a, b in zip(plain.cells, row.cells, strict=True)]
        both = [(a, b) for a, b in pairs if a is not None and b is not None and a >= RIGHT]
        lines.append(f"{row.label} ({row.recipe}): {sum(b < a - APART for a, b in both)} of {len(both)}")
    return [told, *lines] if lines else []


def _factored(rows: Sequence[Row]) -> list[str]:
    ends = [(row, row.cells[-1]) for row in rows if row.model.startswith("cp(")]
    lines = [
        f"{row.label} ({row.recipe}): {fixed(end.best)} at 500, {fixed(end.short)} on short words"
        for row, end in ends
        if end.best is not None and end.short is not None
    ]
    told = "The paper's CP-factored model, whose rank is not known, is nearly right at the largest m on one task; here:"
    return [told, *lines] if lines else []


_REPLIES: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "table-addition": _factored,
    "table-machine": _factored,
    "table-arithmetic": _factored,
    "figure2": _least_words,
    "figure3": _with_terms,
}
