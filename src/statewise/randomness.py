"""Seeds and streams: everything random is a function of a recorded seed and of what it is for."""

import hashlib

import numpy as np


def derive(seed: int, *names: object) -> int:
    """Derive a seed below 2^63 from a seed and names, different for different names."""
    return int.from_bytes(_digest(seed, *names)[:8], "little") >> 1


def stream(seed: int, *names: object) -> np.random.Generator:
    """Return a generator for a seed and names; streams of different names are independent."""
    key = np.frombuffer(_digest(seed, *names), dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _digest(seed: int, *names: object) -> bytes:
    return hashlib.blake2b(repr((seed, *names)).encode(), digest_size=16).digest()
