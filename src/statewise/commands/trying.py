"""What compare and ladder try: tasks and models as users give them, and the store for their runs."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from statewise.commands.inputs import MachineLike, PathLike, machine_of
from statewise.commands.train import hash_of
from statewise.machines import Machine
from statewise.models.table import is_own, spec_of
from statewise.sweep.terms import SETTINGS, Terms
from statewise.sweep.trials import TriedModel, TriedTask


@contextmanager
def store_of(store: PathLike | None) -> Iterator[Path]:
    """Yield the directory of a store, or one that is removed at the end."""
    if store is not None:
        yield Path(store)
        return
    with tempfile.TemporaryDirectory(prefix="statewise-") as directory:
        yield Path(directory)


def tried_task(task: MachineLike) -> TriedTask:
    """Return a task of a trial, built."""
    machine = machine_of(task)
    if isinstance(task, Machine):
        return TriedTask(machine.name or "machine", machine, hash_of(machine))
    return TriedTask(str(task), machine)


def tried_models(models: Sequence[str | type], task: TriedTask, terms: Terms) -> list[TriedModel]:
    """Build every model once, each name once, and return what is to be known of them before any is trained."""
    found: dict[str, TriedModel] = {}
    for model in models:
        name = spec_of(model)
        if name not in found:
            found[name] = _tried_model(model, name, task, terms)
    return list(found.values())


def _tried_model(model: str | type, name: str, task: TriedTask, terms: Terms) -> TriedModel:
    from statewise.models import own_class

    options = terms.options(task.name, name, SETTINGS[0], 0)
    own = own_class(model) if is_own(name) else None
    reads = options.model_options.build(task.machine.symbols, task.machine.classes, 0, own).longest
    return TriedModel(name, reads, None if isinstance(model, str) or _can_be_imported(model) else own)


def _can_be_imported(made: type) -> bool:
    """Return whether another process finds a class by the names of its module and itself."""
    if made.__module__ == "__main__" or "." in made.__qualname__:
        return False
    path, found = None, None
    for part in _prefixes(made.__module__):
        found = PathFinder.find_spec(part, path)
        if found is None:
            return False
        path = found.submodule_search_locations
    return found is not None


def _prefixes(module: str) -> list[str]:
    """Return the names of a module and of the packages that it is in, from the outermost."""
    parts = module.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]
