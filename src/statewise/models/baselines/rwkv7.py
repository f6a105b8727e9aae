"""RWKV-7: the generalised delta rule with a decay for each channel (Peng et al., 2025, 2503.14456), in plain torch."""

import math
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.delta_chunks import Keys, generalised_delta
from statewise.models.baselines.stack import CHUNK_FLOATS, Sequence, check_heads
from statewise.models.interface import RecurrentModel

_RANK, _WIDER, _FLOATS = 32, 4, 16
# the shift of each input begins at 1 - (channel / width) ** power in the lowest layer
_POWERS = {"r": 0.2, "k": 0.7, "v": 0.7, "d": 0.9, "a": 0.9, "g": 0.2}

Last = Float[Tensor, "batch width"]
Matrix = Float[Tensor, "batch heads value key"]
State = tuple[Last, Last, Matrix]


class LowRank(nn.Module):
    """A low-rank MLP: f(x A) B + lambda."""

    def __init__(self, width: int, act: Callable[[Tensor], Tensor], bias: Tensor | None) -> None:
        super().__init__()
        self.act = act
        self.A = nn.Linear(width, _RANK, bias=False)
        self.B = nn.Linear(_RANK, width, bias=bias is not None)
        nn.init.zeros_(self.A.weight)
        nn.init.orthogonal_(self.B.weight, gain=0.1)
        if bias is not None:
            with torch.no_grad():
                self.B.bias.copy_(bias)

    def forward(self, x: Sequence) -> Sequence:
        """Apply both matrices, with the function between them."""
        return self.B(self.act(self.A(x)))


class TimeMix(nn.Module):
    """One recurrence of matrices, a head each: S_t = S_{t-1} (diag(w_t) - kappa_t^T (a_t * kappa_t)) + v_t^T k_t.

    Every input x^c is (1 - mu_c) x_t + mu_c x_{t-1}, c = r, k, v, d, a, g. Then r = x^r W_r; w = exp(-exp(-1/2)
    sigmoid(d)); d, a = sigmoid(.), the share nu = sigmoid(.) of the lowest layer's value in v, and the gate g are
    low-rank MLPs; kappa is xi * x^k W_k, of length 1 in each head; k = x^k W_k * (1 + alpha (a - 1)). The output is
    (g * (LayerNorm(S_t r_t) + (r_t . rho * k_t) v_t)) W_o.
    """

    def __init__(self, width: int, heads: int, layer: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        place = torch.arange(width) / width
        depth = layer / max(1, layers - 1)
        powers = torch.tensor([power * (1 - layer / layers) for power in _POWERS.values()])
        self.mu = nn.Parameter(1 - place ** powers.unsqueeze(1))
        self.W_r, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width, bias=False) for _ in range(4))
        for linear, gain in ((self.W_r, 1.0), (self.W_k, 0.1), (self.W_v, 1.0)):
            nn.init.orthogonal_(linear.weight, gain=gain)
        nn.init.zeros_(self.W_o.weight)
        self.d = LowRank(width, torch.tanh, -5.5 + 6 * place ** (1 + depth**0.3))
        self.a = LowRank(width, nn.Identity(), torch.zeros(width))
        self.g = LowRank(width, torch.sigmoid, None)
        # the lowest layer mixes its values with none
        self.nu = LowRank(width, nn.Identity(), torch.ones(width)) if layer else None
        self.xi = nn.Parameter(torch.full((width,), 0.85))
        self.alpha = nn.Parameter(torch.ones(width))
        self.rho = nn.Parameter(torch.zeros(heads, width // heads))
        self.norm = nn.GroupNorm(heads, width, eps=1e-5 * width / heads)

    def forward(self, x: Sequence, last: Last, S: Matrix, lowest: Sequence | None) -> tuple[Sequence, Matrix, Sequence]:
        """Run from the input before and from S; return the outputs, the last S, and the values of the lowest layer."""
        shifted = torch.cat([last.unsqueeze(1), x[:, :-1]], dim=1) - x
        x_r, x_k, x_v, x_d, x_a, x_g = (x + shifted * mu for mu in self.mu)
        r, k, v, a = self.W_r(x_r), self.W_k(x_k), self.W_v(x_v), self.a(x_a).sigmoid()
        log_w = -math.exp(-0.5) * self.d(x_d).sigmoid()
        if self.nu is not None and lowest is not None:
            v = torch.lerp(v, lowest, self.nu(x_v).sigmoid())
        kappa = F.normalize((k * self.xi).unflatten(-1, (self.heads, -1)), dim=-1).flatten(2)
        k = k * (1 + self.alpha * (a - 1))
        y, S = generalised_delta(*(self._split(part) for part in (r, log_w, k, v, kappa, a)), first=S)
        y = self.norm(y.transpose(1, 2).flatten(2).flatten(0, 1)).view_as(x)
        r, k, v = (part.unflatten(-1, (self.heads, -1)) for part in (r, k, v))
        bonus = (r * self.rho * k).sum(dim=-1, keepdim=True) * v
        return self.W_o(self.g(x_g) * (y + bonus.flatten(2))), S, v.flatten(2) if lowest is None else lowest

    def _split(self, x: Sequence) -> Keys:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class ChannelMix(nn.Module):
    """An MLP over the input and the one before it: relu(x^k W_k)^2 W_v."""

    def __init__(self, width: int, layer: int, layers: int) -> None:
        super().__init__()
        self.mu_k = nn.Parameter(1 - (torch.arange(width) / width) ** ((1 - layer / layers) ** 4))
        self.W_k = nn.Linear(width, _WIDER * width, bias=False)
        self.W_v = nn.Linear(_WIDER * width, width, bias=False)
        nn.init.orthogonal_(self.W_k.weight)
        nn.init.zeros_(self.W_v.weight)

    def forward(self, x: Sequence, last: Last) -> Sequence:
        """Apply the MLP."""
        shifted = torch.cat([last.unsqueeze(1), x[:, :-1]], dim=1) - x
        return self.W_v(self.W_k(x + shifted * self.mu_k).relu().square())


class RWKV7Block(nn.Module):
    """Time mixing, then channel mixing; each with a norm before it and a residual around it."""

    def __init__(self, width: int, heads: int, layer: int, layers: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time_mix = TimeMix(width, heads, layer, layers)
        self.channel_mix = ChannelMix(width, layer, layers)

    def forward(self, x: Sequence, state: State, lowest: Sequence | None) -> tuple[Sequence, State, Sequence]:
        """Add what both make of the normalised input."""
        last_time, last_channel, S = state
        inner = self.ln_1(x)
        mixed, S, values = self.time_mix(inner, last_time, S, lowest)
        x = x + mixed
        outer = self.ln_2(x)
        return x + self.channel_mix(outer, last_channel), (inner[:, -1], outer[:, -1], S), values


@final
class RWKV7Tracker(RecurrentModel):
    """An embedding with a norm, RWKV-7 blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many matrices the state of a block has.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        super().__init__()
        check_heads("rwkv7", hidden_size, heads)
        self.heads = heads
        self.embedding = nn.Embedding(symbols, hidden_size)
        self.ln_0 = nn.LayerNorm(hidden_size)
        self.blocks = nn.ModuleList(RWKV7Block(hidden_size, heads, layer, layers) for layer in range(layers))
        self.norm = nn.LayerNorm(hidden_size)
        self.readout = nn.Linear(hidden_size, classes)

    def init_state(self, batch: int) -> list[State]:
        """Return zeros for every block's last inputs and matrices."""
        weight = self.readout.weight
        width = weight.shape[1]
        size = width // self.heads
        last, S = weight.new_zeros(batch, width), weight.new_zeros(batch, self.heads, size, size)
        return [(last, last, S) for _ in self.blocks]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[State]
    ) -> tuple[Float[Tensor, "batch time classes"], list[State]]:
        """Run all blocks, and hand the values of the lowest to the others."""
        x, lowest, after = self.ln_0(self.embedding(tokens)), None, []
        for block, before in zip(self.blocks, state, strict=True):
            x, reached, lowest = block(x, before, lowest)
            after.append(reached)
        return self.readout(self.norm(x)), after

    def tokens_at_once(self) -> int:
        """Bound what a chunk of evaluation keeps: each token has several vectors of its own."""
        return max(1, CHUNK_FLOATS // (_FLOATS * self.readout.weight.shape[1]))
