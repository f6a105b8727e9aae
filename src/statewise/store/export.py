"""Runs of a store as files: whole records, or one row to a run with every option and score."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from statewise.errors import FileError, shorten
from statewise.files import write_bytes_whole
from statewise.store import COLUMNS, columns_of

Record = dict[str, Any]
# gives the records anew each time, since a table is written in two passes
Records = Callable[[], Iterable[Record]]
_ROWS_AT_ONCE = 5_000


def exporter(out: Path) -> Callable[[Records], None]:
    """Gives what writes runs into a file, by its ending."""
    for ending, write in _WRITERS.items():
        if out.name.endswith(ending):
            return lambda records: write_bytes_whole(out, write(records))
    raise FileError(f'"{shorten(out)}" is not a .csv, .parquet, .jsonl or .jsonl.gz file; choose one of these endings')


def _as_csv(records: Records) -> bytes:
    made = io.StringIO()
    writer = csv.DictWriter(made, list(_kinds(records)))
    writer.writeheader()
    writer.writerows(map(_row, records()))
    return made.getvalue().encode()


def _as_parquet(records: Records) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError("a .parquet file needs the package pyarrow; install statewise[parquet], or use .csv") from None
    names = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    kinds = _kinds(records)
    schema = pyarrow.schema([(name, names[kind]) for name, kind in kinds.items()])
    made = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(made, schema) as writer:
        for rows in _in_parts(map(_row, records())):
            fitted = [{name: _as(kinds[name], row.get(name)) for name in kinds} for row in rows]
            writer.write_table(pyarrow.Table.from_pylist(fitted, schema=schema))
    return made.getvalue().to_pybytes()


def _as_lines(records: Records) -> bytes:
    return "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records()).encode()


def _as_packed_lines(records: Records) -> bytes:
    # without a time in its head, the same records give the same file
    return gzip.compress(_as_lines(records), mtime=0)


_WRITERS: dict[str, Callable[[Records], bytes]] = {
    ".csv": _as_csv,
    ".parquet": _as_parquet,
    ".jsonl": _as_lines,
    ".jsonl.gz": _as_packed_lines,
}


def _row(record: Record) -> Record:
    """Gives a run as one row: the store's columns, the scores by length, then every other option."""
    row = {"key": record["key"], **dict(zip(COLUMNS, columns_of(record), strict=True)), "reason": record.get("reason")}
    row |= {f"score_{score['length']}": score["score"] for score in record.get("scores") or []}
    return row | {name: _plain(value) for name, value in record["config"].items() if name not in row}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _kinds(records: Records) -> dict[str, type]:
    """Gives all columns of some runs, scores by length in order, and what kind of values each has."""
    found: dict[str, type] = dict.fromkeys(("key", *COLUMNS, "reason"), str)
    seen: dict[str, set[type]] = {}
    for row in map(_row, records()):
        for name, value in row.items():
            found.setdefault(name, str)
            if value is not None:
                seen.setdefault(name, set()).add(type(value))
    found |= {name: _kind(kinds) for name, kinds in seen.items()}
    scores = sorted((name for name in found if _length(name)), key=_length)
    fixed = ("key", *COLUMNS, "reason", *scores)
    return {name: found[name] for name in (*fixed, *(name for name in found if name not in fixed))}


def _length(name: str) -> int:
    rest = name.removeprefix("score_")
    return int(rest) if rest != name and rest.isdecimal() else 0


def _kind(kinds: set[type]) -> type:
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _as(kind: type, value: Any) -> Any:
    return None if value is None else kind(value)


def _in_parts(rows: Iterable[Record]) -> Iterator[list[Record]]:
    part: list[Record] = []
    for row in rows:
        part.append(row)
        if len(part) == _ROWS_AT_ONCE:
            yield part
            part = []
    yield part
