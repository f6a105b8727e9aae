"""Real-valued inputs: each event, a row at a time, has a matrix of its own, or blocks on a diagonal.

    h_t = A(x_t) h_{t-1} (+ b_t),    and, if asked to, sqrt(H) h_t / |h_t|

Where A is linear in x, the matrices of a piece of time are one product of inputs and weights, which stays in the cache
until the states of the piece are computed. Backward writes g_t h_{t-1}^T into their place:

    dW = sum of x_t (g_t h_{t-1}^T),    dx_t = W (g_t h_{t-1}^T)

are two more products of the same size. Matrices too many to be kept are computed again, a piece at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from statewise.kernels import call
from statewise.recurrence.reference import stack_steps
from statewise.recurrence.scaling import to_unit_size
from statewise.recurrence.second_derivatives import differentiable_gradients
from statewise.transitions import Block, Diagonal, Full, LinearTransition

# bytes of matrices that stay in the cache, and how many of them make a product worth its while
_CACHE, _ENOUGH = 1 << 21, 64
# bytes of matrices that are kept from forward to backward
_KEPT = 1 << 28

State = Float[Tensor, "batch hidden"]
States = Float[Tensor, "batch time hidden"]


@dataclass(frozen=True)
class _Sizes:
    batch: int
    time: int
    blocks: int
    size: int

    @property
    def each(self) -> int:
        """Return how many numbers the matrices of one event are."""
        return self.blocks * self.size * self.size

    def pieces(self, item: int) -> Iterator[tuple[int, int]]:
        """Return where each piece of time begins, and how many steps it has; numbers are of `item` bytes."""
        of_step = self.batch * self.each * item
        steps = max(1, _CACHE // max(1, of_step), -(-_ENOUGH // max(1, self.batch)))
        return ((begin, min(steps, self.time - begin)) for begin in range(0, self.time, steps))


def event_states(
    transition: LinearTransition,
    x: Float[Tensor, "batch time input"],
    offset: States | None,
    h0: State,
    inside: Bool[Tensor, "batch time"] | None,
    normalise: bool,
) -> States:
    """Return every h_t by the kernels.

    Args:
        transition: A, a level with blocks.
        x: inputs.
        offset: what is added at each step; None adds nothing.
        h0: the state before the first input.
        inside: where false a state stays as it is; true comes first in each row.
        normalise: whether each state is divided by its root mean square before the next step.
    """
    lengths = None if inside is None else inside.sum(dim=1)
    weight = _matrix_of(transition)
    if weight is None:
        matrices = transition.blocks(transition.coefficients(x))
        blocks, size = matrices.shape[2:4]
        return _EventStates.apply(matrices, None, offset, h0, lengths, (blocks, size), normalise)  # pyright: ignore[reportReturnType]
    flat, shape = weight
    return _EventStates.apply(x, flat, offset, h0, lengths, shape, normalise)  # pyright: ignore[reportReturnType]


def _matrix_of(transition: LinearTransition) -> tuple[Float[Tensor, "input entries"], tuple[int, int]] | None:
    """Return M with blocks(A(x)) = x M, and how many blocks of which size; None where A is not linear in x."""
    if isinstance(transition, Full):
        return transition.matrices.flatten(1), (1, transition.hidden_size)
    if isinstance(transition, Block):
        blocks, size = transition.weight.shape[:2]
        return transition.weight.flatten(0, 2).T, (blocks, size)
    if isinstance(transition, Diagonal):
        return transition.weight.T, (transition.hidden_size, 1)
    return None


class _EventStates(torch.autograd.Function):
    """All states, from inputs and a weight, or, without a weight, from matrices."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        offset: Tensor | None,
        h0: Tensor,
        lengths: Tensor | None,
        shape: tuple[int, int],
        normalise: bool,
    ) -> Tensor:
        sizes = _Sizes(*x.shape[:2], *shape)
        first = h0.contiguous()
        states = h0.new_empty(sizes.batch, sizes.time, h0.shape[1])
        factors = h0.new_empty(sizes.batch, sizes.time) if normalise else None
        added = None if offset is None else offset.contiguous()
        whole = sizes.batch * sizes.time * sizes.each * h0.element_size()
        ctx.kept = [] if weight is not None and any(ctx.needs_input_grad) and whole <= _KEPT else None
        for begin, count in sizes.pieces(h0.element_size()):
            matrices = _matrices(x, weight, begin, count, sizes)
            if ctx.kept is not None:
                ctx.kept.append(matrices)
            numbers = (sizes.batch, sizes.time, begin, count, sizes.blocks, sizes.size)
            call("events_forward", h0.dtype, matrices, added, lengths, first, states, factors, *numbers)
        ctx.save_for_backward(x, weight, offset, h0, lengths, states, factors)
        ctx.sizes = sizes
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight, offset, h0, lengths, states, factors = ctx.saved_tensors
        sizes: _Sizes = ctx.sizes
        if torch.is_grad_enabled():

            def compute(x: Tensor, weight: Tensor | None, offset: Tensor | None, h0: Tensor) -> Tensor:
                return _differentiable_states(x, weight, offset, h0, lengths, sizes, factors is not None)

            return *differentiable_gradients(ctx, (x, weight, offset, h0), compute, grad), None, None, None
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        first, arriving, running = h0.contiguous(), grad.contiguous(), torch.zeros_like(h0).contiguous()
        to_offset = None if offset is None else torch.empty_like(states)
        to_x = torch.empty_like(x, memory_format=torch.contiguous_format) if needs_x else None
        to_weight = h0.new_zeros(weight.shape) if needs_weight else None
        for begin, count in reversed(list(sizes.pieces(h0.element_size()))):
            # kept ones are written over: a second backward computes them again
            matrices = ctx.kept.pop() if ctx.kept else _matrices(x, weight, begin, count, sizes)
            if weight is None:
                matrices = matrices.clone()
            numbers = (sizes.batch, sizes.time, begin, count, sizes.blocks, sizes.size)
            given = (matrices, lengths, first, states, factors, arriving, running, to_offset)
            call("events_backward", h0.dtype, *given, *numbers)
            # matrices are gradients now
            if to_weight is not None:
                to_weight.addmm_(_rows(x, begin, count).T, matrices.flatten(0, 1))
            if to_x is not None:
                found = matrices if weight is None else matrices @ weight.T
                to_x[:, begin : begin + count] = found.unflatten(2, x.shape[2:])
        return to_x, to_weight, to_offset, running, None, None, None


def _matrices(x: Tensor, weight: Tensor | None, begin: int, count: int, sizes: _Sizes) -> Tensor:
    """Return the matrices of a piece of time as [batch, time, entries]."""
    if weight is None:
        return x[:, begin : begin + count].flatten(2).contiguous()
    return (_rows(x, begin, count) @ weight).view(sizes.batch, count, sizes.each)


def _rows(x: Tensor, begin: int, count: int) -> Float[Tensor, "event input"]:
    return x[:, begin : begin + count].reshape(-1, x.shape[2])


def _differentiable_states(
    x: Tensor,
    weight: Tensor | None,
    offset: Tensor | None,
    h0: State,
    lengths: Int[Tensor, " batch"] | None,
    sizes: _Sizes,
    normalise: bool,
) -> States:
    """Compute the same states by operations that have second derivatives."""
    every = x if weight is None else (x @ weight).unflatten(2, (sizes.blocks, sizes.size, sizes.size))
    h, outputs = h0, []
    for t in range(sizes.time):
        following = (every[:, t] @ h.unflatten(1, (sizes.blocks, sizes.size, 1))).flatten(1)
        following = following if offset is None else following + offset[:, t]
        following = to_unit_size(following) if normalise else following
        h = following if lengths is None else torch.where((t < lengths).unsqueeze(1), following, h)
        outputs.append(h)
    return stack_steps(outputs, h0)
