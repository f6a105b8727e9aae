"""Runs and their results: one directory, one SQLite file, one writer.

A run is keyed by the hash of its resolved config, so that a grid knows what is done, stores can be merged, and nothing
is recorded twice. Whoever writes holds a lock that the system releases when its process ends, however it ends. Records
are kept whole, compressed against a dictionary that the store carries with it, beside the columns that are asked for
most.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import socket
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from statewise.errors import StoreError, StoreWriteError, shorten
from statewise.files import reason_of

FORMAT = 1
DATABASE, LOCK = "runs.sqlite", "lock"
# the length at which runs are compared
LENGTH = 500
# weights of models up to this size are kept beside their records
LARGEST_WEIGHTS = 256 * 1024
COLUMNS = (
    "status",
    "task",
    "model",
    "recipe",
    "lr",
    "seed",
    "hidden",
    "steps",
    "seconds",
    "cost",
    "score_id",
    "score_ood",
    "finished",
)
# what most records have in common, so that each costs only what it says itself
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
    id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, {", ".join(COLUMNS)}, record BLOB NOT NULL
);
CREATE INDEX by_status ON runs (status);
CREATE TABLE weights (key BLOB PRIMARY KEY, tensors BLOB NOT NULL);
"""


def key_of(config: dict[str, Any], machine: str | None = None) -> str:
    """Gives the key of a run: a hash of its resolved config, and of the machine's text where that came from a file."""
    written = json.dumps([config, machine], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def check_record(record: Any) -> None:
    """Refuses what is no record of a run."""
    what = "a record" if not isinstance(record, dict) else f'a record with key "{shorten(record.get("key"), 40)}"'
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise StoreError(f"{what} has no config; expected an object of options; leave it out")
    config = record["config"]
    kinds = {"status": str, "key": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(record.get(name), kind)]
    wrong += [name for name in ("steps", "seconds", "finished") if not _number(record.get(name))]
    wrong += [f"config.{name}" for name in ("lr", "seed", "hidden") if not _number(config.get(name))]
    wrong += [f"config.{name}" for name in ("task", "model", "recipe") if not isinstance(config.get(name), str | None)]
    if not wrong and not re.fullmatch("[0-9a-f]{32}", record["key"]):
        wrong = ["key"]
    scores = [*(record.get("scores") or []), *filter(None, [record.get("in_distribution")])]
    if not all(isinstance(score, dict) and isinstance(score.get("score"), int | float) for score in scores):
        wrong.append("scores")
    if wrong:
        raise StoreError(f"{what} has a wrong {wrong[0]}; expected what a run writes; leave it out")


def _number(value: Any) -> bool:
    # SQLite's whole numbers end at 2^63
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


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
            found = connection.execute("SELECT value FROM meta WHERE name = 'dictionary'").fetchone()
        self._dictionary = bytes(found[0])

    @property
    def name(self) -> str:
        """A name that no other store has, a copy of this one apart."""
        with self._translated():
            return str(self._connection.execute("SELECT value FROM meta WHERE name = 'id'").fetchone()[0])

    @classmethod
    def open(cls, directory: Path, write: bool = False) -> "Store":
        """Opens a store to read it, or to write to it; a writer begins one where there is none."""
        lock = _take_lock(directory) if write else None
        try:
            return cls(directory, _connect(directory, write), lock)
        except BaseException:
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
        """Closes the store, and lets others write."""
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def keys(self, failed: bool = True) -> set[str]:
        """Gives the keys of all recorded runs, with or without those that failed."""
        asked = "SELECT key FROM runs" + ("" if failed else " WHERE status != 'failed'")
        with self._translated():
            return {bytes(key).hex() for (key,) in self._connection.execute(asked)}

    def counts(self) -> dict[str, int]:
        """Gives how many runs there are of each status."""
        with self._translated():
            return dict(self._connection.execute("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status"))

    def statuses(self) -> Iterator[tuple[str, str]]:
        """Gives the key and the status of each run."""
        with self._translated():
            for key, status in self._connection.execute("SELECT key, status FROM runs"):
                yield bytes(key).hex(), status

    def begins_with(self, prefix: str) -> list[str]:
        """Gives the keys that begin with some hexadecimal digits."""
        with self._translated():
            found = self._connection.execute("SELECT key FROM runs WHERE hex(key) LIKE ? || '%'", [prefix.upper()])
            return [bytes(key).hex() for (key,) in found]

    def rows(self, limit: int | None = None, **equal: Any) -> list[dict[str, Any]]:
        """Gives the columns of runs, in the order in which they ended, without their records."""
        where, values = _condition(equal)
        asked = f"SELECT key, {', '.join(COLUMNS)} FROM runs{where} ORDER BY id LIMIT ?"
        with self._translated():
            found = self._connection.execute(asked, [*values, -1 if limit is None else limit])
            return [dict(zip(("key", *COLUMNS), (row[0].hex(), *row[1:]), strict=True)) for row in found]

    def records(self, **equal: Any) -> Iterator[dict[str, Any]]:
        """Gives whole records, in the order in which they ended, of runs whose columns have the values given."""
        where, values = _condition(equal)
        with self._translated():
            for key, record in self._connection.execute(f"SELECT key, record FROM runs{where} ORDER BY id", values):
                yield {"key": key.hex(), **self._unpacked(record)}

    def record(self, key: str) -> dict[str, Any] | None:
        """Gives the record of one run."""
        with self._translated():
            asked = "SELECT record FROM runs WHERE key = ?"
            found = self._connection.execute(asked, [bytes.fromhex(key)]).fetchone()
        return None if found is None else {"key": key, **self._unpacked(found[0])}

    def add(self, records: Iterable[dict[str, Any]], weights: dict[str, bytes] | None = None) -> int:
        """Records runs, all or none of them, and gives how many were new.

        A run that stands there already is left as it is, unless it had failed and has not now.

        Args:
            records: each with its key.
            weights: by key, the safetensors of models that are small enough to be kept.
        """
        self._check_writing()
        rows = [self._row(record) for record in records]
        marks = ", ".join("?" for _ in range(len(COLUMNS) + 2))
        replaced = ", ".join(f"{column} = excluded.{column}" for column in (*COLUMNS, "record"))
        insert = (
            f"INSERT INTO runs (key, {', '.join(COLUMNS)}, record) VALUES ({marks}) ON CONFLICT (key) "
            f"DO UPDATE SET {replaced} WHERE runs.status = 'failed' AND excluded.status != 'failed'"
        )
        small = [(bytes.fromhex(k), t) for k, t in (weights or {}).items() if len(t) <= LARGEST_WEIGHTS]
        with self._translated(), self._connection:
            before = self._connection.total_changes
            self._connection.executemany(insert, rows)
            added = self._connection.total_changes - before
            self._connection.executemany("INSERT OR IGNORE INTO weights VALUES (?, ?)", small)
        return added

    def merge(self, other: "Store", at_once: int = 1000) -> int:
        """Takes over every run of another store that this one has not; gives how many."""
        added, batch = 0, []
        for record in other.records():
            batch.append(record)
            if len(batch) == at_once:
                added += self.add(batch)
                batch = []
        added += self.add(batch)
        with self._translated(), self._connection:
            for row in other._all_weights():
                self._connection.execute("INSERT OR IGNORE INTO weights VALUES (?, ?)", row)
        return added

    def _all_weights(self) -> Iterator[tuple[bytes, bytes]]:
        with self._translated():
            found = self._connection.execute("SELECT key, tensors FROM weights")
            row = found.fetchone()
        while row is not None:
            yield row
            with self._translated():
                row = found.fetchone()

    def weights_file(self, key: str) -> bytes | None:
        """Gives the safetensors of a run's trained weights, where they were small enough to be kept."""
        with self._translated():
            asked = "SELECT tensors FROM weights WHERE key = ?"
            found = self._connection.execute(asked, [bytes.fromhex(key)]).fetchone()
        return None if found is None else bytes(found[0])

    def weights(self, key: str) -> dict[str, Any] | None:
        """Gives a run's trained weights as arrays by name, where they are kept."""
        from safetensors.numpy import load

        held = self.weights_file(key)
        return None if held is None else load(held)

    def costs(self) -> list[tuple[str, str, int, float]]:
        """Gives what steps have cost: model, recipe, hidden size, and mean seconds per step."""
        asked = (
            "SELECT model, recipe, hidden, sum(cost) / sum(steps) FROM runs "
            "WHERE steps > 0 AND cost > 0 AND status != 'failed' GROUP BY model, recipe, hidden"
        )
        with self._translated():
            return list(self._connection.execute(asked))

    def _row(self, record: dict[str, Any]) -> list[Any]:
        check_record(record)
        config = record["config"]
        scores = {score["length"]: score["score"] for score in record.get("scores") or []}
        inside = record.get("in_distribution")
        values = {
            "status": record["status"],
            **{name: config.get(name) for name in ("task", "model", "recipe", "lr", "seed", "hidden")},
            "steps": record.get("steps"),
            "seconds": record.get("seconds"),
            # an ensemble's members share its seconds
            "cost": None if record.get("seconds") is None else record["seconds"] / record.get("shared", 1),
            "score_id": None if inside is None else inside["score"],
            # the length that tables are about, or the longest there is
            "score_ood": scores.get(LENGTH, scores[max(scores)] if scores else None),
            "finished": record.get("finished"),
        }
        whole = {name: value for name, value in record.items() if name != "key"}
        return [bytes.fromhex(record["key"]), *(values[column] for column in COLUMNS), self._packed(whole)]

    def _packed(self, record: dict[str, Any]) -> bytes:
        made = zlib.compressobj(level=6, zdict=self._dictionary)
        return made.compress(json.dumps(record, separators=(",", ":")).encode()) + made.flush()

    def _unpacked(self, record: bytes) -> dict[str, Any]:
        try:
            return json.loads(zlib.decompressobj(zdict=self._dictionary).decompress(record))
        except (zlib.error, ValueError):
            raise _damaged(self.directory, "a record cannot be read") from None

    def _check_writing(self) -> None:
        if self._lock is None:
            raise StoreError(f'"{shorten(self.directory)}" is open to be read only; open it to write')

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with _translated(self.directory):
            yield


def _connect(directory: Path, write: bool) -> sqlite3.Connection:
    file = directory / DATABASE
    if not write and not file.is_file():
        raise StoreError(f'"{shorten(directory)}" holds no store; expected a directory with {DATABASE}; correct it')
    with _translated(directory):
        connection = sqlite3.connect(file if write else _read_only(directory), uri=not write, timeout=30.0)
        try:
            # a process that was killed while it began a store leaves a file without tables
            begun = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
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
        except BaseException:
            connection.close()
            raise
    return connection


def _begin(connection: sqlite3.Connection) -> None:
    meta = [("format", str(FORMAT)), ("id", secrets.token_hex(8)), ("dictionary", _DICTIONARY.encode())]
    with connection:
        connection.execute("BEGIN")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)


def _read_only(directory: Path) -> str:
    """Gives the address under which a reader opens the database, also on a disk that it must not write to."""
    file = (directory / DATABASE).resolve()
    log = file.with_name(file.name + "-wal")
    unwritten = not os.access(directory, os.W_OK) and not log.exists()
    return f"{file.as_uri()}?mode=ro" + ("&immutable=1" if unwritten else "")


def _check_format(connection: sqlite3.Connection, directory: Path) -> None:
    found = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if found is None:
        raise _damaged(directory, "it does not say its format")
    if int(found[0]) > FORMAT:
        raise StoreError(
            f'"{shorten(directory)}" has format {int(found[0])}, this version reads up to {FORMAT}; update statewise'
        )


def _take_lock(directory: Path) -> int:
    """Takes the writer's lock, which the system gives back when the process ends, however it ends."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(
            f'cannot write in "{shorten(directory)}": {reason_of(error)}; choose another place for the store'
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 200).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise StoreError(
            f'"{shorten(directory)}" is being written by {shorten(holder)}; wait for it, or stop it'
        ) from None
    # who holds it is for people to read, and may not fit on a full disk
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    return lock


def _condition(equal: dict[str, Any]) -> tuple[str, list[Any]]:
    for column in equal:
        if column not in COLUMNS:
            raise StoreError(f'a run has no column "{shorten(column)}"; use one of {", ".join(COLUMNS)}')
    parts = [f"{column} = ?" for column in equal]
    return (f" WHERE {' AND '.join(parts)}" if parts else "", list(equal.values()))


@contextmanager
def _translated(directory: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "disk I/O" in str(error):
            raise StoreWriteError(
                f'cannot write to "{shorten(directory)}": {error}; what it holds stays; make room, and start again'
            ) from None
        if "no such table" in str(error):
            raise _damaged(directory, str(error)) from None
        raise StoreError(f'cannot use "{shorten(directory)}": {error}; check its files and rights') from None
    except sqlite3.DatabaseError as error:
        raise _damaged(directory, str(error)) from None


def _damaged(directory: Path, reason: str) -> StoreError:
    return StoreError(f'"{shorten(directory / DATABASE)}" is damaged ({shorten(reason)}); put a copy in its place')
