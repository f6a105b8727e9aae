"""What commands take: a machine, a run, a model or a file, as a value, a name or a path."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any

from statewise.errors import MachineError, RunError, shorten
from statewise.machines import Machine
from statewise.machines import machine as build_machine

PathLike = str | os.PathLike[str]
MachineLike = Machine | str | os.PathLike[str]


def machine_of(machine: MachineLike) -> Machine:
    """Return a machine; a name or a file is built."""
    if not isinstance(machine, Machine | str | os.PathLike):
        raise MachineError(f"a machine is {shorten(repr(machine))}; expected a Machine, a name or a file")
    return machine if isinstance(machine, Machine) else build_machine(machine)


def path_of(path: PathLike | None) -> Path | None:
    """Return a path, where there is one."""
    return None if path is None else Path(path)


def check_least(name: str, value: object, least: int) -> None:
    """Refuse what is no number, or one below its least value."""
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= least:
        raise RunError(f"{name} is {shorten(repr(value))}; expected a number of at least {least}; correct it")


def numbers_of(name: str, values: object) -> tuple[int, ...]:
    """Return whole numbers of at least 1: one of them, several, or a text such as 10,500."""
    parts = values.split(",") if isinstance(values, str) else [values] if isinstance(values, Real) else values
    try:
        numbers = tuple(int(part) for part in parts)  # pyright: ignore[reportGeneralTypeIssues]
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or min(numbers) < 1:
        shown = shorten(values if isinstance(values, str) else repr(values))
        raise RunError(f'{name} are "{shown}"; expected whole numbers of at least 1, such as 10,500; correct them')
    return numbers


def list_of(values: object) -> list[Any]:
    """Return several values; one that stands alone is a list of one."""
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [values]


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Compute with so many torch threads, and put the number back afterwards.

    One thread is repeatable bit for bit, and beside other busy processes more threads wait for each other.
    """
    import torch

    check_least("threads", threads, 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
