"""What compare and ladder try: tasks and models as users give them, and the store for their runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.commands.inputs import MachineLike, PathLike, machine_of
from statewise.commands.train import hash_of
from statewise.errors import NetworkError, RunError, shorten
from statewise.files import temporary_folder
from statewise.interruption import Interrupted
from statewise.machines import Machine
from statewise.models.table import is_own, kind_of, spec_of
from statewise.runs.record import Record
from statewise.store import Store
from statewise.sweep.terms import LONGEST, SETTINGS, Terms
from statewise.sweep.trial_records import Trial
from statewise.sweep.trials import TriedModel, TriedTask
from statewise.tasks import build_source, has_machine
from statewise.tasks.words import WordsSource

if TYPE_CHECKING:
    from statewise.models import SequenceModel

# hidden-state updates that the search for a wrong word may take, and verdicts from the weakest to the strongest
_SEARCH = 200_000
_STRENGTH = ("refuted", "unknown", "horizon", "proven")


@contextmanager
def store_of(store: PathLike | None) -> Iterator[Path]:
    """Yield the directory of a store, or one that is removed at the end."""
    if store is not None:
        yield Path(store)
        return
    with temporary_folder() as directory:
        try:
            yield directory / "store"
        except KeyboardInterrupt as stop:
            raise Interrupted.of(stop, "no run is kept without --store; the same command begins anew") from None


def tried_task(task: MachineLike | WordsSource) -> TriedTask:
    """Return a task of a trial, built; sequences that are given as a value are in this process only."""
    if isinstance(task, WordsSource):
        return TriedTask(task.name, task, here=True)
    if isinstance(task, str) and not has_machine(task):
        return TriedTask(task, build_source(task))
    machine = machine_of(task)
    if isinstance(task, Machine):
        return TriedTask(machine.name or "machine", machine, hash_of(machine))
    return TriedTask(str(task), machine)


def tried_models(models: Sequence[str | type], task: TriedTask, terms: Terms) -> list[TriedModel]:
    """Build every model once, each name once, and return what is to be known of them before any is trained."""
    found: dict[str, TriedModel] = {}
    given: dict[str, str | type] = {}
    for model in models:
        name = spec_of(model)
        if given.setdefault(name, model) != model:
            raise RunError(f"two different models are called {shorten(name)}; give them different names")
        if name not in found:
            found[name] = _tried_model(model, name, task, terms)
    return list(found.values())


def _tried_model(model: str | type, name: str, task: TriedTask, terms: Terms) -> TriedModel:
    from statewise.models import own_class

    options = terms.options(task.name, name, SETTINGS[0], 0, kept=task.kept)
    own = own_class(model) if is_own(name) else None
    built = options.model_options.build(task.source.symbols, task.source.classes, 0, own)
    reads = built.longest if own is None else _read_by(built, options.test_lengths)
    return TriedModel(name, reads, None if isinstance(model, str) or _can_be_imported(model) else own)


def _read_by(model: "SequenceModel", lengths: Sequence[int]) -> int | None:
    """Return the longest sequence that a user's own model reads: as it says, or before it first fails; None is any."""
    if model.longest is not None:
        return model.longest
    import torch

    read = LONGEST
    for length in sorted(lengths):
        tokens = torch.zeros(1, length, dtype=torch.int64)
        try:
            with torch.no_grad():
                model.eval().advance(tokens, model.init_state(1))
        except Exception:
            # whatever it raises, it does not read this length; shorter ones are its own check's business
            return read
        read = max(read, length)
    return None


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


def weakest_verdict(store: Store, trial: Trial, task: TriedTask, model: TriedModel) -> str | None:
    """Return what a small search decides of the networks of a trial; of several seeds the weakest.

    None where there is no machine, or a network is no product of matrices.
    """
    kind, machine = kind_of(model.name), task.source
    if not isinstance(machine, Machine) or (kind is not None and not kind.is_level):
        return None
    found = [_verdict(store, record, machine, model) for record in trial.records]
    known = [verdict for verdict in found if verdict is not None]
    return min(known, key=_STRENGTH.index) if known and len(known) == len(found) else None


def _verdict(store: Store, record: Record, machine: Machine, model: TriedModel) -> str | None:
    import torch

    from statewise.models import own_class
    from statewise.runs.weights import build_untrained, rebuild
    from statewise.theory import network_of
    from statewise.theory.certify import certify

    kept = None if record.key is None else store.weights(record.key)
    if kept is None:
        # judged before its weights were dropped
        return None if record.verdict is None else record.verdict.status
    own = model.own or (own_class(model.name) if is_own(model.name) else None)
    network = build_untrained(record.config, machine, own)
    tensors = {name: torch.from_numpy(value.copy()) for name, value in kept.items()}
    try:
        exact = network_of(rebuild(network, tensors, str(store.directory)).eval())
    except NetworkError:
        return None
    return certify(exact, machine, record.config.lengths.shortest, work=_SEARCH).status
