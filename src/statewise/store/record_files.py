"""Records from outside a store: files of records, and the directories that single runs leave."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from statewise.errors import StatewiseError, StoreError, shorten
from statewise.files import reason_of
from statewise.machines.catalogue import from_file
from statewise.runs.directory import MACHINE, RECORD
from statewise.runs.record import Record, parse_record
from statewise.store.rows import need_key


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


def _check_key(record: Record) -> None:
    """Refuse a record whose key is not that of its options."""
    key = need_key(record)
    # a machine's file, which is part of the key, is not in the record
    if not _from_file(record) and key != record.config.key():
        raise StoreError(f'the key "{shorten(key, 40)}" is not that of its config; leave the record out')


def _from_file(record: Record) -> bool:
    """Return whether a run's machine came from a file, whose text is part of its key."""
    return record.config.machine is None and from_file(record.config.task)
