"""An open store."""

import hashlib
import os
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic_core import PydanticSerializationError

from statewise.errors import StoreError, shorten
from statewise.reading import MAX_JSON_BYTES
from statewise.runs.record import Record, parse_record
from statewise.store import queries
from statewise.store.checksums import arrays_of, checksum, columns_fit, fits
from statewise.store.database import (
    CHECKED,
    DATABASE,
    LOCK,
    connect,
    damaged,
    has_checksums,
    lock_store,
    log_is_there,
    lost_log,
    lost_log_text,
    mark_closed,
    read_meta,
    translated,
)
from statewise.store.rows import StoredRun, agrees

# weights of models up to this size are kept beside their records
LARGEST_WEIGHTS = 256 * 1024
# and texts of machines and models up to this one
LARGEST_TEXT = 256 * 1024
_KEY_BYTES = 16


class Store:
    """An open store; use it in a `with` statement.

    Args:
        directory: where it is.
        connection: to its database.
        lock: the lock file of a writer, held open; None for a reader.
    """

    def __init__(self, directory: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.directory, self._connection, self._lock = directory, connection, lock
        with self._translated():
            self._dictionary = read_meta(connection, directory, "dictionary")
            # stores of earlier versions have none until they are written to
            self._checked = {table: has_checksums(connection, table) for table in CHECKED}
        if not isinstance(self._dictionary, bytes):
            raise damaged(directory, "its dictionary cannot be read")

    @property
    def name(self) -> str:
        """A name that no other store has, except for a copy of this one."""
        with self._translated():
            return str(read_meta(self._connection, self.directory, "id"))

    @classmethod
    def open(cls, directory: Path, write: bool = False) -> "Store":
        """Open a store to read it, or to write to it; a writer begins one where there is none."""
        lock = lock_store(directory) if write else None
        connection = None
        try:
            connection = connect(directory, write)
            return cls(directory, connection, lock)
        except BaseException:
            if connection is not None:
                connection.close()
            if lock is not None:
                os.close(lock)
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, and let others write."""
        if self._lock is not None:
            mark_closed(self._connection)
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def discard(self) -> None:
        """Close the store and remove its files, before others can write."""
        self._check_writing()
        mark_closed(self._connection)
        self._connection.close()
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK):
            (self.directory / name).unlink(missing_ok=True)
        self.close()

    def keys(self, failed: bool = True) -> set[str]:
        """Return the keys of all recorded runs, with or without those that failed."""
        query = "SELECT key FROM runs" if failed else "SELECT key FROM runs WHERE status != 'failed'"
        with self._translated():
            return {self._hex(key) for (key,) in self._connection.execute(query)}

    def counts(self) -> dict[str, int]:
        """Count the runs of each status."""
        with self._translated():
            return dict(self._connection.execute("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status"))

    def statuses(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the status of each run."""
        with self._translated():
            for key, status in self._connection.execute("SELECT key, status FROM runs"):
                yield self._hex(key), status

    def begins_with(self, prefix: str) -> list[str]:
        """Return the keys that begin with some hexadecimal digits."""
        with self._translated():
            found = self._connection.execute("SELECT key FROM runs WHERE hex(key) LIKE ? || '%'", [prefix.upper()])
            return [self._hex(key) for (key,) in found]

    def count(self, **equal: Any) -> int:
        """Count the runs whose columns have the values given."""
        where, values = queries.where(equal)
        with self._translated():
            return int(self._connection.execute(queries.count_runs(where), values).fetchone()[0])

    def rows(self, limit: int | None = None, **equal: Any) -> list[StoredRun]:
        """Return the rows of runs, in the order in which they ended, without reading their records.

        Args:
            limit: return at most so many, the last.
            equal: the values that columns must have.
        """
        where, values = queries.where(equal)
        query = queries.select_rows(self._checked["runs"], where)
        found = []
        with self._translated():
            for *row, held in self._connection.execute(query, [*values, -1 if limit is None else limit]):
                if not columns_fit(row, held):
                    raise self._changed(row[0])
                found.append(StoredRun(self._hex(row[0]), *row[1:]))
        return found[::-1]

    def records(self, **equal: Any) -> Iterator[Record]:
        """Yield the records, in the order in which they ended, of runs whose columns have the values given."""
        where, values = queries.where(equal)
        with self._translated():
            for row in self._connection.execute(queries.select_records(self._checked["runs"], where), values):
                yield self._record_of(row)

    def record(self, key: str) -> Record | None:
        """Return the record of one run; None if there is none."""
        with self._translated():
            query = queries.select_records(self._checked["runs"], " WHERE key = ?")
            found = self._connection.execute(query, [bytes.fromhex(key)]).fetchone()
        return None if found is None else self._record_of(found)

    def _record_of(self, row: tuple[Any, ...]) -> Record:
        """Read the record of a row; what was written without a checksum must agree with the columns beside it."""
        *values, held = row
        if not fits(values, held):
            raise self._changed(values[0])
        record = self._unpack(values[-1]).with_key(self._hex(values[0]))
        if held is None and not agrees(record, values[1:-1]):
            raise damaged(self.directory, f"run {values[0].hex()[:8]} is not what its columns say")
        return record

    def _changed(self, key: Any) -> StoreError:
        return damaged(self.directory, f"run {self._hex(key)[:8]} is not what its checksum says")

    def database_faults(self) -> Iterator[str]:
        """Yield what is wrong with the database itself: its log, its pages, its indices."""
        if not log_is_there(self.directory) and lost_log(self._connection, self.directory, write=False):
            yield lost_log_text(self.directory)
        with self._translated():
            found = self._connection.execute("PRAGMA integrity_check").fetchall()
        yield from (f"the database: {shorten(text, 200)}" for (text,) in found if text != "ok")

    def find(self, prefix: str) -> Record:
        """Return the record of the one run whose key begins like this; none or several is one sentence."""
        found = self.begins_with(prefix) if re.fullmatch("[0-9a-fA-F]{1,32}", prefix) else []
        record = self.record(found[0]) if len(found) == 1 else None
        if record is None:
            what = f"{len(found):,} runs" if found else "no run"
            where = f'of "{shorten(self.directory)}" with a key that begins with "{shorten(prefix)}"'
            raise StoreError(f"there {'are' if found else 'is'} {what} {where}; give the key of one")
        return record

    def add(
        self, records: Iterable[Record], weights: dict[str, bytes] | None = None, texts: Iterable[bytes] = ()
    ) -> int:
        """Record runs, all or none of them; return how many were new.

        A run that is recorded already is left as it is, unless it had failed and has not now.

        Args:
            records: each with its key.
            weights: by key, the safetensors of models that are small enough to be kept.
            texts: of machines and users' own models that no name builds, found again by their hash.
        """
        self._check_writing()
        rows = [self._values(record) for record in records]
        small = [(bytes.fromhex(k), t) for k, t in (weights or {}).items() if len(t) <= LARGEST_WEIGHTS]
        with self.together():
            before = self._connection.total_changes
            self._connection.executemany(queries.INSERT_RUN, rows)
            added = self._connection.total_changes - before
            self._add_weights(small)
            self._add_texts(texts)
        return added

    def _add_weights(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        checked = ((*row, checksum(row)) for row in rows)
        self._connection.executemany(queries.INSERT_WEIGHTS, checked)

    def _add_texts(self, texts: Iterable[bytes]) -> None:
        short = ((hashlib.sha256(text).digest(), text) for text in texts if len(text) <= LARGEST_TEXT)
        self._connection.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", short)

    def text(self, sha256: str) -> bytes | None:
        """Return the text that has a hash, if it was short enough to be kept."""
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            return None
        return next(self._texts("SELECT sha256, text FROM texts WHERE sha256 = ?", [bytes.fromhex(sha256)]), None)

    def texts(self) -> Iterator[bytes]:
        """Yield all texts that are kept."""
        return self._texts("SELECT sha256, text FROM texts", [])

    def _texts(self, query: str, values: list[Any]) -> Iterator[bytes]:
        with self._translated():
            found = self._connection.execute(query, values).fetchall() if self._has_texts() else []
        for sha256, text in found:
            if not isinstance(text, bytes) or hashlib.sha256(text).digest() != sha256:
                raise damaged(self.directory, "a text is not what its hash says")
            yield text

    def _has_texts(self) -> bool:
        # stores of earlier versions have none
        query = "SELECT 1 FROM sqlite_master WHERE name = 'texts'"
        return self._connection.execute(query).fetchone() is not None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Record all that is added inside of it or, if that ends with an error, none of it."""
        if self._connection.in_transaction:
            yield
            return
        with self._translated(), self._connection:
            self._connection.execute("BEGIN")
            yield

    def merge(self, other: "Store", at_once: int = 1000) -> int:
        """Add every run of another store that this one does not have, or none of them; return how many."""
        added, batch = 0, []
        with self.together():
            for record in other.records():
                batch.append(record)
                if len(batch) == at_once:
                    added += self.add(batch)
                    batch = []
            added += self.add(batch)
            self._add_weights(other._all_weights())
            self._add_texts(other.texts())
        return added

    def _all_weights(self) -> Iterator[tuple[bytes, bytes]]:
        with self._translated():
            found = self._connection.execute(queries.select_weights(self._checked["weights"]))
            row = found.fetchone()
        while row is not None:
            if not fits(row[:2], row[2]):
                raise self._no_weights(self._hex(row[0]))
            yield row[:2]
            with self._translated():
                row = found.fetchone()

    def weights_file(self, key: str) -> bytes | None:
        """Return the safetensors of a run's trained weights, if they were small enough to be kept."""
        with self._translated():
            query = queries.select_weights(self._checked["weights"], " WHERE key = ?")
            found = self._connection.execute(query, [bytes.fromhex(key)]).fetchone()
        if found is not None and (not isinstance(found[1], bytes) or not fits(found[:2], found[2])):
            raise self._no_weights(key)
        return None if found is None else found[1]

    def weights(self, key: str) -> dict[str, Any] | None:
        """Return a run's trained weights as arrays by name, if they are kept."""
        held = self.weights_file(key)
        found = None if held is None else arrays_of(held)
        if held is not None and found is None:
            raise self._no_weights(key)
        return found

    def costs(self) -> list[tuple[str, str, int, str, float, int]]:
        """Return what runs have cost: model, recipe, hidden size, task, seconds of one core, and steps."""
        query = (
            "SELECT model, recipe, hidden, task, sum(cost), sum(steps) FROM runs "
            "WHERE steps > 0 AND cost > 0 AND status != 'failed' GROUP BY model, recipe, hidden, task"
        )
        with self._translated():
            return list(self._connection.execute(query))

    def _values(self, record: Record) -> list[Any]:
        row = StoredRun.of(record)
        values = [bytes.fromhex(row.key), *row.columns, self._pack(record)]
        return [*values, checksum(values)]

    def _pack(self, record: Record) -> bytes:
        """Compress a record; its key has a column of its own."""
        try:
            written = record.model_dump_json(exclude={"key"}, exclude_unset=True).encode()
        except PydanticSerializationError as error:
            # half of a pair of surrogates is no character, and could be written nowhere
            raise StoreError(
                f"a record cannot be written ({shorten(error, 100)}); expected what a run writes; leave it out"
            ) from None
        made = zlib.compressobj(level=6, zdict=self._dictionary)
        return made.compress(written) + made.flush()

    def _unpack(self, packed: Any) -> Record:
        try:
            stream = zlib.decompressobj(zdict=self._dictionary)
            written = stream.decompress(packed, MAX_JSON_BYTES)
            if not stream.eof:
                raise StoreError("it does not end")
            return parse_record(written)
        except (zlib.error, TypeError, StoreError):
            raise damaged(self.directory, "a record cannot be read") from None

    def _hex(self, key: Any) -> str:
        if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
            raise damaged(self.directory, f"a key is not of {_KEY_BYTES} bytes")
        return key.hex()

    def _no_weights(self, key: str) -> StoreError:
        return damaged(self.directory, f"the weights of run {key[:8]} cannot be read")

    def _check_writing(self) -> None:
        if self._lock is None:
            raise StoreError(f'"{shorten(self.directory)}" is open to be read only; open it to write')

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with translated(self.directory):
            yield
