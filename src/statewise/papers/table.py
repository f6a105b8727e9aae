"""Records into tables: ours, the paper's and the ceiling of every cell, side by side."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from pydantic import ValidationError

from statewise.papers.ceilings import Ceiling, ceiling
from statewise.papers.choice import best_rate
from statewise.papers.paper import Paper, PlannedCell, PlannedRow
from statewise.papers.verdicts import Evidence, explain, judge
from statewise.training.options import RunConfig
from statewise.wording import counted


@dataclass(frozen=True)
class Cell:
    """One model on one task, as trained here, as published, and as the algebra allows.

    Args:
        task: the machine; for machines drawn per run, with {seed} for the run's seed.
        m: the column.
        best: for each rate the median over seeds, then the best rate; where all are at chance, that which learned most
            on short words.
        scores: of all seeds at the best rate, at the paper's length; a run that diverged counts as chance.
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
        inside: scores of these seeds on short words, of the lengths that training begins with.
        longer: scores of these seeds at the longest length tried, where that is beyond the paper's.
        longest: that length.
        planned: how many runs the cell has when it is complete.
        guess: what giving the most frequent output always scores; the median over these seeds' test words.
        margin: how far from a published score this one is still the same: the paper's tolerance, or two standard errors
            of the words that were tested.
    """

    task: str
    m: int
    best: float | None
    scores: list[float]
    median: float | None
    by_rate: dict[str, list[float]]
    published: float | None
    where: str
    ceiling: float | None
    ceiling_reason: str
    verdict: str
    note: str
    budget: str
    runs: list[str] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)
    longer: list[float] = field(default_factory=list)
    longest: int | None = None
    planned: int = 0
    guess: float = 0.0
    margin: float = 0.0

    @property
    def short(self) -> float | None:
        """The median on short words."""
        return median(self.inside) if self.inside else None


@dataclass(frozen=True)
class Row:
    """One model under one recipe."""

    label: str
    model: str
    recipe: str
    cells: list[Cell]


@dataclass(frozen=True)
class Table:
    """All models in all columns.

    Args:
        name: what the paper's file calls it.
        title: for a reader.
        preset: the grid that was run.
        columns: the values of m, or of what else varies.
        rows: in the order of the paper's file.
        column: what columns are.
    """

    name: str
    title: str
    preset: str
    columns: list[int]
    rows: list[Row]
    column: str = "m"


def table_of(paper: Paper, name: str, preset: str, records: Iterable[dict[str, Any]]) -> Table:
    """Puts the records of a grid into its table; records of other runs are left out, missing ones are "not run"."""
    plan = paper.plan(name, preset)
    found = _by_config(plan, records)
    rows = [
        Row(row.label, row.model, row.recipe, [_cell(paper, name, row, cell, found) for cell in row.cells])
        for row in plan
    ]
    column = paper.data["grids"][name].get("option", "m")
    return Table(name, paper.title(name), preset, paper.columns(name, preset), rows, column)


def recorded(paper: Paper, name: str, preset: str, records: Iterable[dict[str, Any]]) -> int:
    """Counts the runs of a grid that have a record."""
    return len(_by_config(paper.plan(name, preset), records))


def as_json(table: Table) -> dict[str, Any]:
    """Gives a table as plain values."""
    return asdict(table)


def _by_config(plan: list[PlannedRow], records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Finds records by their configs; of two for one config, one that did not fail is kept."""
    configs = [config for row in plan for cell in row.cells for config in cell.configs]
    tasks = {(config["task"], config["model"]) for config in configs}
    asked = set(map(_written, configs))
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        config = record.get("config", {})
        # most records of a large store are of other grids
        if (config.get("task"), config.get("model")) not in tasks:
            continue
        try:
            # options that came later than the record have their defaults
            written = _written(RunConfig.model_validate(config).model_dump(mode="json"))
        except ValidationError:
            continue
        if written in asked and (written not in found or found[written]["status"] == "failed"):
            found[written] = record
    return found


def _written(config: dict[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


def _cell(paper: Paper, name: str, row: PlannedRow, planned: PlannedCell, found: dict[str, dict[str, Any]]) -> Cell:
    length = paper.data["length"]
    records = [found[key] for config in planned.configs if (key := _written(config)) in found]
    ended = [record for record in records if record["status"] != "failed"]
    by_rate: dict[str, list[dict[str, Any]]] = {}
    for record in ended:
        by_rate.setdefault(f"{record['config']['lr']:g}", []).append(record)
    scores = {rate: [_score(record, length) for record in group] for rate, group in by_rate.items()}
    near = {rate: [_near(record) for record in group] for rate, group in by_rate.items()}
    guess = median(_guess(record, length) for record in ended) if ended else 0.0
    rate = best_rate({r: list(zip(scores[r], near[r], strict=True)) for r in scores}, guess) if scores else None
    best = None if rate is None else median(scores[rate])
    chosen = [] if rate is None else by_rate[rate]
    inside = [] if rate is None else near[rate]
    longest = max((s["length"] for r in chosen for s in r["scores"]), default=length)
    bound = _bound(planned.configs)
    known = paper.published(name, row.model, planned.column)
    published, where = known if known is not None else (None, "")
    middle = median(inside) if inside else None
    margin = max([paper.data["tolerance"], *(2 * _error(record, length) for record in chosen)])
    verdict = judge(best, published, margin, middle, bound.value)
    evidence = Evidence(
        config=planned.configs[0],
        recipe=row.recipe,
        best=best,
        published=published,
        ceiling=bound.value,
        ceiling_reason=bound.reason,
        inside=middle,
        guess=guess,
        loss=median(losses) if (losses := [r["loss"] for r in chosen if r["loss"] is not None]) else None,
        diverged=sum(record["status"] == "diverged" for record in chosen),
        failed=[str(record.get("reason", "")) for record in records if record["status"] == "failed"],
        paper_hidden=paper.protocol("hidden"),
        paper_steps=paper.protocol("steps"),
    )
    return Cell(
        task=_task(planned.configs),
        m=planned.column,
        best=best,
        scores=[] if rate is None else scores[rate],
        median=best,
        by_rate=scores,
        published=published,
        where=where,
        ceiling=bound.value,
        ceiling_reason=bound.reason,
        verdict=verdict,
        note=explain(evidence, verdict),
        budget=_budget(planned.configs, len(records)),
        runs=[record["key"] for record in records],
        inside=inside,
        longer=[_score(record, longest) for record in chosen] if longest > length else [],
        longest=longest if longest > length else None,
        planned=len(planned.configs),
        guess=guess,
        margin=margin,
    )


def _score(record: dict[str, Any], length: int) -> float:
    """Gives the score at a length; a run that diverged has none, and counts as chance."""
    return next((float(score["score"]) for score in record["scores"] if score["length"] == length), 0.0)


def _guess(record: dict[str, Any], length: int) -> float:
    """Gives the score of the most frequent output of the test words."""
    for score in record["scores"]:
        if score["length"] == length and "majority" in score:
            chance = 1 / score["classes"]
            return (score["majority"] - chance) / (1 - chance)
    return 0.0


def _error(record: dict[str, Any], length: int) -> float:
    """Gives the standard error of a score, from the number of words."""
    for score in record["scores"]:
        if score["length"] == length and "count" in score:
            right = min(max(score["accuracy"], 1 / score["classes"]), 1.0)
            return math.sqrt(right * (1 - right) / score["count"]) / (1 - 1 / score["classes"])
    return 0.0


def _near(record: dict[str, Any]) -> float:
    """Gives the score on short words; a run that diverged counts as chance."""
    return 0.0 if record["in_distribution"] is None else float(record["in_distribution"]["score"])


def _bound(configs: list[dict[str, Any]]) -> Ceiling:
    """Gives the ceiling of a cell: medians of scores are at most medians of ceilings."""
    each = {
        config["task"]: ceiling(config["model"], config["task"], config["hidden"], config["additive"])
        for config in configs
    }
    unknown = next((bound for bound in each.values() if bound.value is None), None)
    if unknown is not None:
        return unknown
    values = [bound.value for bound in each.values() if bound.value is not None]
    middle = median(values)
    nearest = min(each.values(), key=lambda bound: abs((bound.value or 0.0) - middle))
    several = f"the median of {len(values)} machines; " if len(set(values)) > 1 else ""
    return Ceiling(middle, several + nearest.reason)


def _task(configs: list[dict[str, Any]]) -> str:
    """Gives the task of a cell, with {seed} where each run has a machine of its own."""
    first = configs[0]
    if len({config["task"] for config in configs}) == 1 and "random_machine" not in first["task"]:
        return first["task"]
    return first["task"].replace(f"seed={first['seed']}", "seed={seed}")


def _budget(configs: list[dict[str, Any]], there: int) -> str:
    first = configs[0]
    rates = len({config["lr"] for config in configs})
    seeds = len({config["seed"] for config in configs})
    runs = f"{counted(rates, 'rate')} x {counted(seeds, 'seed')}"
    missing = "" if there == len(configs) else f", {there} of {len(configs)} runs so far"
    longer = f", words up to {first['late']:,}" if first["late"] > first["longest"] else ""
    early = " or until right twice in a row" if first["stop_score"] > 0 else ""
    return f"H {first['hidden']}, {first['steps']:,} steps{early}{longer}, {runs}{missing}"
