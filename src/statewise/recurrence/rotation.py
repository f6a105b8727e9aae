"""Rotations of pairs: angles add up, and the first state is rotated by their sum.

    h_t = R(theta_1 + ... + theta_t) h_0

There is no product over time and no change of norm. Sums of many angles lose digits in float32: they are taken in
float64 and reduced to one turn. At the end of a sequence only the number of times each token occurs matters.
"""

import math
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.kernels import call, choose
from statewise.recurrence.form import (
    PIECE,
    Inputs,
    Inside,
    LogNorm,
    SequenceForm,
    State,
    States,
    resume_in_pieces,
)
from statewise.recurrence.second_derivatives import differentiable_gradients
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Rotation

# as in the kernels
_FAR = 1e5
Angles = Float[Tensor, "batch time pairs"]
Table = Float[Tensor, "token pairs"]


@final
class RotationForm(SequenceForm[Rotation]):
    """Sums of angles."""

    def states(self, table: Table, h0: State, batch: TokenBatch) -> States:
        """Rotate by the sum of angles up to each token."""
        return _rotated_states(table[batch.tokens], h0, batch.backend)

    def end(self, table: Table, h0: State, batch: TokenBatch) -> State:
        """Rotate by the sum over tokens of (times it occurs) * (its angle)."""
        tokens, lengths, members = batch.tokens, batch.lengths, batch.members
        assert lengths is not None
        # each network by itself: an infinite angle of one must not reach another
        symbols, rows = len(table) // members, len(tokens) // members
        first = symbols * torch.arange(members, device=tokens.device).view(-1, 1, 1)
        own = tokens.view(members, rows, tokens.shape[1]) - first
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths.view(members, rows, 1)
        counts = torch.zeros(members, rows, symbols, dtype=torch.float64, device=tokens.device)
        counts.scatter_add_(2, own, inside.double())
        angles = counts @ _without_far_turns(table.double()).view(members, symbols, table.shape[1])
        return self.transition.act(_within_one_turn(angles).flatten(0, 1).to(table.dtype), h0)

    def resume(self, table: Table, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Rotate by one piece of the sequence at a time, as long as memory holds: norms stay."""
        return resume_in_pieces(self, table, h, log_norm, batch, PIECE)

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the angles of each input; those of padding are 0. Norms stay."""
        angles = self.transition.coefficients(x)
        if inside is not None:
            angles = torch.where(inside.unsqueeze(-1), angles, 0.0)
        return _rotated_states(angles, h0, "native")


def _rotated_states(angles: Angles, h0: State, backend: str | None) -> States:
    """Return every h_t, the pairs (h[2n], h[2n + 1]) rotated by the sum of their angles so far."""
    if choose(backend, angles, h0) == "native":
        return _RotatedStates.apply(angles, h0)  # pyright: ignore[reportReturnType]
    return _differentiable_states(angles, h0)


class _RotatedStates(torch.autograd.Function):
    """Every rotated state; backward needs no sine, since h_t itself holds the rotation."""

    @staticmethod
    def forward(ctx: Any, angles: Tensor, h0: Tensor) -> Tensor:
        given, first = angles.contiguous(), h0.contiguous()
        out = h0.new_empty(*angles.shape[:2], h0.shape[1])
        call("rotations_forward", h0.dtype, given, first, out, *angles.shape)
        ctx.save_for_backward(angles, h0, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        angles, h0, out = ctx.saved_tensors
        if torch.is_grad_enabled():
            return tuple(differentiable_gradients(ctx, (angles, h0), _differentiable_states, grad))
        given, first = angles.contiguous(), h0.contiguous()
        gradient, to_first = torch.empty_like(given), torch.empty_like(first)
        call("rotations_backward", h0.dtype, given, first, out, grad.contiguous(), gradient, to_first, *angles.shape)
        return gradient, to_first


def _differentiable_states(angles: Angles, h0: State) -> States:
    """Compute every state by operations that have second derivatives."""
    sums = _within_one_turn(_without_far_turns(angles.double()).cumsum(dim=1)).to(angles.dtype)
    cos, sin = sums.cos(), sums.sin()
    first, second = h0.unflatten(-1, (-1, 2)).unsqueeze(1).unbind(-1)
    return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1).flatten(-2)


def _without_far_turns(angles: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Take whole turns off large angles, whose sums would round away what is left of them; others stay as they are."""
    # sine and cosine take whole turns off without rounding, however large the angle is
    return torch.where(angles.abs() > _FAR, torch.atan2(angles.sin(), angles.cos()), angles)


def _within_one_turn(angles: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    return torch.remainder(angles, 2 * math.pi)
