"""What the paper claims in words, and what the records of a table say."""

from collections.abc import Callable, Sequence
from operator import attrgetter

from statewise.papers.comparison import Cell, Row, Table
from statewise.wording import counted, fixed

# a score that counts as learned, and a difference that counts as one
LEARNED, APART = 0.95, 0.1
Score = Callable[[Cell], float | None]
# what differs from the paper where a verdict does
_SMALLER = {"quick": " (with smaller networks and fewer steps than the paper's)", "paper": ""}


def judge_claims(table: Table) -> list[str]:
    """Set a table's records beside what the paper claims: first what is counted, then a line for each row.

    Empty for tables of which the paper claims nothing in words, and where nothing was run yet.
    """
    rows = [row for row in table.rows if any(cell.best is not None for cell in row.cells)]
    return _JUDGES[table.name](rows, table.preset) if table.name in _JUDGES and rows else []


def _judge_data_efficiency(rows: Sequence[Row], preset: str) -> list[str]:
    counted_here = (
        f"The smallest number of training sequences with which the median seed scores {LEARNED} or more, "
        "on unseen sequences of the training length and at 500:"
    )
    near, far = attrgetter("score_id"), attrgetter("best")
    lines = [
        f"{row.label} ({row.recipe}): {_enough(row, near)} on the training length, {_enough(row, far)} at 500"
        for row in rows
    ]
    near_and_far = [pair for row in rows for cell in row.cells for pair in zip(cell.inside, cell.scores, strict=True)]
    ends = [end for begin, end in near_and_far if begin >= LEARNED]
    lines.append(
        "sequences of one length leave a rotation undetermined that all symbols share: "
        f"of {counted(len(ends), 'seed')} that score {LEARNED} or more on the training length, "
        f"{sum(score < -APART for score in ends)} are below chance by more than {APART} at 500"
    )
    # with one side alone there is nothing to compare
    if len({row.recipe == "baseline" for row in rows}) == 2:
        where = ((near, "on the training length"), (far, "at 500"))
        compared = "; ".join(_fewer_than_baselines(rows, score, place) for score, place in where)
        claim = "the paper claims that bilinear models need fewer sequences than the others"
        lines.append(f"{claim}: {compared}{_SMALLER[preset]}")
    return [counted_here, *lines]


def _least(row: Row, score: Score) -> int | None:
    """Return the smallest number of sequences that is enough; None where none was."""
    return min(
        (cell.m for cell in row.cells if (reached := score(cell)) is not None and reached >= LEARNED), default=None
    )


def _enough(row: Row, score: Score) -> str:
    least = _least(row, score)
    most = max(cell.m for cell in row.cells if score(cell) is not None)
    return f"not with {most:,}" if least is None else f"{least:,}"


def _fewer_than_baselines(rows: Sequence[Row], score: Score, where: str) -> str:
    """Compare the rows of bilinear models with those of the others."""
    others = [_least(row, score) for row in rows if row.recipe == "baseline"]
    bilinear = [(row, _least(row, score)) for row in rows if row.recipe != "baseline"]
    enough = [sequences for sequences in others if sequences is not None]
    if not enough and all(sequences is None for _, sequences in bilinear):
        return f"{where}, no row scores {LEARNED}, so that there is nothing to compare"
    more = [row for row, sequences in bilinear if sequences is None or (enough and sequences >= min(enough))]
    unlike = ", ".join(f"{row.label} ({row.recipe})" for row in more)
    return f"{where}, {len(bilinear) - len(more)} of {len(bilinear)} rows do" + (f", not {unlike}" if more else "")


def _judge_additive_terms(rows: Sequence[Row], preset: str) -> list[str]:
    counted_here = (
        f"Of the columns in which a model without an additive term scores {LEARNED} or more, in how many does one "
        f"lower it by more than {APART}?"
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
        both = [(a, b) for a, b in pairs if a is not None and b is not None and a >= LEARNED]
        lower = sum(b < a - APART for a, b in both)
        lines.append(f"{row.label} ({row.recipe}): {lower} of {len(both)}")
        lowered, tried = lowered + lower, tried + len(both)
    if tried:
        verdict = f"the paper claims that terms lower the score: here they do in {lowered} of {tried} columns in all"
        lines.append(verdict + _SMALLER[preset] * (lowered < tried))
    return [counted_here, *lines] if lines else []


def _judge_factored(rows: Sequence[Row], preset: str) -> list[str]:
    ends = [(row, row.cells[-1]) for row in rows if row.model.startswith("cp(")]
    lines = [
        f"{row.label} ({row.recipe}): {fixed(end.best)} at 500, {fixed(end.score_id)} on training lengths"
        for row, end in ends
        if end.best is not None and end.score_id is not None
    ]
    claim = "The paper's CP-factored model, whose rank is not known, scores 0.95 at the largest m on one task; here"
    return [f"{claim}{_SMALLER[preset]}:", *lines] if lines else []


_JUDGES: dict[str, Callable[[Sequence[Row], str], list[str]]] = {
    "table-addition": _judge_factored,
    "table-machine": _judge_factored,
    "table-arithmetic": _judge_factored,
    "figure2": _judge_data_efficiency,
    "figure3": _judge_additive_terms,
}
