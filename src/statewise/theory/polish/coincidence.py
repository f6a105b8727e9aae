"""The hidden states of a polished network that coincide: finitely many points, and how symbols move them.

Distances between hidden states are either of the size of the residual or far above it. Where every distance is on one
side or the other, states are points; a distance in between means that the network is not solved well enough.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.theory.network import Network
from statewise.theory.polish.sequences import Labelled

MOST_POINTS = 2_000
# distances below so many residuals are rounding; the residual is never taken for less than this, relative to a state
_ROUNDINGS, _LEAST_RESIDUAL = 1e3, 1e-14
# hidden states that grow beyond this many times the first do not come back
_LARGEST = 1e6


@dataclass(frozen=True, eq=False)
class Points:
    """The hidden states of a network.

    Args:
        vectors: one of each, the first state first.
        moves: the point after each symbol; -1 where no sequence leads on.
        distance: the largest distance of hidden states that were taken for one point, relative to their size.
    """

    vectors: Float[np.ndarray, "point hidden"]
    moves: Int[np.ndarray, "point symbol"]
    distance: float

    @property
    def complete(self) -> bool:
        """Whether every symbol leads on from every point."""
        return bool((self.moves >= 0).all())


class _Collection:
    """Points as they are found.

    Args:
        network: whose hidden states they are.
        residual: of the polished network: the mean square distance of states that should coincide.
    """

    def __init__(self, network: Network, residual: float) -> None:
        self.network = network
        self.size = float(np.linalg.norm(network.initial))
        self.near = _ROUNDINGS * max(residual**0.5, _LEAST_RESIDUAL * self.size)
        self.far = (self.near / self.size) ** 0.5 * self.size
        self.vectors = np.array([network.initial])
        self.distance = 0.0

    def place(self, vector: Float[np.ndarray, " hidden"]) -> int | None:
        """Return the number of a hidden state; None where it is neither one of the points nor clearly another."""
        distances = np.linalg.norm(self.vectors - vector, axis=1)
        nearest = int(distances.argmin())
        if distances[nearest] <= self.near:
            self.distance = max(self.distance, float(distances[nearest]) / self.size)
            return nearest
        outside = not np.linalg.norm(vector) <= _LARGEST * self.size
        if distances[nearest] < self.far or outside or len(self.vectors) >= MOST_POINTS:
            return None
        self.vectors = np.vstack([self.vectors, vector])
        return len(self.vectors) - 1


def all_points(network: Network, residual: float) -> Points | None:
    """Follow every symbol from every hidden state; None where these are not finitely many clear points."""
    found, moves = _Collection(network, residual), []
    while len(moves) < len(found.vectors):
        following = [found.place(vector) for vector in network.matrices @ found.vectors[len(moves)]]
        if None in following:
            return None
        moves.append(following)
    return Points(found.vectors, np.array(moves, dtype=np.int64), found.distance)


def drawn_points(network: Network, residual: float, data: Labelled) -> Points | None:
    """Follow sequences; None where their hidden states are not finitely many clear points, or some lead nowhere.

    Args:
        network: that is followed.
        residual: of the polished network.
        data: sequences that the task can draw.
    """
    found = _Collection(network, residual)
    moves: dict[tuple[int, int], int] = {}
    here = np.zeros(len(data.lengths), dtype=np.int64)
    tokens, lengths = data.tokens.numpy(), data.lengths.numpy()
    for t in range(tokens.shape[1]):
        live = np.flatnonzero(lengths > t)
        for point, symbol in np.unique(np.stack([here[live], tokens[live, t]], axis=1), axis=0).tolist():
            if (point, symbol) not in moves:
                there = found.place(network.matrices[symbol] @ found.vectors[point])
                if there is None:
                    return None
                moves[point, symbol] = there
        here[live] = [moves[pair] for pair in zip(here[live].tolist(), tokens[live, t].tolist(), strict=True)]
    table = np.full((len(found.vectors), network.symbols), -1)
    for (point, symbol), there in moves.items():
        table[point, symbol] = there
    # a point that nothing leads on from was met at the ends of sequences only: what comes after it is not known
    return Points(found.vectors, table, found.distance) if (table >= 0).any(axis=1).all() else None
