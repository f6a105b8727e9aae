"""Tasks: a machine, sequence lengths and supervision, made into batches."""

from statewise.tasks.balance import Sampling, sampling_of
from statewise.tasks.batches import Batch, Supervision
from statewise.tasks.lengths import MAX_LENGTH, Lengths
from statewise.tasks.task import ERROR, Task, draws_for, legal_moves

__all__ = [
    "ERROR",
    "MAX_LENGTH",
    "Batch",
    "Lengths",
    "Sampling",
    "Supervision",
    "Task",
    "draws_for",
    "legal_moves",
    "sampling_of",
]
