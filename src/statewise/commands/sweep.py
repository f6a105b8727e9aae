"""`statewise sweep`: a grid of runs into a store."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.commands.inputs import PathLike, device_of
from statewise.sweep import (
    EngineOptions,
    GridOutcome,
    GridPlan,
    Limits,
    ShowProgress,
    plan_grid,
    read_grid,
    run_grid,
)
from statewise.training.options import resolve
from statewise.wording import Lines, Result


@dataclass(frozen=True)
class SweepResult(Result):
    """A sweep, or the plan of one.

    Args:
        name: of the grid.
        store: the directory that runs are recorded in.
        grid: what was done and how all runs stand; of a dry run, what would be done.
    """

    name: str
    store: Path
    grid: GridOutcome | GridPlan

    @property
    def failed(self) -> bool:
        """Whether any run of the grid has failed; a plan never does."""
        return self.grid.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the counts of the grid, with its name and store."""
        return {"name": self.name, "store": str(self.store), **self.grid.to_dict()}

    def lines(self) -> Lines:
        """Return the counts of the grid for a reader."""
        return self.grid.lines()


def sweep(
    file: PathLike,
    store: PathLike,
    engine: str = "local",
    workers: int = 2,
    ray_address: str | None = None,
    memory: float = 0.0,
    time_limit: float = 0.0,
    retry_failed: bool = False,
    dry_run: bool = False,
    device: str = "cpu",
    show: ShowProgress | None = None,
) -> SweepResult:
    """Run a grid; started again, it goes on where it stopped.

    Args:
        file: a TOML file with the grid
        store: the store's directory; what it has is not run again
        engine: local, or ray
        workers: packs of runs at once
        ray_address: a running Ray cluster; none starts one here
        memory: gigabytes that a pack may use; 0 for no bound
        time_limit: seconds that a pack may take; 0 for no bound
        retry_failed: try runs again that have failed
        dry_run: show what would be run, and about how long it takes, from a few steps that are timed
        device: where to compute: cpu, cuda, mps or auto
        show: called with the progress, about once a second
    """
    directory = Path(store)
    on = EngineOptions(engine, workers, ray_address, Limits(time_limit, memory), device_of(device))
    grid = read_grid(Path(file))
    runs = [resolve(point) for point in grid.points()]
    if dry_run:
        return SweepResult(grid.name, directory, plan_grid(directory, runs, on, retry_failed))
    return SweepResult(grid.name, directory, run_grid(directory, runs, on, retry_failed, show))
