"""Small runs for tests of sweeps: some that train in a moment, and null runs that do as they are told."""

from pathlib import Path
from typing import Any

from statewise.store import Store, key_of
from statewise.sweep import Costs, Job, make_packs, sweep
from statewise.sweep.engine import Engine
from statewise.training.options import resolve

SMALL = {"hidden": 4, "steps": 20, "every": 10, "late": 0, "words": 50, "probe_words": 20, "test_lengths": (10, 20)}


def job(task: str, model: str = "full", **options: Any) -> Job:
    config = resolve(None, {"task": task, "model": model, **SMALL, **options}).model_dump(mode="json")
    return Job(key_of(config), config)


def null_jobs(count: int, task: str = "null", first: int = 0) -> list[Job]:
    return [job(task, seed=seed) for seed in range(first, first + count)]


def training_jobs() -> list[Job]:
    """Two ensembles and two runs that go alone."""
    stacked = [
        job("parity", model, lr=lr, seed=s) for model in ("full", "diagonal") for lr in (1e-3, 1e-2) for s in (0, 1)
    ]
    return [*stacked, job("modular_addition(3)", "cp(4)"), job("modular_addition(3)", "rnn")]


def sweep_all(directory: Path, jobs: list[Job], engine: Engine) -> dict[str, dict[str, Any]]:
    """Does jobs on an engine, and gives the store's records by key."""
    with Store.open(directory, write=True) as store:
        sweep(store, make_packs(jobs, Costs(), 2), engine, lambda progress: None)
        return {record["key"]: record for record in store.records()}


def numbers(record: dict[str, Any]) -> Any:
    """What must be the same however a run was interrupted."""
    if "scores" not in record:
        return record["status"]
    looks = [(look["step"], look["loss"], look["scores"]) for look in record["history"]]
    return record["status"], record["scores"], record["steps"], record["loss"], looks
