"""Sources by name: those that have no machine are listed here, and all other names are those of machines."""

from collections.abc import Callable
from pathlib import Path

from statewise.errors import ExpressionError
from statewise.expressions import Call, call, parse
from statewise.machines import Machine, machine
from statewise.machines.machine_files import SUFFIXES
from statewise.tasks.brackets import bracket_arithmetic
from statewise.tasks.source import SequenceSource
from statewise.tasks.words import words

# add a source that has no machine here: its name is then a task everywhere that options name one
SOURCES: dict[str, Callable[..., SequenceSource]] = {"bracket_arithmetic": bracket_arithmetic, "words": words}


def build_source(task: str) -> Machine | SequenceSource:
    """Build what a task's name stands for: a source of this catalogue, or a machine."""
    found = _call(task)
    return machine(task) if found is None else call(SOURCES[found.name], found)


def has_machine(task: str) -> bool:
    """Return whether a task's name is that of a machine."""
    return _call(task) is None


def _call(task: str) -> Call | None:
    """Return the call of a source without a machine; None of anything else, right or wrong."""
    if Path(task.strip()).suffix.lower() in SUFFIXES:
        return None
    try:
        found = parse(task)
    except ExpressionError:
        return None
    return found if isinstance(found, Call) and found.name in SOURCES else None
