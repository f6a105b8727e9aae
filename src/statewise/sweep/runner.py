"""A whole grid into a store: what is left to do, on which engine, and how all of its runs stand afterwards."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statewise.errors import GridError, unknown_name
from statewise.store import DATABASE, Store
from statewise.sweep.engine import Engine, Limits
from statewise.sweep.jobs import Job, check_jobs, make_jobs
from statewise.sweep.packs import Costs, make_packs
from statewise.sweep.schedule import ShowProgress, clean, going_on_later, not_done, run_packs, work_folder
from statewise.training.options import RunOptions
from statewise.wording import Lines, Result, counted, duration

ENGINES = ("local", "ray")
# what a worker needs before its first run, about, in seconds
_STARTING = 4.0


@dataclass(frozen=True)
class EngineOptions:
    """On what a grid is run.

    Args:
        name: "local" for processes of this machine, or "ray".
        workers: how many packs are done at once.
        ray_address: of a running Ray cluster; None starts one here.
        limits: of a pack.
        device: where runs compute.
    """

    name: str = "local"
    workers: int = 2
    ray_address: str | None = None
    limits: Limits = field(default_factory=Limits)
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise unknown_name("engine", self.name, ENGINES)
        if self.workers < 1:
            raise GridError(f"workers is {self.workers}; expected at least 1; correct it")

    def start(self, store: Store, workers: int) -> Engine:
        """Start the engine for a store, with so many workers."""
        if self.name == "ray":
            from statewise.sweep.cluster import RayEngine

            return RayEngine(workers, self.ray_address, store.name, self.limits)
        from statewise.sweep.local import LocalEngine

        return LocalEngine(workers, work_folder(store.directory), self.limits)


@dataclass(frozen=True)
class Standing:
    """How many runs of a grid a store has, by how they ended; one that stopped early is done."""

    total: int
    done: int = 0
    failed: int = 0
    diverged: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {"total": self.total, "done": self.done, "failed": self.failed, "diverged": self.diverged}


@dataclass(frozen=True)
class GridPlan(Result):
    """What a sweep would do.

    Args:
        standing: of the runs of the grid.
        to_run: how many are left.
        packs: into how many pieces of work they are put.
        workers: how many do these at once.
        estimate_s: how long that takes, in seconds.
        measured: whether runs like all of these have been measured in the store.
        timed: whether a few steps of the others were timed; otherwise their cost is guessed.
        least_s: what it takes where the results of the first runs make others needless; None where none can.
    """

    standing: Standing
    to_run: int
    packs: int
    workers: int
    estimate_s: float
    measured: bool
    timed: bool = False
    least_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return self.standing.to_dict() | {
            "to_run": self.to_run,
            "packs": self.packs,
            "workers": self.workers,
            "estimate_s": self.estimate_s,
            "measured": self.measured,
            "timed": self.timed,
            "least_s": self.least_s,
        }

    def lines(self) -> Lines:
        """Return the plan for a reader."""
        like = "runs like these have not been measured in this store"
        guess = (
            "" if self.measured else ", from a few steps that were timed now" if self.timed else f", guessed: {like}"
        )
        failed = f", {self.standing.failed:,} of them failed" if self.standing.failed else ""
        lines = [
            ("runs", f"{self.standing.total:,}"),
            ("recorded", f"{self.standing.total - self.to_run:,}{failed}"),
            ("to run", f"{'' if self.least_s is None else 'up to '}{self.to_run:,} in {counted(self.packs, 'pack')}"),
        ]
        least = "" if self.least_s is None or self.least_s >= self.estimate_s else f"{duration(self.least_s)} to "
        about = f"{least}{duration(self.estimate_s)} on {counted(self.workers, 'worker')}{guess}"
        return [*lines, ("about", about)] if self.to_run else lines


@dataclass(frozen=True)
class GridOutcome(Result):
    """What a sweep did, and how all runs of the grid stand.

    Args:
        store: where they are recorded.
        standing: of the runs of the grid.
        ran: how many were done now.
        packs: in how many pieces of work.
        seconds: how long that took.
    """

    store: Path
    standing: Standing
    ran: int
    packs: int
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether any run of the grid has failed."""
        return self.standing.failed > 0

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return self.standing.to_dict() | {"ran": self.ran, "packs": self.packs, "seconds": self.seconds}

    def lines(self) -> Lines:
        """Return the outcome for a reader."""
        runs, packs = counted(self.ran, "run"), counted(self.packs, "pack")
        lines = [
            ("runs", f"{self.standing.total:,}"),
            ("done", f"{self.standing.done:,}"),
            ("diverged", f"{self.standing.diverged:,}"),
            ("failed", f"{self.standing.failed:,}"),
            ("took", f"{self.seconds:,.1f} s for {runs} in {packs}"),
        ]
        why = f'"statewise runs {self.store} --status failed" shows why, --retry-failed tries them again'
        return [*lines, ("", why)] if self.failed else lines


def plan_grid(
    directory: Path | None, runs: Iterable[RunOptions], engine: EngineOptions, retry_failed: bool = False
) -> GridPlan:
    """Return what a sweep would do, and about how long it would take; nothing is begun.

    Args:
        directory: of the store; None if there is none.
        runs: the resolved options of each run.
        engine: on what they would be run.
        retry_failed: whether runs that have failed would be done again.
    """
    standing, left, costs = left_to_run(directory, _checked_jobs(runs), retry_failed)
    return plan_jobs(standing, left, costs, engine.workers)


def left_to_run(directory: Path | None, jobs: Sequence[Job], retry_failed: bool) -> tuple[Standing, list[Job], Costs]:
    """Return how jobs stand in a store that may not be there, which are left, and what runs have cost."""
    if directory is not None and (directory / DATABASE).exists():
        with Store.open(directory) as store:
            return _standing(store, jobs), not_done(store, jobs, retry_failed), Costs(store.costs())
    left = list({job.key: job for job in jobs}.values())
    return Standing(len(left)), left, Costs()


def plan_jobs(standing: Standing, left: Sequence[Job], costs: Costs, workers: int) -> GridPlan:
    """Return what it takes to do the jobs that are left; steps of those that were never measured are timed.

    Args:
        standing: of all jobs.
        left: what is to be done.
        costs: what runs have cost.
        workers: how many packs are done at once.
    """
    packs = make_packs(left, costs, workers)
    strange = [pack for pack in packs if not costs.known(pack.jobs[0].options)]
    each = [pack.seconds for pack in packs if costs.known(pack.jobs[0].options)]
    if strange:
        from statewise.sweep.timing import time_packs

        each += time_packs(strange)
    seconds = max(sum(each) / workers, max(each, default=0.0)) + (_STARTING if left else 0.0)
    return GridPlan(standing, len(left), len(packs), workers, round(seconds, 1), not strange, bool(strange))


def run_grid(
    directory: Path,
    runs: Iterable[RunOptions],
    engine: EngineOptions,
    retry_failed: bool = False,
    show: ShowProgress | None = None,
) -> GridOutcome:
    """Do the runs that a store does not have, and return how all of them stand.

    Args:
        directory: of the store, which is begun if need be.
        runs: the resolved options of each run.
        engine: on what they are run.
        retry_failed: do runs again that have failed.
        show: called with the progress, about once a second.
    """
    jobs = _checked_jobs(runs)
    with Store.open(directory, write=True) as store:
        return run_jobs(store, jobs, engine.workers, engine.start, retry_failed, show, engine.device)


def run_jobs(
    store: Store,
    jobs: Sequence[Job],
    workers: int,
    start: Callable[[Store, int], Engine],
    retry_failed: bool = False,
    show: ShowProgress | None = None,
    device: str = "cpu",
) -> GridOutcome:
    """Do the jobs that an open store does not have on an engine of at most so many workers.

    Args:
        store: open to be written.
        jobs: all runs of the grid.
        workers: how many packs are done at once.
        start: starts the engine, with no more workers than there are packs.
        retry_failed: do runs again that have failed.
        show: called with the progress, about once a second.
        device: where runs compute.
    """
    clean(store)
    left = not_done(store, jobs, retry_failed)
    packs = make_packs(left, Costs(store.costs()), workers, device)
    seconds = 0.0
    if packs:
        with going_on_later(store), closing(start(store, min(workers, len(packs)))) as engine:
            seconds = run_packs(store, packs, engine, show or (lambda progress: None)).seconds
    return GridOutcome(store.directory, _standing(store, jobs), len(left), len(packs), round(seconds, 1))


def _checked_jobs(runs: Iterable[RunOptions]) -> list[Job]:
    jobs = make_jobs(runs)
    if not jobs:
        raise GridError("the grid is empty; give it runs")
    check_jobs(jobs)
    return jobs


def _standing(store: Store, jobs: Sequence[Job]) -> Standing:
    keys = {job.key for job in jobs}
    counts = Counter(status for key, status in store.statuses() if key in keys)
    return Standing(len(keys), counts["done"] + counts["stopped"], counts["failed"], counts["diverged"])
