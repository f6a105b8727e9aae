"""A whole store checked: its database, every record, all weights and texts."""

from collections.abc import Callable, Iterator
from typing import Any

from statewise.errors import StatewiseError
from statewise.store.rows import is_from_file
from statewise.store.store import Store


def faults_of(store: Store) -> Iterator[str]:
    """Yield everything that is wrong with a store, one sentence each; a sound one has none.

    Rows that earlier versions wrote have no checksum: their records are compared with the columns beside them.
    """
    yield from _attempt(lambda: list(store.database_faults()))
    keys: list[str] = []
    yield from _attempt(lambda: keys.extend(sorted(store.keys())))
    for key in keys:
        yield from _attempt(lambda key=key: _record_faults(store, key))
        yield from _attempt(lambda key=key: store.weights(key))
    yield from _attempt(lambda: sum(1 for _ in store.texts()))


def _record_faults(store: Store, key: str) -> list[str]:
    record = store.record(key)
    if record is None:
        return [f"run {key[:8]} is in an index of the database and not in its table"]
    # the text of a machine's file, which is part of the key, is not in the record
    fits = is_from_file(record) or key == record.config.key()
    return [] if fits else [f"run {key[:8]}: its key is not that of its options"]


def _attempt(check: Callable[[], Any]) -> Iterator[str]:
    """Yield what a check found, or why it could not be done."""
    try:
        found = check()
    except StatewiseError as error:
        yield str(error)
    else:
        yield from found if isinstance(found, list) else ()
