"""Proven horizons: the length up to which a network that is nearly a machine is correct.

Give each machine state q a vector v_q, and write h_t = c (v_q + e) with c > 0. One symbol makes of it

    A v_q = s v_q' + r,    e' = (r + A e) / s,    |e'| <= |r| / s + (|A| / s) |e|,

so errors grow at most by X' = rho + kappa X, with rho and kappa the largest over all states and symbols. The answer is
correct while X < rad, the distance from any v_q to where another class ties. If kappa < 1 and the errors settle below
rad, the network is correct at every length. Any norm |R e| will do: coordinates in which the vectors are an orthonormal
frame suit groups, whose matrices are then nearly orthogonal; coordinates in which they are one-hot, with sums of
absolute values, suit maps, whose matrices then move each entry to one other. All is computed in float64, and each
number is moved by a bound on its own rounding error to the safe side.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from statewise.machines import Machine, access_words
from statewise.theory.certify.atoms import growth_of_errors
from statewise.theory.network import Network

_UNIT = 2.0**-53
# far more than the handful of roundings in a formula
_UP, _DOWN = 1 + 1e-12, 1 - 1e-12
# sums of more terms would round by more than that
_MAX_HIDDEN = 4_000
# squares of products of three such numbers, and of their rounding errors, do not vanish
_SMALLEST = 1e-30


@dataclass(frozen=True)
class Horizon:
    """A proven statement about all words of some lengths.

    Args:
        length: all words of up to so many symbols are answered correctly; None for all words.
        rho: the most that one symbol adds to the error.
        kappa: the most by which one symbol multiplies it.
        radius: the error at which an answer may turn wrong.
    """

    length: int | None
    rho: float
    kappa: float
    radius: float


def prove_horizon(
    network: Network,
    machine: Machine,
    vectors: Float[np.ndarray, "state hidden"] | None = None,
    legal: Bool[np.ndarray, "state symbol"] | None = None,
) -> Horizon | None:
    """Prove up to which length a network is correct, in the best of several norms; None where nothing is proven.

    Args:
        network: the network under test.
        machine: a machine all of whose states are reached.
        vectors: v_q; None takes the hidden state after a shortest word to each state.
        legal: which symbols may follow which states: sequences of other symbols are not judged; None judges all.
    """
    free = legal is None or bool(legal.all())
    allowed = np.ones(machine.delta.shape, dtype=bool) if legal is None else legal
    if vectors is None:
        vectors = np.zeros((machine.states, network.hidden))
        for state, word in access_words(machine, allowed).items():
            vectors[state] = network.initial
            for symbol in word:
                vectors[state] = network.matrices[symbol] @ vectors[state]
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    if network.hidden > _MAX_HIDDEN:
        return None
    if (free and not (sizes > 0).all()) or not np.isfinite(sizes).all() or not sizes.max() > 0:
        return None
    # as they are, a linear orbit where the network is exact; with one length, where each symbol has a gain of its own
    sets = (vectors / sizes.max(), vectors / np.where(sizes > 0, sizes, 1.0))
    found = [_among_atoms(network, machine, each, allowed) for each in sets]
    if free:
        found += [_in_frame(network, machine, each, frame) for each in sets for frame in _frames(each)]
    shown = [horizon for horizon in found if horizon is not None]
    return max(shown, key=lambda horizon: math.inf if horizon.length is None else horizon.length, default=None)


def _among_atoms(
    network: Network, machine: Machine, vectors: np.ndarray, legal: Bool[np.ndarray, "state symbol"]
) -> Horizon | None:
    """Prove a horizon in the norm of the vectors themselves; None where nothing is proven."""
    growth = growth_of_errors(network, machine, vectors, legal)
    if growth is None or not growth.first < growth.radius:
        return None
    if math.isinf(growth.radius):
        # a single class is always correct
        return Horizon(None, 0.0, 0.0, growth.radius)
    steps = _steps(growth.first, growth.rho, max(growth.kappa, 1.0), growth.radius)
    return Horizon(steps, growth.rho, growth.kappa, growth.radius)


@dataclass(frozen=True, eq=False)
class _Frame:
    """Coordinates R, nearly their inverse S, and a norm; `loss` bounds by how much |R^-1| exceeds |S|."""

    into: Float[np.ndarray, "entry hidden"]
    back: Float[np.ndarray, "hidden entry"]
    norm: Literal["euclid", "sum"]

    @property
    def loss(self) -> float:
        product = self.into @ self.back
        rounding = (len(product) + 2) * _UNIT * np.abs(self.into) @ np.abs(self.back)
        off = self.matrix(product - np.eye(len(product))) + self.matrix(rounding)
        return math.inf if off >= 0.5 else _UP / (1 - off)

    def vector(self, values: np.ndarray) -> float:
        """Bound |values| from above."""
        return float(np.linalg.norm(values) if self.norm == "euclid" else np.abs(values).sum()) * _UP

    def dual(self, values: np.ndarray) -> float:
        """Bound the largest values . e with |e| = 1 from above."""
        return float(np.linalg.norm(values) if self.norm == "euclid" else np.abs(values).max()) * _UP

    def matrix(self, values: np.ndarray) -> float:
        """Bound the norm of a matrix from above: |N|^2 = |N^T N| is at most its largest row sum."""
        if self.norm == "sum":
            return float(np.abs(values).sum(axis=0).max()) * _UP
        product = values.T @ values
        rounding = (len(values) + 2) * _UNIT * float((np.abs(values).T @ np.abs(values)).sum(axis=1).max())
        return math.sqrt(float(np.abs(product).sum(axis=1).max()) + rounding) * _UP


def _frames(vectors: Float[np.ndarray, "state hidden"]) -> list[_Frame]:
    """Return coordinates to try: plain, those of the vectors' own frame, and those in which they are one-hot."""
    states, hidden = vectors.shape
    plain = np.eye(hidden)
    frames = [_Frame(plain, plain, "euclid")]
    left, sizes, _ = np.linalg.svd(vectors.T, full_matrices=True)
    rank = int((sizes > 1e-6 * sizes[0]).sum())
    stretch = np.ones(hidden)
    stretch[:rank] = sizes[:rank]
    # the vectors' own frame, and orthonormal directions across
    frames.append(_Frame((left / stretch).T, left * stretch, "euclid"))
    if rank == states:
        across = left[:, states:]
        into = np.vstack([np.linalg.pinv(vectors.T), across.T])
        frames.append(_Frame(into, np.column_stack([vectors.T, across]), "sum"))
    return frames


def _in_frame(network: Network, machine: Machine, vectors: np.ndarray, frame: _Frame) -> Horizon | None:
    """Prove a horizon in one norm; None where nothing is proven."""
    loss, slack = frame.loss, (network.hidden + 4) * _UNIT
    if not math.isfinite(loss) or not (np.linalg.norm(vectors, axis=1) > _SMALLEST).all():
        return None
    radius = _radius(network, machine, vectors, frame, loss, slack)
    start = vectors[machine.start]
    first, _ = _off(network.initial, start, np.abs(network.initial), frame, slack)
    if radius is None or first is None or not first < radius:
        return None
    if math.isinf(radius):
        # a single class is always correct
        return Horizon(None, 0.0, 0.0, radius)
    rho = kappa = 0.0
    sizes = np.abs(frame.into), np.abs(frame.back)
    for symbol, matrix in enumerate(network.matrices):
        turned = frame.into @ matrix @ frame.back
        rounding = 2 * slack * sizes[0] @ np.abs(matrix) @ sizes[1]
        norm = (frame.matrix(turned) + frame.matrix(rounding)) * loss
        moved, bound = vectors @ matrix.T, np.abs(vectors) @ np.abs(matrix).T
        for q, there in enumerate(machine.delta[:, symbol].tolist()):
            error, scale = _off(moved[q], vectors[there], bound[q], frame, slack)
            if error is None or not math.isfinite(error + norm / scale):
                return None
            rho, kappa = max(rho, error), max(kappa, norm / scale * _UP)
    return Horizon(_steps(first, rho, kappa, radius), rho, kappa, radius)


def _steps(first: float, rho: float, kappa: float, radius: float) -> int | None:
    """Return the most steps after which X is still below the radius; None if it always is."""
    if kappa < 1 and max(first, rho / (1 - kappa)) * (1 + 1e-9) < radius:
        return None
    growth = max(kappa - 1, 0.0)
    if growth * radius < 1e-9 * rho:
        # so slow that X_t <= (first + t rho) e^(t growth) is as good; what that gives away, the last line takes back
        steps = (radius - first) / rho
        steps /= math.exp(2 * steps * growth)
    elif growth == 0.0:
        return None
    else:
        steps = math.log1p((radius - first) * growth / (rho + first * growth)) / math.log1p(growth)
    return max(0, math.floor(steps * (1 - 1e-6)))


def _radius(
    network: Network, machine: Machine, vectors: np.ndarray, frame: _Frame, loss: float, slack: float
) -> float | None:
    """Return the least distance to a tie, over all states and rival classes; None where a state is answered wrong."""
    least = math.inf
    for q, output in enumerate(machine.outputs.tolist()):
        for other in range(network.classes):
            if other == output:
                continue
            weight = network.readout[output] - network.readout[other]
            lead = float(weight @ vectors[q]) - slack * float(np.abs(weight) @ np.abs(vectors[q]))
            if not lead > _SMALLEST:
                return None
            size = frame.dual(weight @ frame.back) + frame.dual(slack * np.abs(weight) @ np.abs(frame.back))
            least = min(least, lead / (size * loss))
    return least * _DOWN


def _off(
    moved: np.ndarray, target: np.ndarray, bound: np.ndarray, frame: _Frame, slack: float
) -> tuple[float | None, float]:
    """Return a bound on |e|, and s, for a vector written as s (target + e); None where s is not positive."""
    scale = float(moved @ target) / float(target @ target)
    if not scale > _SMALLEST:
        return None, 0.0
    rest = moved - scale * target
    # s is a number like any other: what it is not exactly stays in the rest, whose rounding is bounded here
    rounding = 2 * slack * (bound + scale * np.abs(target))
    size = frame.vector(frame.into @ rest) + frame.vector(np.abs(frame.into) @ (rounding + slack * np.abs(rest)))
    return size / scale * _UP, scale
