"""Proven horizons: how long a network that is nearly a machine stays right.

Give each machine state q a vector v_q, and write h_t = c (v_q + e) with c > 0. One symbol makes of it

    A v_q = s v_q' + r,    e' = (r + A e) / s,    |e'| <= |r| / s + (|A| / s) |e|,

so errors grow at most by X' = rho + kappa X, with rho and kappa the largest over all arrows. The answer is right while
X < rad, the distance from any v_q to where another class ties. If kappa < 1 and the errors settle below rad, the network
is right for ever. All numbers are computed in float64, and each is moved by a bound on its own rounding to the safe side.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from statewise.machines import Machine
from statewise.theory.network import Network

_UNIT = 2.0**-53


@dataclass(frozen=True)
class Horizon:
    """A proven statement about all words of some lengths.

    Args:
        length: words of up to so many symbols are answered rightly; None for all.
        rho: the most that one symbol adds to the error.
        kappa: the most by which one symbol multiplies it.
        radius: the error at which an answer may turn wrong.
    """

    length: int | None
    rho: float
    kappa: float
    radius: float


def prove_horizon(
    network: Network, machine: Machine, vectors: Float[np.ndarray, "state hidden"] | None = None
) -> Horizon | None:
    """Proves how long a network is right; None where not even the empty word is.

    Args:
        network: what is judged.
        machine: a machine all of whose states are reached.
        vectors: v_q; None takes the hidden state after a shortest word to each state.
    """
    if vectors is None:
        vectors = _first_states(network, machine)
    sizes = np.linalg.norm(vectors, axis=1)
    if not (sizes > 0).all():
        return None
    vectors = vectors / sizes[:, None]
    radius = _radius(network, machine, vectors)
    first, _ = _off(network.initial, vectors[machine.start], np.abs(network.initial))
    if radius is None or first is None or first >= radius:
        return None
    rho = kappa = 0.0
    norms = [_norm(matrix) for matrix in network.matrices]
    for symbol, matrix in enumerate(network.matrices):
        moved, bound = vectors @ matrix.T, np.abs(vectors) @ np.abs(matrix).T
        for q, there in enumerate(machine.delta[:, symbol].tolist()):
            error, scale = _off(moved[q], vectors[there], bound[q])
            if error is None:
                return None
            rho, kappa = max(rho, error), max(kappa, norms[symbol] / scale)
    kappa *= 1 + 1e-12
    return Horizon(_steps(first, rho, kappa, radius), rho, kappa, radius)


def _steps(first: float, rho: float, kappa: float, radius: float) -> int | None:
    """Gives the most steps after which X is still below the radius; None if it always is."""
    if kappa < 1 and max(first, rho / (1 - kappa)) * (1 + 1e-9) < radius:
        return None
    if rho == 0 and kappa <= 1:
        return None
    growth = kappa - 1
    if growth * radius < 1e-9 * rho:
        # so slow that X_t <= (first + t rho) e^(t growth) is as good
        steps = (radius - first) / rho
        steps /= math.exp(max(0.0, steps * growth))
    else:
        steps = math.log1p((radius - first) * growth / (rho + first * growth)) / math.log1p(growth)
    return max(0, math.floor(steps * (1 - 1e-6)))


def _radius(network: Network, machine: Machine, vectors: np.ndarray) -> float | None:
    """Gives the least distance to a tie, over all states and rival classes."""
    least = math.inf
    slack = (network.hidden + 3) * _UNIT
    for q, output in enumerate(machine.outputs.tolist()):
        for other in range(network.classes):
            if other == output:
                continue
            weight = network.readout[output] - network.readout[other]
            lead = float(weight @ vectors[q]) - slack * float(np.abs(weight) @ np.abs(vectors[q]))
            size = float(np.linalg.norm(weight)) * (1 + slack)
            if lead <= 0:
                return None
            least = min(least, lead / size)
    return least * (1 - 1e-12)


def _off(moved: np.ndarray, target: np.ndarray, bound: np.ndarray) -> tuple[float | None, float]:
    """Writes a vector as s (target + e); gives a bound on |e|, and s from below."""
    slack = (len(moved) + 4) * _UNIT
    scale = float(moved @ target) / float(target @ target)
    if scale <= 0:
        return None, 0.0
    rest = float(np.linalg.norm(moved - scale * target)) + 2 * slack * float(np.linalg.norm(bound))
    scale *= 1 - 4 * slack
    return (rest / scale) * (1 + 1e-12), scale


def _norm(matrix: Float[np.ndarray, "out in"]) -> float:
    """Bounds the largest singular value: |A|^2 = |A^T A| <= the largest sum of absolute values in a row of it."""
    product = matrix.T @ matrix
    rounding = len(matrix) * _UNIT * float((np.abs(matrix).T @ np.abs(matrix)).sum(axis=1).max())
    return math.sqrt(float(np.abs(product).sum(axis=1).max()) + 2 * rounding) * (1 + 1e-14)


def _first_states(network: Network, machine: Machine) -> Float[np.ndarray, "state hidden"]:
    vectors = np.zeros((machine.states, network.hidden))
    vectors[machine.start] = network.initial
    seen, order = {machine.start}, [machine.start]
    for here in order:
        for symbol, there in enumerate(machine.delta[here].tolist()):
            if there not in seen:
                seen.add(there)
                order.append(there)
                moved = network.matrices[symbol] @ vectors[here]
                vectors[there] = moved / max(float(np.linalg.norm(moved)), np.finfo(float).tiny)
    return vectors
