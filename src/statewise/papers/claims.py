"""What the paper claims in words, and what the records of a table say."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from statewise.models.table import kind_of
from statewise.papers.comparison import Cell, Row, Table
from statewise.papers.contents import Column
from statewise.papers.contrasts import count_outcomes, judge_contrast
from statewise.papers.paper import Paper
from statewise.papers.verdicts import ABOVE, AGREES, NOISE
from statewise.wording import counted, fixed

# a score that counts as learned, and a difference that counts as one
LEARNED, APART = 0.95, 0.1
# the grid in which architectures are trained alike
EQUAL_TERMS = "losses"
Score = Callable[[Cell], float | None]
# what differs from the paper where a verdict does
_SMALLER = {"quick": " (with smaller networks and fewer steps than the paper's)", "paper": ""}


@dataclass(frozen=True)
class Reached:
    """How many of the published scores of levels above chance, for m of 3 or more, a reading reaches.

    Args:
        reading: its name.
        cells: of those that were run, the model of each and whether its score agrees with the paper's or is above it.
    """

    reading: str
    cells: tuple[tuple[str, bool], ...]

    @property
    def count(self) -> int:
        """How many are reached."""
        return sum(reached for _, reached in self.cells)


def reached_by(tables: Iterable[Table], reading: str) -> Reached:
    """Count the published scores that a reading reaches; cells that were not run are not counted."""
    # the first row of a model: on random machines permutations, not maps
    found: dict[tuple[str, str, Column], Cell] = {}
    for table in tables:
        for row in table.rows:
            if row.reading == reading and is_level(row.model):
                for cell in row.cells:
                    found.setdefault((table.name, row.model, cell.column), cell)
    cells = [
        (model, cell.verdict in (AGREES, ABOVE))
        for (_, model, column), cell in found.items()
        if column != 2 and cell.best is not None and cell.published is not None and cell.published > NOISE
    ]
    return Reached(reading, tuple(cells))


def judge_claims(paper: Paper, table: Table) -> list[str]:
    """Set a table's records beside what the paper claims: first what is counted, then a line for each row.

    Empty for tables of which the paper claims nothing in words, and where nothing was run yet.
    """
    rows = [row for row in table.rows if any(cell.best is not None for cell in row.cells)]
    if rows and table.name == EQUAL_TERMS:
        return _judge_contrasts(paper, table)
    return _JUDGES[table.name](rows, table.preset) if table.name in _JUDGES and rows else []


def _judge_contrasts(paper: Paper, table: Table) -> list[str]:
    lines = []
    for contrast in paper.contrasts:
        judged = judge_contrast(table, contrast)
        for name, reading in table.readings.items():
            of_reading = [one for one in judged if one.reading == name]
            lines.append(f"{contrast.claim}; under {reading.title}: {count_outcomes(of_reading)}")
    return ["What is left of contrasts between architectures on equal terms, in how many columns:", *lines]


def is_level(model: str) -> bool:
    """Return whether a model is a level of the hierarchy, and not a baseline."""
    kind = kind_of(model)
    return kind is not None and kind.is_level


def _judge_data_efficiency(rows: Sequence[Row], preset: str) -> list[str]:
    counted_here = (
        f"The smallest number of training sequences with which the median seed scores {LEARNED} or more, "
        "on unseen sequences of the training length and at 500:"
    )
    near, far = attrgetter("score_id"), attrgetter("best")
    lines = []
    for row in rows:
        enough = f"{_named(row)}: {_enough(row, near)} on the training length, {_enough(row, far)} at 500"
        polished = any(cell.polished for cell in row.cells)
        lines.append(enough + (f", {_enough(row, attrgetter('score_polished'))} after polish" if polished else ""))
    near_and_far = [pair for row in rows for cell in row.cells for pair in zip(cell.inside, cell.scores, strict=True)]
    ends = [end for begin, end in near_and_far if begin >= LEARNED]
    lines.append(
        "sequences of one length leave a rotation undetermined that all symbols share: "
        f"of {counted(len(ends), 'seed')} that score {LEARNED} or more on the training length, "
        f"{sum(score < -APART for score in ends)} are below chance by more than {APART} at 500"
    )
    # with one side alone there is nothing to compare
    if len({is_level(row.model) for row in rows}) == 2:
        where = ((near, "on the training length"), (far, "at 500"))
        compared = "; ".join(_fewer_than_baselines(rows, score, place) for score, place in where)
        claim = "the paper claims that bilinear models need fewer sequences than the others"
        lines.append(f"{claim}: {compared}{_SMALLER[preset]}")
    return [counted_here, *lines]


def _sequences(row: Row, score: Score, least: float) -> list[int]:
    """Return the numbers of sequences with which a row scores so much."""
    scored = [(cell.column, score(cell)) for cell in row.cells]
    return [column for column, found in scored if isinstance(column, int) and found is not None and found >= least]


def _least(row: Row, score: Score) -> int | None:
    """Return the smallest number of sequences that is enough; None where none was."""
    return min(_sequences(row, score, LEARNED), default=None)


def _enough(row: Row, score: Score) -> str:
    least = _least(row, score)
    return f"not with {max(_sequences(row, score, -1.0)):,}" if least is None else f"{least:,}"


def _fewer_than_baselines(rows: Sequence[Row], score: Score, where: str) -> str:
    """Compare the rows of bilinear models with those of the others."""
    others = [_least(row, score) for row in rows if not is_level(row.model)]
    bilinear = [(row, _least(row, score)) for row in rows if is_level(row.model)]
    enough = [sequences for sequences in others if sequences is not None]
    if not enough and all(sequences is None for _, sequences in bilinear):
        return f"{where}, no row scores {LEARNED}, so that there is nothing to compare"
    fewer = [row for row, least in bilinear if least is not None and (not enough or least < min(enough))]
    named = f" ({', '.join(_named(row) for row in fewer)})" if fewer else ""
    return f"{where}, {len(fewer)} of {len(bilinear)} rows do{named}"


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
        plain = without.setdefault((row.model, row.reading), row)
        if row is plain:
            continue
        pairs = [(a.best, b.best) for a in plain.cells if (b := row.at(a.column)) is not None]
        both = [(a, b) for a, b in pairs if a is not None and b is not None and a >= LEARNED]
        lower = sum(b < a - APART for a, b in both)
        lines.append(f"{_named(row)}: {lower} of {len(both)}")
        lowered, tried = lowered + lower, tried + len(both)
    if tried:
        verdict = f"the paper claims that terms lower the score: here they do in {lowered} of {tried} columns in all"
        lines.append(verdict + _SMALLER[preset] * (lowered < tried))
    return [counted_here, *lines] if lines else []


def _judge_factored(rows: Sequence[Row], preset: str) -> list[str]:
    # the last column of a row is the largest m for which it has enough rank
    ends = [(row, row.cells[-1]) for row in rows if row.model.startswith("cp(")]
    lines = [
        f"{_named(row)}, m = {end.column}: {fixed(end.best)} at 500, {fixed(end.score_id)} on training lengths"
        for row, end in ends
        if end.best is not None and end.score_id is not None
    ]
    claim = "The paper's CP-factored model, whose rank is not known, scores 0.95 at the largest m on one task; here"
    return [f"{claim}{_SMALLER[preset]}:", *lines] if lines else []


def _named(row: Row) -> str:
    return f"{row.label} ({row.reading})"


_JUDGES: dict[str, Callable[[Sequence[Row], str], list[str]]] = {
    "table-addition": _judge_factored,
    "table-machine": _judge_factored,
    "table-arithmetic": _judge_factored,
    "figure2": _judge_data_efficiency,
    "figure3": _judge_additive_terms,
}
