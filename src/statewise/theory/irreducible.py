"""The real irreducible parts of a machine whose symbols permute its states (Theorem G).

The permutation matrices of the symbols act on R^Q. Symmetric matrices that commute with all of them are constant on
orbits of pairs of states; the eigenspaces of a random one are invariant and, with probability 1, irreducible. Vectors
of an orthogonal orbit lie on a sphere, so each is nearest to itself, and parts that separate all states are enough
for a network: block size = the largest part, hidden size = the sum of their dimensions.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from statewise.machines import Machine

MAX_STATES = 240
_TOLERANCE = 1e-7
_MAX_SUBSETS = 20_000


@dataclass(frozen=True, eq=False)
class Parts:
    """Invariant subspaces that together separate all states.

    Args:
        bases: an orthonormal basis of each, as columns.
        block: the largest dimension.
        dimension: the sum of dimensions.
        certain: whether no smaller choice exists among all parts; False where the search was not exhaustive.
    """

    bases: tuple[Float[np.ndarray, "state _"], ...]
    block: int
    dimension: int
    certain: bool


def separating_parts(machine: Machine, largest: int | None = None) -> Parts | None:
    """Choose parts of a minimal permutation machine: the smallest block first, then the fewest entries.

    None where symbols do not permute states, there are too many states, or no parts of at most `largest` suffice.
    """
    found = parts_of(machine)
    if found is None:
        return None
    parts = sorted(found, key=lambda basis: basis.shape[1])
    for block in sorted({basis.shape[1] for basis in parts}):
        if largest is not None and block > largest:
            return None
        small = [basis for basis in parts if basis.shape[1] <= block]
        if _apart(small):
            chosen, certain = _fewest(small)
            return Parts(tuple(chosen), block, sum(basis.shape[1] for basis in chosen), certain)
    return None


def parts_of(machine: Machine) -> list[Float[np.ndarray, "state _"]] | None:
    """Return orthonormal bases of irreducible parts; None where a symbol is no permutation or states are too many."""
    n = machine.states
    if n > MAX_STATES or not (np.sort(machine.delta, axis=0) == np.arange(n)[:, None]).all():
        return None
    orbits = _orbits_of_pairs(machine)
    random = np.random.default_rng(0).standard_normal(int(orbits.max()) + 1)
    commuting = random[orbits] + random[orbits.T]
    values, vectors = np.linalg.eigh(commuting)
    ends = np.flatnonzero(np.diff(values) > _TOLERANCE * max(1.0, float(np.abs(values).max()))) + 1
    return np.split(vectors, ends, axis=1)


def _orbits_of_pairs(machine: Machine) -> Int[np.ndarray, "state state"]:
    """Assign numbers to the orbits of pairs of states under all symbols."""
    n = machine.states
    letters = np.unique(machine.delta.T, axis=0)
    orbit = np.full(n * n, -1, dtype=np.int64)
    count = 0
    for pair in range(n * n):
        if orbit[pair] >= 0:
            continue
        orbit[pair] = count
        frontier = np.array([pair])
        while len(frontier):
            reached = np.unique((letters[:, frontier // n] * n + letters[:, frontier % n]).ravel())
            frontier = reached[orbit[reached] < 0]
            orbit[frontier] = count
        count += 1
    return orbit.reshape(n, n)


def _apart(bases: list[Float[np.ndarray, "state _"]]) -> bool:
    """Return whether all states have different coordinates."""
    if not bases:
        return False
    coordinates = np.concatenate(bases, axis=1)
    gaps = ((coordinates[:, None] - coordinates[None]) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    return len(coordinates) == 1 or bool(gaps.min() > _TOLERANCE)


def _fewest(parts: list[np.ndarray]) -> tuple[list[np.ndarray], bool]:
    """Choose parts with the smallest sum of dimensions; return them, and whether the search was exhaustive."""
    best, tried = parts, 0
    fewest = sum(basis.shape[1] for basis in parts)
    for count in range(1, len(parts)):
        for chosen in combinations(parts, count):
            size = sum(basis.shape[1] for basis in chosen)
            if size >= fewest:
                continue
            tried += 1
            if tried > _MAX_SUBSETS:
                return best, False
            if _apart(list(chosen)):
                best, fewest = list(chosen), size
        if count >= fewest:
            break
    return best, True
