"""Checksums of what a store holds: of each run's row and of its weights."""

import hashlib
from collections.abc import Iterable
from typing import Any

_BYTES = 16


def checksum(values: Iterable[Any]) -> bytes:
    """Return a hash of values as SQLite holds them; no two lists of values are written alike."""
    hashed = hashlib.blake2b(digest_size=_BYTES)
    for value in values:
        written = value if isinstance(value, bytes) else repr(value).encode()
        hashed.update(f"{type(value).__name__} {len(written)} ".encode())
        hashed.update(written)
    return hashed.digest()


def fits(row: tuple[Any, ...]) -> bool:
    """Return whether a row, whose last value is its checksum, is what was written; earlier versions wrote none."""
    return row[-1] is None or row[-1] == checksum(row[:-1])


def arrays_of(tensors: bytes) -> dict[str, Any] | None:
    """Return the arrays of a safetensors file by name; None where it is none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(tensors)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError):
        return None
