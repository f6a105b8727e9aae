"""Search for cones around the states of a robust network. Nothing here is trusted: `cones` proves what is found.

After a few symbols the direction of the hidden state depends on these alone, up to sign. Around the mean direction of
each node a cone is laid, whose axis is read by the functional that long products share, and whose width is the error
that one symbol adds, summed up with what the next ones leave of it. If that is not enough, gradient descent on the
cones' matrices makes the least eigenvalue larger.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.theory.certify.cones import Cones
from statewise.theory.certify.enclosures import Enclosed
from statewise.theory.certify.frame_search import Sampled, leading_functionals, metric_of

_MAX_NODES, _MAX_PAST = 300, 4
_WIDTHS = (1.1, 1.5, 2.0, 3.0)
_SHARES = np.linspace(0.02, 0.98, 25)
# products of matrices that gradient descent may take, as steps times edges times H^3
_WORK, _MAX_STEPS, _RATE = 4e10, 400, 4e-3


def search_cones(
    network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"], seed: int = 0, pairs: int = 700
) -> Iterator[Cones]:
    """Yield cones to try, few nodes first; by construction, then by gradient descent.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        legal: which symbols may follow which states.
        seed: of the words that are drawn.
        pairs: how many edges between cones to have, and steps to descend, at most; each edge costs an eigenproblem of
            the hidden size.
    """
    sampled = Sampled(network, machine, legal, seed)
    ways = []
    for past in range(_MAX_PAST + 1):
        nodes = machine.states * machine.symbols**past
        if nodes > _MAX_NODES or nodes * machine.symbols > pairs:
            break
        way = _Way(network, machine, legal, sampled, past)
        if not way.fine:
            continue
        ways.append(way)
        for width in _WIDTHS:
            found = way.cones(way.built(width))
            if found is not None:
                yield found
                break
    for way in ways:
        found = way.descend(min(_MAX_STEPS, pairs))
        if found is not None:
            yield found


class _Way:
    """The nodes and edges of one length of the past, and cones around their mean directions."""

    def __init__(
        self,
        network: Enclosed,
        machine: Machine,
        legal: Bool[np.ndarray, "state symbol"],
        sampled: Sampled,
        past: int,
    ) -> None:
        self.past, self.symbols, self.hidden = past, machine.symbols, network.hidden
        pasts = machine.symbols**past
        self.shape = (machine.states, pasts)
        means = sampled.means(machine, past).reshape(-1, network.hidden)
        self.nodes: Int[np.ndarray, " node"] = np.flatnonzero(np.abs(means).max(axis=1) > 0)
        place = np.full(len(means), -1)
        place[self.nodes] = np.arange(len(self.nodes))
        self.vectors = means[self.nodes]
        states, ends = np.divmod(self.nodes, pasts)
        self.outputs = machine.outputs[states]
        here, symbols = np.nonzero(legal[states])
        there = machine.delta[states[here], symbols] * pasts + (ends[here] * machine.symbols + symbols) % pasts
        self.here, self.edge_symbols, self.there = here, symbols, place[there]
        self.matrices = network.matrices.mid
        self.readout = network.readout.mid
        # what long products read, with the sign that they have at a node
        read = leading_functionals(self.matrices)
        self.functionals = np.sign(self.vectors @ read.T) @ read
        leads = (self.functionals * self.vectors).sum(axis=1)
        self.fine = bool((self.there >= 0).all() and (np.abs(leads) > 1e-9).all())
        if not self.fine:
            return
        self.functionals = self.functionals / leads[:, None]
        # coordinates of what functionals hardly read, in which errors shrink
        self.across = np.linalg.svd(self.functionals * np.abs(leads)[:, None])[2][1:]
        self.scales = np.einsum("eh,ehk,ek->e", self.functionals[self.there], self._edge_matrices, self.vectors[here])
        self.fine = bool((self.scales > 1e-9).all())

    @property
    def _edge_matrices(self) -> Float[np.ndarray, "edge out in"]:
        return self.matrices[self.edge_symbols]

    def built(self, width: float) -> Float[np.ndarray, "node row hidden"]:
        """Return W of each node: the functional, and the rest, in units of the errors that gather there."""
        beside = [
            np.einsum("rh,hk,sk->rs", self.across, matrix, self.across) / self.scales[self.edge_symbols == a].mean()
            for a, matrix in enumerate(self.matrices)
            if (self.edge_symbols == a).any()
        ]
        metric = metric_of(np.stack(beside), 30)
        coordinates = metric @ self.across
        onto = np.eye(self.hidden)[None] - self.vectors[:, :, None] * self.functionals[:, None, :]
        rest = coordinates[None] @ onto
        moved = np.einsum("ehk,ek->eh", self._edge_matrices, self.vectors[self.here])
        errors = np.linalg.norm(np.einsum("erh,eh->er", rest[self.there], moved), axis=1) / self.scales
        inverse = np.linalg.pinv(coordinates)
        shrinks = np.linalg.norm(rest[self.there] @ self._edge_matrices @ inverse, ord=2, axis=(1, 2)) / self.scales
        radii = np.zeros(len(self.nodes))
        for _ in range(200):
            gathered = errors + np.minimum(shrinks, 0.995) * radii[self.here]
            after = np.zeros_like(radii)
            np.maximum.at(after, self.there, gathered)
            radii = after
        radii = np.maximum(radii, 1e-6) * width
        return np.concatenate([self.functionals[:, None], rest / radii[:, None, None]], axis=1)

    def cones(self, rows: Float[np.ndarray, "node row hidden"]) -> Cones | None:
        """Return cones with the best factors; None where some edge or answer has none."""
        try:
            inverse = np.linalg.inv(rows)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(inverse).all():
            return None
        moved = rows[self.there] @ self._edge_matrices @ inverse[self.here]
        moved = moved / np.abs(moved[:, :1, :1])
        signs = np.diag([1.0] + [-1.0] * (self.hidden - 1))
        base = moved.swapaxes(1, 2) @ signs @ moved
        best, shares = np.full(len(base), -np.inf), np.zeros(len(base))
        for share in _SHARES:
            least = np.linalg.eigvalsh(base - share * signs)[:, 0]
            better = least > best
            best, shares = np.where(better, least, best), np.where(better, share, shares)
        own = self.readout[self.outputs]
        margins = np.einsum("nch,nhk->nck", own[:, None] - self.readout[None], inverse)
        spare = margins[..., 0] ** 2 - (margins[..., 1:] ** 2).sum(axis=-1)
        rivals = np.arange(len(self.readout))[None] != self.outputs[:, None]
        if not (best > 0).all() or not ((spare > 0) & (margins[..., 0] > 0))[rivals].all():
            return None
        # from the edge's own scale back to that of the matrices
        scales = (rows[self.there] @ self._edge_matrices @ inverse[self.here])[:, 0, 0] ** 2
        factors = np.zeros((len(self.nodes), self.symbols))
        factors[self.here, self.edge_symbols] = shares * scales
        return Cones(
            self.past,
            self._spread(rows),
            self._spread(inverse[:, :, 0].copy()),
            self._spread(factors),
            self._spread(np.where(rivals, spare / 2, 0.0)),
        )

    def _spread(self, values: np.ndarray) -> np.ndarray:
        made = np.zeros((self.shape[0] * self.shape[1], *values.shape[1:]))
        made[self.nodes] = values
        return made.reshape(*self.shape, *values.shape[1:])

    def descend(self, most: int) -> Cones | None:
        """Widen and turn cones by gradient descent, until every edge and every answer has room; None if that fails."""
        steps = min(most, int(_WORK / (len(self.here) * self.hidden**3)))
        start = self.built(1.5)
        if steps < 20 or not np.isfinite(start).all():
            return None
        matrices, readout = torch.from_numpy(self._edge_matrices), torch.from_numpy(self.readout)
        here, there, outputs = (torch.from_numpy(part) for part in (self.here, self.there, self.outputs))
        rows = torch.from_numpy(np.linalg.inv(start)).requires_grad_()
        logs = torch.full((len(here),), -0.5, dtype=torch.float64, requires_grad=True)
        signs = torch.diag(torch.tensor([1.0] + [-1.0] * (self.hidden - 1), dtype=torch.float64))
        rivals = torch.arange(len(readout))[None] != outputs[:, None]
        adam = torch.optim.Adam([{"params": [rows], "lr": _RATE}, {"params": [logs], "lr": 2e-2}])
        for step in range(steps):
            moved = torch.linalg.solve(rows[there], matrices @ rows[here])
            first = moved[:, 0, 0]
            moved = moved / first.abs()[:, None, None]
            least = torch.linalg.eigvalsh(moved.mT @ signs @ moved - logs.exp()[:, None, None] * signs)[:, 0]
            margins = torch.einsum("nch,nhk->nck", readout[outputs][:, None] - readout[None], rows)
            shares = margins[..., 1:].norm(dim=-1) / margins[..., 0].clamp(min=1e-9)
            narrow = torch.where(rivals, shares.clamp(max=5.0), 0.0)
            lowest, widest, slowest = (float(v.detach()) for v in (least.min(), narrow.max(), first.min()))
            if step % 10 == 0 and lowest > 1e-5 and widest < 0.999 and slowest > 0:
                found = self.cones(np.linalg.inv(rows.detach().numpy()))
                if found is not None:
                    return found
            loss = torch.logsumexp(-60 * least, 0) / 60
            loss = loss + 2 * torch.relu(torch.logsumexp(60 * narrow.flatten(), 0) / 60 - 0.97)
            loss = loss + 10 * torch.relu(-first.min())
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_([rows], 1.0)
            adam.step()
        return self.cones(np.linalg.inv(rows.detach().numpy()))
