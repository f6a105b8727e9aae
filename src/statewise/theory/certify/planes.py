"""Horizons of rotations and diagonals, in closed form: the drift of each plane, times the length.

Where all matrices multiply planes of the hidden space by complex numbers z (a rotation, a real number, or both), give
each state q and plane p a number v_qp, and find positive numbers a for symbols and numbers c for planes such that

    z v_qp = a c_p v_q'p (1 + eta)

with small eta, for each symbol that leads from q to q'. After t symbols, up to a positive factor that all planes share,

    h_p = c_p^t v_qp (1 + eta_1) ... (1 + eta_t),

and (1 + eta_1) ... (1 + eta_t) = 1 + sum eta_i + R with |R| <= e^x - 1 - x <= (x^2 / 2) / (1 - x / 3) for
x = t max |eta| < 3. A difference m of logits is linear in h, so that its first-order change is t times that of the
worst symbol at most. The numbers c let all states turn together with time: networks that were trained on few lengths
drift so, and answer correctly for long. A plane that is not tracked is bounded by its size.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Complex, Float, Int

from statewise.machines import Machine
from statewise.theory.balls import TINY, UNIT
from statewise.theory.certify.enclosures import QUIET, Enclosed
from statewise.theory.network import Network

# relative errors of a handful of operations on complex numbers
_ROUGH = 64 * UNIT
_MOST, _CHUNK, _NUMBERS = 1_000_000, 4_096, 4_000_000
# sizes whose products and quotients stay far inside the range of floats
_SMALL, _LARGE = 1e-60, 1e60


@dataclass(frozen=True, eq=False)
class PlaneHorizon:
    """All words of `shortest` to `length` symbols are answered correctly, by the drift of planes.

    Args:
        length: the horizon.
        shortest: words of fewer symbols are not judged.
        planes: the entries of each plane; one that has a single real entry has it twice.
        vectors: v, 0 for planes that are bounded by their size.
        turns: c.
        gains: a.
    """

    length: int
    shortest: int
    planes: Int[np.ndarray, "plane 2"]
    vectors: Complex[np.ndarray, "state plane"]
    turns: Complex[np.ndarray, " plane"]
    gains: Float[np.ndarray, " symbol"]


@QUIET
def prove_by_planes(
    network: Network,
    within: Enclosed,
    machine: Machine,
    shortest: int = 0,
    legal: Bool[np.ndarray, "state symbol"] | None = None,
    most: int = _MOST,
) -> PlaneHorizon | None:
    """Prove up to which length a network of rotations, or a diagonal one, is correct; None where nothing is proven."""
    allowed = np.ones(machine.delta.shape, dtype=bool) if legal is None else legal
    planes = planes_of(network.matrices)
    if planes is None or within.initial.off.any():
        return None
    single = planes[:, 0] == planes[:, 1]
    turning = within.matrices.mid[:, planes[:, 1], planes[:, 0]] * np.where(single, 0.0, 1.0)
    factors = within.matrices.mid[:, planes[:, 0], planes[:, 0]] + 1j * turning
    initial = within.initial.mid[planes[:, 0]] + 1j * np.where(single, 0.0, within.initial.mid[planes[:, 1]])
    vectors, turns = _carried(factors, initial, machine, allowed)
    gains = np.exp(np.log(np.maximum(np.abs(factors), _SMALL)) @ _weights(vectors))
    best: PlaneHorizon | None = None
    sources, symbols = np.nonzero(allowed)
    targets = machine.delta[sources, symbols]
    # a plane whose numbers leave the range is bounded by its size
    sizes = np.abs(vectors)
    fine = ((sizes > _SMALL) & (sizes < _LARGE)).all(axis=0) & (np.abs(turns) > _SMALL) & (np.abs(turns) < _LARGE)
    moved = factors[symbols] * vectors[sources]
    onto = gains[symbols, None] * turns * vectors[targets]
    # how far a factor may be off, and so its edges, as a share
    shares = _shares(within, planes, factors)
    fine &= shares.max(axis=0) < 0.01
    eta = np.where(fine, moved / np.where(fine, onto, 1.0) - 1, np.inf)
    # how much a plane that is not tracked grows at most
    growth = (np.abs(factors) * (1 + shares) / gains[:, None]).max(axis=0) * (1 + _ROUGH) + TINY
    for limit in _limits(np.abs(eta).max(axis=0)):
        tracked = fine & (np.abs(eta).max(axis=0) < limit)
        if not tracked.any():
            continue
        blur = np.where(tracked, 4 * shares.max(axis=0), 0.0)
        drift = _Drift(
            within, machine, planes, vectors, turns, np.where(tracked, eta, 0.0), tracked, initial, growth, blur
        )
        length = drift.length(shortest, most)
        if length is not None and (best is None or length > best.length):
            best = PlaneHorizon(length, shortest, planes, np.where(tracked, vectors, 0.0), turns, gains)
    return best


def _shares(
    within: Enclosed, planes: Int[np.ndarray, "plane 2"], factors: Complex[np.ndarray, "symbol plane"]
) -> Float[np.ndarray, "symbol plane"]:
    """Bound how far factors are off, as a share of their sizes."""
    off = within.matrices.off
    together = off[:, planes[:, 0], planes[:, 0]] + off[:, planes[:, 1], planes[:, 0]]
    shares = together * (1 + _ROUGH) / np.maximum(np.abs(factors), TINY)
    return np.where(together > 0, shares, 0.0)


def planes_of(matrices: Float[np.ndarray, "symbol out in"]) -> Int[np.ndarray, "plane 2"] | None:
    """Return pairs of entries that all matrices multiply by complex numbers, or single ones; None if there are none."""
    hidden = matrices.shape[-1]
    diagonal = np.einsum("aii->ai", matrices)
    off = np.abs(matrices - diagonal[:, :, None] * np.eye(hidden)).max(axis=0) > 0
    if not off.any():
        return np.stack([np.arange(hidden)] * 2, axis=1)
    if hidden % 2:
        return None
    even = np.arange(0, hidden, 2)
    rest = off.copy()
    rest[even, even + 1] = rest[even + 1, even] = False
    conformal = (diagonal[:, even] == diagonal[:, even + 1]) & (
        matrices[:, even, even + 1] == -matrices[:, even + 1, even]
    )
    return None if rest.any() or not conformal.all() else np.stack([even, even + 1], axis=1)


def _carried(
    factors: Complex[np.ndarray, "symbol plane"],
    initial: Complex[np.ndarray, " plane"],
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
) -> tuple[Complex[np.ndarray, "state plane"], Complex[np.ndarray, " plane"]]:
    """Guess v, with v of the first state the network's own, and c: an eigenvector of the mean over all symbols."""
    states, planes = machine.states, factors.shape[1]
    vectors, turns = np.zeros((states, planes), dtype=complex), np.ones(planes, dtype=complex)
    sources, symbols = np.nonzero(legal)
    targets = machine.delta[sources, symbols]
    counts = np.maximum(np.bincount(targets, minlength=states), 1)
    unit = factors / np.maximum(np.abs(factors).max(axis=1, keepdims=True), _SMALL)
    for plane in range(planes):
        mean = np.zeros((states, states), dtype=complex)
        np.add.at(mean, (targets, sources), unit[symbols, plane] / counts[targets])
        values, columns = np.linalg.eig(mean)
        chosen = columns[:, np.argmax(np.abs(values))]
        if abs(chosen[machine.start]) > 1e-6 * np.abs(chosen).max():
            vectors[:, plane] = chosen * (initial[plane] / chosen[machine.start])
            vectors[machine.start, plane] = initial[plane]
            moved = factors[symbols, plane] * vectors[sources, plane]
            aims = vectors[targets, plane]
            strength = np.abs(factors[symbols, plane]) + _SMALL
            turns[plane] = ((moved / strength) * aims.conj()).sum() / max(float((np.abs(aims) ** 2).sum()), _SMALL)
            turns[plane] /= max(abs(turns[plane]), _SMALL)
            # a gain that the other planes do not have
            turns[plane] *= np.exp(np.log(np.maximum(np.abs(moved), _SMALL) / np.maximum(np.abs(aims), _SMALL)).mean())
    level = np.exp(np.log(np.maximum(np.abs(factors), _SMALL)).mean(axis=0) @ _weights(vectors))
    return vectors, turns / level


def _weights(vectors: Complex[np.ndarray, "state plane"]) -> Float[np.ndarray, " plane"]:
    sizes = (np.abs(vectors) ** 2).sum(axis=0)
    total = float(sizes.sum())
    return sizes / total if np.isfinite(total) and total > 0 else np.full(len(sizes), 1 / len(sizes))


def _limits(drifts: Float[np.ndarray, " plane"]) -> list[float]:
    """Return limits on the drift of a plane that is tracked."""
    finite = np.sort(drifts[np.isfinite(drifts)])
    return sorted({float(finite[i]) * 1.01 + 1e-14 for i in range(0, len(finite), max(1, len(finite) // 12))})


class _Drift:
    """Bounds on the margins of a network of planes after t symbols."""

    def __init__(
        self,
        network: Enclosed,
        machine: Machine,
        planes: np.ndarray,
        vectors: np.ndarray,
        turns: np.ndarray,
        eta: np.ndarray,
        tracked: np.ndarray,
        initial: np.ndarray,
        growth: np.ndarray,
        blur: np.ndarray,
    ) -> None:
        hidden, classes = network.hidden, len(network.readout.mid)
        single = planes[:, 0] == planes[:, 1]
        rows, margins, slack = [], [], []
        for q, output in enumerate(machine.outputs.tolist()):
            weights, rivals = network.margins_of(output)
            imaginary = np.where(single, 0.0, weights.mid[:, planes[:, 1]])
            margins.append((weights.mid[:, planes[:, 0]] - 1j * imaginary)[rivals])
            radius = weights.off[:, planes[:, 0]] + weights.off[:, planes[:, 1]]
            slack.append(radius[rivals] * (1 + _ROUGH) + TINY)
            rows += [q] * (classes - 1)
        # conj(m) v for tracked planes, |m| |h| for the others, and what rounding may change
        self.rows = np.array(rows, dtype=np.int64)
        weights, wide = np.concatenate(margins), np.concatenate(slack)
        self.leads = np.where(tracked, weights * vectors[self.rows], 0.0)
        self.sizes = (np.abs(weights) + wide) * (1 + _ROUGH) * np.where(tracked, np.abs(vectors[self.rows]), 0.0)
        self.rough = (wide * np.abs(vectors[self.rows]) * (1 + _ROUGH) + _ROUGH * self.sizes) * tracked
        self.others = (np.abs(weights) + wide) * (1 + _ROUGH) * np.where(tracked, 0.0, np.abs(initial))
        self.turns, self.growth, self.tracked = np.where(tracked, turns, 1.0), growth, tracked
        self.eta, self.terms = eta, hidden + len(eta) + 16
        self.blur = blur
        self.most = np.abs(eta).max(axis=0) * (1 + _ROUGH) + _ROUGH + blur

    def length(self, shortest: int, most: int) -> int | None:
        """Return up to which length all margins are positive; None if not even that of the shortest words."""
        proven, begin = None, 0
        pairs, edges = len(self.rows), len(self.eta)
        if not pairs:
            return most
        chunk = max(1, min(_CHUNK, _NUMBERS // max(1, pairs * max(edges, len(self.turns)))))
        while begin < most:
            times = np.arange(begin, min(begin + chunk, most), dtype=np.float64)
            right = self._right(times)
            wrong = np.flatnonzero(~right & (times >= shortest))
            if len(wrong):
                last = begin + int(wrong[0]) - 1
                return last if last >= shortest else None
            proven, begin = begin + len(times) - 1, begin + len(times)
        return proven if proven is not None and proven >= shortest else None

    def _right(self, times: Float[np.ndarray, " time"]) -> Bool[np.ndarray, " time"]:
        # a power of a number off by a few units of rounding is off by its exponent times as many
        powers = _powers(self.turns, times)
        sizes = np.abs(powers) * (1 + _ROUGH * (times[:, None] + 2))
        spread = times[:, None] * self.most
        beyond = np.where(spread < 2.9, spread**2 / 2 / (1 - np.minimum(spread, 2.9) / 3), np.inf) * (1 + _ROUGH)
        first = self.leads[None] * powers[:, None]
        margin = np.real(first).sum(axis=2)
        if self.eta.size * len(self.rows) > _NUMBERS:
            # the worst symbol of each plane by itself
            change = -times[:, None] * (sizes[:, None] * self.sizes * self.most).sum(axis=2)
        else:
            change = times[:, None] * np.real(first @ self.eta.T).min(axis=2)
        # what the sum of all eta may be off by besides
        blurred = times[:, None] * self.blur
        lost = (sizes[:, None] * (self.sizes * (beyond + blurred)[:, None] + self.rough)).sum(axis=2)
        # a sum of products, and powers that are off
        total = (sizes[:, None] * self.sizes).sum(axis=2)
        drifted = 1 + times[:, None] * float(self.most[self.tracked].max())
        rounding = _ROUGH * (times[:, None] + self.terms) * drifted * total
        grown = _powers(self.growth, times) * (1 + _ROUGH * (times[:, None] + 2))
        rest = (self.others[None] * grown[:, None]).sum(axis=2)
        least = margin + change - (lost + rounding + rest) * (1 + _ROUGH * self.terms)
        return (least > TINY).all(axis=1)


def _powers(bases: np.ndarray, times: Float[np.ndarray, " time"]) -> np.ndarray:
    """Return powers for consecutive exponents, by products alone: off by a few units of rounding for each factor."""
    made = np.ones((1, len(bases)), dtype=bases.dtype)
    square = bases
    while len(made) < len(times):
        made, square = np.concatenate([made, made * square]), square * square
    first, exponent, square = np.ones_like(bases), int(times[0]), bases
    while exponent:
        if exponent & 1:
            first = first * square
        square, exponent = square * square, exponent >> 1
    return made[: len(times)] * first
