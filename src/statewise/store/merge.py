"""Stores merged: all of what is given is taken, or none of it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from statewise.runs.record import Record
from statewise.store.database import DATABASE
from statewise.store.record_files import RunFiles
from statewise.store.store import Store


def merge_into(directory: Path, sources: Sequence[Store | RunFiles | Iterable[Record]]) -> tuple[list[int], int]:
    """Add every run that a store does not have; return how many were new of each source, and how many there are then.

    If a source is refused, the store stays as it was; one that was begun for this is removed.

    Args:
        directory: of the store that runs are added to.
        sources: stores, files of runs, or records with their keys.
    """
    begun = not (directory / DATABASE).exists()
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    with Store.open(directory, write=True) as store:
        try:
            with store.together():
                added = [_take(store, source) for source in sources]
        except BaseException:
            # another process may have begun it in the meantime
            if begun and not store.counts():
                store.discard()
                for place in missing:
                    with suppress(OSError):
                        place.rmdir()
            raise
        return added, sum(store.counts().values())


def _take(store: Store, source: Store | RunFiles | Iterable[Record]) -> int:
    if isinstance(source, Store):
        return store.merge(source)
    if isinstance(source, RunFiles):
        weights = {} if source.weights is None else {str(source.record.key): source.weights}
        return store.add([source.record], weights, source.texts)
    return store.add(source)
