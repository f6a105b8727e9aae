"""Records from outside a store: files of records, and the directories that single runs leave."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from statewise.errors import RunError, StatewiseError, StoreError, UnreadableError, shorten
from statewise.files import reason_of
from statewise.reading import MAX_JSON_BYTES, decode, parse_json, read_bytes
from statewise.runs.directory import MACHINE, RECORD, SOURCE, check_directory
from statewise.runs.record import Record, parse_record
from statewise.store.rows import is_from_file, need_key
from statewise.store.store import LARGEST_WEIGHTS
from statewise.training.manifest import MAX_FILE_BYTES, read_kept

# of a packed file
_MAX_UNPACKED = 4_000_000_000


def read_records(file: Path) -> Iterator[Record]:
    """Read the records of a .jsonl or .jsonl.gz file, one to a line."""
    try:
        content = read_bytes(file, MAX_FILE_BYTES)
    except UnreadableError as error:
        raise _unreadable(file, error) from None
    packed = file.suffix == ".gz"
    lines = gzip.GzipFile(fileobj=io.BytesIO(content)) if packed else io.BytesIO(content)
    number, total, blank = 0, 0, 0
    while True:
        try:
            # only this ends a line: others may stand in names
            line = lines.readline(MAX_JSON_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(file, error) from None
        if not line and number:
            return
        number, total = number + 1, total + len(line)
        if line == b"\n" and number > 1:
            blank = blank or number
            continue
        try:
            if blank:
                raise StoreError(f"line {blank} is empty; expected a record on each; leave it out")
            if len(line) > MAX_JSON_BYTES or total > _MAX_UNPACKED:
                raise StoreError(f"there are more than {min(total, _MAX_UNPACKED):,} bytes")
            record = parse_record(decode(line))
            _check_key(record)
            # of keys that occur twice, only one was read
            parse_json(line)
        except UnreadableError as error:
            if "UTF-8" in str(error):
                raise _unreadable(file, error) from None
            raise StoreError(
                f'line {number} of "{shorten(file)}": {error}; expected one meaning; leave it out'
            ) from None
        except StatewiseError as error:
            raise StoreError(f'line {number} of "{shorten(file)}": {error}') from None
        yield record


def _unreadable(file: Path, error: Exception) -> StoreError:
    return StoreError(f'cannot read "{shorten(file)}": {shorten(reason_of(error))}; give a .jsonl file')


def read_run(directory: Path) -> Record:
    """Read the record of a run directory, under the key that a sweep would give it."""
    file = directory / RECORD
    try:
        check_directory(directory)
        if not file.exists():
            raise FileNotFoundError
        content = read_kept(directory, RECORD)
        record = parse_record(content)
        # of keys that occur twice, only one was read
        parse_json(content)
        kept = read_kept(directory, MACHINE, MAX_FILE_BYTES).decode() if is_from_file(record) else None
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
    named = [MACHINE] if record.config.machine is not None or is_from_file(record) else []
    named += [SOURCE] if record.config.source is not None else []
    there = (name for name in named if (directory / name).is_file())
    texts = tuple(read_kept(directory, name, MAX_FILE_BYTES) for name in there)
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
    if not is_from_file(record) and key != record.config.key():
        raise StoreError(f'the key "{shorten(key, 40)}" is not that of its config; leave the record out')
