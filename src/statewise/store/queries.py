"""The statements that a store makes of names: the one place where SQL is put together.

Every name stands in the code, in `COLUMNS` or here; values are bound, never written into a statement.
"""

from typing import Any

from statewise.errors import StoreError, shorten
from statewise.store.rows import COLUMNS

_KEPT = (*COLUMNS, "record", "checksum")
INSERT_RUN = (
    f"INSERT INTO runs (key, {', '.join(_KEPT)}) VALUES ({', '.join('?' for _ in ('key', *_KEPT))}) ON CONFLICT (key) "
    f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in _KEPT)} "
    "WHERE runs.status = 'failed' AND excluded.status != 'failed'"
)
INSERT_WEIGHTS = "INSERT OR IGNORE INTO weights (key, tensors, checksum) VALUES (?, ?, ?)"


def where(equal: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the condition that columns have values, and the values; an unknown column is refused."""
    for column in equal:
        if column not in COLUMNS:
            raise StoreError(f'a run has no column "{shorten(column)}"; use one of {", ".join(COLUMNS)}')
    parts = [f"{column} = ?" for column in equal]
    return (f" WHERE {' AND '.join(parts)}" if parts else "", list(equal.values()))


def select_rows(checked: bool, condition: str = "") -> str:
    """Return the columns of runs with their checksums, the last run first; stores of earlier versions have none."""
    return f"SELECT key, {', '.join(COLUMNS)}, {_sum(checked)} FROM runs{condition} ORDER BY id DESC LIMIT ?"


def select_records(checked: bool, condition: str = "") -> str:
    """Return the columns of runs with their records and checksums, in the order in which they ended."""
    return f"SELECT key, {', '.join(COLUMNS)}, record, {_sum(checked)} FROM runs{condition} ORDER BY id"


def select_weights(checked: bool, condition: str = "") -> str:
    """Return weights with their checksums."""
    return f"SELECT key, tensors, {_sum(checked)} FROM weights{condition}"


def count_runs(condition: str) -> str:
    """Return the number of runs."""
    return f"SELECT count(*) FROM runs{condition}"


def _sum(checked: bool) -> str:
    return "checksum" if checked else "NULL"
