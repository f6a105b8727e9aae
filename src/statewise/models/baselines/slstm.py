"""sLSTM: scalar memories with exponential gates and memory mixing (Beck et al., 2024, 2405.04517), in plain torch."""

import math
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.stack import Block, Entered, Recurrence, StackedModel, check_heads

# before the first input the stabiliser is below every gate
_BEFORE = -1e30

Cells = Float[Tensor, "heads batch size"]
State = tuple[Cells, Cells, Cells, Cells]


class _SLSTMScan(torch.autograd.Function):
    """The recurrence, written out by hand: the factors of a step's derivatives are computed for all steps at once.

    h does not depend on the stabilisers m, so that they have no gradient; those of c and n are as if m were given.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, R: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, ...]:
        time, size = len(inputs), h.shape[-1]
        # tanh z = 2 sigmoid(2 z) - 1 is several times faster here
        twice = torch.cat([R.new_ones(2 * size), R.new_full((size,), 2.0), R.new_ones(size)])
        gates, doubled = inputs * twice, R * twice
        hs, cs, ns = (h.new_empty(time + 1, *h.shape) for _ in range(3))
        hs[0], cs[0], ns[0], raw = h, c, n, h.new_empty(time, *h.shape)
        for t in range(time):
            i, f, z, o = gates[t].baddbmm_(hs[t], doubled).chunk(4, dim=-1)
            kept = F.logsigmoid(raw[t].copy_(f)).add_(m)
            m = torch.maximum(kept, i)
            torch.sub(kept, m, out=f).exp_()
            i.sub_(m).exp_()
            gates[t, ..., 2 * size :].sigmoid_()
            z.mul_(2).sub_(1)
            torch.addcmul(i * z, f, cs[t], out=cs[t + 1])
            torch.addcmul(i, f, ns[t], out=ns[t + 1])
            torch.div(o * cs[t + 1], ns[t + 1], out=hs[t + 1])
        ctx.save_for_backward(R, gates, raw, hs, cs, ns)
        ctx.mark_non_differentiable(m)
        return hs[1:], hs[-1].clone(), cs[-1].clone(), ns[-1].clone(), m

    @staticmethod
    def backward(ctx: Any, to_hs: Tensor, *to_last: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        R, gates, raw, hs, cs, ns = ctx.saved_tensors
        take, forget, z, o = gates.chunk(4, dim=-1)
        from_h, lost, opened = o / ns[1:], hs[1:] / ns[1:], hs[1:] * (1 - o)
        taken, slope, closing = take * z, take * (1 - z * z), forget * (-raw).sigmoid()
        c_share, n_share = closing * cs[:-1], closing * ns[:-1]
        to_gates, back = torch.empty_like(gates), R.mT.contiguous()
        to_h, to_c, to_n = (part.clone(memory_format=torch.contiguous_format) for part in to_last[:3])
        for t in range(len(gates) - 1, -1, -1):
            to_h += to_hs[t]
            to_i, to_f, to_z, to_o = to_gates[t].chunk(4, dim=-1)
            to_c.addcmul_(to_h, from_h[t])
            to_n.addcmul_(to_h, lost[t], value=-1)
            torch.addcmul(to_n * take[t], to_c, taken[t], out=to_i)
            torch.addcmul(to_n * n_share[t], to_c, c_share[t], out=to_f)
            torch.mul(to_c, slope[t], out=to_z)
            torch.mul(to_h, opened[t], out=to_o)
            to_c *= forget[t]
            to_n *= forget[t]
            torch.bmm(to_gates[t], back, out=to_h)
        before, after = (part.transpose(0, 1).flatten(1, 2) for part in (hs[:-1], to_gates))
        return to_gates, torch.bmm(before.mT, after), to_h, to_c, to_n, None


def slstm_scan(
    inputs: Float[Tensor, "time heads batch gates"], R: Float[Tensor, "heads size gates"], state: State
) -> tuple[Float[Tensor, "time heads batch size"], State]:
    """Compute every h_t, and the last (h, c, n, m).

    The gates depend on the h before, so there is nothing but a loop; the inputs' part of all gates is computed before.

    Args:
        inputs: W x_t + b for the gates i, f, z and o, one after the other.
        R: the recurrent matrix of each head, for the same gates.
        state: h, c, n and m before the first step.
    """
    hs, *last = _SLSTMScan.apply(inputs, R, *state)  # pyright: ignore[reportGeneralTypeIssues]
    return hs, tuple(last)


class SLSTM(Recurrence):
    """One layer: c_t = f_t c_{t-1} + i_t z_t,  n_t = f_t n_{t-1} + i_t,  h_t = o_t c_t / n_t.

    i_t = exp(.), f_t = sigmoid(.), z_t = tanh(.) and o_t = sigmoid(.) are functions of W x_t + R h_{t-1} + b, with R in
    blocks, one for each head. The cells are kept divided by exp(m_t), m_t = max(log f_t + m_{t-1}, log i_t), which
    leaves h as it is.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        size = width // heads
        # rows are heads, then the gates i, f, z and o
        self.W = nn.Linear(width, 4 * width)
        self.R = nn.Parameter(torch.zeros(heads, size, 4 * size))
        nn.init.normal_(self.W.weight, std=math.sqrt(0.4 / width))
        with torch.no_grad():
            self.W.bias.zero_()
            self.W.bias.view(heads, 4, size)[:, 1] = torch.linspace(3.0, 6.0, size)

    def init_state(self, batch: int) -> State:
        """Return zeros, and stabilisers below every gate."""
        zeros = self.R.new_zeros(self.heads, batch, self.R.shape[1])
        return zeros, zeros, zeros, torch.full_like(zeros, _BEFORE)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the inputs' part of all gates."""
        return (self.W(x),)

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state; return every h, and the last state."""
        (inputs,) = entered.each()
        inputs = inputs.unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3).contiguous()
        h, state = slstm_scan(inputs, self.R, state)
        return (h.permute(2, 0, 1, 3),), state

    def leave(self, x: Tensor, *mixed: Tensor) -> Float[Tensor, "*token heads size"]:
        """Return every h."""
        return mixed[0]


class SLSTMBlock(Block):
    """An sLSTM with a norm for each head, then a gated MLP; each with a norm before it and a residual around it.

    The convolution that the paper allows before the gates i and f is left out.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        wider = math.ceil(4 * width / 3)
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.slstm = SLSTM(width, heads)
        self.group_norm = nn.GroupNorm(heads, width)
        self.up, self.down = nn.Linear(width, 2 * wider, bias=False), nn.Linear(wider, width, bias=False)

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm and the sLSTM."""
        return self.ln_1, self.slstm

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Add the recurrence with its heads normalised, then the MLP."""
        h = self.slstm.leave(x, *mixed)
        normed = F.layer_norm(h, (h.shape[-1],), eps=self.group_norm.eps).flatten(-2)
        return self.finish(x + torch.addcmul(self.group_norm.bias, normed, self.group_norm.weight))

    def finish(self, x: Tensor) -> Tensor:
        """Add the MLP."""
        gate, up = self.up(self.ln_2(x)).chunk(2, dim=-1)
        return x + self.down(F.gelu(gate) * up)


@final
class SLSTMTracker(StackedModel):
    """An embedding, sLSTM blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many parts of the state mix among themselves.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        check_heads("slstm", hidden_size, heads)
        stack = (SLSTMBlock(hidden_size, heads) for _ in range(layers))
        norm = nn.LayerNorm(hidden_size, bias=False)
        super().__init__(symbols, classes, hidden_size, stack, norm, math.sqrt(0.4 / hidden_size), 16 * hidden_size)
