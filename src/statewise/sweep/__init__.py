"""Sweeps: a grid of runs, packed into pieces of work, handed to an engine, recorded by one writer.

grid -> runs not yet done -> packs (ensembles of one shape, longest first) -> engine -> store
"""

from statewise.sweep.grid import Grid, read_grid
from statewise.sweep.packs import Costs, Job, Pack, make_packs
from statewise.sweep.schedule import Progress, Summary, sweep

__all__ = ["Costs", "Grid", "Job", "Pack", "Progress", "Summary", "make_packs", "read_grid", "sweep"]
