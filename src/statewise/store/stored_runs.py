"""Runs of a store, opened by key: `STORE#KEY`, where the key may be cut to a beginning that one run has.

A store keeps the weights of small networks, and the texts of machines and models that came from files. Nothing of it is
ever imported: the class of a user's own model is given again.
"""

import os
from pathlib import Path

from statewise.errors import StoreError, shorten
from statewise.machines import Machine, machine
from statewise.machines.catalogue import from_file
from statewise.machines.machine_files import from_json, to_json
from statewise.runs.record import Record
from statewise.runs.run import Kept, Run, RunLike, own_of
from statewise.runs.run import load as load_directory
from statewise.store.database import DATABASE
from statewise.store.rows import need_key
from statewise.store.store import Store
from statewise.tasks import SequenceSource, build_source

_MARK = "#"


def load(run: RunLike, model: str | type | None = None) -> Run:
    """Open a run: a run directory, of this format or of the first, or a run of a store.

    Args:
        run: the directory, or `STORE#KEY` with the beginning of a key; a run is returned as it is.
        model: the class of its model, or `file.py:Class`, where that is a user's own: neither a directory nor a store
            makes statewise import code by itself.
    """
    if not isinstance(run, str | os.PathLike):
        return load_directory(run, model)
    if (Path(run) / DATABASE).exists():
        raise StoreError(
            f'"{shorten(run)}" is a store of many runs; name one as {shorten(run)}{_MARK}KEY, with a key of '
            f'"statewise runs {shorten(run)}"'
        )
    if _MARK not in os.fspath(run) or Path(run).exists():
        return load_directory(run, model)
    directory, _, key = os.fspath(run).rpartition(_MARK)
    with Store.open(Path(directory)) as store:
        return open_stored(store, store.find(key), model)


def open_stored(store: Store, record: Record, model: str | type | None = None) -> Run:
    """Return a recorded run with what its store kept of it.

    Args:
        store: which has the record.
        record: of the run.
        model: its class, where that is a user's own.
    """
    key, options = need_key(record), record.config
    kept = Kept(f"{store.directory}{_MARK}{key[:8]}", store.weights_file(key), source_of(store, record))
    return Run(_machine_of(store, record), None, options, record, kept=kept, own=own_of(options, model))


def source_of(store: Store, record: Record) -> bytes | None:
    """Return the text of a user's own model, if it was short enough to be kept."""
    return None if record.config.source is None else store.text(record.config.source)


def _machine_of(store: Store, record: Record) -> Machine | SequenceSource:
    """Build the machine, or the sequences, of a run.

    A machine that its name does not build must be in the store, or in its file as it was.
    """
    options, key = record.config, need_key(record)
    if options.machine is not None:
        text = store.text(options.machine)
        if text is None:
            raise _no_machine(store, record, "was given as a value and is not kept")
        return from_json(text.decode())
    if not from_file(options.task):
        built = build_source(options.task)
        if isinstance(built, SequenceSource) and built.digest != options.sequences:
            raise _no_machine(store, record, "has sequences in files that have changed since")
        return built
    # the text is part of the key, so that the right one is known when it is seen
    for text in store.texts():
        read = text.decode(errors="replace")
        if options.key(read) == key:
            return from_json(read)
    try:
        found = machine(options.task)
    except (ValueError, OSError):
        raise _no_machine(store, record, "is in a file that cannot be read") from None
    if options.key(to_json(found)) != key:
        raise _no_machine(store, record, "is in a file that has changed since")
    return found


def _no_machine(store: Store, record: Record, why: str) -> StoreError:
    return StoreError(
        f'the machine of run {need_key(record)[:8]} of "{shorten(store.directory)}", {shorten(record.config.task)}, '
        f"{why}; put the file back as it was"
    )
