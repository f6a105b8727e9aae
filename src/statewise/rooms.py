"""How packages show their names: lazily, so that torch is imported when first needed, and as commands.

Importing a package sets it as an attribute of its parent, so a function of the same name would be hidden:
`statewise.sweep` is a package, and `sw.sweep(...)` is the command of that name. The package itself can be called.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from statewise.errors import TorchMissingError


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names are imported when they are first used.

    Args:
        package: the full name of the package.
        homes: by module inside the package, the names that it defines.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return find, lambda: sorted({*vars(sys.modules[package]), *home_of})


# what reads, lists or describes needs no torch; anything else that is called computes with it
_WITHOUT_TORCH = frozenset(
    {
        *("LabelledWords", "Lengths", "Record", "Run", "Task"),
        *("check", "describe", "doctor", "load", "machines", "merge", "models", "report", "runs", "sample"),
    }
)


def need_torch(name: str) -> None:
    """Raise an error that says what to install, where a name needs torch and it is not there."""
    if name in _WITHOUT_TORCH or "torch" in sys.modules:
        return
    try:
        there = find_spec("torch") is not None
    except ImportError:
        there = False
    if not there:
        raise TorchMissingError(torch_missing(name))


def torch_missing(name: str) -> str:
    """Say that something needs torch."""
    return f"{name} needs torch, which is not installed; install torch 2.13 or later with pip; machines work without it"


class _CallableRoom(ModuleType):
    """A package that passes a call on to the command of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the command."""
        need_torch(self.__name__.rpartition(".")[2])
        return _command_of(self)(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_command_of(self))


def make_callable(package: str) -> None:
    """Let a package be called as the command that has its name."""
    sys.modules[package].__class__ = _CallableRoom


def _command_of(room: ModuleType) -> Any:
    name = room.__name__.rpartition(".")[2]
    return getattr(import_module(f"statewise.commands.{name}"), name)
