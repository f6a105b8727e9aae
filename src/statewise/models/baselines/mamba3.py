"""Mamba-3: a scalar decay times rotations by the input (Lahoti et al., 2026, 2603.15569), in plain torch."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.linear_attention import NORM_EPS, HeadedTracker
from statewise.models.baselines.selective_scan import initial_steps
from statewise.models.baselines.stack import Entered, Recurrence

_STATE, _EXPAND = 16, 2
# half of the entries of a key are turned, two by two; a rate is at least this
_ANGLES, _SLOWEST = _STATE // 4, 1e-4
# steps that are taken together
_CHUNK = 16

Rows = Float[Tensor, "rows time"]
Keys = Float[Tensor, "rows time key"]
Values = Float[Tensor, "rows time value"]
# the angles so far, S, and the key and the value of the token before
State = tuple[Tensor, Tensor, Tensor, Tensor]


class Mamba3Mixer(Recurrence):
    """One selective state space of one input and one output, for each head.

        H_t = a_t R_t (H_{t-1} + (1 - l_t) d_t k_{t-1} v_{t-1}^T) + l_t d_t k_t v_t^T,   y_t = H_t^T q_t + D v_t.

    a_t = exp(d_t A_t) is a decay in (0, 1), with a step d_t = softplus(.) and a rate A_t = -softplus(.); R_t turns
    pairs of entries of the keys by -pi tanh(.) d_t; l_t = sigmoid(.) weighs both ends of a step, the trapezoidal rule.
    k = norm(B) + b_B and q = norm(C) + b_C; v, B, C and the angles are linear in the input, and heads share all but v.
    The output is W_o (y * silu(z)). The state is kept as S_t = R_1^-1 ... R_t^-1 H_t: with keys and queries turned by
    the angles so far, only the decay is left of the transition.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        inner = _EXPAND * width
        self.heads, self.inner = heads, inner
        # z, v, B, C, the step, the rate, l and the angles
        self.parts = (inner, inner, _STATE, _STATE, heads, heads, heads, _ANGLES)
        self.in_proj = nn.Linear(width, sum(self.parts), bias=False)
        self.dt_bias = nn.Parameter(initial_steps(heads))
        self.B_bias, self.C_bias = (nn.Parameter(torch.ones(heads, _STATE)) for _ in range(2))
        self.B_norm, self.C_norm = (nn.RMSNorm(_STATE, eps=NORM_EPS) for _ in range(2))
        self.D = nn.Parameter(torch.ones(heads))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def init_state(self, batch: int) -> State:
        """Return zeros."""
        size, zeros = self.inner // self.heads, self.D.new_zeros
        shapes = ((_ANGLES,), (_STATE, size), (_STATE,), (size,))
        angles, S, k, v = (zeros(batch, self.heads, *shape) for shape in shapes)
        return angles, S, k, v

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute all that a step needs, head by head and side by side, and the gate."""
        z, v, B, C, step, rate, ends, angles = self.in_proj(x).split(self.parts, dim=-1)
        k = self.B_norm(B).unsqueeze(-2) + self.B_bias
        q = self.C_norm(C).unsqueeze(-2) + self.C_bias
        step = F.softplus(step + self.dt_bias).unsqueeze(-1)
        decay = -F.softplus(rate).clamp(min=_SLOWEST).unsqueeze(-1) * step
        after = ends.sigmoid().unsqueeze(-1) * step
        turn = math.pi * angles.tanh().unsqueeze(-2) * step
        v = v.unflatten(-1, (self.heads, -1))
        return torch.cat([q, k, v, turn, decay, after, step - after], dim=-1), F.silu(z)

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state."""
        parts, gate = entered.each()
        angles, *before = (part.flatten(0, 1) for part in state)
        S, key, value = before
        rows = parts.transpose(1, 2).flatten(0, 1)
        sizes = (_STATE, _STATE, self.inner // self.heads, _ANGLES, 1, 1, 1)
        q, k, v, turn, *scalars = rows.split(sizes, dim=-1)
        # whole turns change nothing
        angles = (turn.cumsum(dim=1) + angles.unsqueeze(1)).remainder(2 * math.pi)
        q, k = _turn(torch.stack([q, k]), angles)
        o, last = trapezoidal_attention(q, k, v, *(part.squeeze(-1) for part in scalars), state=(S, key, value))
        o = torch.addcmul(o, v, self.D.repeat(parts.shape[0]).view(-1, 1, 1))
        after = (part.unflatten(0, (parts.shape[0], self.heads)) for part in (angles[:, -1], *last))
        angles, S, k, v = after
        return (o.unflatten(0, (parts.shape[0], self.heads)).transpose(1, 2), gate), (angles, S, k, v)

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Gate and mix the heads."""
        o, gate = mixed
        return self.out_proj(o.flatten(-2) * gate)


def _turn(x: Tensor, angles: Tensor) -> Tensor:
    """Turn pairs of entries by the angles; the entries that are left over stay."""
    turned, kept = x.split([2 * _ANGLES, _STATE - 2 * _ANGLES], dim=-1)
    even, odd = turned.unflatten(-1, (_ANGLES, 2)).unbind(dim=-1)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return torch.cat([turned.flatten(-2), kept], dim=-1)


def trapezoidal_attention(
    q: Keys, k: Keys, v: Values, decay: Rows, after: Rows, before: Rows, state: tuple[Tensor, Tensor, Tensor]
) -> tuple[Values, tuple[Tensor, Tensor, Tensor]]:
    """Compute S_t = exp(decay_t) (S_{t-1} + before_t k_{t-1} v_{t-1}^T) + after_t k_t v_t^T, and o_t = S_t^T q_t.

    Steps are taken by chunks: with c_t the sum of a chunk's decays up to t, and S the state before the chunk and what
    its first step still takes of the token before,

        o_t = S^T (q_t exp(c_t)) + sum_{j < t} exp(c_t - c_j) (after_j + before_{j+1}) (q_t^T k_j) v_j
            + after_t (q_t^T k_t) v_t.

    Args:
        q: how the state is read.
        k: the keys.
        v: the values.
        decay: logarithms of the factors by which the state shrinks.
        after: the weights of the tokens at the end of their step.
        before: the weights of the tokens at the beginning of the next step.
        state: S, and the key and the value of the token before the first.
    """
    S, key, value = state
    outputs = []
    for chunk in zip(*(part.split(_CHUNK, dim=1) for part in (q, k, v, decay, after, before)), strict=True):
        q_chunk, k_chunk, v_chunk, fading, ending, beginning = chunk
        S = torch.baddbmm(S, (key * beginning[:, :1]).unsqueeze(2), value.unsqueeze(1))
        total = fading.cumsum(dim=1)
        both = ending + F.pad(beginning[:, 1:], (0, 1))
        ahead = torch.ones(len(total[0]), len(total[0]), dtype=torch.bool, device=q.device).triu()
        between = (total.unsqueeze(2) - total.unsqueeze(1)).masked_fill(ahead, -torch.inf).exp()
        weights = between * both.unsqueeze(1) + torch.diag_embed(ending)
        o = torch.bmm(torch.bmm(q_chunk, k_chunk.mT) * weights, v_chunk)
        outputs.append(torch.baddbmm(o, q_chunk * total.exp().unsqueeze(-1), S))
        until = ((total[:, -1:] - total).exp() * both).unsqueeze(-1)
        S = torch.baddbmm(S * total[:, -1:, None].exp(), (k_chunk * until).mT, v_chunk)
        key, value = k_chunk[:, -1], v_chunk[:, -1]
    return torch.cat(outputs, dim=1), (S, key, value)


@final
class Mamba3Tracker(HeadedTracker):
    """An embedding, Mamba-3 blocks, a last norm, and a linear readout.

    Rotations are transitions with complex eigenvalues: they commute, and so can track Abelian groups (parity, sums).
    """

    name = "mamba3"
    mixer = Mamba3Mixer
