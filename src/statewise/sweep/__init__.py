"""Sweeps: a grid of runs, packed into pieces of work, handed to an engine, recorded by one writer.

grid -> runs not yet done -> packs (ensembles of one shape, longest first) -> engine -> store
"""

from statewise.rooms import make_callable
from statewise.sweep.engine import Engine, Limits
from statewise.sweep.grid import Grid, read_grid
from statewise.sweep.jobs import Job, make_jobs
from statewise.sweep.packs import Costs, Pack, make_packs
from statewise.sweep.runner import ENGINES, EngineOptions, GridOutcome, GridPlan, Standing, plan_grid, run_grid
from statewise.sweep.schedule import Progress, ShowProgress, run_packs
from statewise.sweep.work import FinishedRun

__all__ = [
    "ENGINES",
    "Costs",
    "Engine",
    "EngineOptions",
    "FinishedRun",
    "Grid",
    "GridOutcome",
    "GridPlan",
    "Job",
    "Limits",
    "Pack",
    "Progress",
    "ShowProgress",
    "Standing",
    "make_jobs",
    "make_packs",
    "plan_grid",
    "read_grid",
    "run_grid",
    "run_packs",
]

# `sw.sweep(...)` runs a grid
make_callable(__name__)
