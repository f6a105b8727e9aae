"""The files of a run directory: which there are, how they are written, and how those of earlier formats are read.

A trained run has `config.json` (its options), `machine.json`, `record.json` once it has ended, and a checkpoint. A
network that was compiled, snapped or learned has `network.json` in place of the first and the third: it was never
trained, so it has no training options. A run on sequences without a machine has `names.json` in place of the second:
the names of its symbols and outputs. A run of a user's own class has the text of its source in `model.py`, for people
to read: nothing here is ever imported. The manifest lists the hash of each file, which is compared whenever one is
read.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statewise.errors import BusyError, FileError, RunError, StatewiseError, StoreError, UnreadableError, shorten
from statewise.files import reason_of, remove_strays_in, whole_folder, write_bytes_whole
from statewise.locks import HeldError, NoLocksError, remove_lock, take_lock
from statewise.machines import Machine, identical
from statewise.machines.machine_files import from_json, to_json
from statewise.reading import parse_form, parse_json
from statewise.runs.record import FORMAT, STATUSES, Record, parse_record, provenance
from statewise.tasks import Names, Source
from statewise.training.manifest import (
    CONFIG,
    MACHINE,
    MANIFEST,
    MAX_FILE_BYTES,
    NAMES,
    NETWORK,
    RECORD,
    SOURCE,
    check_kept,
    list_file,
    listed_files,
    read_kept,
    write_manifest,
)
from statewise.training.manifest import read_manifest as read_hashes
from statewise.training.options import RunOptions

if TYPE_CHECKING:
    from statewise.models import StateTracker

# while a run is being trained
LOCK = "lock"
Origin = Literal["compiled", "snapped", "learned", "polished"]


class NetworkManifest(BaseModel):
    """How a network that was not trained came to be.

    Args:
        format: of the manifest.
        origin: what made it.
        model: its level.
        hidden: its hidden size.
        readout: whether the hidden state is normalised before the readout.
        how: the construction, in words.
        shortest: of a network that was polished on sequences without a machine, the length of the shortest.
        facts: what the command that made it reported.
        versions: of what made it.
        commit: of the source tree.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    origin: Origin
    model: str
    hidden: int = Field(ge=1, le=100_000)
    readout: Literal["plain", "normalised"] = "normalised"
    how: str = ""
    shortest: int | None = Field(default=None, ge=0)
    facts: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=lambda: provenance().versions)
    commit: str | None = Field(default_factory=lambda: provenance().commit)


def open_directory(
    directory: Path, options: RunOptions, task_source: Source, source: bytes | None = None
) -> Record | None:
    """Begin or resume a run directory; return the record of a run that has ended.

    The machine, and the source of a user's own model, are kept beside the options, so that a run stays what it was when
    a file that it came from changes. Of sequences without a machine the names are kept, and their hash in the options.
    """
    if (directory / CONFIG).exists():
        _check_same(directory, options, task_source)
        return read_record(directory)
    if directory.exists() and not directory.is_dir():
        raise RunError(f'"{shorten(directory)}" is a file; give the run a directory of its own')
    if directory.exists() and any(file.name != LOCK for file in directory.iterdir()):
        raise RunError(f'"{shorten(directory)}" is not empty and holds no run; use another directory')
    begin_directory(directory, options, task_source, source)
    return None


@contextmanager
def held_directory(directory: Path) -> Iterator[None]:
    """Hold a run directory, so that no other process trains in it; what a kill left there is removed first.

    One whose run has ended is only read, and not held.
    """
    if (directory / RECORD).exists():
        yield
        return
    if directory.exists() and not directory.is_dir():
        raise RunError(f'"{shorten(directory)}" is a file; give the run a directory of its own')
    file = directory / LOCK
    killed = file.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = take_lock(file)
    except HeldError as error:
        raise BusyError(
            f'"{shorten(directory)}" is being trained in by {shorten(error)}; wait for it, or use another directory'
        ) from None
    except NoLocksError as error:
        logging.getLogger("statewise").warning(
            "statewise: the file system of %s has no locks (%s); train in this directory with one process at a time",
            shorten(directory),
            error,
        )
        file.unlink(missing_ok=True)
        yield
        return
    except OSError as error:
        raise FileError(
            f'cannot write in "{shorten(directory)}": {reason_of(error)}; choose another place for the run'
        ) from None
    try:
        _remove_leftovers(directory, killed)
        yield
    finally:
        remove_lock(file, lock)


def _remove_leftovers(directory: Path, killed: bool) -> None:
    """Remove what a kill left of a checkpoint, or of a run that was about to begin."""
    from statewise.training.checkpoints import remove_unfinished

    if (directory / CONFIG).exists():
        remove_unfinished(directory)
    elif killed:
        remove_strays_in(directory)
        if {file.name for file in directory.iterdir()} <= {LOCK, MANIFEST, MACHINE, NAMES, SOURCE}:
            for name in (MANIFEST, MACHINE, NAMES, SOURCE):
                (directory / name).unlink(missing_ok=True)


def begin_directory(directory: Path, options: RunOptions, task_source: Source, source: bytes | None) -> None:
    """Write what is known of a run before it is begun."""
    config = json.dumps({"format": FORMAT, "options": options.to_dict()}, indent=1) + "\n"
    contents = {**_source_files(task_source), **({} if source is None else {SOURCE: source}), CONFIG: config.encode()}
    _write_files(directory, contents)


def _write_files(directory: Path, contents: dict[str, bytes]) -> None:
    """Write the manifest and the files that it lists; the last of them makes the directory that of a run."""
    write_manifest(directory, listed_files(contents))
    for name, content in contents.items():
        write_bytes_whole(directory / name, content)


def check_directory(directory: Path) -> None:
    """Compare every file of a run directory but its weights, which are compared when they are read, with its hash."""
    listed = read_hashes(directory)
    if listed is None or listed.files is None:
        return
    # a record that is not there is that of a run whose network is to be tested again
    gone = next((name for name in listed.files if name != RECORD and not (directory / name).exists()), None)
    if gone is not None:
        raise RunError(f'"{shorten(directory / gone)}" is missing; use another directory')
    check_kept(directory, listed.files)


class _NamesFile(BaseModel):
    """The names of a run on sequences without a machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str
    alphabet: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    output_names: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


def read_source(directory: Path) -> Machine | Names:
    """Read the machine of a run, or the names of the symbols and outputs of one that has none."""
    if not (directory / NAMES).exists():
        return _read_machine(directory)
    try:
        held = parse_form(_NamesFile, read_kept(directory, NAMES))
        return Names(held.name, held.alphabet, held.output_names)
    except UnreadableError as error:
        raise RunError(f'"{shorten(directory / NAMES)}" cannot be read: {error}; use another directory') from None


def _read_machine(directory: Path) -> Machine:
    content = read_kept(directory, MACHINE, MAX_FILE_BYTES)
    try:
        found = from_json(content)
    except StatewiseError as error:
        raise RunError(f'"{shorten(directory / MACHINE)}": {error}; use another directory') from None
    return found if found.name else found.replace(name=Path(MACHINE).stem)


def _source_files(source: Source) -> dict[str, bytes]:
    if isinstance(source, Machine):
        return {MACHINE: to_json(source).encode()}
    held = {"name": source.name, "alphabet": source.alphabet, "output_names": source.output_names}
    return {NAMES: (json.dumps(held, indent=1, ensure_ascii=False) + "\n").encode()}


def read_options(directory: Path) -> RunOptions:
    """Read the options of a trained run, of this format or of the first."""
    content = read_kept(directory, CONFIG)
    try:
        held = parse_json(content)
        # the first format is the options alone
        return RunOptions.model_validate_json(json.dumps(held.get("options", held)))
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise RunError(f'"{shorten(directory / CONFIG)}" cannot be read; use another directory') from None


def read_record(directory: Path) -> Record | None:
    """Read the record of a run; None if it has not ended."""
    file = directory / RECORD
    if not os.path.lexists(file) or not _is_listed(directory, RECORD):
        return None
    try:
        content = read_kept(directory, RECORD)
        parse_json(content)
        return parse_record(content)
    except (RunError, StoreError, UnreadableError):
        raise RunError(f'"{shorten(file)}" is damaged; delete it, and the run tests its model again') from None


def _is_listed(directory: Path, name: str) -> bool:
    """Return whether a file counts: one that was written just before a kill is in no manifest yet."""
    listed = read_hashes(directory)
    return listed is None or listed.files is None or name in listed.files


def write_record(directory: Path, record: Record) -> None:
    """Write the record of a run that has ended."""
    content = (json.dumps(record.to_dict(), indent=1) + "\n").encode()
    write_bytes_whole(directory / RECORD, content)
    list_file(directory, RECORD, content)


def read_manifest(directory: Path) -> NetworkManifest | None:
    """Read how a network that was not trained came to be; None where the directory holds a trained run."""
    try:
        if (directory / NETWORK).exists():
            return parse_form(NetworkManifest, read_kept(directory, NETWORK))
        return _first_format(directory)
    except (RunError, UnreadableError, ValidationError, KeyError, TypeError, AttributeError):
        raise RunError(f'"{shorten(directory)}" holds a manifest that cannot be read; make it anew') from None


def write_network(directory: Path, model: "StateTracker", source: Source, manifest: NetworkManifest) -> None:
    """Write a network that was made, not trained, as a run directory that every command reads; whole or not at all."""
    from statewise.training.checkpoints import write_checkpoint

    def fill(aside: Path) -> None:
        written = json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n"
        _write_files(aside, {**_source_files(source), NETWORK: written.encode()})
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        write_checkpoint(aside, "step-0", tensors, {"step": 0})

    write_aside(directory, fill)


def check_free(directory: Path) -> None:
    """Refuse a directory that holds anything."""
    try:
        taken = directory.exists() and (not directory.is_dir() or any(directory.iterdir()))
    except OSError as error:
        raise RunError(f'cannot write "{shorten(directory)}": {reason_of(error)}; use another directory') from None
    if taken:
        raise RunError(f'"{shorten(directory)}" is there already and not empty; give a new directory')


def write_aside(directory: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new directory, whole or not at all."""
    check_free(directory)
    try:
        with whole_folder(directory) as aside:
            fill(aside)
    except OSError as error:
        raise RunError(f'cannot write "{shorten(directory)}": {reason_of(error)}; use another directory') from None


def _check_same(directory: Path, options: RunOptions, source: Source) -> None:
    held, given = read_options(directory).to_dict(), options.to_dict()
    if held != given:
        other = next(key for key in {**held, **given} if held.get(key) != given.get(key))
        differs = f"{other}={shorten(held.get(other))}, not {shorten(given.get(other))}"
        raise RunError(f'"{shorten(directory)}" holds a run with {differs}; use another directory')
    # sequences are compared by their hash, which is an option
    if isinstance(source, Machine) and not identical(_read_machine(directory), source):
        raise RunError(f'"{shorten(directory)}" holds a run on another machine of this name; use another directory')


def _first_format(directory: Path) -> NetworkManifest | None:
    """Read a network of the first format, which had training options that were invented for it."""
    try:
        held = parse_json(read_kept(directory, RECORD)) if (directory / RECORD).exists() else {}
    except (RunError, UnreadableError):
        # a damaged record of a trained run has a sentence of its own
        return None
    if not isinstance(held, dict) or not held or held.get("status") in STATUSES:
        return None
    # compiled networks had the status of their verdict there
    origin = held["status"] if held["status"] in ("snapped", "learned") else "compiled"
    options = read_options(directory)
    facts = {name: value for name, value in held.items() if name not in ("config", "versions", "commit")}
    return NetworkManifest(
        format=1,
        origin=origin,
        model=options.model,
        hidden=options.hidden,
        readout=options.readout,
        how=held.get("how", ""),
        facts=facts,
        versions=held.get("versions", {}),
        commit=held.get("commit"),
    )
