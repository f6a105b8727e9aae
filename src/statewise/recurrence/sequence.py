"""Recurrences over real inputs: closed forms and kernels where a level has them, the reference elsewhere."""

from functools import singledispatch

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import Backend, choose
from statewise.recurrence.planes import LARGEST_BLOCK, unroll_planes
from statewise.recurrence.reference import inside_lengths, unroll, without_padding
from statewise.recurrence.turns import unroll_turns
from statewise.transitions import Block, Diagonal, Positive, Rotation, Transition

Inputs = Float[Tensor, "batch time input"]
Lengths = Int[Tensor, " batch"] | None


def unroll_sequence(
    transition: Transition,
    x: Inputs,
    h0: Float[Tensor, "batch hidden"],
    lengths: Lengths = None,
    backend: str | None = None,
) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
    """Computes what the reference `unroll` does from the same arguments, as fast as the level allows.

    `backend` is "native" or "torch"; None takes what there is.
    """
    if x.shape[1] == 0 or sequence_backend(transition, backend, x, h0) == "torch":
        return unroll(transition, x, h0, lengths)
    inside = inside_lengths(x, lengths)
    states = _states(transition, without_padding(x, inside), h0, inside)
    assert states is not None
    return without_padding(states, inside), states[:, -1]


def sequence_backend(transition: Transition, backend: str | None, *tensors: Tensor) -> Backend:
    """Says whether a sequence of this level goes through a fast path of its own ("native") or the reference."""
    if choose(backend, *tensors) == "torch":
        # nothing more is asked, since programs that are traced come this way
        return "torch"
    small = not isinstance(transition, Block) or transition.size <= LARGEST_BLOCK
    return "native" if small and _states.dispatch(type(transition)) is not _no_states else "torch"


def _no_states(transition: Transition, x: Inputs, h0: Tensor, inside: Tensor | None) -> Tensor | None:
    """Says that a level has no fast path."""


# gives every state; past a row's length it stays
_states = singledispatch(_no_states)


@_states.register
def _(transition: Diagonal, x: Inputs, h0: Tensor, inside: Tensor | None) -> Tensor:
    return _diagonals(transition.coefficients(x), h0, inside)


@_states.register
def _(transition: Positive, x: Inputs, h0: Tensor, inside: Tensor | None) -> Tensor:
    return _diagonals(transition.coefficients(x).exp(), h0, inside)


@_states.register
def _(transition: Block, x: Inputs, h0: Tensor, inside: Tensor | None) -> Tensor:
    blocks, size = transition.weight.shape[:2]
    weight = transition.weight.permute(1, 2, 0, 3)
    coefficients = (x @ weight.flatten(0, 2).T).unflatten(-1, weight.shape[:3])
    if inside is not None:
        one = torch.eye(size, dtype=x.dtype, device=x.device).unsqueeze(-1)
        coefficients = torch.where(inside[..., None, None, None], coefficients, one)
    parts = h0.unflatten(1, (blocks, size)).transpose(1, 2)
    return unroll_planes(coefficients, parts).transpose(2, 3).flatten(2)


@_states.register
def _(transition: Rotation, x: Inputs, h0: Tensor, inside: Tensor | None) -> Tensor:
    angles = transition.coefficients(x)
    if inside is not None:
        angles = torch.where(inside.unsqueeze(-1), angles, 0.0)
    return unroll_turns(angles, h0, backend="native")


def _diagonals(a: Float[Tensor, "batch time hidden"], h0: Tensor, inside: Tensor | None) -> Tensor:
    if inside is not None:
        a = torch.where(inside.unsqueeze(-1), a, 1.0)
    return unroll_planes(a[:, :, None, None], h0.unsqueeze(1)).squeeze(2)
