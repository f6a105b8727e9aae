"""How packages show their names: lazily, so that torch is imported when first needed, and as commands.

Importing a package sets it as an attribute of its parent, so a function of the same name would be hidden:
`statewise.sweep` is a package, and `sw.sweep(...)` is the command of that name. The package itself can be called.
"""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


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
