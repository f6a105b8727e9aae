"""A trained tracker as a weighted automaton, and the least-squares problems that polish it over labelled sequences."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from statewise.models.tracker import StateTracker
from statewise.randomness import stream
from statewise.recurrence import TokenBatch, states_by_table, token_table
from statewise.tasks import Lengths, Task
from statewise.theory.least_squares import LeastSquares, Parameters
from statewise.transitions import Full, LinearTransition

# lengths of the sequences that are solved for: long enough to tie symbols together, short enough to be learned
SHORTEST, LONGEST = 2, 8


@dataclass(frozen=True)
class Labelled:
    """Sequences with the class at the end of each."""

    tokens: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"]
    answers: Int[Tensor, " batch"]


class TrainedAutomaton:
    """The matrices, first state and readout of a trained tracker, in float64."""

    def __init__(self, model: StateTracker) -> None:
        transition = model.transition
        assert isinstance(transition, LinearTransition)
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


def draw_labelled(task: Task, seed: int, count: int, longest: int = LONGEST) -> Labelled:
    """Draw sequences of a task's training lengths, answered at their end."""
    generator = stream(seed, "polish", count, longest)
    shortest = min(SHORTEST, longest)
    plain = Task(task.machine, Lengths(shortest, longest), "final")
    batch = plain.draw(generator, generator.integers(shortest, longest + 1, size=count))
    return Labelled(*(torch.from_numpy(np.ascontiguousarray(p)) for p in (batch.tokens, batch.lengths, batch.finals)))


class AutomatonProblem(LeastSquares):
    """Residuals of a bilinear network over labelled sequences, for matrices that are a function of the parameters.

    Products with the Jacobian run the kernels of the recurrence on matrices [[A, 0], [dA, A]] of twice the size, and
    products with its transpose are one backward pass.

    Args:
        data: the sequences.
        classes: how many there are.
        dense: makes the matrices of all symbols from the first parameters.
        initial: the first state, where it is fixed (closure); None makes it a parameter (values).
    """

    def __init__(
        self, data: Labelled, classes: int, dense: Callable[..., Tensor], initial: Tensor | None = None
    ) -> None:
        self.data, self.dense, self.initial = data, dense, initial
        self.batch = TokenBatch(data.tokens, data.lengths)
        self.one_hot = torch.nn.functional.one_hot(data.answers, classes).double()

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
            return dh - self.one_hot @ d_last if self.initial is not None else dh @ held_last.T + h @ d_last.T

        def backward(towards: Tensor) -> Parameters:
            return torch.autograd.grad(output, leaves, towards, retain_graph=True)

        return forward, backward

    def _split(self, parameters: Parameters) -> tuple[Parameters, Tensor, Tensor]:
        if self.initial is not None:
            return parameters[:-1], self.initial, parameters[-1]
        return parameters[:-2], parameters[-2], parameters[-1]

    def _output(self, parts: Parameters, initial: Tensor, last: Tensor) -> Tensor:
        ends = self.ends(self.dense(*parts), initial)
        return ends - self.one_hot @ last if self.initial is not None else ends @ last.T - self.one_hot


def tracker_of(transition: LinearTransition, initial: Tensor, readout: Tensor) -> StateTracker:
    """Put a network together in float64."""
    model = StateTracker(transition.input_size, len(readout), transition.hidden_size, transition).double()
    with torch.no_grad():
        model.initial_state.copy_(initial)
        model.readout.copy_(readout)
    return model.eval()


def hankel_rank(task: Task, seed: int = 0, most: int = 1_600) -> int:
    """Return the rank of the answers f(u v), one-hot, over short prefixes u and suffixes v that the task can draw.

    It is the smallest hidden size of a weighted automaton with these answers. Where the task never draws some pairs,
    their answers are free: the rank is then that of the largest group of prefixes with the same suffixes, a lower
    bound. Prefixes and suffixes are added until the rank stays.
    """
    machine, plain = task.machine, Task(task.machine, Lengths(SHORTEST, LONGEST), "final")
    before, rows = 0, 100
    while True:
        generator = stream(seed, "hankel", rows)
        batch = plain.draw(generator, generator.integers(SHORTEST, LONGEST + 1, size=rows))
        cuts = generator.integers(0, batch.lengths + 1)
        words = [word[:length] for word, length in zip(batch.tokens, batch.lengths.tolist(), strict=True)]
        # prefixes that lead to one state have one row
        states = np.unique([machine.start, *(machine.final(w[:c]) for w, c in zip(words, cuts.tolist(), strict=True))])
        ends = np.stack([plain.follow(states, w[c:]) for w, c in zip(words, cuts.tolist(), strict=True)], axis=1)
        rank = max(_answer_rank(machine.outputs[ends[group]], machine.classes) for group in _alike(ends >= 0))
        if rank == before or rows >= most:
            return rank
        before, rows = rank, 2 * rows


def _alike(drawn: Bool[np.ndarray, "prefix suffix"]) -> list[tuple[np.ndarray, ...]]:
    """Group prefixes by the suffixes that may follow; return an index of rows and columns for each group."""
    patterns, group = np.unique(drawn, axis=0, return_inverse=True)
    return [np.ix_(np.flatnonzero(group.ravel() == g), np.flatnonzero(pattern)) for g, pattern in enumerate(patterns)]


def _answer_rank(answers: Int[np.ndarray, "prefix suffix"], classes: int) -> int:
    one_hot = np.eye(classes)[answers].reshape(len(answers), -1)
    return int(np.linalg.matrix_rank(one_hot @ one_hot.T)) if one_hot.size else 0
