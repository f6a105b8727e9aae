"""Horizons in a norm whose unit ball is spanned by the prototypes themselves.

Give each machine state q a vector v_q, its atom. The size of an error e is the least of sum |c_q| + M |d| over all ways
to write e = sum c_q v_q + d. A symbol that carries v_q to s v_q' + r carries an atom to s times an atom plus r, so that
no error grows by more than s + |r|: permutations and maps, at any rank, have factors of 1 up to rounding. Where some
sequences are not part of the task, states are sorted into rooms by what may follow for ever; atoms of an error are
those of its room, which every symbol carries into one room.

All is computed in balls, which bound every rounding and what the matrices themselves are off.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine, access_words
from statewise.theory.balls import Balls, norm_above, sum_above
from statewise.theory.network import Network, Scaled

# more than the handful of roundings in a formula of scalars
_UP, _DOWN = 1 + 2.0**-49, 1 - 2.0**-49
# how much more than atoms of the same length errors beside the atoms count
_BESIDE = 2.0
# directions in which atoms vary by less than this share are left to what lies beside them
_FLAT = 1e-8
# numbers that are not finite prove nothing, and are looked for at the end
_LOOSE = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")


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

    def bound(self, rows: Balls) -> Float[np.ndarray, " row"]:
        """Bound the sizes of vectors: any coefficients do, so those that were computed are taken as they are."""
        parts = rows.mid @ self.into.T
        rest = rows - Balls.exactly(parts) @ self.atoms
        return (sum_above(np.abs(parts)) + self.beside * norm_above(rest.largest())) * _UP

    @property
    def widest(self) -> float:
        """Bound the sum of coefficients S d of a vector of length 1."""
        return float(norm_above(norm_above(np.abs(self.into)))) * math.sqrt(len(self.atoms)) * _UP

    def grows(self, matrix: Balls, there: "_Room", on_atoms: float) -> float:
        """Bound by how much a matrix multiplies an error d beside the atoms: d = V S d + (d - V S d).

        Args:
            matrix: what acts on the error.
            there: the room that it leads to.
            on_atoms: by how much it multiplies errors that are made of atoms.
        """
        across = np.eye(len(matrix)) - Balls.exactly(self.atoms.T) @ self.into
        # a vector of length 1 has entries whose squares add up to 1
        rest = float(norm_above(there.bound((matrix @ across).T)))
        return (on_atoms * self.widest + rest) * _UP / self.beside

    def dual(self, weights: Balls) -> Float[np.ndarray, " row"]:
        """Bound the largest values of functionals on errors of size 1."""
        on_atoms = (weights @ self.atoms.T).largest().max(axis=1)
        return np.maximum(on_atoms, norm_above(weights.largest()) * _UP / self.beside) * _UP


@_LOOSE
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
    scaled = network.scaled
    reached = np.zeros(machine.states, dtype=bool)
    reached[list(access_words(machine, legal))] = True
    if not (np.isfinite(vectors).all() and (np.abs(vectors[reached]).max(axis=1) > 0).all()):
        return None
    room_of = rooms(machine, legal)
    made = {int(room): _Room(vectors[reached & (room_of == room)]) for room in np.unique(room_of[reached])}
    beside = _BESIDE * max(1.0, *(room.widest for room in made.values()))
    for room in made.values():
        # the same for all rooms, so that an error may move between them
        room.beside = beside
    radius = _radius(scaled, machine, vectors, reached, room_of, made)
    if radius is None:
        return None
    rho = kappa = 0.0
    for symbol in range(machine.symbols):
        matrix = scaled.matrices[symbol]
        moved = vectors @ matrix.T
        for room in made:
            states = np.flatnonzero(reached & (room_of == room) & legal[:, symbol])
            if not len(states):
                continue
            targets = vectors[machine.delta[states, symbol]]
            there = made[int(room_of[machine.delta[states[0], symbol]])]
            scales, added = _split(moved[states], targets, there)
            if not ((scales > 0).all() and np.isfinite(added).all()):
                return None
            least = float(scales.min())
            on_atoms = float((scales * _UP + added).max()) * _UP
            grows = max(on_atoms, made[room].grows(matrix, there, on_atoms)) / least * _UP
            # a maximum would pass over what is not a number
            if not math.isfinite(grows):
                return None
            rho, kappa = max(rho, float(added.max()) / least * _UP), max(kappa, grows)
    scale, first = _split(scaled.initial[None], vectors[[machine.start]], made[int(room_of[machine.start])])
    if not scale[0] > 0:
        return None
    return Growth(float(first[0] / scale[0]) * _UP, rho, kappa, radius)


def _split(moved: Balls, targets: np.ndarray, there: _Room) -> tuple[np.ndarray, np.ndarray]:
    """Write vectors as s target + r; return s, any float, and a bound on the size of r."""
    scales = (moved.mid * targets).sum(axis=1) / (targets * targets).sum(axis=1)
    return scales, there.bound(moved - Balls.exactly(targets) * scales[:, None])


def _radius(
    scaled: Scaled,
    machine: Machine,
    vectors: np.ndarray,
    reached: np.ndarray,
    room_of: np.ndarray,
    made: dict[int, _Room],
) -> float | None:
    """Return the least size of an error that may turn an answer; None where a state is answered wrong."""
    least, readout = math.inf, scaled.readout
    for output in np.unique(machine.outputs[reached]).tolist():
        weights = readout[[output]] - readout[[c for c in range(len(readout)) if c != output]]
        for room, bounds in made.items():
            states = reached & (room_of == room) & (machine.outputs == output)
            if not states.any():
                continue
            leads, duals = (vectors[states] @ weights.T).least(), bounds.dual(weights)
            if not (leads > 0).all() or not np.isfinite(duals).all():
                return None
            least = min(least, float((leads / duals).min()))
    return least * _DOWN
