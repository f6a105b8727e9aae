"""sLSTM: scalar memories with exponential gates and memory mixing (Beck et al., 2024, 2405.04517), in plain torch."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.stack import Entered, Recurrence, StackedModel, check_heads

# before the first input the stabiliser is below every gate
_BEFORE = -1e30

Cells = Float[Tensor, "heads batch size"]
State = tuple[Cells, Cells, Cells, Cells]


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
    h, c, n, m = state
    hs = []
    for entering in inputs:
        i, f, z, o = torch.baddbmm(entering, h, R).chunk(4, dim=-1)
        kept = F.logsigmoid(f) + m
        m = torch.maximum(kept, i)
        forget, take = (kept - m).exp(), (i - m).exp()
        c = torch.addcmul(forget * c, take, z.tanh())
        n = torch.addcmul(take, forget, n)
        h = o.sigmoid() * c / n
        hs.append(h)
    return torch.stack(hs), (h, c, n, m)


class SLSTM(nn.Module):
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

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the inputs' part of all gates."""
        return (self.W(x),)

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state; return every h, and the last state."""
        (inputs,) = entered.each()
        inputs = inputs.unflatten(-1, (self.heads, -1)).permute(1, 2, 0, 3).contiguous()
        h, state = slstm_scan(inputs, self.R, state)
        return (h.permute(2, 0, 1, 3).flatten(2),), state


class SLSTMBlock(Recurrence):
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

    def init_state(self, batch: int) -> State:
        """Return zeros, and stabilisers below every gate."""
        zeros = self.slstm.R.new_zeros(self.slstm.heads, batch, self.slstm.R.shape[1])
        return zeros, zeros, zeros, torch.full_like(zeros, _BEFORE)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Normalise the input, and compute its part of all gates."""
        return self.slstm.enter(self.ln_1(x))

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run the sLSTM over time."""
        return self.slstm.mix(entered, state)

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Add the recurrence, then the MLP."""
        (h,) = mixed
        x = x + self.group_norm(h.reshape(-1, h.shape[-1])).view_as(x)
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
