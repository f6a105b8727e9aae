"""The page of a store with very many runs: groups of runs in place of each run, read row by row.

A group has one task, seeds of random machines aside, one model and one recipe, hidden size and learning rate. Means
count a run that diverged as chance, as everywhere.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statewise.files import write_whole
from statewise.report.listing import time_text
from statewise.report.page import page_environment, page_part
from statewise.report.table_files import write_csv
from statewise.runs.record import STATUSES
from statewise.store import LENGTH, Store, StoredRun, constants_of

# from so many runs on a page has groups; so many groups, and so many failed runs, have a row
MANY, MOST_GROUPS, MOST_FAILED = 5_000, 1_000, 50
_SEED = re.compile(r",?\s*seed=\d+")
_NAMED = ("task", "model", "recipe", "hidden", "lr")


@dataclass
class Mean:
    """The mean and the standard deviation of scores, one by one."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, score: float) -> None:
        """Count a score, by Welford's update."""
        self.count += 1
        step = score - self.mean
        self.mean += step / self.count
        self.squares += step * (score - self.mean)

    @property
    def deviation(self) -> float | None:
        """The standard deviation; None of one score."""
        return math.sqrt(self.squares / self.count) if self.count > 1 else None


@dataclass
class Group:
    """Runs that differ in their seeds, or in options that have no column.

    Args:
        values: of the columns that they share.
        key: of one of them that was tested.
    """

    values: tuple[Any, ...]
    key: str | None = None
    statuses: Counter[str] = field(default_factory=Counter)
    inside: Mean = field(default_factory=Mean)
    outside: Mean = field(default_factory=Mean)
    constants: dict[str, float | None] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many there are."""
        return sum(self.statuses.values())

    def add(self, run: StoredRun) -> None:
        """Count a run."""
        self.statuses[run.status] += 1
        if run.status == "failed":
            return
        chance = 0.0 if run.status == "diverged" else None
        for mean, score in ((self.inside, run.score_id), (self.outside, run.score_ood)):
            found = chance if score is None else score
            if found is not None:
                mean.add(found)
        if run.score_ood is not None:
            self.key = run.key

    def to_dict(self) -> dict[str, Any]:
        """Return the group as a row of a table."""
        row = dict(zip(_NAMED, self.values, strict=True)) | {"runs": self.runs}
        row |= {status: self.statuses[status] for status in STATUSES}
        for name, mean in (("id", self.inside), ("ood", self.outside)):
            row[f"score_{name}"] = mean.mean if mean.count else None
            row[f"std_{name}"] = mean.deviation
            row[f"constant_{name}"] = self.constants.get(f"score_{name}")
        return row


@dataclass
class Totals:
    """What is said of all runs together."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    first: float | None = None
    last: float | None = None
    failed: list[str] = field(default_factory=list)

    def add(self, run: StoredRun) -> None:
        """Count a run."""
        self.statuses[run.status] += 1
        self.seconds += run.cost or 0.0
        if run.finished is not None:
            self.first = min(run.finished, self.first or run.finished)
            self.last = max(run.finished, self.last or run.finished)
        if run.status == "failed" and len(self.failed) < MOST_FAILED:
            self.failed.append(run.key)


def is_large(store: Store) -> bool:
    """Return whether a store has too many runs for a page that shows each."""
    return sum(store.counts().values()) > MANY


def grouped_runs(runs: Iterable[StoredRun]) -> tuple[list[Group], Totals]:
    """Group runs, by task and model; only one of them is held at a time."""
    groups: dict[tuple[Any, ...], Group] = {}
    totals = Totals()
    for run in runs:
        values = (_SEED.sub("", run.task), run.model, run.recipe, run.hidden, run.lr)
        groups.setdefault(values, Group(values)).add(run)
        totals.add(run)
    return [groups[values] for values in sorted(groups)], totals


def write_many(store: Store, file: Path, folder: Path | None) -> list[Path]:
    """Write the page of a large store, and its groups as CSV into a folder; return the files beside the page."""
    groups, totals = grouped_runs(store.each_row())
    shown = groups[:MOST_GROUPS]
    for group in shown:
        record = None if group.key is None else store.record(group.key)
        if record is not None:
            group.constants = constants_of(record)
    failed = [record for key in totals.failed if (record := store.record(key)) is not None]
    page = page_environment().from_string(page_part("many.html.j2"))
    text = page.render(
        style=page_part("style.css", safe=True),
        total=sum(totals.statuses.values()),
        totals=totals,
        statuses=[(status, totals.statuses[status]) for status in STATUSES if totals.statuses[status]],
        times=[time_text(totals.first), time_text(totals.last)],
        groups=shown,
        left_out=len(groups) - len(shown),
        failed=failed,
        length=LENGTH,
        many=MANY,
    )
    write_whole(file, text)
    if folder is None:
        return []
    return [write_csv(folder / "results.csv", [group.to_dict() for group in groups])]
