"""Gated linear attention (Yang et al., 2023), in plain torch."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.linear_attention import GatedOutputNorm, LinearAttentionTracker
from statewise.models.baselines.stack import Recurrence, Sequence, check_heads

_RANK, _TAU = 16, 16
# steps that are taken together; their pairs are kept for each entry of a key, so fewer than for the delta rule
_CHUNK = 8

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

    def forward(self, x: Sequence, state: Tensor) -> tuple[Sequence, Tensor]:
        """Run from a state: the matrices."""
        decay = F.logsigmoid(self.gk_proj(x)) / _TAU
        q, k, v, decay = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)
            for part in (*self.qkv_proj(x).chunk(3, dim=-1), decay)
        )
        o, last = gated_attention(q * q.shape[-1] ** -0.5, k, v, decay, state.flatten(0, 1))
        o = o.unflatten(0, (len(x), self.heads)).transpose(1, 2)
        return self.output(o, x), last.view_as(state)


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

    The exponents of pairs are formed as differences, all at most 0: splitting them into exp(c_t) and exp(-c_j) would
    be a matrix product, but overflows where a state decays fast.

    Args:
        q: how the state is read.
        k: the keys.
        v: the values.
        decay: logarithms of the factors by which rows of the state shrink.
        state: the matrices before the first step.
    """
    ahead = torch.ones(_CHUNK, _CHUNK, dtype=torch.bool, device=q.device).triu(1).unsqueeze(-1)
    outputs = []
    for chunk in zip(*(part.split(_CHUNK, dim=1) for part in (q, k, v, decay)), strict=True):
        o, state = _take_chunk(*chunk, state=state, ahead=ahead)
        outputs.append(o)
    return torch.cat(outputs, dim=1), state


def _take_chunk(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, state: State, ahead: Tensor) -> tuple[Tensor, State]:
    size = k.shape[1]
    total = decay.cumsum(dim=1)
    between = (total.unsqueeze(2) - total.unsqueeze(1)).masked_fill(ahead[:size, :size], -torch.inf).exp()
    # a product of [1, key] and [key, past] for each query
    read = torch.matmul(q.unsqueeze(2), (between * k.unsqueeze(1)).mT).squeeze(2)
    o = torch.baddbmm(torch.bmm(read, v), q * total.exp(), state)
    until = (total[:, -1:] - total).exp()
    return o, torch.baddbmm(state * total[:, -1].exp().unsqueeze(-1), (k * until).mT, v)


@final
class GLATracker(LinearAttentionTracker):
    """Gated linear attention: S_t = Diag(alpha_t) S_{t-1} + k_t v_t^T,  o_t = S_t^T q_t.

    alpha_t depends on the input, in (0, 1) for each row of S: a diagonal transition with positive eigenvalues. Keys
    have the size of values here; the paper halves them.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many heads.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        check_heads("gla", hidden_size, heads)
        mixers = [GLAMixer(hidden_size, heads) for _ in range(layers)]
        super().__init__(symbols, classes, hidden_size, mixers)
