"""What does a sweep cost by itself? Aimed at: 300,000 null runs in 5 minutes and 200 MB, their status in a second.

A null run does nothing: workers hand over its record at once. Everything else is as in a sweep: the grid is read,
options are resolved and hashed, packs go to worker processes, and one writer records what comes back.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.errors import WrongAnswerError
from statewise.files import temporary_folder
from statewise.runs.record import Record
from statewise.store import Store
from statewise.sweep import FinishedRun, Limits, Pack, make_jobs, read_grid, run_packs
from statewise.sweep.local import LocalEngine
from statewise.sweep.schedule import not_done, work_folder
from statewise.sweep.work import ShowShare
from statewise.training.options import resolve

if TYPE_CHECKING:
    from statewise.bench.timing import Row

RUNS = 300_000
_WORKERS = 2
# runs that a worker is handed at once, and those whose records it hands over together
_PACK, _TOGETHER = 1_000, 50
_GRID = '[[grid]]\ntask = "parity"\nmodel = "full"\nseed = {{ first = 0, count = {runs} }}\n'
_COMMAND = [sys.executable, "-m", "statewise"]


def measure(runs: int = RUNS) -> "list[Row]":
    """Sweep over null runs into a new store, and ask for its status as a user does."""
    # workers import this file too, and need no torch
    from statewise.bench.timing import Row, best_times

    with temporary_folder() as folder:
        grid, store = folder / "grid.toml", folder / "store"
        grid.write_text(_GRID.format(runs=runs), encoding="utf-8")
        began = time.perf_counter()
        _sweep(grid, store)
        took = time.perf_counter() - began
        counts = _ask("runs", store)["counts"]
        if counts != {"done": runs}:
            raise WrongAnswerError(f"the sweep recorded {counts} of {runs:,} runs; its time means nothing")
        size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        status = best_times({"status": lambda: _ask("runs", store)}, repeats=5)["status"]
    what, aim = f"{runs:,} null runs", "the aim"
    return [
        Row(f"{what}, swept by {_WORKERS} workers", aim, took, 300.0, target=1.0),
        Row(f"{what}, space on the disk, in GB", aim, size / 1e9, 0.2, target=1.0),
        Row(f"{what}, their status told by the command", aim, status, 1.0, target=1.0),
    ]


def work_on_nothing(pack: Pack, folder: Path, show: ShowShare) -> Iterator[list[FinishedRun]]:
    """Hand over records of runs that were not trained."""
    for first in range(0, len(pack.jobs), _TOGETHER):
        finished = round(time.time(), 1)
        yield [
            FinishedRun(Record(key=job.key, status="done", config=job.options, steps=0, seconds=0.0, finished=finished))
            for job in pack.jobs[first : first + _TOGETHER]
        ]


def _sweep(grid: Path, directory: Path) -> None:
    """Do every run of a grid, without training."""
    jobs = make_jobs(resolve(point) for point in read_grid(grid).points())
    with Store.open(directory, write=True) as store:
        left = not_done(store, jobs)
        packs = [Pack(tuple(left[first : first + _PACK]), 0.0) for first in range(0, len(left), _PACK)]
        engine = LocalEngine(_WORKERS, work_folder(directory), Limits(), work_on_nothing)
        with closing(engine):
            run_packs(store, packs, engine, lambda progress: None)


def _ask(*arguments: object) -> dict[str, Any]:
    done = subprocess.run([*_COMMAND, *map(str, arguments), "--json"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise WrongAnswerError(f"the command failed: {done.stderr.strip()}")
    return json.loads(done.stdout)
