"""What the paper says in words, beside what the records of a table say to it."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from statewise.papers.table import Cell, Row, Table
from statewise.wording import counted, fixed

# a score that counts as right, and a difference that counts as one
RIGHT, APART = 0.95, 0.1
Score = Callable[[Cell], float | None]
# what differs from the paper where a verdict does
_SMALLER = {"quick": " (with smaller networks and fewer steps than the paper's)", "paper": ""}


def reply(table: Table) -> list[str]:
    """Gives what a table's records say to the paper's words, first what is told and then a line for each row.

    Empty for tables that the paper says nothing of in words, and where nothing was run yet.
    """
    rows = [row for row in table.rows if any(cell.best is not None for cell in row.cells)]
    return _REPLIES[table.name](rows, table.preset) if table.name in _REPLIES and rows else []


def _least_words(rows: Sequence[Row], preset: str) -> list[str]:
    told = (
        f"The least number of words with which the median seed scores {RIGHT} or more, "
        "on unseen words of the training length and at 500:"
    )
    near, far = attrgetter("short"), attrgetter("best")
    lines = [
        f"{row.label} ({row.recipe}): {_told(row, near)} on the training length, {_told(row, far)} at 500"
        for row in rows
    ]
    near_and_far = [pair for row in rows for cell in row.cells for pair in zip(cell.inside, cell.scores, strict=True)]
    ends = [end for begin, end in near_and_far if begin >= RIGHT]
    shifted = (
        f"words of one length leave a turn open that all symbols share: of {counted(len(ends), 'seed')} that are right "
        f"on the training length, {sum(score < -APART for score in ends)} are below chance by more than {APART} at 500"
    )
    lines.append(shifted)
    # with one side alone there is nothing to compare
    if len({row.recipe == "baseline" for row in rows}) == 2:
        where = ((near, "on the training length"), (far, "at 500"))
        compared = "; ".join(_fewer_than_baselines(rows, score, place) for score, place in where)
        said = "the paper says that bilinear models need fewer words than the others"
        lines.append(f"{said}: {compared}{_SMALLER[preset]}")
    return [told, *lines]


def _least(row: Row, score: Score) -> int | None:
    """Gives the least number of words that is enough; None where none was."""
    return min(
        (cell.m for cell in row.cells if (reached := score(cell)) is not None and reached >= RIGHT), default=None
    )


def _told(row: Row, score: Score) -> str:
    least = _least(row, score)
    most = max(cell.m for cell in row.cells if score(cell) is not None)
    return f"not with {most:,}" if least is None else f"{least:,}"


def _fewer_than_baselines(rows: Sequence[Row], score: Score, where: str) -> str:
    """Compares the rows of bilinear models with those of the others."""
    others = [_least(row, score) for row in rows if row.recipe == "baseline"]
    bilinear = [(row, _least(row, score)) for row in rows if row.recipe != "baseline"]
    enough = [words for words in others if words is not None]
    if not enough and all(words is None for _, words in bilinear):
        return f"{where}, no row is right, so that it cannot be told"
    more = [row for row, words in bilinear if words is None or (enough and words >= min(enough))]
    unlike = ", ".join(f"{row.label} ({row.recipe})" for row in more)
    return f"{where}, {len(bilinear) - len(more)} of {len(bilinear)} rows do" + (f", not {unlike}" if more else "")


def _with_terms(rows: Sequence[Row], preset: str) -> list[str]:
    told = (
        f"Of the columns in which a model without an additive term scores {RIGHT} or more, in how many does one lower "
        f"it by more than {APART}?"
    )
    without: dict[tuple[str, str], Row] = {}
    lines = []
    lowered, tried = 0, 0
    for row in rows:
        # a model's first row is the one without a term
        plain = without.setdefault((row.model, row.recipe), row)
        if row is plain:
            continue
        pairs = [(a.best, b.best) for a, b in zip(plain.cells, row.cells, strict=True)]
        both = [(a, b) for a, b in pairs if a is not None and b is not None and a >= RIGHT]
        lower = sum(b < a - APART for a, b in both)
        lines.append(f"{row.label} ({row.recipe}): {lower} of {len(both)}")
        lowered, tried = lowered + lower, tried + len(both)
    if tried:
        said = f"the paper says that terms lower the score: here they do in {lowered} of {tried} columns in all"
        lines.append(said + _SMALLER[preset] * (lowered < tried))
    return [told, *lines] if lines else []


def _factored(rows: Sequence[Row], preset: str) -> list[str]:
    ends = [(row, row.cells[-1]) for row in rows if row.model.startswith("cp(")]
    lines = [
        f"{row.label} ({row.recipe}): {fixed(end.best)} at 500, {fixed(end.short)} on short words"
        for row, end in ends
        if end.best is not None and end.short is not None
    ]
    told = "The paper's CP-factored model, whose rank is not known, is nearly right at the largest m on one task; here"
    return [f"{told}{_SMALLER[preset]}:", *lines] if lines else []


_REPLIES: dict[str, Callable[[Sequence[Row], str], list[str]]] = {
    "table-addition": _factored,
    "table-machine": _factored,
    "table-arithmetic": _factored,
    "figure2": _least_words,
    "figure3": _with_terms,
}
