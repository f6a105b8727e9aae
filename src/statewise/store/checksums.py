"""Checksums of what a store holds: of each run's row and of its weights.

A checksum has two halves: of the key and the columns, so that rows are listed without reading their records, and of the
key and the record, or the weights.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

_BYTES = 16


def checksum(row: Sequence[Any]) -> bytes:
    """Return the checksum of a row: its key, then columns, then a record or weights."""
    return _hash(row[:-1]) + _hash([row[0], row[-1]])


def fits(row: Sequence[Any], found: bytes | None) -> bool:
    """Return whether a row is what was written; rows of earlier versions have no checksum."""
    return found is None or found == checksum(row)


def columns_fit(columns: Sequence[Any], found: bytes | None) -> bool:
    """Return whether the key and the columns of a row are what was written."""
    return found is None or (isinstance(found, bytes) and len(found) == 2 * _BYTES and found[:_BYTES] == _hash(columns))


def _hash(values: Iterable[Any]) -> bytes:
    """Return a hash of values as SQLite holds them; no two lists of values are written alike."""
    hashed = hashlib.blake2b(digest_size=_BYTES)
    for value in values:
        written = value if isinstance(value, bytes) else repr(value).encode()
        hashed.update(f"{type(value).__name__} {len(written)} ".encode())
        hashed.update(written)
    return hashed.digest()


def arrays_of(tensors: bytes) -> dict[str, Any] | None:
    """Return the arrays of a safetensors file by name; None where it is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(tensors)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError):
        return None
