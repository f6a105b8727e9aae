"""What commands take: a machine, a run, a model or a file, as a value, a name or a path."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from statewise.errors import RunError, shorten
from statewise.machines import Machine
from statewise.machines import machine as build_machine

PathLike = str | os.PathLike[str]
MachineLike = Machine | str | os.PathLike[str]


def machine_of(machine: MachineLike) -> Machine:
    """Return a machine; a name or a file is built."""
    return machine if isinstance(machine, Machine) else build_machine(machine)


def path_of(path: PathLike | None) -> Path | None:
    """Return a path, where there is one."""
    return None if path is None else Path(path)


def check_least(**numbers: int | float) -> None:
    """Refuse numbers below their least value; names are given as `name_least`, as in `check_least(words_1=words)`."""
    for name, value in numbers.items():
        shown, _, least = name.rpartition("_")
        if not value >= int(least):
            raise RunError(f"{shown} is {shorten(value)}; expected at least {least}; correct it")


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Compute with so many torch threads, and put the number back afterwards.

    One thread is repeatable bit for bit, and beside other busy processes more threads wait for each other.
    """
    import torch

    check_least(threads_1=threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
