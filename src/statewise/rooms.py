"""Rooms that can be called: `statewise.sweep` is a package, and `sw.sweep(...)` is the command of that name.

Importing a package sets it as an attribute of its parent, so a function of the same name would be hidden.
"""

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    """A package that passes a call on to the command of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the command."""
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
