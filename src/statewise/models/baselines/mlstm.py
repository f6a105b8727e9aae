"""mLSTM: matrix memories with exponential gates (Beck et al., 2024, 2405.04517), in plain torch."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.linear_attention import SwiGLU
from statewise.models.baselines.stack import Block, Entered, Recurrence, StackedModel, check_heads

_LONGEST = 64

Keys = Float[Tensor, "batch heads time key"]
Values = Float[Tensor, "batch heads time value"]
Gates = Float[Tensor, "batch heads time"]
State = tuple[Float[Tensor, "batch heads key value"], Float[Tensor, "batch heads key"], Float[Tensor, "batch heads"]]


def mlstm_chunks(q: Keys, k: Keys, v: Values, i: Gates, f: Gates, state: State) -> tuple[Values, State]:
    """Compute every h_t, and the last (C, n, m), a chunk of steps at a time.

    Within a chunk h is attention, with weights q_t . k_j / sqrt(d) times what the gates leave of step j; what was
    before the chunk is read from C and n. The values get a last entry of 1, so that C and n are one matrix.

    Args:
        q: queries.
        k: keys.
        v: values.
        i: the logarithms of the input gates.
        f: the forget gates before their sigmoid.
        state: C, n and m before the first step.
    """
    C, n, m = state
    memory, values = torch.cat([C, n.unsqueeze(-1)], dim=-1), F.pad(v, (0, 1), value=1.0)
    q, kept = q * q.shape[-1] ** -0.5, F.logsigmoid(f)
    hs = []
    for begin in range(0, q.shape[2], _LONGEST):
        some = slice(begin, begin + _LONGEST)
        gates = (i[..., some], kept[..., some])
        h, memory, m = _chunk(q[:, :, some], k[:, :, some], values[:, :, some], *gates, memory, m)
        hs.append(h)
    return torch.cat(hs, dim=2), (memory[..., :-1], memory[..., -1], m)


def _chunk(q: Keys, k: Keys, values: Values, i: Gates, kept: Gates, memory: Tensor, m: Tensor) -> tuple[Tensor, ...]:
    until = kept.cumsum(dim=2)
    ahead = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    gates = (until.unsqueeze(-1) + (i - until).unsqueeze(-2)).masked_fill(ahead, -math.inf)
    before = until + m.unsqueeze(-1)
    m = torch.maximum(before, gates.amax(dim=-1))
    weights = (gates - m.unsqueeze(-1)).exp()
    carried = (before - m).exp().unsqueeze(-1)
    read = (q @ k.mT * weights) @ values + (q * carried) @ memory
    h = read[..., :-1] / torch.maximum(read[..., -1:].abs(), (-m).exp().unsqueeze(-1))
    memory = memory * carried[:, :, -1:] + (k * weights[:, :, -1].unsqueeze(-1)).mT @ values
    return h, memory, m[:, :, -1]


class MLSTM(Recurrence):
    """One layer: C_t = f_t C_{t-1} + i_t k_t v_t^T,  n_t = f_t n_{t-1} + i_t k_t,  h_t = C_t^T q_t / max(|n_t q_t|, 1).

    q, k and v are linear in x, and q is divided by sqrt(d). Each head has a gate i_t = exp(.) and one f_t = sigmoid(.).
    C and n are kept divided by exp(m_t), m_t = max(log f_t + m_{t-1}, log i_t), which leaves h as it is. The output is
    W_out (o_t * norm(h_t)), o_t = sigmoid(W_o x_t), with a norm for each head.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o, self.out = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.i, self.f = nn.Linear(width, heads), nn.Linear(width, heads)
        self.norm = nn.Parameter(torch.ones(width))
        with torch.no_grad():
            for gate in (self.i, self.f):
                gate.weight.zero_()
            nn.init.normal_(self.i.bias, std=0.1)
            self.f.bias.copy_(torch.linspace(3.0, 6.0, heads))

    def init_state(self, batch: int) -> State:
        """Return zeros for C, n and m."""
        heads, size = self.heads, len(self.norm) // self.heads
        shapes = ((batch, heads, size, size), (batch, heads, size), (batch, heads))
        C, n, m = (self.norm.new_zeros(shape) for shape in shapes)
        return C, n, m

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute q, k and v side by side, both gates, and o."""
        qkv = F.linear(x, torch.cat([self.q.weight, self.k.weight, self.v.weight]))
        return qkv, torch.cat([self.i(x), self.f(x)], dim=-1), self.o(x).sigmoid()

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state."""
        qkv, gates, o = entered.each()
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        i, f = gates.transpose(1, 2).chunk(2, dim=1)
        h, state = mlstm_chunks(q, k, v, i, f, state)
        return (h.transpose(1, 2), o), state

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Normalise the heads, gate and mix them."""
        h, o = mixed
        normed = F.layer_norm(h, (h.shape[-1],), eps=1e-6).flatten(-2) * self.norm
        return self.out(o * normed)


class MLSTMBlock(Block):
    """An mLSTM, then a gated MLP; each with a norm before it and a residual around it, as in xLSTM 7B (2503.13427)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.mlstm = MLSTM(width, heads)
        self.mlp = SwiGLU(width)

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm and the mLSTM."""
        return self.norm_1, self.mlstm

    def finish(self, x: Tensor) -> Tensor:
        """Add the MLP."""
        return x + self.mlp(self.norm_2(x))


@final
class MLSTMTracker(StackedModel):
    """An embedding, mLSTM blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many matrices the state of a block has.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        check_heads("mlstm", hidden_size, heads)
        stack = (MLSTMBlock(hidden_size, heads) for _ in range(layers))
        norm = nn.RMSNorm(hidden_size, eps=1e-6)
        floats = max(16 * hidden_size, heads * _LONGEST)
        super().__init__(symbols, classes, hidden_size, stack, norm, math.sqrt(0.4 / hidden_size), floats)
