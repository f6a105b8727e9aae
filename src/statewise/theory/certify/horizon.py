"""Proven horizons: the length up to which a network that is nearly a machine is correct.

Give each machine state q a vector v_q, and write h_t = c (v_q + e) with c > 0. One symbol makes of it

    A v_q = s v_q' + r,    e' = (r + A e) / s,    |e'| <= |r| / s + (|A| / s) |e|,

so errors grow at most by X' = rho + kappa X, with rho and kappa the largest over all states and symbols. The answer is
correct while X < rad, the distance from any v_q to where another class ties. Any norm |R e| will do: coordinates in
which the vectors are an orthonormal frame suit groups, whose matrices are then nearly orthogonal; coordinates in which
they are one-hot, with sums of absolute values, suit maps, whose matrices then move each entry to one other. All is
computed in balls, which bound every rounding and what the matrices themselves are off.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from statewise.machines import Machine, access_words
from statewise.theory.balls import Balls, norm_above, spectral_norm_above, sum_above
from statewise.theory.certify.atoms import growth_of_errors
from statewise.theory.network import Network, Scaled

# far more than the handful of roundings in a formula of scalars
_UP, _DOWN = 1 + 1e-12, 1 - 1e-12
# vectors whose sizes differ by more than this power of two are not put on one scale
_WIDEST = 900.0
# no horizon is longer: a bound of 0 would allow any
_LONGEST = 2.0**62
# numbers that are not finite prove nothing, and are looked for at the end
_LOOSE = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")


@dataclass(frozen=True)
class Horizon:
    """A proven statement about all words of some lengths.

    Args:
        length: all words of up to so many symbols are answered correctly; None for all words, where there is a single
            class.
        rho: the most that one symbol adds to the error.
        kappa: the most by which one symbol multiplies it.
        radius: the error at which an answer may turn wrong.
    """

    length: int | None
    rho: float
    kappa: float
    radius: float


@_LOOSE
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
    if network.classes == 1:
        return Horizon(None, 0.0, 0.0, math.inf)
    free = legal is None or bool(legal.all())
    allowed = np.ones(machine.delta.shape, dtype=bool) if legal is None else legal
    scaled = network.scaled
    # as they are, a linear orbit where the network is exact; with one length, where each symbol has a gain of its own
    sets = _vector_sets(scaled, machine, allowed) if vectors is None else _unit_and_plain(vectors)
    if free and not all((np.abs(each).max(axis=1) > 0).all() for each in sets):
        return None
    found = [_among_atoms(network, machine, each, allowed) for each in sets]
    if free:
        found += [_in_frame(scaled, machine, each, frame) for each in sets for frame in _frames(each)]
    shown = [horizon for horizon in found if horizon is not None]
    return max(shown, key=lambda horizon: horizon.length or 0, default=None)


def _vector_sets(scaled: Scaled, machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> list[np.ndarray]:
    """Return the hidden state after a shortest word to each state: with one length, and, if they fit, as they are."""
    unit = np.zeros((machine.states, scaled.initial.mid.shape[0]))
    # logarithms to the base 2 of what the rows are divided by
    sizes = np.full(machine.states, -np.inf)
    for state, word in access_words(machine, legal).items():
        h, size = scaled.initial.mid, 0.0
        for symbol in word:
            h = scaled.matrices.mid[symbol] @ h
            _, power = np.frexp(np.abs(h).max())
            h, size = np.ldexp(h, -power), size + float(power) + float(scaled.gains[symbol])
        length = float(np.linalg.norm(h))
        if length > 0:
            unit[state], sizes[state] = h / length, size + math.log2(length)
    shares = sizes - sizes.max(initial=-np.inf)
    if not np.isfinite(sizes).any() or shares[np.isfinite(sizes)].min() < -_WIDEST:
        return [unit]
    return [unit * np.exp2(shares)[:, None], unit]


def _unit_and_plain(vectors: Float[np.ndarray, "state hidden"]) -> list[np.ndarray]:
    """Return given vectors as they are, and with one length."""
    largest = np.abs(vectors).max()
    if not np.isfinite(largest) or not largest > 0:
        return [np.zeros_like(vectors)]
    plain = np.ldexp(vectors, -np.frexp(largest)[1])
    sizes = np.linalg.norm(plain, axis=1, keepdims=True)
    return [plain, plain / np.where(sizes > 0, sizes, 1.0)]


def _among_atoms(
    network: Network, machine: Machine, vectors: np.ndarray, legal: Bool[np.ndarray, "state symbol"]
) -> Horizon | None:
    """Prove a horizon in the norm of the vectors themselves; None where nothing is proven."""
    growth = growth_of_errors(network, machine, vectors, legal)
    if growth is None:
        return None
    return _horizon(growth.first, growth.rho, growth.kappa, growth.radius)


def _horizon(first: float, rho: float, kappa: float, radius: float) -> Horizon | None:
    """Return the horizon of these bounds; None where they prove nothing."""
    if not (0 <= first < radius and min(rho, kappa) >= 0 and math.isfinite(rho + kappa + radius)):
        return None
    return Horizon(_steps(first, rho, kappa, radius), rho, kappa, radius)


@dataclass(frozen=True, eq=False)
class _Frame:
    """Coordinates R, nearly their inverse S, and a norm."""

    into: Float[np.ndarray, "entry hidden"]
    back: Float[np.ndarray, "hidden entry"]
    norm: Literal["euclid", "sum"]

    @property
    def loss(self) -> float:
        """Bound by how much |R^-1| exceeds |S|."""
        off = self.matrix(Balls.exactly(self.into) @ self.back - np.eye(len(self.into)))
        return _UP / (1 - off) if off < 0.5 else math.inf

    def vectors(self, rows: Balls) -> Float[np.ndarray, " row"]:
        """Bound |row| from above."""
        sizes = rows.largest()
        return norm_above(sizes) if self.norm == "euclid" else sum_above(sizes)

    def duals(self, rows: Balls) -> Float[np.ndarray, " row"]:
        """Bound the largest row . e with |e| = 1 from above."""
        sizes = rows.largest()
        return norm_above(sizes) if self.norm == "euclid" else sizes.max(axis=1)

    def matrix(self, values: Balls) -> float:
        """Bound the norm of a matrix from above."""
        if self.norm == "sum":
            return float(sum_above(values.largest(), axis=0).max())
        return spectral_norm_above(values)


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


def _in_frame(scaled: Scaled, machine: Machine, vectors: np.ndarray, frame: _Frame) -> Horizon | None:
    """Prove a horizon in one norm; None where nothing is proven."""
    loss = frame.loss
    radius = _radius(scaled, machine, vectors, frame, loss) if math.isfinite(loss) else None
    if radius is None:
        return None
    start = vectors[[machine.start]]
    first, _ = _off(scaled.initial[None], start, frame)
    rho = kappa = 0.0
    for symbol in range(machine.symbols):
        matrix = scaled.matrices[symbol]
        norm = frame.matrix(frame.into @ matrix @ frame.back) * loss
        errors, scales = _off(vectors @ matrix.T, vectors[machine.delta[:, symbol]], frame)
        # a maximum would pass over what is not a number
        if not (scales > 0).all() or not np.isfinite(errors).all():
            return None
        rho, kappa = max(rho, float(errors.max())), max(kappa, norm / float(scales.min()) * _UP)
    return _horizon(float(first[0]), rho, kappa, radius)


def _steps(first: float, rho: float, kappa: float, radius: float) -> int:
    """Return the most steps after which X is still below the radius."""
    # a bound is never 0, only too small to be written
    growth, rho = max(kappa - 1, 0.0), max(rho, 2.0**-1000)
    if growth * radius < 1e-9 * rho:
        # so slow that X_t <= (first + t rho) e^(t growth) is as good; what that gives away, the last line takes back
        steps = (radius - first) / rho
    else:
        steps = math.log1p((radius - first) * growth / (rho + first * growth)) / math.log1p(growth)
    return max(0, math.floor(min(steps, _LONGEST) * (1 - 1e-6)))


def _radius(scaled: Scaled, machine: Machine, vectors: np.ndarray, frame: _Frame, loss: float) -> float | None:
    """Return the least distance to a tie, over all states and rival classes; None where a state is answered wrong."""
    least = math.inf
    readout = scaled.readout
    for output in np.unique(machine.outputs).tolist():
        weights = readout[[output]] - readout[[c for c in range(len(readout)) if c != output]]
        leads = (vectors[machine.outputs == output] @ weights.T).least()
        sizes = frame.duals(weights @ frame.back) * loss
        if not (leads > 0).all() or not np.isfinite(sizes).all():
            return None
        least = min(least, float((leads / sizes).min()))
    return least * _DOWN


def _off(moved: Balls, targets: np.ndarray, frame: _Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds on |e|, and s, for vectors written as s (target + e); what is not positive in s bounds nothing."""
    # s is a number like any other: what it is not exactly stays in the rest
    scales = (moved.mid * targets).sum(axis=1) / (targets * targets).sum(axis=1)
    rest = moved - Balls.exactly(targets) * scales[:, None]
    errors = frame.vectors(rest @ frame.into.T) / scales * _UP
    return np.where(scales > 0, errors, np.inf), scales
