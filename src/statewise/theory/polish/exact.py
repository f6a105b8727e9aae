"""From polished to exact: a polished network in whole numbers, proven equal to a machine at every length.

No machine is given. The hidden states of the polished network are points (`coincidence`); the points have whole-number
coordinates (`rational`); the matrices that move these are whole, at the level of the network where it allows that
(`whole_levels`); the readout is rounded. The machine is then read out of the exact network, and the network as stored
is proven equal to it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine, minimise
from statewise.models.tracker import StateTracker
from statewise.tasks import ERROR, Source, legal_moves
from statewise.theory.certify import decide_by_orbit, decide_by_series
from statewise.theory.network import Network, network_of
from statewise.theory.polish.automaton import tracker_of
from statewise.theory.polish.coincidence import MOST_POINTS, Points, all_points, drawn_points
from statewise.theory.polish.outcome import Polished
from statewise.theory.polish.rational import distance_from_fractions
from statewise.theory.polish.sequences import LabelledSource
from statewise.theory.polish.whole_levels import Whole, written
from statewise.transitions import CP, Full

ExactOutcome = Literal["exact", "not rational", "not proven", "not converged"]
# bits that a readout is rounded to at most, and the share of its margins that stays
_MOST_BITS, _MARGIN_KEPT = 40, 0.5
# the accuracy of points, relative to their size, is never taken for less than this
_LEAST_ACCURACY = 1e-14
# sequences for each pair of a label and a symbol where a task does not draw all; bounds
_WALKS, _FEWEST_WALKS, _MOST_WALKS = 10, 4_000, 200_000
# hidden states that are looked at where there is no end of them
_SAMPLE = 100


@dataclass(frozen=True, eq=False)
class Exact:
    """What a polished network became.

    Args:
        outcome: "exact": whole numbers, proven equal to a machine at every length; "not rational": its hidden states
            are no finite set, and not fractions of small denominators; "not proven"; or "not converged": the network
            was not polished to the end.
        reason: how, or why not.
        model: the exact network; None if there is none.
        level: its level.
        kept: whether that is the level of the polished network.
        machine: read out of it, and minimal; an output named "error" stands for what the task does not draw.
        method: by which it was proven.
        largest: the largest whole number in its matrices, first state and readout.
        distance: the largest distance of a coordinate from a fraction of small denominator, in a basis of hidden
            states; None where it was not computed.
    """

    outcome: ExactOutcome
    reason: str
    model: StateTracker | None = None
    level: str = ""
    kept: bool = False
    machine: Machine | None = None
    method: str = ""
    largest: int | None = None
    distance: float | None = None

    @property
    def complete(self) -> bool:
        """Whether all words were judged, and not only those that the task draws."""
        return self.machine is not None and bool(legal_moves(self.machine).all())

    @property
    def states(self) -> int | None:
        """How many states the machine has, without the one that stands for what the task does not draw."""
        return None if self.machine is None else self.machine.states - int(not self.complete)


def make_exact(polished: Polished, source: LabelledSource, names: Source, shortest: int = 1, seed: int = 0) -> Exact:
    """Write a polished network in whole numbers, and prove it equal to the machine that it is.

    Args:
        polished: the network, and how far the solver came.
        source: where its sequences come from; used only where not all sequences are drawn.
        names: of its symbols and outputs.
        shortest: answers to shorter sequences do not count.
        seed: of the sequences.
    """
    if polished.outcome != "converged":
        return Exact("not converged", f"polish ended with: {polished.outcome}; {polished.reason}")
    network = network_of(polished.model)
    points = _points(network, polished.residual, source, shortest, seed)
    if points is None and isinstance(polished.model.transition, Full | CP):
        network = _observed(network)
        points = _points(network, polished.residual, source, shortest, seed)
    if points is None:
        return _endless(network)
    logits = network.readout @ points.vectors.T
    accuracy = max(points.distance, _LEAST_ACCURACY) * float(np.linalg.norm(points.vectors, axis=1).max())
    reason, distance = "no whole numbers were found", None
    for whole in written(polished, points, logits.argmax(axis=0), accuracy):
        distance = whole.distance
        found = _proven(whole, points, logits, names, shortest)
        if isinstance(found, Exact):
            return found
        reason = found
    return Exact("not proven", reason, distance=distance)


def _points(network: Network, residual: float, source: LabelledSource, shortest: int, seed: int) -> Points | None:
    """Return the hidden states of all words, or else of those that the task draws; each must have one answer."""
    found = all_points(network, residual)
    if found is not None and _answered(network, found, shortest):
        return found
    pairs = len(source.answer_of) * network.symbols
    data = source.draw(seed + 4, min(_MOST_WALKS, max(_FEWEST_WALKS, _WALKS * pairs)))
    found = drawn_points(network, residual, data)
    return found if found is not None and _answered(network, found, shortest) else None


def _answered(network: Network, points: Points, shortest: int) -> bool:
    """Return whether at all points that count one logit is clearly the largest."""
    logits = np.sort(network.readout @ points.vectors.T, axis=0)
    clear = logits[-1] - logits[-2] > 1e-6 * np.abs(logits).max() if len(logits) > 1 else np.ones(len(points.vectors))
    return bool(clear[_counted(points, shortest)].all())


def _counted(points: Points, shortest: int) -> Bool[np.ndarray, " point"]:
    """Return which points sequences lead to that are long enough to count; the first may be the empty one's alone."""
    counted = np.ones(len(points.vectors), dtype=bool)
    counted[0] = shortest == 0 or bool((points.moves == 0).any())
    return counted


def _observed(network: Network) -> Network:
    """Restrict a network to what answers depend on: the columns of its Hankel matrix are the coordinates."""
    rows = _spanning(network.readout)
    while len(wider := _spanning(np.concatenate([rows, *(rows @ matrix for matrix in network.matrices)]))) > len(rows):
        rows = wider
    return Network(rows @ network.matrices @ rows.T, rows @ network.initial, network.readout @ rows.T)


def _spanning(rows: Float[np.ndarray, "row hidden"]) -> Float[np.ndarray, "rank hidden"]:
    """Return orthonormal rows that span the same space, up to rounding."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    return axes[sizes > 1e-8 * sizes[0]]


def _endless(network: Network) -> Exact:
    """Say of a network whose hidden states are not finitely many whether they are fractions of one another."""
    states, place = [network.initial], 0
    while len(states) < _SAMPLE:
        states += list(network.matrices @ states[place])
        place += 1
    distance, rational = distance_from_fractions(np.array(states), _LEAST_ACCURACY * float(np.abs(states).max()))
    reason = f"its hidden states do not come back: there are more than {MOST_POINTS:,}, or some nearly coincide"
    if rational or distance is None:
        return Exact("not proven", reason, distance=distance)
    away = f"a coordinate in a basis of them is {distance:.1e} from every fraction of small denominator"
    return Exact("not rational", f"{reason}; {away}", distance=distance)


def _proven(
    whole: Whole, points: Points, logits: Float[np.ndarray, "class point"], names: Source, shortest: int
) -> Exact | str:
    """Put an exact network together, read its machine out and prove them equal; return why, where that fails."""
    counted = _counted(points, shortest)
    readout = _rounded_readout(whole, logits, counted)
    if readout is None:
        return f"no readout of {_MOST_BITS} bits keeps half of every margin"
    initial = torch.from_numpy(whole.points[0].astype(np.float64))
    model = tracker_of(whole.transition, initial, torch.from_numpy(readout.astype(np.float64)))
    network = network_of(model)
    machine = _read_out(whole.points, points.moves, readout, names)
    legal = None if points.complete else legal_moves(machine)
    for method, decide in (("orbit", decide_by_orbit), ("series", decide_by_series)):
        decided = decide(network, machine, shortest, legal=legal)
        if decided is not None and decided.equal:
            largest = max(int(np.abs(part).max()) for part in (network.matrices, network.initial, network.readout))
            return Exact("exact", whole.note, model, whole.level, whole.kept, machine, method, largest, whole.distance)
    return f"the machine read out of {whole.level} in whole numbers was not proven"


def _rounded_readout(
    whole: Whole, logits: Float[np.ndarray, "class point"], counted: Bool[np.ndarray, " point"]
) -> Int[np.ndarray, "class entry"] | None:
    """Return the readout of fewest bits that keeps half of the margin of every point; None if there is none.

    Logits at the points determine the readout, since they are linear in the points.
    """
    own, points = logits.argmax(axis=0), whole.points.T
    real = logits @ np.linalg.pinv(points.astype(np.float64)) if whole.readout is None else whole.readout
    margins = _margins(real @ points, own)
    if not (margins[counted] > 0).all():
        return None
    size = float(np.abs(real).max())
    for bits in range(_MOST_BITS):
        rounded = np.rint(real / size * 2.0**bits).astype(np.int64)
        kept = _margins(rounded @ points, own)
        if (kept >= _MARGIN_KEPT * margins / size * 2.0**bits)[counted].all():
            return rounded
    return None


def _margins(logits: np.ndarray, own: Int[np.ndarray, " point"]) -> np.ndarray:
    """Return by how much the logit of each point's own class exceeds all others."""
    places = np.arange(logits.shape[1])
    rivals = logits.astype(np.float64)
    rivals[own, places] = -np.inf
    return logits[own, places] - rivals.max(axis=0)


def _read_out(
    points: Int[np.ndarray, "point entry"], moves: Int[np.ndarray, "point symbol"], readout: np.ndarray, names: Source
) -> Machine:
    """Return the minimal machine whose states are points; moves that are not known lead to an output named "error"."""
    outputs, table, known = (readout @ points.T).argmax(axis=0), moves, names.output_names
    if (moves < 0).any():
        known = known if ERROR in known else (*known, ERROR)
        sink = np.full((1, moves.shape[1]), len(moves))
        table = np.concatenate([np.where(moves < 0, len(moves), moves), sink])
        outputs = np.append(outputs, known.index(ERROR))
    return minimise(Machine(table, 0, outputs, names.alphabet, known))
