"""Seeds and streams: everything random is a function of a recorded seed and of what it is for."""

import hashlib

import numpy as np


def derive(seed: int, *names: object) -> int:
    """Gives a seed of its own to each (seed, names), below 2^63."""
    return int.from_bytes(_digest(seed, *names)[:8], "little") >> 1


def stream(seed: int, *names: object) -> np.random.Generator:
    """Gives a generator of its own to each (seed, names): streams of different names never meet."""
    key = np.frombuffer(_digest(seed, *names), dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _digest(seed: int, *names: object) -> bytes:
    return hashlib.blake2b(repr((seed, *names)).encode(), digest_size=16).digest()
