"""All lengths for robust machines, as trained: cones that every symbol carries into each other.

A node x is a machine state together with the last few symbols. Its cone is

    C_x = { h : w_0 h > 0, h^T P_x h >= 0 },    P_x = w_0^T w_0 - w_1^T w_1 - w_2^T w_2 - ...,

w_0, w_1, ... the rows of a matrix W_x. If, for every symbol that leads from x to y, some mu > 0 makes
A^T P_y A - mu P_x positive definite, then h in C_x implies (A h)^T P_y (A h) > mu h^T P_x h >= 0, so that w_0 A h,
with the w_0 of y, is not 0. C_x is convex, hence connected, and w_0 A h has one sign on it: that at a single point of
C_x. So the symbol carries C_x into C_y. In the same way m^T m - tau P_x > 0, and m h > 0 at that point, show that a
difference m of logits is positive on all of C_x. If all words of some length lie in their cones, and all shorter ones
are answered correctly, so are all words.

A symmetric matrix S is positive definite if, for some L and c > 0, |S - c I - L L^T| < c in the Frobenius norm.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.theory.balls import Balls
from statewise.theory.certify.burn_in import Layer, answered_right, layers
from statewise.theory.certify.enclosures import QUIET, Enclosed, frobenius, lowered, raised, transposed


@dataclass(frozen=True, eq=False)
class Cones:
    """Cones, found by a search that nobody needs to trust.

    Args:
        past: how many last symbols a node has beside its machine state.
        rows: W for each state and past; all 0 for a node that no word leads to.
        points: a point of each cone.
        factors: mu, for each state, past and symbol.
        shares: tau, for each state, past and class.
    """

    past: int
    rows: Float[np.ndarray, "state past row hidden"]
    points: Float[np.ndarray, "state past hidden"]
    factors: Float[np.ndarray, "state past symbol"]
    shares: Float[np.ndarray, "state past class"]


@dataclass(frozen=True, eq=False)
class ConeProof:
    """All words of at least `shortest` symbols are answered correctly.

    Args:
        cones: what every symbol carries into each other.
        burn_in: all words of so many symbols lie in their cones, and shorter ones were followed one by one.
        shortest: words of fewer symbols are not judged.
    """

    cones: Cones
    burn_in: int
    shortest: int


@QUIET
def prove_cones(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], shortest: int, cones: Cones
) -> ConeProof | None:
    """Prove that a network is correct on all words of at least `shortest` symbols, or return None."""
    forms = _forms(cones)
    if not _answered(network, machine, cones, forms) or not _carried(network, machine, legal, cones, forms):
        return None
    for layer in layers(network, machine, legal):
        if layer.length >= shortest and not answered_right(network, machine, layer):
            return None
        if layer.length >= max(cones.past, shortest) and _inside(machine, cones, layer):
            return ConeProof(cones, layer.length, shortest)
    return None


def live(cones: Cones) -> Bool[np.ndarray, "state past"]:
    """Return which nodes have a cone."""
    return np.abs(cones.rows).max(axis=(2, 3)) > 0


def edges(
    machine: Machine, legal: Bool[np.ndarray, "state symbol"], cones: Cones
) -> list[tuple[tuple[int, int], int, tuple[int, int]]]:
    """Return all (node, symbol, node) that words go through."""
    pasts = cones.rows.shape[1]
    return [
        ((q, p), a, (int(machine.delta[q, a]), (p * machine.symbols + a) % pasts))
        for q, p in np.argwhere(live(cones)).tolist()
        for a in np.flatnonzero(legal[q]).tolist()
    ]


def _forms(cones: Cones) -> Balls:
    """Return P of each node."""
    rows = Balls.exactly(cones.rows)
    signs = np.ones((cones.rows.shape[2], 1))
    signs[1:] = -1.0
    return transposed(rows) @ Balls.exactly(cones.rows * signs)


@QUIET
def positive_definite(matrix: Balls) -> bool:
    """Return whether a symmetric matrix, known up to radii, is certainly positive definite."""
    middle = (matrix.mid + matrix.mid.T) / 2
    if not np.isfinite(middle).all():
        return False
    least = float(np.linalg.eigvalsh(middle)[0])
    if not least > 0:
        return False
    shift, eye = least / 2, np.eye(len(middle))
    try:
        factor = np.linalg.cholesky(middle - shift * eye)
    except np.linalg.LinAlgError:
        return False
    lower = Balls.exactly(factor)
    off = (matrix - shift * eye) - lower @ lower.T
    return bool(frobenius(off) < shift)


def _answered(network: Enclosed, machine: Machine, cones: Cones, forms: Balls) -> bool:
    """Return whether every point of every cone is answered correctly."""
    for q, p in np.argwhere(live(cones)).tolist():
        weights, rivals = network.margins_of(int(machine.outputs[q]))
        point = Balls.exactly(cones.points[q, p][:, None])
        if not _in_cone(cones.rows[q, p], cones.points[q, p][None], np.zeros(1)).all():
            return False
        for c in np.flatnonzero(rivals).tolist():
            row, share = weights[c][None], float(cones.shares[q, p, c])
            lead = (row @ point)[0]
            if not (share > 0 and lowered(lead.mid, 1) > raised(lead.off, 1)):
                return False
            if not positive_definite(row.T @ row - forms[q, p] * np.array(share)):
                return False
    return True


def _carried(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], cones: Cones, forms: Balls
) -> bool:
    """Return whether every symbol carries every cone into the next one."""
    reached = live(cones)
    for here, symbol, there in edges(machine, legal, cones):
        if not reached[there]:
            return False
        matrix, factor = network.matrices[symbol], float(cones.factors[(*here, symbol)])
        moved = (Balls.exactly(cones.rows[there][:1]) @ matrix) @ Balls.exactly(cones.points[here][:, None])
        if not (factor > 0 and lowered(moved.mid[0, 0], 1) > raised(moved.off[0, 0], 1)):
            return False
        if not positive_definite(matrix.T @ (forms[there] @ matrix) - forms[here] * np.array(factor)):
            return False
    return True


def _in_cone(
    rows: Float[np.ndarray, "row hidden"], h: Float[np.ndarray, "word hidden"], off: Float[np.ndarray, " word"]
) -> Bool[np.ndarray, " word"]:
    """Return which states, known up to a distance, lie in a cone for certain."""
    seen = Balls.exactly(h) @ Balls.exactly(rows).T
    reach = np.sqrt(raised((rows * rows).sum(axis=1), rows.shape[1]))
    wide = raised(seen.off + off[:, None] * raised(reach, 2), 2)
    first = lowered(np.maximum(seen.mid[:, 0], 0.0), 1) - wide[:, 0]
    across = raised(np.abs(seen.mid[:, 1:]) + wide[:, 1:], 1)
    size = raised(np.sqrt(raised((across * across).sum(axis=1), rows.shape[0])), 2)
    return lowered(np.maximum(first, 0.0), 1) > size


def _inside(machine: Machine, cones: Cones, layer: Layer) -> bool:
    """Return whether all words of a layer lie in their cones."""
    pasts = cones.rows.shape[1]
    nodes: Int[np.ndarray, " word"] = layer.states * pasts + layer.pasts % pasts
    reached = live(cones)
    for node in np.unique(nodes).tolist():
        q, p = divmod(node, pasts)
        rows = nodes == node
        if not reached[q, p] or not _in_cone(cones.rows[q, p], layer.h[rows], layer.off[rows]).all():
            return False
    return True
