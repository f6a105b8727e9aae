"""Tasks: a machine or other source of sequences, lengths and supervision, made into batches."""

from statewise.tasks.balance import Sampling, sampling_of
from statewise.tasks.batches import AT_END, BEYOND_SYMBOLS, Batch, Supervision, count_tokens
from statewise.tasks.catalogue import SOURCES, build_source, has_machine
from statewise.tasks.drawn_tests import Drawn
from statewise.tasks.generated import GeneratedSource, GeneratedTask
from statewise.tasks.lengths import MAX_LENGTH, Lengths
from statewise.tasks.source import Names, SequenceSource, SequenceTask, Source
from statewise.tasks.task import ERROR, Task, draws_for, legal_moves

__all__ = [
    "AT_END",
    "BEYOND_SYMBOLS",
    "ERROR",
    "MAX_LENGTH",
    "SOURCES",
    "Batch",
    "Drawn",
    "GeneratedSource",
    "GeneratedTask",
    "Lengths",
    "Names",
    "Sampling",
    "SequenceSource",
    "SequenceTask",
    "Source",
    "Supervision",
    "Task",
    "build_source",
    "count_tokens",
    "draws_for",
    "has_machine",
    "legal_moves",
    "sampling_of",
]
