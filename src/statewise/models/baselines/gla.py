"""Gated linear attention (Yang et al., 2023), in plain torch."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.linear_attention import GatedOutputNorm, HeadedTracker
from statewise.models.baselines.stack import Entered, Recurrence

_RANK, _TAU = 16, 16
# steps that are taken together, and how far the logarithm of a state may fall over them for exponents to be split
_CHUNK, _WIDEST = 16, 40.0

State = Float[Tensor, "rows key value"]


class GLAMixer(Recurrence):
    """q, k, v = W x, and log alpha_t = logsigmoid(W_2 W_1 x_t + b) / tau for each entry of a key, with tau = 16."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.qkv_proj = nn.Linear(width, 3 * width, bias=False)
        self.gk_proj = nn.Sequential(nn.Linear(width, _RANK, bias=False), nn.Linear(_RANK, width))
        self.output = GatedOutputNorm(width, heads)

    def init_state(self, batch: int) -> Float[Tensor, "batch heads key value"]:
        """Return zeros."""
        size = self.width // self.heads
        return self.qkv_proj.weight.new_zeros(batch, self.heads, size, size)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute q / sqrt(size), k, v and the logarithms of alpha, side by side, and what the output needs."""
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        q = q * (self.width // self.heads) ** -0.5
        decay = F.logsigmoid(self.gk_proj(x)) / _TAU
        return torch.cat([q, k, v, decay], dim=-1), *self.output.enter(x)

    def mix(self, entered: Entered, state: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Run from a state: the matrices."""
        parts, *gate = entered.each()
        batch, time = parts.shape[:2]
        q, k, v, decay = parts.view(batch, time, 4, self.heads, -1).permute(2, 0, 3, 1, 4).flatten(1, 2)
        o, last = gated_attention(q, k, v, decay, state.flatten(0, 1))
        return (o.unflatten(0, (batch, self.heads)).transpose(1, 2), *gate), last.view_as(state)

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Normalise, gate and mix the heads."""
        return self.output(*mixed)


def gated_attention(
    q: Float[Tensor, "rows time key"],
    k: Float[Tensor, "rows time key"],
    v: Float[Tensor, "rows time value"],
    decay: Float[Tensor, "rows time key"],
    state: State,
) -> tuple[Float[Tensor, "rows time value"], State]:
    """Compute S_t = Diag(exp(decay_t)) S_{t-1} + k_t v_t^T, and read o_t = S_t^T q_t.

    Steps are taken by chunks: with c_t the sum of a chunk's decays up to t, and S the state before the chunk,

        o_t = S^T (q_t exp(c_t)) + sum_{j <= t} (sum_i q_ti k_ji exp(c_ti - c_ji)) v_j.

    The sum over i is a matrix product of q_t exp(c_t - m) and k_j exp(m - c_j), for any m; the middle c keeps both in
    range. Where a state decays so fast that they could overflow, exponents are formed as differences, all at most 0.

    Args:
        q: how the state is read.
        k: the keys.
        v: the values.
        decay: logarithms of the factors by which rows of the state shrink.
        state: the matrices before the first step.
    """
    outputs = []
    for q_chunk, k_chunk, v_chunk, fading in zip(
        *(part.split(_CHUNK, dim=1) for part in (q, k, v, decay)), strict=True
    ):
        total = fading.cumsum(dim=1)
        # a program that is traced cannot look at values, and pairs are right for all
        narrow = not torch.compiler.is_compiling() and float(total.detach()[:, -1].min()) > -_WIDEST
        take = _take_split if narrow else _take_pairs
        o, state = take(q_chunk, k_chunk, v_chunk, total, state)
        outputs.append(o)
    return torch.cat(outputs, dim=1) if len(outputs) > 1 else outputs[0], state


def _take_split(q: Tensor, k: Tensor, v: Tensor, total: Tensor, state: State) -> tuple[Tensor, State]:
    # nothing that is computed depends on the middle
    middle = total.detach()[:, total.shape[1] // 2].unsqueeze(1)
    since = total - middle
    q, k, state = q * since.exp(), k * (-since).exp(), state * middle.exp().mT
    o = torch.baddbmm(torch.bmm(torch.bmm(q, k.mT).tril(), v), q, state)
    return o, torch.baddbmm(state, k.mT, v) * since[:, -1:].exp().mT


def _take_pairs(q: Tensor, k: Tensor, v: Tensor, total: Tensor, state: State) -> tuple[Tensor, State]:
    size = k.shape[1]
    ahead = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1).unsqueeze(-1)
    between = (total.unsqueeze(2) - total.unsqueeze(1)).masked_fill(ahead, -torch.inf).exp()
    # a product of [1, key] and [key, past] for each query
    read = torch.matmul(q.unsqueeze(2), (between * k.unsqueeze(1)).mT).squeeze(2)
    o = torch.baddbmm(torch.bmm(read, v), q * total.exp(), state)
    until = (total[:, -1:] - total).exp()
    return o, torch.baddbmm(state * total[:, -1].exp().unsqueeze(-1), (k * until).mT, v)


@final
class GLATracker(HeadedTracker):
    """Gated linear attention: S_t = Diag(alpha_t) S_{t-1} + k_t v_t^T,  o_t = S_t^T q_t.

    alpha_t depends on the input, in (0, 1) for each row of S: a diagonal transition with positive eigenvalues. Keys
    have the size of values here; the paper halves them.
    """

    name = "gla"
    mixer = GLAMixer
