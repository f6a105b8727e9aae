"""A trained tracker as a weighted automaton, and the least-squares problems that polish it over labelled sequences."""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.models.tracker import StateTracker
from statewise.recurrence import TokenBatch, states_by_table, token_table
from statewise.theory.polish.factors import Factors
from statewise.theory.polish.least_squares import LeastSquares, Metric, Parameters, lifted
from statewise.theory.polish.sequences import Labelled
from statewise.transitions import CP, Block, Full, LinearTransition

# sequences from which a metric is estimated, and the share of its mean that is added to each of its factors
_METRIC_SAMPLE, _METRIC_FLOOR = 400, 0.1


class TrainedAutomaton:
    """The matrices, first state and readout of a trained tracker, in float64."""

    def __init__(self, model: StateTracker) -> None:
        transition = model.transition
        assert isinstance(transition, LinearTransition)
        self.tracker = copy.deepcopy(model).double().eval()
        with torch.no_grad():
            self.transition = copy.deepcopy(transition).double().requires_grad_(False)
            embeddings = None if model.embeddings is None else model.embeddings.double()
            self.coefficients = token_table(self.transition, embeddings).detach()
            self.matrices = self.transition.dense(self.coefficients)
            self.initial = model.initial_state.detach().double()
            self.readout = model.readout.detach().double()

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return len(self.initial)

    @property
    def level(self) -> str:
        """The name of its level, with its argument."""
        transition = self.transition
        if isinstance(transition, CP):
            return f"cp({transition.rank})"
        return f"block({transition.size})" if isinstance(transition, Block) else type(transition).__name__.lower()


def as_given(matrices: Tensor) -> Tensor:
    """Return matrices that are the parameters themselves."""
    return matrices


class AutomatonProblem(LeastSquares):
    """Residuals of a bilinear network over labelled sequences, for matrices that are a function of the parameters.

    Values: U A_w h_0 less a target for each sequence, with h_0 and U among the parameters. Closure: A_w h_0 less a free
    prototype for each label, with h_0 fixed. Products with the Jacobian run the kernels of the recurrence on matrices
    [[A, 0], [dA, A]] of twice the size, and products with its transpose are one backward pass.

    Args:
        data: the sequences.
        targets: of values, a row for each sequence; of closure, the one-hot label of each.
        dense: makes the matrices of all symbols from the first parameters.
        initial: the first state, where it is fixed (closure); None makes it a parameter (values).
    """

    def __init__(
        self,
        data: Labelled,
        targets: Float[Tensor, "batch target"],
        dense: Callable[..., Tensor] = as_given,
        initial: Tensor | None = None,
    ) -> None:
        self.data, self.targets, self.dense, self.initial = data, targets, dense, initial
        self.batch = TokenBatch(data.tokens, data.lengths)

    def ends(self, table: Float[Tensor, "symbol out in"], initial: Float[Tensor, " in"]) -> Float[Tensor, "batch out"]:
        """Return the hidden state after each sequence."""
        level = Full(len(table), len(initial))
        return states_by_table(level, table, initial.expand(len(self.data.tokens), -1), self.batch)

    def residual(self, parameters: Parameters) -> Tensor:
        """Return a row of residuals for each sequence."""
        with torch.no_grad():
            return self._output(*self._split(parameters))

    def linearise(
        self, parameters: Parameters
    ) -> tuple[Callable[[Parameters], Tensor], Callable[[Tensor], Parameters]]:
        """Return the products with the Jacobian and with its transpose."""
        leaves = tuple(p.detach().requires_grad_() for p in parameters)
        parts, initial, last = self._split(leaves)
        output = self._output(parts, initial, last)
        plain, hidden = tuple(p.detach() for p in parts), len(initial)
        with torch.no_grad():
            values = self.dense(*plain)
            upper = torch.cat([values, torch.zeros_like(values)], dim=2)
            held_initial, held_last = initial.detach(), last.detach()

        def forward(direction: Parameters) -> Tensor:
            moves, d_initial, d_last = self._split(direction)
            if self.initial is not None:
                d_initial = torch.zeros_like(held_initial)
            d_values = torch.autograd.functional.jvp(self.dense, plain, tuple(moves))[1]
            assert isinstance(d_values, Tensor)
            both = torch.cat([upper, torch.cat([d_values, values], dim=2)], dim=1)
            with torch.no_grad():
                run = self.ends(both, torch.cat([held_initial, d_initial]))
            h, dh = run[:, :hidden], run[:, hidden:]
            return dh - self.targets @ d_last if self.initial is not None else dh @ held_last.T + h @ d_last.T

        def backward(towards: Tensor) -> Parameters:
            return torch.autograd.grad(output, leaves, towards, retain_graph=True)

        return forward, backward

    def metric(self, parameters: Parameters) -> Metric:
        """Return J^T J as if positions of a sequence were independent: for each symbol, a product of two moments.

        The block of A_a is then (mean of b b^T) x (mean of h h^T), with h the states that symbol a is read in and b the
        derivatives of outputs by the states after it. A tenth of each factor's mean is added to its diagonal. Matrices
        that are a function of other parameters have the plain metric.
        """
        if self.dense is not as_given:
            return super().metric(parameters)
        with torch.no_grad():
            parts, initial, last = self._split(parameters)
            moments = _moments(self.data, parts[0], initial, None if self.initial is not None else last)
            counts, before, after, first, end = moments
            scale = len(self.data.tokens) / min(_METRIC_SAMPLE, len(self.data.tokens))
            weight = (counts * scale).clamp(min=1.0).view(-1, 1, 1)
            before, after, first, end = (
                lifted(moment, _METRIC_FLOOR) for moment in (before, after, first * scale, end * scale)
            )
            inverses = [torch.linalg.inv(moment) for moment in (before, after, first, end)]
            seen = self.targets.sum(dim=0).clamp(min=1.0).unsqueeze(1)

        def form(value: Parameters, factors: list[Tensor], count: Tensor, labels: Tensor) -> Parameters:
            matrices = count * (factors[1] @ value[0] @ factors[0])
            if self.initial is not None:
                return matrices, labels * value[1]
            return matrices, factors[2] @ value[1], value[2] @ factors[3]

        plain = [before, after, first, end]
        return Metric(lambda v: form(v, plain, weight, seen), lambda v: form(v, inverses, 1 / weight, 1 / seen))

    def _split(self, parameters: Parameters) -> tuple[Parameters, Tensor, Tensor]:
        if self.initial is not None:
            return parameters[:-1], self.initial, parameters[-1]
        return parameters[:-2], parameters[-2], parameters[-1]

    def _output(self, parts: Parameters, initial: Tensor, last: Tensor) -> Tensor:
        ends = self.ends(self.dense(*parts), initial)
        return ends - self.targets @ last if self.initial is not None else ends @ last.T - self.targets


def _moments(data: Labelled, matrices: Tensor, initial: Tensor, readout: Tensor | None) -> tuple[Tensor, ...]:
    """Return how often symbols are read, the means of h h^T before and b b^T after each, and sums at both ends."""
    tokens, lengths = data.tokens[:_METRIC_SAMPLE], data.lengths[:_METRIC_SAMPLE]
    symbols, size = matrices.shape[:2]
    live = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    h, states = initial.expand(len(tokens), -1), []
    for t in range(tokens.shape[1]):
        states.append(h)
        moved = torch.bmm(matrices[tokens[:, t]], h.unsqueeze(2)).squeeze(2)
        h = torch.where(live[:, t].unsqueeze(1), moved, h)
    counts = torch.zeros(symbols, dtype=h.dtype)
    before, after = (torch.zeros(symbols, size, size, dtype=h.dtype) for _ in range(2))
    own = torch.eye(size, dtype=h.dtype) if readout is None else readout.T @ readout
    back = own.expand(len(tokens), size, size)
    for t in reversed(range(tokens.shape[1])):
        rows = live[:, t]
        symbol, state = tokens[rows, t], states[t][rows]
        counts.index_add_(0, symbol, torch.ones(len(symbol), dtype=h.dtype))
        before.index_add_(0, symbol, state.unsqueeze(2) * state.unsqueeze(1))
        after.index_add_(0, symbol, back[rows])
        step = matrices[tokens[:, t]]
        back = torch.where(rows.view(-1, 1, 1), step.mT @ back @ step, back)
    each = counts.clamp(min=1.0).view(-1, 1, 1)
    return counts, before / each, after / each, back.sum(dim=0), h.T @ h


def cp_of(factors: Factors) -> CP:
    """Build a CP-factored transition from its factors."""
    size, rank = factors.left.shape
    built = CP(len(factors.gate), size, rank).double()
    with torch.no_grad():
        for name in ("left", "gate", "right"):
            getattr(built, name).copy_(getattr(factors, name))
    return built


def tracker_of(transition: LinearTransition, initial: Tensor, readout: Tensor) -> StateTracker:
    """Put a network together in float64."""
    model = StateTracker(transition.input_size, len(readout), transition.hidden_size, transition).double()
    with torch.no_grad():
        model.initial_state.copy_(initial)
        model.readout.copy_(readout)
    return model.eval()
