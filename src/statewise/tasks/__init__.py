"""Tasks: a machine, sequence lengths and supervision, made into batches."""

from statewise.tasks.batches import Batch, Supervision
from statewise.tasks.lengths import MAX_LENGTH, Lengths
from statewise.tasks.task import ERROR, Task, legal_moves

__all__ = ["ERROR", "MAX_LENGTH", "Batch", "Lengths", "Supervision", "Task", "legal_moves"]
