"""Records into tables: of every model under every reading our score, the paper's and the ceiling."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.contents import Column, Reading
from statewise.papers.paper import Paper, PlannedCell, PlannedRow
from statewise.papers.scores import SUMMARIES, AtLength, MeanOverLengths, ScoreRule
from statewise.papers.verdicts import Evidence, best_rate, explain, judge, rate_by_training
from statewise.runs.record import Record
from statewise.training.options import RunOptions
from statewise.wording import counted

# the status of a polish whose residual vanished
CONVERGED = "converged"


@dataclass(frozen=True)
class Cell:
    """One model on one task under one reading, as trained here, as published, and as the algebra allows.

    Args:
        task: the machine; for machines drawn per run, with {seed} for the run's seed.
        column: its m, or whatever the table's columns are.
        best: for each rate the median over seeds, then the best rate; where all are at chance, that which learned most
            on training lengths. On equal terms the best rate is that of training lengths. At that rate the median,
            mean or best of the seeds counts, as in the paper.
        scores: of all seeds at the best rate, at the paper's lengths; a run that diverged counts as chance.
        median: of these.
        by_rate: the scores of every rate.
        published: the paper's score.
        where: its place in the paper.
        ceiling: the highest score that the algebra allows; for several machines the median.
        ceiling_reason: why.
        verdict: "agrees", "above the paper", "below the paper", "not learned", "not published" or "not run".
        note: the likely reason where they disagree, and what else must be known.
        budget: what the runs were given, and how many there are where some are missing.
        runs: their keys.
        inside: scores of these seeds on training lengths, of those with which training begins.
        longer: scores of these seeds at the longest length tried, where that is beyond the paper's.
        longest: that length.
        planned: how many runs the cell has when it is complete.
        guess: the score of the best constant answer; the median over these seeds' test sequences.
        margin: how far from a published score this one is still the same: the paper's tolerance, or two standard errors
            of the sequences that were tested.
        polished: scores of these seeds after polish, at the longest length tried; one whose polish had nothing to solve
            counts as it was trained. Empty where no polish was asked for.
        converged: how many of these converged.
        horizons: up to which length each of them is proven; None if nothing is.
    """

    task: str
    column: Column
    best: float | None
    scores: tuple[float, ...]
    median: float | None
    by_rate: Mapping[str, tuple[float, ...]]
    published: float | None
    where: str
    ceiling: float | None
    ceiling_reason: str
    verdict: str
    note: str
    budget: str
    runs: tuple[str, ...] = ()
    inside: tuple[float, ...] = ()
    longer: tuple[float, ...] = ()
    longest: int | None = None
    planned: int = 0
    guess: float = 0.0
    margin: float = 0.0
    polished: tuple[float, ...] = ()
    converged: int = 0
    horizons: tuple[int | None, ...] = ()

    @property
    def score_id(self) -> float | None:
        """The median on training lengths."""
        return median(self.inside) if self.inside else None

    @property
    def score_longest(self) -> float | None:
        """The median at the longest length, where that is beyond the paper's."""
        return median(self.longer) if self.longer else None

    @property
    def score_polished(self) -> float | None:
        """The median after polish, at the longest length."""
        return median(self.polished) if self.polished else None

    @property
    def proven(self) -> list[int]:
        """The lengths up to which seeds are proven, of those of which something is."""
        return [horizon for horizon in self.horizons if horizon is not None]

    @property
    def horizon(self) -> int | None:
        """The least length up to which seeds are proven, of those of which something is."""
        return min(self.proven, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as JSON has it."""
        written = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return written | {"by_rate": {rate: list(scores) for rate, scores in self.by_rate.items()}}


@dataclass(frozen=True)
class Row:
    """One model under one reading, with a cell for each column that the row has."""

    label: str
    model: str
    reading: str
    cells: tuple[Cell, ...]

    def at(self, column: Column) -> Cell | None:
        """Return the cell of a column; None where the row has none."""
        return next((cell for cell in self.cells if cell.column == column), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return vars(self) | {"cells": [cell.to_dict() for cell in self.cells]}


@dataclass(frozen=True)
class Table:
    """All models in all columns.

    Args:
        name: what the paper's file calls it.
        title: for a reader.
        preset: the grid that was run.
        columns: the values of m, or of what else varies.
        rows: in the order of the paper's file.
        readings: those of the rows, by name, with what is shown of them here.
        score: at which lengths scores are compared.
        longest: at which networks are tested at most.
        published: the paper's scores, by model and column, of cells without runs too.
        column: what columns are.
        beside: what is shown beside the readings.
    """

    name: str
    title: str
    preset: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    readings: Mapping[str, Reading]
    score: ScoreRule = field(default_factory=lambda: AtLength(length=500))
    longest: int = 10_000
    published: Mapping[tuple[str, Column], float] = field(default_factory=dict)
    column: str = "m"
    beside: tuple[str, ...] = ("paper", "ceiling")

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON has it."""
        return {
            "name": self.name,
            "title": self.title,
            "preset": self.preset,
            "column": self.column,
            "columns": list(self.columns),
            "readings": {name: reading.title for name, reading in self.readings.items()},
            "rows": [row.to_dict() for row in self.rows],
        }


def table_of(paper: Paper, name: str, preset: str, records: Iterable[Record]) -> Table:
    """Put the records of a grid into its table; records of other runs are left out, missing ones are "not run"."""
    plan = paper.plan(name, preset)
    found = _by_key(plan, records)
    rows = tuple(
        Row(row.label, row.model, row.reading, tuple(_cell(paper, name, row, cell, found) for cell in row.cells))
        for row in plan
    )
    grid = paper.grids[name]
    return Table(
        name=name,
        title=grid.title,
        preset=preset,
        columns=paper.columns(name, preset),
        rows=rows,
        readings=_readings(paper, plan),
        score=paper.score,
        longest=max((length for run in _runs(plan) for length in run.test_lengths), default=paper.length),
        published=paper.published_scores(name),
        column=grid.column,
        beside=grid.beside,
    )


def recorded(paper: Paper, name: str, preset: str, records: Iterable[Record]) -> int:
    """Count the runs of a grid that have a record."""
    return len(_by_key(paper.plan(name, preset), records))


def _runs(plan: Iterable[PlannedRow]) -> list[RunOptions]:
    return [run for row in plan for cell in row.cells for run in cell.runs]


def _readings(paper: Paper, plan: Sequence[PlannedRow]) -> dict[str, Reading]:
    """Return the readings of a plan's rows, which show no more than its runs measure."""
    readings = {}
    for name, reading in paper.readings.items():
        runs = _runs(row for row in plan if row.reading == name)
        measured = {
            "longest": any(max(run.test_lengths) > paper.length for run in runs),
            "polished": any(run.polish for run in runs),
            "proven": any(run.polish for run in runs),
        }
        if runs:
            shows = tuple(shown for shown in reading.shows if measured.get(shown, True))
            readings[name] = reading.model_copy(update={"shows": shows})
    return readings


def _by_key(plan: Sequence[PlannedRow], records: Iterable[Record]) -> dict[str, Record]:
    """Find the records of planned runs; of two of one run, one that did not fail is kept."""
    planned = _runs(plan)
    keys, tasks = {run.key() for run in planned}, {(run.task, run.model) for run in planned}
    found: dict[str, Record] = {}
    for record in records:
        # most records of a large store are of other grids, and a key takes longer
        if (record.config.task, record.config.model) not in tasks:
            continue
        key = record.config.key()
        if key in keys and (key not in found or found[key].status == "failed"):
            found[key] = record
    return found


@dataclass(frozen=True)
class _AtRate:
    """The runs of a cell at one rate: their records, scores at the paper's length, and scores on training lengths."""

    records: list[Record] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)

    @property
    def loss(self) -> float | None:
        """The median of the last losses of training."""
        losses = [record.loss for record in self.records if record.loss is not None]
        return median(losses) if losses else None


def _by_rate(records: Iterable[Record], rule: ScoreRule) -> dict[str, _AtRate]:
    by_rate: dict[str, _AtRate] = {}
    for record in records:
        at_rate = by_rate.setdefault(f"{record.config.lr:g}", _AtRate())
        at_rate.records.append(record)
        at_rate.scores.append(rule.score(record))
        # a run that diverged counts as chance
        at_rate.inside.append(record.score_id or 0.0)
    return by_rate


def _choose(by_rate: Mapping[str, _AtRate], by_training: bool, constant: float) -> _AtRate:
    """Return the runs at the best rate; none where nothing was run."""
    if not by_rate:
        return _AtRate()
    if by_training:
        return by_rate[rate_by_training({rate: (some.inside, some.loss) for rate, some in by_rate.items()})]
    scores = {rate: list(zip(some.scores, some.inside, strict=True)) for rate, some in by_rate.items()}
    return by_rate[best_rate(scores, constant)]


def _cell(paper: Paper, name: str, row: PlannedRow, planned: PlannedCell, found: Mapping[str, Record]) -> Cell:
    length, rule = paper.length, paper.score
    records = [found[key] for run in planned.runs if (key := run.key()) in found]
    ended = [record for record in records if record.status != "failed"]
    by_rate = _by_rate(ended, rule)
    constant = median(rule.constant(record) for record in ended) if ended else 0.0
    chosen = _choose(by_rate, paper.grids[name].rate_by == "training", constant)
    best = SUMMARIES[paper.over_seeds](chosen.scores) if by_rate else None
    inside = median(chosen.inside) if by_rate else None
    longest = max((score.length for record in chosen.records for score in record.scores), default=length)
    polished = [record.polished for record in chosen.records if record.polished is not None]
    bound = _bound(planned.runs)
    published = paper.published(name, row.model, planned.column)
    published_score = None if published is None else published.score
    margin = max([paper.tolerance, *(2 * rule.standard_error(record) for record in chosen.records)])
    verdict = judge(best, published_score, margin, inside, bound.value)
    evidence = Evidence(
        options=planned.runs[0],
        best=best,
        published=published_score,
        ceiling=bound.value,
        ceiling_reason=bound.reason,
        inside=inside,
        constant=constant,
        loss=chosen.loss,
        diverged=sum(record.status == "diverged" for record in chosen.records),
        failed=tuple(record.reason or "" for record in records if record.status == "failed"),
        paper_hidden=paper.hidden,
        paper_steps=paper.steps,
        where=rule.short,
    )
    return Cell(
        task=_task(planned.runs),
        column=planned.column,
        best=best,
        scores=tuple(chosen.scores),
        median=median(chosen.scores) if by_rate else None,
        by_rate={rate: tuple(some.scores) for rate, some in by_rate.items()},
        published=published_score,
        where="" if published is None else published.where,
        ceiling=bound.value,
        ceiling_reason=bound.reason,
        verdict=verdict,
        note=explain(evidence, verdict),
        budget=_budget(planned.runs, len(records), rule),
        runs=tuple(record.key or record.config.key() for record in records),
        inside=tuple(chosen.inside),
        longer=tuple(_score(record, longest) for record in chosen.records) if longest > length else (),
        longest=longest if longest > length else None,
        planned=len(planned.runs),
        guess=constant,
        margin=margin,
        polished=tuple(_polished(record, longest) for record in chosen.records) if polished else (),
        converged=sum(polish.status == CONVERGED for polish in polished),
        horizons=tuple(polish.horizon if polish.status == CONVERGED else None for polish in polished),
    )


def _score(record: Record, length: int) -> float:
    """Return the score at a length; a run that diverged has none, and counts as chance."""
    score = record.score_at(length)
    return 0.0 if score is None else score.score


def _polished(record: Record, length: int) -> float:
    """Return the score after polish; where that had nothing to solve, the trained network's."""
    scores = () if record.polished is None else record.polished.scores
    return next((score.score for score in scores if score.length == length), _score(record, length))


def _bound(runs: Sequence[RunOptions]) -> Ceiling:
    """Return the ceiling of a cell: medians of scores are at most medians of ceilings."""
    each = {run.task: ceiling(run.model, run.task, run.hidden, run.additive) for run in runs}
    unknown = next((bound for bound in each.values() if bound.value is None), None)
    if unknown is not None:
        return unknown
    values = [bound.value for bound in each.values() if bound.value is not None]
    middle = median(values)
    nearest = min(each.values(), key=lambda bound: abs((bound.value or 0.0) - middle))
    several = f"the median of {len(values)} machines; " if len(set(values)) > 1 else ""
    return Ceiling(middle, several + nearest.reason)


def _task(runs: Sequence[RunOptions]) -> str:
    """Return the task of a cell, with {seed} where each run has a machine of its own."""
    first = runs[0]
    if len({run.task for run in runs}) == 1 and "random_machine" not in first.task:
        return first.task
    return first.task.replace(f"seed={first.seed}", "seed={seed}")


def _budget(runs: Sequence[RunOptions], there: int, rule: ScoreRule) -> str:
    first = runs[0]
    rates, seeds = {run.lr for run in runs}, {run.seed for run in runs}
    tried = f"{counted(len(rates), 'rate')} x {counted(len(seeds), 'seed')}"
    missing = "" if there == len(runs) else f", {there} of {len(runs)} runs so far"
    longer = f", sequences up to {first.late:,}" if first.late > first.longest else ""
    early = f" or until a score of {first.stop_score:g} twice in a row" if first.stop_score > 0 else ""
    aligned = ", answers after each symbol" if first.supervision == "aligned" else ""
    tested = sum(map(rule.counts, first.test_lengths))
    several = f", {tested} lengths of {counted(first.words, 'sequence')}" if isinstance(rule, MeanOverLengths) else ""
    return f"H {first.hidden}, {first.steps:,} steps{early}{longer}{aligned}, {tried}{several}{missing}"
