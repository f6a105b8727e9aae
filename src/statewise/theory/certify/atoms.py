"""Horizons in a norm whose unit ball is spanned by the prototypes themselves.

Give each machine state q a vector v_q, its atom. The size of an error e is the least of sum |c_q| + M |d| over all ways
to write e = sum c_q v_q + d. A symbol that carries v_q to s v_q' + r carries an atom to s times an atom plus r, so that
no error grows by more than s + |r|: permutations and maps, at any rank, have factors of 1 up to rounding. Where some
sequences are not part of the task, states are sorted into rooms by what may follow for ever; atoms of an error are
those of its room, which every symbol carries into one room.

All is computed in float64, and each number is moved by a bound on its own rounding error to the safe side.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine, access_words
from statewise.theory.network import Network

_UNIT = 2.0**-53
# more than the handful of roundings in a formula
_UP, _DOWN = 1 + 2.0**-49, 1 - 2.0**-49
# how much more than atoms of the same length errors beside the atoms count
_BESIDE = 2.0
# directions in which atoms vary by less than this share are left to what lies beside them
_FLAT = 1e-8
# squares of products of three such numbers, and of their rounding errors, neither vanish nor overflow
_SMALLEST, _LARGEST = 1e-30, 1e30


@dataclass(frozen=True)
class Growth:
    """How errors grow: the first, what a symbol adds at most and by what it multiplies, and what turns an answer."""

    first: float
    rho: float
    kappa: float
    radius: float


def rooms(machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> Int[np.ndarray, " state"]:
    """Number the coarsest classes of states such that what may follow is one for a class, for ever."""
    _, found = np.unique(legal, axis=0, return_inverse=True)
    while True:
        following = np.where(legal, found.ravel()[machine.delta], -1)
        _, finer = np.unique(np.column_stack([found.ravel(), following]), axis=0, return_inverse=True)
        if finer.max() == found.max():
            return finer.ravel()
        found = finer


class _Room:
    """The atoms of a room, and bounds in their norm."""

    def __init__(self, atoms: Float[np.ndarray, "atom hidden"]) -> None:
        self.atoms, self.beside = atoms, 1.0
        self.into = np.linalg.pinv(atoms.T, rcond=_FLAT)
        self.slack = (sum(atoms.shape) + 8) * _UNIT
        self._sizes = np.abs(self.into), np.abs(atoms)

    def bound(self, rows: Float[np.ndarray, "row hidden"], off: Float[np.ndarray, "row hidden"]) -> np.ndarray:
        """Bound the sizes of vectors that are known up to `off` in each entry."""
        parts = rows @ self.into.T
        rest = rows - parts @ self.atoms
        # what the two products may be off by, and what the vectors may
        reach = np.abs(rows) @ self._sizes[0].T
        rounding = self.slack * (np.abs(rows) + 2 * reach @ self._sizes[1])
        along = np.abs(parts).sum(axis=1) + self.slack * reach.sum(axis=1)
        across = np.linalg.norm(np.abs(rest) + rounding + off, axis=1)
        return (along + self.beside * across) * (1 + self.slack) * _UP

    @property
    def widest(self) -> float:
        """Bound the sum of coefficients S d of a vector of length 1."""
        return float(np.linalg.norm(np.linalg.norm(self.into, axis=0))) * math.sqrt(len(self.atoms)) * (1 + self.slack)

    def grows(self, matrix: Float[np.ndarray, "hidden hidden"], there: "_Room", on_atoms: float) -> float:
        """Bound by how much a matrix multiplies an error d beside the atoms: d = V S d + (d - V S d).

        Args:
            matrix: what acts on the error.
            there: the room that it leads to.
            on_atoms: by how much it multiplies errors that are made of atoms.
        """
        across = np.eye(len(matrix)) - self.atoms.T @ self.into
        columns = (matrix @ across).T
        sizes = np.abs(matrix) @ (np.eye(len(matrix)) + self._sizes[1].T @ self._sizes[0])
        # a vector of length 1 has entries whose squares add up to 1
        rest = float(np.linalg.norm(there.bound(columns, 2 * self.slack * sizes.T))) * (1 + self.slack)
        return (on_atoms * self.widest + rest) * _UP / self.beside

    def dual(self, weights: Float[np.ndarray, "rival hidden"]) -> np.ndarray:
        """Bound the largest value of functionals on errors of size 1."""
        on_atoms = np.abs(weights @ self.atoms.T) + self.slack * np.abs(weights) @ self._sizes[1].T
        lengths = np.linalg.norm(weights, axis=1) * (1 + self.slack)
        return np.maximum(on_atoms.max(axis=1), lengths * _UP / self.beside) * _UP


def growth_of_errors(
    network: Network,
    machine: Machine,
    vectors: Float[np.ndarray, "state hidden"],
    legal: Bool[np.ndarray, "state symbol"],
) -> Growth | None:
    """Bound how errors grow; None where a state is answered wrong, or nothing is bounded.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        vectors: v_q, for every state that is reached; 0 for the others.
        legal: which symbols may follow which states.
    """
    sizes = np.linalg.norm(vectors, axis=1)
    reached = np.zeros(machine.states, dtype=bool)
    reached[list(access_words(machine, legal))] = True
    if not ((sizes[reached] > _SMALLEST) & (sizes[reached] < _LARGEST)).all():
        return None
    room_of = rooms(machine, legal)
    made = {int(room): _Room(vectors[reached & (room_of == room)]) for room in np.unique(room_of[reached])}
    beside = _BESIDE * max(1.0, *(room.widest for room in made.values()))
    for room in made.values():
        # the same for all rooms, so that an error may move between them
        room.beside = beside
    radius = _radius(network, machine, vectors, reached, room_of, made)
    if radius is None:
        return None
    rho = kappa = 0.0
    slack = (network.hidden + 4) * _UNIT
    for symbol, matrix in enumerate(network.matrices):
        moved, reach = vectors @ matrix.T, np.abs(vectors) @ np.abs(matrix).T
        for room in made:
            states = np.flatnonzero(reached & (room_of == room) & legal[:, symbol])
            if not len(states):
                continue
            targets = vectors[machine.delta[states, symbol]]
            there = made[int(room_of[machine.delta[states[0], symbol]])]
            scales = (moved[states] * targets).sum(axis=1) / (targets * targets).sum(axis=1)
            if not ((scales > _SMALLEST) & (scales < _LARGEST)).all():
                return None
            rest = moved[states] - scales[:, None] * targets
            off = slack * (reach[states] + scales[:, None] * np.abs(targets)) + 2 * _UNIT * np.abs(rest)
            added = there.bound(rest, off)
            least = float(scales.min())
            rho = max(rho, float(added.max()) / least * _UP)
            on_atoms = float((scales * _UP + added).max())
            grows = max(on_atoms, made[room].grows(matrix, there, on_atoms)) / least * _UP
            # a maximum would pass over what is not a number
            if not (np.isfinite(added).all() and math.isfinite(grows)):
                return None
            kappa = max(kappa, grows)
    start = vectors[machine.start]
    scale = float(network.initial @ start) / float(start @ start)
    rest = network.initial - scale * start
    off = 2 * _UNIT * (np.abs(network.initial) + abs(scale) * np.abs(start))
    first = float(made[int(room_of[machine.start])].bound(rest[None], off[None])[0])
    first = first / scale * _UP if scale > _SMALLEST else -1.0
    return Growth(first, rho, kappa, radius) if first >= 0 and math.isfinite(first + rho + kappa) else None


def _radius(
    network: Network,
    machine: Machine,
    vectors: np.ndarray,
    reached: np.ndarray,
    room_of: np.ndarray,
    made: dict[int, _Room],
) -> float | None:
    """Return the least size of an error that may turn an answer; None where a state is answered wrong."""
    least, slack = math.inf, (network.hidden + 4) * _UNIT
    for state in np.flatnonzero(reached).tolist():
        own = int(machine.outputs[state])
        weights = network.readout[own] - np.delete(network.readout, own, axis=0)
        # the difference of two weights is rounded once
        sizes = (np.abs(network.readout[own]) + np.abs(np.delete(network.readout, own, axis=0))) * (1 + slack)
        leads = weights @ vectors[state] - 2 * slack * (sizes @ np.abs(vectors[state]))
        if not (leads > _SMALLEST).all() or not np.isfinite(leads).all():
            return None
        room = made[int(room_of[state])]
        rounding = _UNIT * np.linalg.norm(sizes, axis=1) * (1 + np.linalg.norm(room.atoms, axis=1).max())
        dual = room.dual(weights) + rounding
        least = min(least, float((leads / dual).min(initial=math.inf)))
    return least * _DOWN
