"""The planes of rotations, trained and polished, each with its angle for every symbol (Figure 4)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from statewise.models import SequenceModel, StateTracker
from statewise.papers.facts import Fact
from statewise.recurrence import token_table
from statewise.transitions import Rotation

Stage = Literal["trained", "polished"]


@dataclass(frozen=True)
class Angles:
    """What the planes of one network do.

    Args:
        by_plane: the angle by which each plane turns on each symbol.
        weights: the norm of the readout's weights on each plane.
    """

    by_plane: Float[np.ndarray, "plane symbol"]
    weights: Float[np.ndarray, " plane"]

    def heaviest_first(self) -> list[int]:
        """Return the planes, those first on which the readout's weights are largest."""
        return np.argsort(-self.weights).tolist()


@dataclass(frozen=True)
class PlaneRow(Fact):
    """One plane of one rotation.

    Args:
        stage: whether it is as training left it.
        seed: of the run.
        place: among the planes of its run, by the readout's weights.
        plane: its number in the network.
        angle: by which symbol 1 turns it.
        harmonic: that angle in parts of 2 pi / m.
        character: the nearest whole number, modulo m.
        off: the distance to it.
        weight: the norm of the readout's weights on it.
    """

    stage: Stage
    seed: int
    place: int
    plane: int
    angle: float
    harmonic: float
    character: int
    off: float
    weight: float


def angles_of(model: SequenceModel) -> Angles | None:
    """Return the angles of a network by plane and symbol; None where it does not rotate."""
    if not isinstance(model, StateTracker) or not isinstance(model.transition, Rotation):
        return None
    by_symbol = token_table(model.transition, model.embeddings).detach()
    readout = model.readout.detach().numpy()
    weights = np.linalg.norm(readout.reshape(len(readout), -1, 2), axis=(0, 2))
    return Angles(by_symbol.T.numpy(), weights)


def harmonic(angle: float, m: int) -> float:
    """Return an angle in parts of 2 pi / m, without whole turns: from -m/2, which is left out, to m/2.

    It is a whole number for a character of Z_m.
    """
    turns = angle / (2 * math.pi)
    return m * (turns - math.ceil(turns - 0.5))


def plane_rows(networks: Iterable[tuple[Stage, int, Angles]], m: int) -> list[PlaneRow]:
    """List the planes of rotations, those first on which the readout's weights are largest.

    Args:
        networks: the stage, the seed and the angles of each.
        m: the modulus.
    """
    rows = []
    for stage, seed, angles in networks:
        for place, plane in enumerate(angles.heaviest_first()):
            angle = float(angles.by_plane[plane, 1])
            found = harmonic(angle, m)
            off, weight = abs(found - round(found)), float(angles.weights[plane])
            rows.append(PlaneRow(stage, seed, place, plane, angle, found, round(found) % m, off, weight))
    return rows
