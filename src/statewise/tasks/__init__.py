"""Tasks: a machine, sequence lengths and supervision, made into batches."""

from statewise.tasks.balance import Sampling, sampling_of
from statewise.tasks.batches import AT_END, BEYOND_SYMBOLS, Batch, Supervision
from statewise.tasks.lengths import MAX_LENGTH, Lengths
from statewise.tasks.task import ERROR, Task, legal_moves

__all__ = [
    "AT_END",
    "BEYOND_SYMBOLS",
    "ERROR",
    "MAX_LENGTH",
    "Batch",
    "Lengths",
    "Sampling",
    "Supervision",
    "Task",
    "legal_moves",
    "sampling_of",
]
