"""Runs and their results: one directory, one SQLite file, one writer.

A run is keyed by the hash of its resolved config, so that a grid knows what is done, stores can be merged, and nothing
is recorded twice. Whoever writes holds a lock that the system releases when its process ends, however it ends. Records
are kept whole, compressed against a dictionary that the store carries with it, beside the columns that are asked for
most.
"""

from statewise.store.database import DATABASE, FORMAT
from statewise.store.merge import merge_into
from statewise.store.records import COLUMNS, LENGTH, STATUSES, check_record, columns_of, is_null, key_of
from statewise.store.store import LARGEST_WEIGHTS, Store

__all__ = [
    "COLUMNS",
    "DATABASE",
    "FORMAT",
    "LARGEST_WEIGHTS",
    "LENGTH",
    "STATUSES",
    "Store",
    "check_record",
    "columns_of",
    "is_null",
    "key_of",
    "merge_into",
]
