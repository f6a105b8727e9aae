"""`statewise sweep`: a grid of runs into a store."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import GridError, unknown_name
from statewise.machines import machine
from statewise.machines.catalogue import from_file
from statewise.machines.machine_files import to_json
from statewise.store import DATABASE, Store, key_of
from statewise.sweep import Costs, Job, Progress, make_packs, read_grid, sweep
from statewise.sweep.check import check
from statewise.sweep.engine import Engine, Limits
from statewise.sweep.schedule import clean, not_done, work_folder
from statewise.training.options import resolve
from statewise.wording import counted

ENGINES = ("local", "ray")
# what every command takes that runs a grid
EngineName = Annotated[str, typer.Option(help="local, or ray.")]
Workers = Annotated[int, typer.Option(min=1, help="Packs of runs at once.")]
RayAddress = Annotated[str | None, typer.Option(help="A running Ray cluster; none starts one here.")]
Memory = Annotated[float, typer.Option(min=0, help="Gigabytes that a pack may use; 0 for no bound.")]
TimeLimit = Annotated[float, typer.Option(min=0, help="Seconds that a pack may take; 0 for no bound.")]
RetryFailed = Annotated[bool, typer.Option(help="Try runs again that have failed.")]
DryRun = Annotated[bool, typer.Option(help="Say what would be run, and about how long it takes.")]
# how often progress is shown, in seconds
_EVERY = 0.5
# what a worker needs before its first run, about, in seconds
_STARTING = 4.0
# hours from which days are told
_LONG = 72


def sweep_command(
    file: Annotated[Path, typer.Argument(help="A TOML file with the grid.")],
    store: Annotated[Path, typer.Option(help="The store's directory; what it has is not run again.")],
    engine: EngineName = "local",
    workers: Workers = 2,
    ray_address: RayAddress = None,
    memory: Memory = 0.0,
    time_limit: TimeLimit = 0.0,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a grid; started again, it goes on where it stopped."""
    grid = read_grid(file)
    configs = [resolve(None, point).model_dump(mode="json") for point in grid.points()]
    limits = Limits(time_limit, memory)
    result = run_grid(store, configs, engine, workers, ray_address, dry_run, limits, retry_failed)
    show({"name": grid.name, "store": str(store), **result}, json, summary_lines(result, store))
    if result["failed"] and not dry_run:
        raise typer.Exit(1)


def run_grid(
    store: Path | None,
    configs: Iterable[dict[str, Any]],
    engine: str = "local",
    workers: int = 2,
    ray_address: str | None = None,
    dry_run: bool = False,
    limits: Limits | None = None,
    retry_failed: bool = False,
) -> dict[str, Any]:
    """Does the runs that a store does not have, with one progress display, and says how all of them stand.

    Args:
        store: its directory; None only where nothing is to be run.
        configs: the resolved options of each run.
        engine: "local" or "ray".
        workers: how many packs are done at once.
        ray_address: of a running cluster.
        dry_run: only say what would be done.
        limits: of a pack.
        retry_failed: do runs again that have failed.
    """
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    jobs = _jobs(configs)
    if not jobs:
        raise GridError("the grid is empty; give it runs")
    check(jobs)
    if dry_run or store is None:
        return _dry_run(store, jobs, workers, retry_failed)
    with Store.open(store, write=True) as opened:
        clean(opened)
        left = not_done(opened, jobs, retry_failed)
        packs = make_packs(left, Costs(opened.costs()), workers)
        seconds = 0.0
        if packs:
            began = _engine(engine, min(workers, len(packs)), ray_address, opened, limits or Limits())
            with _ending(began) as running, progress_line() as tell:
                seconds = sweep(opened, packs, running, tell).seconds
        return _standing(opened, jobs) | {"ran": len(left), "packs": len(packs), "seconds": round(seconds, 1)}


def summary_lines(result: dict[str, Any], store: Path | None) -> list[tuple[str, str]]:
    """Gives what a person reads of a sweep."""
    packs = counted(result["packs"], "pack")
    if "to_run" in result:
        guess = "" if result["measured"] else ", guessed: runs like these have not been measured in this store"
        failed = f", {result['failed']:,} of them failed" if result["failed"] else ""
        lines = [
            ("runs", f"{result['total']:,}"),
            ("recorded", f"{result['total'] - result['to_run']:,}{failed}"),
            ("to run", f"{result['to_run']:,} in {packs}"),
        ]
        about = f"{_clock(result['estimate_s'])} on {counted(result['workers'], 'worker')}{guess}"
        return [*lines, ("about", about)] if result["to_run"] else lines
    lines = [
        ("runs", f"{result['total']:,}"),
        ("done", f"{result['done']:,}"),
        ("diverged", f"{result['diverged']:,}"),
        ("failed", f"{result['failed']:,}"),
        ("took", f"{result['seconds']:,.1f} s for {counted(result['ran'], 'run')} in {packs}"),
    ]
    why = f'"statewise runs {store} --status failed" tells why, --retry-failed tries them again'
    return [*lines, ("", why)] if result["failed"] else lines


def _jobs(configs: Iterable[dict[str, Any]]) -> list[Job]:
    """Gives each config its key; a machine from a file goes along, since a worker may not have the file."""
    texts: dict[str, str | None] = {}
    jobs = []
    for config in configs:
        task = config["task"]
        if task not in texts:
            texts[task] = to_json(machine(task)) if from_file(task) else None
        jobs.append(Job(key_of(config, texts[task]), config, texts[task]))
    return jobs


def _dry_run(store: Path | None, jobs: list[Job], workers: int, retry_failed: bool) -> dict[str, Any]:
    left, costs = list({job.key: job for job in jobs}.values()), Costs()
    counts: dict[str, Any] = {"done": 0, "failed": 0, "diverged": 0}
    if store is not None and (store / DATABASE).exists():
        with Store.open(store) as opened:
            left, costs = not_done(opened, jobs, retry_failed), Costs(opened.costs())
            counts = _standing(opened, jobs)
    packs = make_packs(left, costs, workers)
    seconds = sum(pack.seconds for pack in packs) / workers
    longest = max((pack.seconds for pack in packs), default=0.0)
    starting = 0.0 if all(job.null for job in left) else _STARTING
    return counts | {
        "total": len({job.key for job in jobs}),
        "to_run": len(left),
        "packs": len(packs),
        "workers": workers,
        "estimate_s": round(max(seconds, longest) + starting, 1),
        "measured": all(costs.known(job.config) for job in left),
    }


def _standing(store: Store, jobs: list[Job]) -> dict[str, Any]:
    """Counts how the runs of a grid stand in a store; one that stopped early is done."""
    asked = {job.key for job in jobs}
    counts = Counter(status for key, status in store.statuses() if key in asked)
    done = counts["done"] + counts["stopped"]
    return {"total": len(asked), "done": done, "failed": counts["failed"], "diverged": counts["diverged"]}


def _engine(name: str, workers: int, address: str | None, store: Store, limits: Limits) -> Callable[[], Engine]:
    def build() -> Engine:
        if name == "ray":
            from statewise.sweep.cluster import RayEngine

            return RayEngine(workers, address, store.name, limits)
        from statewise.sweep.local import LocalEngine

        return LocalEngine(workers, work_folder(store.directory), limits)

    return build


@contextmanager
def _ending(build: Callable[[], Engine]) -> Iterator[Engine]:
    engine = build()
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def progress_line() -> Iterator[Callable[[Progress], None]]:
    """Gives a function that keeps one line on stderr up to date, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    line = _Line()
    try:
        yield line.show
    finally:
        print(file=sys.stderr)


class _Line:
    def __init__(self) -> None:
        self.shown = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self.shown < _EVERY and progress.done < progress.total:
            return
        self.shown = now
        left = progress.seconds_left
        ends = "" if left is None else f"  about {_clock(left)} left"
        others = "".join(f"  {count:,} {name}" for name, count in sorted(progress.statuses.items()) if name != "done")
        rate = progress.done / max(progress.seconds, 1e-9)
        per = f"{rate:.1f} runs/s" if rate >= 1 else f"{60 * rate:.1f} runs/min"
        text = f"{progress.done:,}/{progress.total:,} runs  {progress.share:4.0%}{others}  {per}{ends}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _LONG:
        return f"{hours / 24:,.0f} days"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
