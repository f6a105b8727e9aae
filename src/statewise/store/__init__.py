"""Runs and their results: one directory, one SQLite file, one writer.

A run is identified by the hash of its resolved options, so that a grid knows what is done, stores can be merged, and
nothing is recorded twice. A writer holds a lock that the system releases when its process ends, however it ends.
Records are kept whole, compressed against a dictionary that the store carries with it, beside the columns that lists
and filters use.
"""

from statewise.store.database import DATABASE, FORMAT
from statewise.store.export import exporter, is_table
from statewise.store.merge import merge_into
from statewise.store.record_files import RunFiles, read_records, read_run, run_files, small_weights
from statewise.store.rows import COLUMNS, LENGTH, StoredRun, constants_of
from statewise.store.store import LARGEST_WEIGHTS, Store
from statewise.store.stored_runs import load, open_stored, source_of

__all__ = [
    "COLUMNS",
    "DATABASE",
    "FORMAT",
    "LARGEST_WEIGHTS",
    "LENGTH",
    "RunFiles",
    "Store",
    "StoredRun",
    "constants_of",
    "exporter",
    "is_table",
    "load",
    "merge_into",
    "open_stored",
    "read_records",
    "read_run",
    "run_files",
    "small_weights",
    "source_of",
]
