"""What of a trained hidden state follows the answers: its coherent functionals, and the network that they span.

A functional y is coherent if y . h_w is nearly the same for all sequences w of one label. If labels determine the
labels of continuations, y A_a is coherent too: coherent functionals Y span a quotient of the network, Y A_a = B_a Y,
and whatever else the hidden state holds is left behind. They are the eigenvectors of the scatter within labels,
relative to all scatter, of small eigenvalue: the square of a functional's spread.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.theory.polish.automaton import TrainedAutomaton, as_given
from statewise.theory.polish.factors import Factors
from statewise.theory.polish.least_squares import Parameters
from statewise.theory.polish.sequences import Labelled
from statewise.transitions import CP, Full, Rotation

# directions of less than this share of the largest scatter hold nothing
_EMPTY = 1e-8


@dataclass(frozen=True)
class Piece:
    """One block of a network, reduced to what follows the answers: where a solver begins.

    Args:
        parameters: of the block's matrices.
        dense: makes the matrices from them.
        initial: its first state.
        prototypes: the mean state of each label.
        factors: of a CP-factored network, those near which the factors of the solved matrices are.
    """

    parameters: Parameters
    dense: Callable[..., Tensor]
    initial: Float[Tensor, " size"]
    prototypes: Float[Tensor, "label size"]
    factors: Factors | None = None


class Visits:
    """The directions of a network's blocks after every prefix of labelled sequences.

    Args:
        trained: the network.
        data: the sequences.
        labels: how many labels there are.
        joint: whether the state is divided by its norm as a whole, so that the sizes of blocks can tell labels apart;
            otherwise each block is divided by its own.
    """

    def __init__(self, trained: TrainedAutomaton, data: Labelled, labels: int, joint: bool = False) -> None:
        self.trained, self.data = trained, data
        whole = isinstance(trained.transition, Full | CP)
        self.blocks = trained.matrices.unsqueeze(1) if whole else trained.transition.blocks(trained.coefficients)
        count, size = self.blocks.shape[1:3]
        over = (-2, -1) if joint else (-1,)

        def unit(values: Tensor) -> Tensor:
            return values / values.square().sum(dim=over, keepdim=True).sqrt().clamp(min=1e-300)

        self.initial = unit(trained.initial.view(count, size))
        h, states, seen = self.initial.expand(len(data.tokens), count, size), [], []
        for t in range(data.tokens.shape[1]):
            following = torch.empty_like(h)
            for symbol in data.tokens[:, t].unique().tolist():
                rows = data.tokens[:, t] == symbol
                following[rows] = torch.einsum("nij,wnj->wni", self.blocks[symbol], h[rows])
            h = unit(following)
            rows = data.path[:, t] >= 0
            states.append(h[rows])
            seen.append(data.path[rows, t])
        self.states: Float[Tensor, "visit block size"] = torch.cat(states)
        self.labels: Int[Tensor, " visit"] = torch.cat(seen)
        self.counts = torch.bincount(self.labels, minlength=labels)

    def means(self, values: Float[Tensor, "visit size"]) -> Float[Tensor, "label size"]:
        """Return the mean of each label's visits."""
        total = torch.zeros(len(self.counts), values.shape[1], dtype=values.dtype).index_add_(0, self.labels, values)
        return total / self.counts.clamp(min=1).unsqueeze(1)

    def spread(self, block: int) -> float:
        """Return how far the states of a block are from the means of their labels, as a share of their size."""
        states = self.states[:, block]
        away = (states - self.means(states)[self.labels]).square().sum()
        return float((away / states.square().sum()).sqrt())

    def functionals(self, block: int) -> tuple[Float[Tensor, "rank size"], Float[Tensor, " rank"], Tensor]:
        """Return functionals of a block, the most coherent first, their spreads, and all scatter of the block."""
        states = self.states[:, block]
        away = states - self.means(states)[self.labels]
        within, all_scatter = away.T @ away / len(states), states.T @ states / len(states)
        sizes, axes = torch.linalg.eigh(all_scatter)
        kept = sizes > _EMPTY * sizes[-1]
        whiten = axes[:, kept] / sizes[kept].sqrt()
        squares, turned = torch.linalg.eigh(whiten.T @ within @ whiten)
        return (whiten @ turned).T, squares.clamp(min=0.0).sqrt(), all_scatter

    def piece(
        self,
        block: int,
        functionals: Float[Tensor, "rank size"],
        scatter: Tensor,
        edges: Int[Tensor, "edge 3"],
        start: int,
    ) -> Piece:
        """Reduce a block to some of its functionals.

        Args:
            block: which one.
            functionals: Y, with Y (scatter) Y^T the identity.
            scatter: of the block.
            edges: which label follows which, as `transitions` returns them.
            start: the label of the empty sequence; -1 where it is not known.
        """
        transition, matrices = self.trained.transition, self.blocks[:, block]
        if isinstance(transition, Rotation):
            return self._rotation(block, start)
        back = scatter @ functionals.T
        inside = self.states[:, block] @ functionals.T
        initial, prototypes = self._anchored(functionals @ self.initial[block], self.means(inside), start)
        projected = functionals @ matrices @ back
        # each symbol's gain is divided out: answers do not see it, and coincidence would
        sizes = inside.norm(dim=1).mean()
        gains = torch.stack([(inside @ matrix.T).norm(dim=1).mean() / sizes for matrix in projected])
        gains = gains.clamp(min=1e-12)
        fitted = _fitted(projected / gains.view(-1, 1, 1), prototypes, edges)
        factors = None
        if isinstance(transition, CP):
            gate = self.trained.coefficients / gains.unsqueeze(1)
            factors = Factors(functionals @ transition.left, gate, back.T @ transition.right)
        return Piece((fitted,), as_given, initial, prototypes, factors)

    def _anchored(self, initial: Tensor, prototypes: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Make the first state and the prototype of its label one: the mean of its visits, where there are any."""
        if start >= 0 and int(self.counts[start]):
            return prototypes[start].clone(), prototypes
        if start >= 0:
            prototypes[start] = initial
        return initial, prototypes

    def _rotation(self, block: int, start: int) -> Piece:
        initial, prototypes = self._anchored(self.initial[block], self.means(self.states[:, block]), start)
        angles = self.trained.coefficients[:, block].clone()
        return Piece((angles,), dense_rotation, initial, prototypes)


def transitions(data: Labelled, start: int) -> Int[Tensor, "edge 3"]:
    """Return which label follows which, by symbol: rows of (label, symbol, following label).

    Args:
        data: the sequences.
        start: the label of the empty sequence; -1 where it is not known.
    """
    before = torch.cat([torch.full_like(data.path[:, :1], start), data.path[:, :-1]], dim=1)
    edges = torch.stack([before, data.tokens, data.path], dim=2).flatten(0, 1)
    return edges[(edges[:, 0] >= 0) & (edges[:, 2] >= 0)].unique(dim=0)


def _fitted(
    matrices: Float[Tensor, "symbol out in"], prototypes: Float[Tensor, "label in"], edges: Int[Tensor, "edge 3"]
) -> Float[Tensor, "symbol out in"]:
    """Return the matrices that carry prototypes into each other best; as given where a symbol is not seen."""
    fitted = matrices.clone()
    for symbol in range(len(matrices)):
        of_symbol = edges[edges[:, 1] == symbol]
        if len(of_symbol):
            before, after = prototypes[of_symbol[:, 0]], prototypes[of_symbol[:, 2]]
            fitted[symbol] = (torch.linalg.pinv(before, rtol=1e-6) @ after).T
    return fitted


def dense_rotation(angles: Float[Tensor, " symbol"]) -> Float[Tensor, "symbol 2 2"]:
    """Return the rotations of one plane."""
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)], dim=-2)
