"""Closure symbol by symbol: B_a v_q = v_p wherever a sequence of label q, continued by symbol a, has label p.

If labels determine the labels of continuations, hidden states coincide along all sequences as soon as they do along
every such edge. Edges are far fewer than sequences, and each is one product: systems are small and well conditioned.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.theory.polish.automaton import as_given
from statewise.theory.polish.least_squares import LeastSquares, Metric, Parameters, lifted

# the share of its mean that is added to each factor of the metric
_FLOOR = 1e-3


class EdgeProblem(LeastSquares):
    """Residuals B_a v_q - v_p over edges, for matrices that are a function of all parameters but the last, v.

    Args:
        edges: rows of (label, symbol, following label), each once.
        dense: makes the matrices of all symbols.
        symbols: how many there are.
        prototypes: one for each label; the one at the start stays as it is, so that not all can shrink.
        start: the label of the empty sequence.
    """

    def __init__(
        self,
        edges: Int[Tensor, "edge 3"],
        dense: Callable[..., Tensor],
        symbols: int,
        prototypes: Float[Tensor, "label in"],
        start: int,
    ) -> None:
        self.dense, labels = dense, len(prototypes)
        self.free = torch.ones(labels, 1, dtype=torch.float64)
        self.free[start] = 0.0
        self.held = prototypes * (1 - self.free)
        counts = torch.bincount(edges[:, 1], minlength=symbols)
        edges = edges[torch.argsort(edges[:, 1], stable=True)]
        before, symbol, after = edges.T
        place = torch.arange(len(edges)) - (counts.cumsum(0) - counts)[symbol]
        # a row for each symbol; places beyond its edges hold label 0 and weigh nothing
        shape = symbols, int(counts.max())
        self.before, self.after = (torch.zeros(shape, dtype=torch.long) for _ in range(2))
        self.weight = torch.zeros(*shape, 1, dtype=torch.float64)
        self.before[symbol, place], self.after[symbol, place], self.weight[symbol, place] = before, after, 1.0
        self.leaving = torch.zeros(labels, symbols, dtype=torch.float64)
        self.leaving[before, symbol] = 1.0
        self.entering = torch.bincount(after, minlength=labels).double()

    def residual(self, parameters: Parameters) -> Tensor:
        """Return a row of residuals for each edge."""
        with torch.no_grad():
            return self._off(self.dense(*parameters[:-1]), parameters[-1])

    def linearise(
        self, parameters: Parameters
    ) -> tuple[Callable[[Parameters], Tensor], Callable[[Tensor], Parameters]]:
        """Return the products with the Jacobian and with its transpose."""
        leaves = tuple(part.detach().requires_grad_() for part in parameters)
        output = self._off(self.dense(*leaves[:-1]), leaves[-1])
        plain = tuple(part.detach() for part in parameters[:-1])
        with torch.no_grad():
            matrices, read = self.dense(*plain), self._whole(parameters[-1])[self.before]

        def forward(direction: Parameters) -> Tensor:
            turned = torch.autograd.functional.jvp(self.dense, plain, tuple(direction[:-1]))[1]
            assert isinstance(turned, Tensor)
            with torch.no_grad():
                moved = direction[-1] * self.free
                change = read @ turned.mT + moved[self.before] @ matrices.mT - moved[self.after]
                return (change * self.weight).flatten(0, 1)

        def backward(towards: Tensor) -> Parameters:
            return torch.autograd.grad(output, leaves, towards, retain_graph=True)

        return forward, backward

    def metric(self, parameters: Parameters) -> Metric:
        """Return J^T J without what couples matrices with prototypes, and prototypes with each other.

        Matrices that are a function of other parameters have the plain metric.
        """
        if self.dense is not as_given:
            return super().metric(parameters)
        matrices, prototypes = parameters
        size, read = prototypes.shape[1], self._whole(prototypes)[self.before] * self.weight
        leaving = (self.leaving @ (matrices.mT @ matrices).flatten(1)).view(-1, size, size)
        entering = self.entering.view(-1, 1, 1) * torch.eye(size, dtype=matrices.dtype)
        forms = lifted(read.mT @ read, _FLOOR), lifted(leaving + entering, _FLOOR)
        inverses = torch.linalg.inv(forms[0]), torch.linalg.inv(forms[1])

        def times(value: Parameters, factors: tuple[Tensor, Tensor]) -> Parameters:
            return value[0] @ factors[0], (factors[1] @ value[1].unsqueeze(2)).squeeze(2)

        return Metric(lambda value: times(value, forms), lambda value: times(value, inverses))

    def _whole(self, prototypes: Float[Tensor, "label in"]) -> Float[Tensor, "label in"]:
        return prototypes * self.free + self.held

    def _off(self, matrices: Float[Tensor, "symbol out in"], prototypes: Float[Tensor, "label in"]) -> Tensor:
        whole = self._whole(prototypes)
        return ((whole[self.before] @ matrices.mT - whole[self.after]) * self.weight).flatten(0, 1)
