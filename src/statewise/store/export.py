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
from statewise.runs.record import Record
from statewise.store.rows import COLUMNS, StoredRun, constants_of
from statewise.wording import defused

# yields the records anew each time, since a table is written in two passes
Records = Callable[[], Iterable[Record]]
Row = dict[str, Any]
_ROWS_AT_ONCE = 5_000


def is_table(out: Path) -> bool:
    """Return whether a file has an ending that runs are written to."""
    return out.name.endswith(tuple(_WRITERS))


def exporter(out: Path) -> Callable[[Records], None]:
    """Return the function that writes runs into a file, by its ending."""
    for ending, write in _WRITERS.items():
        if out.name.endswith(ending):
            return lambda records: write_bytes_whole(out, write(records))
    raise FileError(f'"{shorten(out)}" is not a .csv, .parquet, .jsonl or .jsonl.gz file; choose one of these endings')


def _as_csv(records: Records) -> bytes:
    made = io.StringIO()
    writer = csv.DictWriter(made, list(_kinds(records)))
    writer.writeheader()
    writer.writerows(defused(_row(record)) for record in records())
    return made.getvalue().encode()


def _as_parquet(records: Records) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise FileError("a .parquet file needs the package pyarrow; install statewise[parquet], or use .csv") from None
    types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in _kinds(records).items()])
    made = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(made, schema) as writer:
        for rows in _in_parts(map(_row, records())):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return made.getvalue().to_pybytes()


def _as_lines(records: Records) -> bytes:
    return "".join(record.to_json() + "\n" for record in records()).encode()


def _as_packed_lines(records: Records) -> bytes:
    # without a time in its head, the same records give the same file
    return gzip.compress(_as_lines(records), mtime=0)


_WRITERS: dict[str, Callable[[Records], bytes]] = {
    ".csv": _as_csv,
    ".parquet": _as_parquet,
    ".jsonl": _as_lines,
    ".jsonl.gz": _as_packed_lines,
}


def _row(record: Record) -> Row:
    """Return a run as one row: the store's columns, the scores by length with their constants, every other option."""
    row = {**StoredRun.of(record).to_dict(), "reason": record.reason}
    row |= {f"score_{score.length}": score.score for score in record.scores}
    row |= {_constant(name): value for name, value in constants_of(record).items()}
    return row | {name: _plain(value) for name, value in record.config.to_dict().items() if name not in row}


def _plain(value: Any) -> int | float | str | None:
    return value if value is None or isinstance(value, int | float | str) else json.dumps(value)


def _kinds(records: Records) -> dict[str, type]:
    """Return the columns of all runs, each with the type of its values: beside every score its constant answer's."""
    found: dict[str, type | None] = dict.fromkeys(("key", *COLUMNS, "reason", "constant_id", "constant_ood"))
    for row in map(_row, records()):
        for name, value in row.items():
            if found.get(name) is None:
                found[name] = None if value is None else type(value)
    scores = sorted((name for name in found if _length(name)), key=_length)
    first = [
        name
        for column in ("key", *COLUMNS, "reason", *scores)
        for name in ((column, _constant(column)) if column.startswith("score_") else (column,))
    ]
    # a column without any value is one of texts
    return {name: found[name] or str for name in (*first, *(name for name in found if name not in first))}


def _constant(score: str) -> str:
    """Return the name of the column with the best constant answer beside a score."""
    return score.replace("score", "constant", 1)


def _length(name: str) -> int:
    rest = name.removeprefix("score_")
    return int(rest) if rest != name and rest.isdecimal() else 0


def _in_parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    for row in rows:
        part.append(row)
        if len(part) == _ROWS_AT_ONCE:
            yield part
            part = []
    yield part
