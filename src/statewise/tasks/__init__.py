"""Tasks: a machine, sequence lengths and supervision, made into batches."""

from statewise.tasks.task import ERROR, MAX_LENGTH, Batch, Lengths, Supervision, Task

__all__ = ["ERROR", "MAX_LENGTH", "Batch", "Lengths", "Supervision", "Task"]
