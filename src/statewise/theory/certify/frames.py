"""How errors grow from symbol to symbol, block by block: horizons of networks as they were trained.

Each machine state q has a vector v_q, and h = c (v_q + e) with c > 0. In coordinates z = T e, whose entries are sorted
into blocks, one symbol makes of it, for every s > 0,

    A v_q = s v_q' + r,    z'_b = (T r)_b / s + sum_c (T A T^-1)_bc z_c / s,

so that X_b >= |z_b| is carried to rho_b + sum_c M_bc X_c, for each state by itself. The answer is correct while
sum_b |m T^-1|_b X_b < m v_q for the differences m of readout rows. Blocks keep apart what a single norm mixes: what is
tracked, which hardly grows, and what is forgotten; or the planes of rotations, which turn each by itself.

Vectors may depend on the last symbols that were read, coordinates on those and on the next ones. Trained networks need
that: what a symbol writes beside the tracked directions depends on the symbol, and so does what the next symbol reads.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.theory.balls import TINY, Balls
from statewise.theory.certify.burn_in import Layer
from statewise.theory.certify.enclosures import (
    QUIET,
    Enclosed,
    Floats,
    frobenius,
    gamma,
    length_bound,
    lowered,
    norm_bound,
    raised,
    vanishing,
)

Norm = Literal["euclid", "sum"]
# entries below this are there for underflow alone
_NOTHING = 2.0**-900


@dataclass(frozen=True, eq=False)
class Frames:
    """Vectors and coordinates, found by a search that nobody needs to trust.

    A mode is a past and a future: the last `past` symbols and the next `future` symbols, as numbers in base K.

    Args:
        past: how many last symbols vectors and coordinates depend on.
        future: how many next symbols coordinates depend on.
        vectors: v_q of each state and past.
        into: T of each mode, (past, future) with futures fastest.
        back: S, nearly a left inverse: S T = I up to rounding.
        blocks: where each block of entries begins, and where the last one ends.
        norms: the norm of each block.
    """

    past: int
    future: int
    vectors: Float[np.ndarray, "state past hidden"]
    into: Float[np.ndarray, "mode entry hidden"]
    back: Float[np.ndarray, "mode hidden entry"]
    blocks: tuple[int, ...]
    norms: tuple[Norm, ...]

    @property
    def slices(self) -> list[slice]:
        """The entries of each block."""
        return [slice(*ends) for ends in zip(self.blocks[:-1], self.blocks[1:], strict=True)]

    def sizes(self, rows: Balls) -> Float[np.ndarray, "*rows block"]:
        """Bound the norms of the blocks of vectors of coordinates."""
        most = rows.largest()
        parts = [self._size(most[..., part], norm) for part, norm in zip(self.slices, self.norms, strict=True)]
        return np.stack(parts, axis=-1)

    def dual_sizes(self, rows: Balls) -> Float[np.ndarray, "*rows block"]:
        """Bound the dual norms of the blocks of functionals."""
        dual = {"euclid": length_bound, "sum": lambda most: most.max(axis=-1, initial=0.0)}
        most = rows.largest()
        parts = [dual[norm](most[..., part]) for part, norm in zip(self.slices, self.norms, strict=True)]
        return np.stack(parts, axis=-1)

    def factors(self, matrices: Balls) -> Float[np.ndarray, "*batch to from"]:
        """Bound the norms of the blocks of matrices of coordinates."""
        found = np.zeros((*matrices.mid.shape[:-2], len(self.norms), len(self.norms)))
        for i, to in enumerate(self.slices):
            for j, of in enumerate(self.slices):
                most = matrices.largest()[..., to, of]
                if most.max(initial=0.0) < _NOTHING:
                    # sums of absolute values bound every norm
                    found[..., i, j] = raised(most.sum(axis=(-2, -1)), most.shape[-2] * most.shape[-1])
                    continue
                found[..., i, j] = self._factor(matrices[..., to, of], self.norms[i], self.norms[j])
        return found

    @staticmethod
    def _size(most: Floats, norm: Norm) -> Floats:
        return length_bound(most) if norm == "euclid" else raised(most.sum(axis=-1), most.shape[-1])

    @staticmethod
    def _factor(matrices: Balls, to: Norm, of: Norm) -> Floats:
        if of == "sum":
            # the unit ball is spanned by unit vectors, which are carried to columns
            return Frames._size(matrices.largest().swapaxes(-1, -2), to).max(axis=-1, initial=0.0)
        if to == "euclid":
            return norm_bound(matrices)
        rows = length_bound(matrices.largest())
        return raised(rows.sum(axis=-1), rows.shape[-1])


@dataclass(frozen=True, eq=False)
class Growth:
    """Proven constants of frames: one row for each edge (state, mode) -> (state, mode) of a symbol.

    Args:
        frames: what the constants are about.
        modes: how many modes there are.
        source: the node, state * modes + mode, that an edge leaves.
        target: the node that it leads to.
        added: rho, for each block.
        factors: M, for each pair of blocks.
        leads: m v_q for each state, past and rival, from below; infinite for the class itself.
        duals: |m T^-1|_b for each state, mode, rival and block.
        inverse: for each mode, a bound on |T^-1 - S| against |S|.
        unit: the relative rounding error of the runs that are judged; 0 for exact arithmetic.
    """

    frames: Frames
    modes: int
    source: Int[np.ndarray, " edge"]
    target: Int[np.ndarray, " edge"]
    added: Float[np.ndarray, "edge block"]
    factors: Float[np.ndarray, "edge to from"]
    leads: Float[np.ndarray, "state past class"]
    duals: Float[np.ndarray, "state mode class block"]
    inverse: Float[np.ndarray, " mode"]
    unit: float

    def safe(self, bounds: Float[np.ndarray, "node block"]) -> bool:
        """Return whether all states that are reached are answered correctly; a bound below 0 marks one that is not."""
        states, classes, blocks = self.duals.shape[0], self.duals.shape[2], self.duals.shape[3]
        per_state = bounds.reshape(states, self.modes, blocks)
        futures = self.modes // self.leads.shape[1]
        turned = raised((self.duals * per_state[:, :, None]).sum(axis=-1), blocks)
        leads = np.repeat(self.leads, futures, axis=1)
        right = (turned < leads).all(axis=2).reshape(states, -1, futures)
        reached = (per_state >= 0).all(axis=2).reshape(states, -1, futures)
        assert classes == self.leads.shape[2]
        # the error is one, whichever symbol comes next: any of the bounds will do
        return bool((right.any(axis=2) | ~reached.any(axis=2)).all())

    @QUIET
    def step(self, bounds: Float[np.ndarray, "node block"]) -> Float[np.ndarray, "node block"]:
        """Carry bounds over one symbol."""
        before = bounds[self.source]
        live = (before >= 0).all(axis=1)
        blocks = bounds.shape[1]
        after = raised(self.added[live] + np.einsum("eij,ej->ei", self.factors[live], before[live]), blocks + 1)
        made = np.full_like(bounds, -1.0)
        # what is not a number must not be passed over by a maximum
        np.maximum.at(made, self.target[live], np.where(np.isnan(after), np.inf, after))
        return made


@QUIET
def growth(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], frames: Frames, unit: float = 0.0
) -> Growth | None:
    """Prove the constants of frames; None where a vector is answered wrong, or nothing is bounded."""
    symbols, hidden = machine.symbols, network.hidden
    pasts, futures = symbols**frames.past, symbols**frames.future
    modes = pasts * futures
    into, back = Balls.exactly(frames.into), Balls.exactly(frames.back)
    # e = (I - E)^-1 S z with E = I - S T, and |(I - E)^-1 - I| <= |E| / (1 - |E|)
    plain = np.eye(hidden)
    if _permutes(frames):
        defect = np.zeros(modes)
    else:
        defect = frobenius(Balls.exactly(np.broadcast_to(plain, (modes, hidden, hidden))) - back @ into)
    if not (defect < 0.25).all():
        return None
    inverse = raised(defect / (1 - defect), 2)
    spread = length_bound(frames.back, (-2, -1))
    # norms that are sums of absolute values exceed Euclidean ones by the root of the number of entries at most
    widest = raised(np.array(math.sqrt(frames.into.shape[1])), 2)
    found = _leads(network, machine, frames, inverse, unit)
    if found is None:
        return None
    leads, duals = found
    run = gamma(hidden + 2, unit)
    source, target, added, factors = [], [], [], []
    states = np.arange(machine.states)
    # T A of each mode and symbol serves all modes from which the symbol leads there
    products: dict[tuple[int, int], Balls] = {}
    for past in range(pasts):
        for future in range(futures):
            mode = past * futures + future
            of = [future * symbols // futures] if frames.future else range(symbols)
            for symbol in of:
                live = legal[states, symbol] & (np.abs(frames.vectors[:, past]).max(axis=1) > 0)
                if not live.any():
                    continue
                new_past = (past * symbols + symbol) % pasts
                rest = [(future * symbols + n) % futures for n in range(symbols)] if frames.future else [0]
                to_modes = [new_past * futures + each for each in rest]
                moved = _moved(network, machine, frames, past, symbol, states[live], new_past, unit)
                if moved is None:
                    return None
                scales, residues, reach = moved
                matrix = network.matrices[symbol]
                sizes = matrix.largest() + vanishing(hidden, unit)
                for to in to_modes:
                    if (to, symbol) not in products:
                        products[to, symbol] = into[to] @ matrix
                    turned = products[to, symbol]
                    factor = frames.factors(turned @ back[mode])
                    slack = inverse[mode] * float(frobenius(turned)) * float(spread[mode]) * widest
                    rho = frames.sizes(residues @ into[to].T)
                    if unit:
                        left = raised(np.abs(frames.into[to]) @ sizes, hidden)
                        rough = Balls.exactly(left @ np.abs(frames.back[mode]))
                        extra = inverse[mode] * length_bound(left, (-2, -1)) * spread[mode] * widest
                        slack = slack + raised(run * (frames.factors(rough) + extra), hidden)
                        rho = rho + raised(run * frames.sizes(Balls.exactly(reach @ np.abs(frames.into[to]).T)), hidden)
                    source.append(states[live] * modes + mode)
                    target.append(machine.delta[states[live], symbol] * modes + to)
                    added.append(raised(rho / scales[:, None], 1))
                    factors.append(raised((factor + slack)[None] / scales[:, None, None], 2))
    if not source:
        return None
    parts = [np.concatenate(each) for each in (source, target, added, factors)]
    if not (np.isfinite(parts[2]).all() and np.isfinite(parts[3]).all()):
        return None
    return Growth(frames, modes, parts[0], parts[1], parts[2], parts[3], leads, duals, inverse, unit)


def read_by(growth: Growth, network: Enclosed, machine: Machine) -> Growth | None:
    """Return the same errors, read by another readout and machine of these states; None if a vector is read wrong."""
    found = _leads(network, machine, growth.frames, growth.inverse, growth.unit)
    return None if found is None else replace(growth, leads=found[0], duals=found[1])


def _permutes(frames: Frames) -> bool:
    """Return whether coordinates are entries of the state, in another order: then S is T^-1 exactly."""
    if frames.into.shape[1] != frames.into.shape[2] or not np.isin(frames.into, (0.0, 1.0)).all():
        return False
    once = (frames.into.sum(axis=1) == 1).all() and (frames.into.sum(axis=2) == 1).all()
    return bool(once and (frames.back == frames.into.swapaxes(1, 2)).all())


def _moved(
    network: Enclosed,
    machine: Machine,
    frames: Frames,
    past: int,
    symbol: int,
    states: Int[np.ndarray, " state"],
    new_past: int,
    unit: float,
) -> tuple[Float[np.ndarray, " state"], Balls, Float[np.ndarray, "state hidden"]] | None:
    """Return s, r = A v_q - s v_q', and a bound on |A| |v_q|, for each state; None where some s is not positive."""
    vectors = Balls.exactly(frames.vectors[states, past])
    matrix = network.matrices[symbol]
    moved = vectors @ matrix.T
    targets = frames.vectors[machine.delta[states, symbol], new_past]
    scales = (moved.mid * targets).sum(axis=1) / (targets * targets).sum(axis=1)
    if not ((scales > 1e-30) & (scales < 1e30)).all():
        return None
    residues = moved - Balls.exactly(targets) * scales[:, None]
    sizes = matrix.largest() + vanishing(network.hidden, unit)
    reach = raised(np.abs(vectors.mid) @ sizes.T, network.hidden) if unit else np.zeros_like(targets)
    return scales, residues, reach


def _leads(
    network: Enclosed, machine: Machine, frames: Frames, inverse: Float[np.ndarray, " mode"], unit: float
) -> tuple[Float[np.ndarray, "state past class"], Float[np.ndarray, "state mode class block"]] | None:
    """Return m v_q from below, and the dual norms of m T^-1 from above; None where a vector is answered wrong."""
    classes, (states, pasts, hidden) = len(network.readout.mid), frames.vectors.shape
    futures = len(frames.into) // pasts
    leads = np.full((states, pasts, classes), np.inf)
    duals = np.zeros((states, len(frames.into), classes, len(frames.norms)))
    run = gamma(hidden + 8, unit)
    by_output = {}
    for output in np.unique(machine.outputs).tolist():
        weights, rivals = network.margins_of(output)
        sizes = raised(network.readout.largest()[output] + network.readout.largest() + vanishing(hidden, unit), 1)
        rows = weights.largest() + raised(run * sizes, 1)
        pulled = [frames.dual_sizes(weights @ Balls.exactly(back)) for back in frames.back]
        rough = [raised(run * frames.dual_sizes(Balls.exactly(sizes @ np.abs(back))), hidden) for back in frames.back]
        lengths = length_bound(frames.back, (-2, -1))
        off = raised(inverse * lengths, 1)[:, None, None] * length_bound(rows)[None, :, None]
        by_output[output] = weights, rivals, sizes, raised(np.stack(pulled) + np.stack(rough) + off, 2)
    for state, output in enumerate(machine.outputs.tolist()):
        weights, rivals, sizes, dual = by_output[output]
        for past in range(pasts):
            vector = frames.vectors[state, past]
            if not np.abs(vector).max() > 0:
                continue
            led = (Balls.exactly(vector[None]) @ weights.T)[0]
            lost = raised(led.off + run * (sizes @ np.abs(vector)), hidden + 2)
            least = lowered(np.maximum(led.mid, 0.0), 1) - lost
            if not (least[rivals] > TINY).all():
                return None
            leads[state, past, rivals] = lowered(least[rivals], 1)
        assert futures * pasts == len(dual)
        duals[state] = dual
        duals[state][:, ~rivals] = 0.0
    return leads, duals


@QUIET
def first_bounds(growth: Growth, layer: Layer) -> Float[np.ndarray, "node block"]:
    """Bound the errors of all words of a layer; infinite where a vector points the other way."""
    frames, modes = growth.frames, growth.modes
    pasts = frames.vectors.shape[1]
    futures = modes // pasts
    made = np.full((len(frames.vectors) * modes, len(frames.norms)), -1.0)
    groups = layer.states * pasts + layer.pasts % pasts
    for group in np.unique(groups).tolist():
        state, past = divmod(group, pasts)
        vector, rows = frames.vectors[state, past], groups == group
        h, off = layer.h[rows], layer.off[rows]
        for future in range(futures):
            mode = past * futures + future
            into = frames.into[mode]
            # the factor that is best in these coordinates; any positive one will do
            target = into @ vector
            scales = h @ (target @ into) / max(float(target @ target), TINY)
            if not (scales > 1e-30).all():
                made[state * modes + mode] = np.inf
                continue
            rest = Balls.exactly(h) - Balls.exactly(np.broadcast_to(vector, h.shape)) * scales[:, None]
            coordinates = Balls.exactly(rest.mid) @ Balls.exactly(into).T
            spreads = [length_bound(into[part], (-2, -1)) for part in frames.slices]
            roots = [math.sqrt(b - a) if norm == "sum" else 1.0 for a, b, norm in _blocks(frames)]
            # what the difference was rounded by is one more distance
            apart = raised(off + length_bound(rest.off), 1)
            wide = raised(apart[:, None] * (np.array(spreads) * np.array(roots)), 3)
            sizes = raised((frames.sizes(coordinates) + wide) / scales[:, None], 2)
            made[state * modes + mode] = sizes.max(axis=0) if np.isfinite(sizes).all() else np.inf
    return made


def _blocks(frames: Frames) -> list[tuple[int, int, Norm]]:
    return [
        (begin, end, norm) for begin, end, norm in zip(frames.blocks[:-1], frames.blocks[1:], frames.norms, strict=True)
    ]
