"""Small runs for tests of sweeps: some that train in a moment, and fakes that do as they are asked."""

from contextlib import closing
from pathlib import Path
from typing import Any

from statewise.runs import Record
from statewise.store import Store
from statewise.sweep import Costs, Engine, Job, make_packs, run_packs
from statewise.training.options import resolve

SMALL = {"hidden": 4, "steps": 20, "every": 10, "late": 0, "words": 50, "probe_words": 20, "test_lengths": (10, 20)}


def job(task: str, model: str = "full", **options: Any) -> Job:
    """Return the job of a small run."""
    resolved = resolve({"task": task, "model": model, **SMALL, **options})
    return Job(resolved.key(), resolved)


def fake_jobs(count: int, action: str = "nothing", first: int = 0, **options: Any) -> list[Job]:
    """Return so many jobs that train nothing, with different seeds."""
    return [job(f"fake: {action}", seed=seed, **options) for seed in range(first, first + count)]


def training_jobs() -> list[Job]:
    """Return two ensembles and two runs that go alone."""
    stacked = [
        job("parity", model, lr=lr, seed=s) for model in ("full", "diagonal") for lr in (1e-3, 1e-2) for s in (0, 1)
    ]
    return [*stacked, job("modular_addition(3)", "cp(4)"), job("modular_addition(3)", "rnn")]


def killed_jobs(gate: Path) -> list[Job]:
    """Return 200 runs for a coordinator that is killed again and again; the last ends only once a file exists.

    A coordinator is therefore never done before the test wants it to be: each kill hits a live one.
    """
    longer = {"steps": 400, "every": 40}
    real = [
        job("parity", model, lr=lr, seed=s, **longer)
        for model in ("full", "diagonal", "rnn")
        for lr in (1e-3, 1e-2)
        for s in range(3)
    ]
    real.append(job("modular_addition(3)", "cp(4)", **longer))
    # packs are begun in the order of their cost, so the fewest steps come last
    return [*real, *fake_jobs(180, "sleep 0.01"), job(f"fake: wait {gate}", steps=1, every=1)]


def sweep_all(directory: Path, jobs: list[Job], engine: Engine) -> dict[str, Record]:
    """Do jobs on an engine, end it, and return the store's records by key."""
    with closing(engine), Store.open(directory, write=True) as store:
        run_packs(store, make_packs(jobs, Costs(), 2), engine, lambda progress: None)
        return by_key(store)


def by_key(store: Store) -> dict[str, Record]:
    """Return the records of a store by key."""
    return {str(record.key): record for record in store.records()}


def numbers(record: Record) -> Any:
    """Return what must be the same however a run was interrupted."""
    history = [(metrics.step, metrics.loss, metrics.scores) for metrics in record.history]
    return record.status, record.scores, record.in_distribution, record.steps, record.loss, history
