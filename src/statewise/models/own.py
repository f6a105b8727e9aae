"""A user's own class as a model: `file.py:Class(options)`, `package.module:Class(options)`, or the class itself.

The class is called as `Class(symbols, classes, hidden, **options)`; a class derived from `Transition` as
`Class(input_size, hidden_size, **options)`, and becomes a tracker. Code is only ever imported from a name that the user
wrote: run directories and stores keep the name and the text, and ask for the class again.
"""

import hashlib
import inspect
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module, util
from importlib.abc import SourceLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

from statewise.errors import ModelError, StatewiseError, shorten, unknown_name
from statewise.expressions import Call, parse
from statewise.files import reason_of
from statewise.models.own_helpers import helpers_of
from statewise.models.table import OWN_SPEC
from statewise.transitions import Transition

# packages whose classes are not a user's own
_NOT_OWN = ("builtins", "abc", "torch", "statewise")
# of a longer source the hash alone is kept
LARGEST_SOURCE = 256 * 1024


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
        except StatewiseError:
            raise
        except Exception as error:
            raise ModelError(
                f"{self.made.__name__} cannot be built: {describe_error(error, self.made)}; correct its __init__"
            ) from error


@dataclass(frozen=True)
class OwnSource:
    """The source of a user's own class as it was when a run was planned, from which another process loads the same.

    Args:
        place: of a file, its absolute path; of a module, its name.
        name: of the class.
        text: of the whole file or module; of a class that is given as such, of itself and of those of the user's that
            it derives from; None where there is none to read, as of a class that was typed into an interpreter.
        helpers: the texts of what the file or module imports from its package or directory.
    """

    place: str
    name: str
    text: bytes | None
    helpers: bytes = b""

    @property
    def whole(self) -> bytes | None:
        """The text, and those of the helpers."""
        return None if self.text is None else self.text + self.helpers

    @property
    def sha256(self) -> str | None:
        """The hash of the texts, which is part of a run's identity."""
        return None if self.whole is None else hashlib.sha256(self.whole).hexdigest()

    @property
    def kept(self) -> bytes | None:
        """The texts, where they are short enough to be kept beside a record."""
        return self.whole if self.whole is not None and len(self.whole) <= LARGEST_SOURCE else None

    def load(self) -> type[nn.Module]:
        """Import the class: of a file from this text, wherever the file is by now; of a module by its name."""
        if self.place.endswith(".py"):
            assert self.text is not None
            module: ModuleType = _from_text(self.place, self.text)
        else:
            module = _import(self.place)
        if not hasattr(module, self.name):
            where = Path(self.place).name if self.place.endswith(".py") else self.place
            classes = [name for name, value in vars(module).items() if isinstance(value, type)]
            raise ModelError(str(unknown_name(f'class in "{shorten(where)}"', self.name, classes)))
        made = OwnModel(getattr(module, self.name)).made
        assert made is not None
        return made


def own_model(spec: str, load: bool = False) -> OwnModel:
    """Read `file.py:Class(options)` or `package.module:Class(options)`; import the class only if asked to."""
    called = _parts(spec)[1]
    if called.args:
        raise ModelError(f'"{shorten(spec)}" has a plain argument; name it, as in {called.name}(layers=2)')
    return OwnModel(own_class(spec) if load else None, called.kwargs)


def own_class(model: str | type) -> type[nn.Module]:
    """Return the class of a user's own model, imported where it is given by name."""
    if isinstance(model, str):
        return own_source(model).load()
    made = OwnModel(model).made
    assert made is not None
    return made


def own_source(model: str | type) -> OwnSource:
    """Return the source of a user's own model; a file is read, and not imported."""
    if not isinstance(model, str):
        made = own_class(model)
        return OwnSource(made.__module__, made.__qualname__.rpartition(".")[2], _text_of(made))
    place, called = _parts(model)
    if not place.endswith(".py"):
        return _of_module(place, called.name, OwnSource(place, called.name, None).load())
    file = Path(place)
    if not file.is_file():
        raise ModelError(f'"{shorten(file)}" is no file; expected a Python file with the class; correct the path')
    try:
        return OwnSource(str(file.absolute()), called.name, file.read_bytes(), helpers_of(file))
    except OSError as error:
        raise ModelError(f'cannot read "{shorten(file)}": {reason_of(error)}; correct its rights') from None


def source_hash(model: str | type) -> str | None:
    """Return the SHA-256 of a model's source: of its whole file or module where it is named, else of its classes."""
    return own_source(model).sha256


def has_source(model: str | type, sha256: str) -> bool:
    """Return whether a hash is that of a model's source, of its whole file or of its classes, however it is named."""
    made, source = own_class(model), own_source(model)
    texts = [source.whole, source.text, _text_of(made), _of_module(made.__module__, made.__name__, made).whole]
    with suppress(OSError):
        file = Path(_file_of(made))
        text = file.read_bytes()
        texts += [text, text + helpers_of(file)]
    return sha256 in (hashlib.sha256(text).hexdigest() for text in texts if text is not None)


def describe_error(error: Exception, made: type) -> str:
    """Say what a user's code raised, and in which line of the class's own file."""
    file = _file_of(made)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if file and frame.filename == file]
    where = f" ({Path(file).name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {shorten(error, 160)}{where}"


def _of_module(module: str, name: str, made: type) -> OwnSource:
    """Return the source of a class of a module: all of the module, and what that imports from its package."""
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    if module.partition(".")[0] in _NOT_OWN or file.suffix != ".py" or not file.is_file():
        return OwnSource(module, name, _text_of(made))
    try:
        return OwnSource(module, name, file.read_bytes(), helpers_of(file, module))
    except OSError as error:
        raise ModelError(f'cannot read "{shorten(file)}": {reason_of(error)}; correct its rights') from None


def _file_of(made: type) -> str:
    try:
        return inspect.getsourcefile(made) or ""
    except TypeError:
        return ""


def _text_of(made: type) -> bytes | None:
    own = [base for base in made.__mro__ if base.__module__.partition(".")[0] not in _NOT_OWN]
    # what a function around the class gives it is not in its text
    if any(_closes_over(value) for base in own for value in vars(base).values()):
        return None
    try:
        return "".join(map(inspect.getsource, own)).encode()
    except (OSError, TypeError):
        return None


def _parts(spec: str) -> tuple[str, Call]:
    match = OWN_SPEC.fullmatch(spec)
    called = None if match is None else parse(match["call"])
    if match is None or not isinstance(called, Call):
        raise ModelError(f'"{shorten(spec)}" names no class; write it as file.py:Class or package.module:Class')
    return match["place"].strip(), called


def _import(place: str) -> ModuleType:
    try:
        return import_module(place)
    except Exception as error:
        why = f"{type(error).__name__}: {shorten(error)}"
        raise ModelError(f'cannot import "{shorten(place)}": {why}; give a file or a module that can be') from error


class _TextLoader(SourceLoader):
    """Import a module from a text that was read before; tracebacks and inspect find its lines there too."""

    def __init__(self, place: str, text: bytes) -> None:
        self.place, self.text = place, text

    def get_filename(self, fullname: str) -> str:
        return self.place

    def get_data(self, path: str) -> bytes:
        return self.text


def _from_text(place: str, text: bytes) -> ModuleType:
    """Run the text of a file as a module, once in a process."""
    name = f"{Path(place).stem}_{hashlib.sha256(place.encode() + text).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = util.spec_from_loader(name, _TextLoader(place, text))
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    # the source of a class is found through its module
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        why = f"{type(error).__name__}: {shorten(error)}"
        raise ModelError(f'"{shorten(Path(place).name)}" cannot be run: {why}; correct the file') from error
    return module


def _closes_over(value: object) -> bool:
    """Return whether a method uses a variable of a function around its class."""
    made = inspect.unwrap(value) if callable(value) else value
    return isinstance(made, FunctionType) and bool(set(made.__code__.co_freevars) - {"__class__"})
