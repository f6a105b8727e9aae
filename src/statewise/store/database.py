"""The store's SQLite file: its tables, its format, the lock of its one writer, and its errors in one sentence."""

import logging
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from statewise.errors import DamagedStoreError, StoreError, StoreWriteError, shorten
from statewise.files import reason_of
from statewise.locks import HeldError, NoLocksError, is_held, take_lock
from statewise.runs.directory import CONFIG, NETWORK
from statewise.store.rows import COLUMNS

_LOGGER = logging.getLogger("statewise")
FORMAT = 1
DATABASE, LOCK = "runs.sqlite", "lock"
# what most records have in common, so that each takes only the space of what is its own
_DICTIONARY = (
    '"versions":{"python":"3.11","torch":"2.13.0","statewise":"0.1.0"},"commit":null,"history":[{"step":500,"loss":0.0,'
    '"scores":[1.0,0.0],"seconds":1.0,"validation":null},"probe":[10,500]}"in_distribution":{"length":10,"count":1000,'
    '"scores":[{"length":500,"count":1000,"correct":1000,"classes":5,"majority":0.2,"accuracy":1.0,"score":1.0,'
    '"score_majority":1.0}],"tokens_per_second":0,"parameters":0,"loss":0.0,"reason":"status":"done","config":{"task":'
    '"modular_addition(5)","model":"full","recipe":"statewise","hidden":64,"embedding":0,"additive":"none","readout":'
    '"normalised","steps":2000,"batch":64,"lr":0.001,"schedule":"cosine","warmup":0,"weight_decay":0.0,'
    '"readout_decay":0.0,"clip":0.0,"average":0.0,"length_power":1.0,"shortest":2,"longest":10,"growth_share":0.0,'
    '"late":0,"late_share":0.6,"late_until":0.9,"supervision":"final","samples":null,"validation":0,"seed":0,'
    '"every":250,"probe":[10,500],"probe_words":256,"test_lengths":[10,500],"words":1000,"stop_score":0.0,'
    '"patience":2,"settle":0.0}'
)
_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {", ".join(COLUMNS)}, record BLOB NOT NULL, checksum BLOB
);
CREATE INDEX by_status ON runs (status);
CREATE TABLE weights (key BLOB PRIMARY KEY, tensors BLOB NOT NULL, checksum BLOB);
"""
# tables whose rows have a checksum, which stores of earlier versions have not
CHECKED = ("runs", "weights")
# the row of meta that stands while a store is being written
_WRITING = "writing"
# of machines and of users' own models, by the hash of the text
_TEXTS = "CREATE TABLE IF NOT EXISTS texts (sha256 BLOB PRIMARY KEY, text BLOB NOT NULL)"


def connect(directory: Path, write: bool) -> sqlite3.Connection:
    """Open the database to be read, or to be written, where it is begun if need be."""
    file = directory / DATABASE
    if not write and not file.is_file():
        raise StoreError(f'"{shorten(directory)}" holds no store; expected a directory with {DATABASE}; correct it')
    if file.exists() and not file.is_file():
        raise StoreError(f'"{shorten(file)}" is no regular file; give the store a directory of its own')
    had_log = log_is_there(directory)
    with translated(directory):
        connection = sqlite3.connect(file if write else _read_only(directory), uri=not write, timeout=30.0)
        try:
            # a process that was killed while it began a store leaves a file without tables
            begun = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
            # a store has tables only: what stands for one, or acts when one is written, is of someone else
            others = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
            if connection.execute(others).fetchone()[0]:
                raise damaged(directory, "it has views or triggers, which no store has")
            if begun:
                _check_format(connection, directory)
            elif not write:
                raise StoreError(f'"{shorten(directory)}" holds no store yet; expected recorded runs; run a sweep')
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                # a run's checkpoints go once it is recorded, so a record must outlive a power cut
                connection.execute("PRAGMA synchronous = FULL")
            if write and not begun:
                _begin(connection)
            if begun and not had_log and lost_log(connection, directory, write):
                _LOGGER.warning("statewise: %s", lost_log_text(directory))
            if write:
                # stores that were begun before texts were kept, or before rows had checksums
                connection.execute(_TEXTS)
                for table in CHECKED:
                    if not has_checksums(connection, table):
                        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum BLOB")
                _mark_writing(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def has_checksums(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether the rows of a table have checksums."""
    return any(name == "checksum" for _, name, *_ in connection.execute(f"PRAGMA table_info({table})"))


def _mark_writing(connection: sqlite3.Connection) -> None:
    """Note in the database file itself that its log holds more; `mark_closed` takes the note away."""
    with connection:
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [_WRITING, f"process {os.getpid()}"])
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def mark_closed(connection: sqlite3.Connection) -> None:
    """Note that a writer ends; closing the connection then moves the log into the database file."""
    # on a full disk the note stays
    with suppress(sqlite3.Error), connection:
        connection.execute("DELETE FROM meta WHERE name = ?", [_WRITING])


def lost_log(connection: sqlite3.Connection, directory: Path, write: bool) -> bool:
    """Return whether the last writer did not end by closing the store, and no one writes now.

    Its log is then still there, unless it was removed: SQLite reads the older state of the database without a word.
    """
    found = connection.execute("SELECT 1 FROM meta WHERE name = ?", [_WRITING]).fetchone()
    return found is not None and (write or not is_held(directory / LOCK))


def lost_log_text(directory: Path) -> str:
    """Say that a log is missing."""
    return (
        f'"{shorten(directory)}" was not closed by its last writer, and its log "{DATABASE}-wal" is gone: runs that '
        "were recorded last may be missing; put the log back, or do them again"
    )


def log_is_there(directory: Path) -> bool:
    """Return whether the database has a log beside it; a reader leaves an empty one."""
    log = _log_of(directory / DATABASE)
    return log.exists() and log.stat().st_size > 0


def _log_of(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def _begin(connection: sqlite3.Connection) -> None:
    meta = [("format", str(FORMAT)), ("id", secrets.token_hex(8)), ("dictionary", _DICTIONARY.encode())]
    with connection:
        connection.execute("BEGIN")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)


def _read_only(directory: Path) -> str:
    """Return the address under which a reader opens the database, also on a disk that it must not write to."""
    file = (directory / DATABASE).resolve()
    unwritten = not os.access(directory, os.W_OK) and not _log_of(file).exists()
    return f"{file.as_uri()}?mode=ro" + ("&immutable=1" if unwritten else "")


def read_meta(connection: sqlite3.Connection, directory: Path, name: str) -> Any:
    """Read a value that the store keeps about itself."""
    found = connection.execute("SELECT value FROM meta WHERE name = ?", [name]).fetchone()
    if found is None:
        raise damaged(directory, f"it has no {name}")
    return found[0]


def _check_format(connection: sqlite3.Connection, directory: Path) -> None:
    kept = str(read_meta(connection, directory, "format"))
    if not re.fullmatch("[0-9]{1,9}", kept):
        raise damaged(directory, f"its format is {shorten(kept, 20)}")
    if int(kept) > FORMAT:
        raise StoreError(
            f'"{shorten(directory)}" has format {int(kept)}, this version reads up to {FORMAT}; update statewise'
        )


def lock_store(directory: Path) -> int:
    """Take the writer's lock, which the system releases when the process ends, however it ends."""
    if any((directory / file).exists() for file in (CONFIG, NETWORK)):
        raise StoreError(f'"{shorten(directory)}" is the directory of a run; give the store a directory of its own')
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return take_lock(directory / LOCK)
    except HeldError as error:
        raise StoreError(
            f'"{shorten(directory)}" is being written by {shorten(error)}; wait for it, or stop it'
        ) from None
    except NoLocksError as error:
        raise StoreError(
            f'the file system of "{shorten(directory)}" has no locks ({shorten(error)}), so that two writers could not '
            "be told apart; put the store on another disk, such as a local one"
        ) from None
    except OSError as error:
        raise StoreError(
            f'cannot write in "{shorten(directory)}": {reason_of(error)}; choose another place for the store'
        ) from None


@contextmanager
def translated(directory: Path) -> Iterator[None]:
    """Turn the errors of SQLite into one sentence about the store."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "disk I/O" in str(error):
            raise StoreWriteError(
                f'cannot write to "{shorten(directory)}": {error}; what it holds stays; make room, and start again'
            ) from None
        if "no such table" in str(error):
            raise damaged(directory, str(error)) from None
        raise StoreError(f'cannot use "{shorten(directory)}": {error}; check its files and rights') from None
    except sqlite3.DatabaseError as error:
        raise damaged(directory, str(error)) from None
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f'"{shorten(directory)}" cannot hold a value: {shorten(error)}; correct it') from None


def damaged(directory: Path, reason: str) -> DamagedStoreError:
    """Build the error for a database that cannot be trusted."""
    return DamagedStoreError(
        f'"{shorten(directory / DATABASE)}" is damaged ({shorten(reason)}); put a copy in its place'
    )
