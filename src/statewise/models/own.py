"""A user's own class as a model: `file.py:Class(options)`, `package.module:Class(options)`, or the class itself.

The class is called as `Class(symbols, classes, hidden, **options)`; a class derived from `Transition` as
`Class(input_size, hidden_size, **options)`, and becomes a tracker. Code is only ever imported from a name that the user
wrote: a run directory records the name, and asks for the class again.
"""

import hashlib
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, util
from pathlib import Path
from typing import Any

from torch import nn

from statewise.errors import ModelError, shorten
from statewise.expressions import Call, parse
from statewise.models.table import OWN_SPEC
from statewise.transitions import Transition

# packages whose classes are not a user's own
_NOT_OWN = ("builtins", "abc", "torch", "statewise")


@dataclass(frozen=True)
class OwnModel:
    """A class of a user's own, and the options that it is called with."""

    made: type | None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.made is not None and not (isinstance(self.made, type) and issubclass(self.made, nn.Module)):
            raise ModelError(f"{shorten(self.made)} is no class derived from torch.nn.Module; give such a class")

    @property
    def is_level(self) -> bool:
        """Whether it is a transition, around which a tracker is built."""
        return self.made is not None and issubclass(self.made, Transition)

    def build(self, **sizes: int) -> nn.Module:
        """Call the class; what it complains of becomes one sentence."""
        assert self.made is not None
        try:
            return self.made(**sizes, **self.options)
        except TypeError as error:
            expected = ", ".join(sizes)
            raise ModelError(
                f"{self.made.__name__} cannot be built: {shorten(error, 120)}; expected __init__({expected}, **options)"
            ) from error


def own_model(spec: str, load: bool = False) -> OwnModel:
    """Read `file.py:Class(options)` or `package.module:Class(options)`; import the class only if asked to."""
    place, called = _parts(spec)
    if called.args:
        raise ModelError(f'"{shorten(spec)}" has a plain argument; name it, as in {called.name}(layers=2)')
    return OwnModel(_load(place, called.name) if load else None, called.kwargs)


def own_class(model: str | type) -> type[nn.Module]:
    """Return the class of a user's own model, imported where it is given by name."""
    made = own_model(model, load=True).made if isinstance(model, str) else OwnModel(model).made
    assert made is not None
    return made


def source_hash(model: str | type) -> str | None:
    """Return the SHA-256 of a model's source: of its whole file where it is named by one, else of its classes.

    None where there is no text to read, as for a class that was typed into an interpreter.
    """
    place = OWN_SPEC.fullmatch(model)["place"] if isinstance(model, str) and OWN_SPEC.fullmatch(model) else ""  # pyright: ignore[reportOptionalSubscript]
    made = own_class(model)
    try:
        if place.endswith(".py"):
            return hashlib.sha256(Path(place).read_bytes()).hexdigest()
        own = [base for base in made.__mro__ if base.__module__.partition(".")[0] not in _NOT_OWN]
        return hashlib.sha256("".join(map(inspect.getsource, own)).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _parts(spec: str) -> tuple[str, Call]:
    match = OWN_SPEC.fullmatch(spec)
    called = None if match is None else parse(match["call"])
    if match is None or not isinstance(called, Call):
        raise ModelError(f'"{shorten(spec)}" names no class; write it as file.py:Class or package.module:Class')
    return match["place"].strip(), called


def _load(place: str, name: str) -> Any:
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else import_module(place)
    except ModelError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {shorten(error)}"
        raise ModelError(f'cannot import "{shorten(place)}": {why}; give a file or a module that can be') from error
    if not hasattr(module, name):
        raise ModelError(f'"{shorten(place)}" has no class {name}; correct the name')
    return getattr(module, name)


def _from_file(file: Path) -> Any:
    if not file.is_file():
        raise ModelError(f'"{shorten(file)}" is no file; expected a Python file with the class; correct the path')
    place = hashlib.sha256(str(file.resolve()).encode()).hexdigest()
    spec = util.spec_from_file_location(f"{file.stem}_{place[:8]}", file)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    # the source of a class is found through its module
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelError(f'"{shorten(file)}" cannot be run: {type(error).__name__}: {shorten(error)}') from None
    return module
