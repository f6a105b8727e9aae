"""Records from outside a store: files of records, and the directories that single runs leave."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from statewise.errors import RunError, StatewiseError, StoreError, shorten
from statewise.files import reason_of
from statewise.machines.catalogue import from_file
from statewise.runs.directory import MACHINE, RECORD, SOURCE
from statewise.runs.record import Record, parse_record
from statewise.store.rows import need_key
from statewise.store.store import LARGEST_WEIGHTS


def read_records(file: Path) -> Iterator[Record]:
    """Read the records of a .jsonl or .jsonl.gz file, one to a line."""
    try:
        content = file.read_bytes()
        text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(f'cannot read "{shorten(file)}": {shorten(reason_of(error))}; give a .jsonl file') from None
    # other ends of lines may occur in names
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        try:
            record = parse_record(line)
            _check_key(record)
        except StatewiseError as error:
            raise StoreError(f'line {number} of "{shorten(file)}": {error}') from None
        yield record


def read_run(directory: Path) -> Record:
    """Read the record of a run directory, under the key that a sweep would give it."""
    file = directory / RECORD
    try:
        record = parse_record(file.read_bytes())
        kept = (directory / MACHINE).read_text() if _from_file(record) else None
        # the first format had no time in the record of a single run
        finished = round(file.stat().st_mtime, 1) if record.finished is None else record.finished
    except (OSError, UnicodeDecodeError):
        raise StoreError(f'"{shorten(file)}" is no record of a run; give the directory of a finished run') from None
    except StatewiseError as error:
        raise StoreError(f'"{shorten(file)}": {error}') from None
    return record.model_copy(update={"key": record.config.key(kept), "finished": finished})


@dataclass(frozen=True)
class RunFiles:
    """What a store takes from a run directory.

    Args:
        record: under the key that a sweep would give it.
        weights: as safetensors, if they are small.
        texts: of its machine, if no name builds that, and of a user's own model.
    """

    record: Record
    weights: bytes | None = None
    texts: tuple[bytes, ...] = ()


def run_files(directory: Path) -> RunFiles:
    """Read what a store takes from a run directory; weights that are damaged are left out."""
    record = read_run(directory)
    named = [MACHINE] if record.config.machine is not None or _from_file(record) else []
    named += [SOURCE] if record.config.source is not None else []
    texts = tuple((directory / name).read_bytes() for name in named if (directory / name).is_file())
    weights = None
    with suppress(RunError):
        weights = None if record.status == "diverged" else small_weights(directory)
    return RunFiles(record, weights, texts)


def small_weights(directory: Path) -> bytes | None:
    """Return the trained weights in a run directory as safetensors; None if they are too large for a store."""
    from safetensors.torch import save

    from statewise.training import read_checkpoint

    saved = read_checkpoint(directory)
    if saved is None:
        return None
    tensors = {name.removeprefix("model."): value for name, value in saved[0].items() if name.startswith("model.")}
    if sum(value.numel() * value.element_size() for value in tensors.values()) >= LARGEST_WEIGHTS:
        return None
    return save(tensors)


def _check_key(record: Record) -> None:
    """Refuse a record whose key is not that of its options."""
    key = need_key(record)
    # a machine's file, which is part of the key, is not in the record
    if not _from_file(record) and key != record.config.key():
        raise StoreError(f'the key "{shorten(key, 40)}" is not that of its config; leave the record out')


def _from_file(record: Record) -> bool:
    """Return whether a run's machine came from a file, whose text is part of its key."""
    return record.config.machine is None and from_file(record.config.task)
