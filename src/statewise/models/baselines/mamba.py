"""Mamba: selective state spaces (Gu & Dao, 2023), in plain torch."""

import math
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.selective_scan import POSITIVE, SIGNED, selective_scan
from statewise.models.baselines.short_convolution import convolve
from statewise.models.interface import RecurrentModel

Eigenvalues = Literal["positive", "signed"]
_STATE, _EXPAND, _KERNEL = 16, 2, 4
# floats that the channels of a chunk of evaluation may take
_CHUNK_FLOATS = 8_000_000
_STEP_LOW, _STEP_HIGH = 0.001, 0.1


_SPREADS = {"positive": POSITIVE, "signed": SIGNED}


class MambaMixer(nn.Module):
    """One selective state space: s_t = exp(d_t A) s_{t-1} + d_t B_t u_t,  y_t = C_t s_t + D u_t, gated by silu(z_t).

    The step d, and B and C, depend on the input. A is negative, so each channel decays by a factor in (0, 1); with
    "signed" eigenvalues the factor is 2 exp(d A) - 1 instead, in (-1, 1), which can flip signs and so track parity
    (Grazzi et al., 2024).
    """

    def __init__(self, width: int, eigenvalues: Eigenvalues) -> None:
        super().__init__()
        inner, rank = _EXPAND * width, math.ceil(width / 16)
        self.inner, self.rank, self.spread = inner, rank, _SPREADS[eigenvalues]
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, _KERNEL, groups=inner)
        self.x_proj = nn.Linear(inner, rank + 2 * _STATE, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, _STATE + 1).log().repeat(inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        with torch.no_grad():
            # steps begin log-uniform between the two bounds
            nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
            low, high = math.log(_STEP_LOW), math.log(_STEP_HIGH)
            first = torch.exp(torch.rand(inner) * (high - low) + low)
            self.dt_proj.bias.copy_(first + torch.log(-torch.expm1(-first)))

    def forward(
        self, x: Float[Tensor, "batch time width"], state: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "batch time width"], tuple[Tensor, Tensor]]:
        """Run from a state: the last inputs of the convolution, and the channels."""
        tail, channels = state
        u, z = self.in_proj(x).chunk(2, dim=-1)
        extended = torch.cat([tail, u], dim=1)
        assert self.conv1d.bias is not None
        u = F.silu(convolve(extended, self.conv1d.weight, self.conv1d.bias))
        step, B, C = self.x_proj(u).split([self.rank, _STATE, _STATE], dim=-1)
        step = F.softplus(self.dt_proj(step))
        y, channels = selective_scan(step, -self.A_log.exp(), u, B, C, channels, self.spread)
        y = y + self.D * u
        return self.out_proj(y * F.silu(z)), (extended[:, extended.shape[1] - (_KERNEL - 1) :], channels)


class MambaBlock(nn.Module):
    """A mixer with a norm before it and a residual around it."""

    def __init__(self, width: int, eigenvalues: Eigenvalues) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.mixer = MambaMixer(width, eigenvalues)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Add what the mixer makes of the normalised input."""
        mixed, state = self.mixer(self.norm(x), state)
        return x + mixed, state


@final
class MambaTracker(RecurrentModel):
    """An embedding, Mamba blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        eigenvalues: "positive" for decays in (0, 1), Mamba's own; "signed" for (-1, 1).
    """

    def __init__(
        self, symbols: int, classes: int, hidden_size: int, layers: int = 1, eigenvalues: Eigenvalues = "positive"
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden_size)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.blocks = nn.ModuleList(MambaBlock(hidden_size, eigenvalues) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden_size, eps=1e-5)
        self.readout = nn.Linear(hidden_size, classes)

    def init_state(self, batch: int) -> list[tuple[Tensor, Tensor]]:
        """Return zeros for every block's convolution and channels."""
        weight = self.readout.weight
        inner = _EXPAND * weight.shape[1]
        return [
            (weight.new_zeros(batch, _KERNEL - 1, inner), weight.new_zeros(batch, inner, _STATE)) for _ in self.blocks
        ]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[tuple[Tensor, Tensor]]
    ) -> tuple[Float[Tensor, "batch time classes"], list[tuple[Tensor, Tensor]]]:
        """Run all blocks."""
        x = self.embedding(tokens)
        after = []
        for block, before in zip(self.blocks, state, strict=True):
            x, reached = block(x, before)
            after.append(reached)
        return self.readout(self.norm(x)), after

    def tokens_at_once(self) -> int:
        """Bound the channels of a chunk: each token has its own."""
        return max(1, _CHUNK_FLOATS // (_EXPAND * self.readout.weight.shape[1] * _STATE))
