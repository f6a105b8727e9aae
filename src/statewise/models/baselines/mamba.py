"""Mamba: selective state spaces (Gu & Dao, 2023), in plain torch."""

import math
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.selective_scan import POSITIVE, SIGNED, initial_steps, selective_scan
from statewise.models.baselines.short_convolution import convolve
from statewise.models.baselines.stack import Block, Entered, Recurrence, StackedModel

Eigenvalues = Literal["positive", "signed"]
State = tuple[Tensor, Tensor]
_STATE, _EXPAND, _KERNEL = 16, 2, 4
_SPREADS = {"positive": POSITIVE, "signed": SIGNED}


class MambaMixer(Recurrence):
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
            nn.init.uniform_(self.dt_proj.weight, -(rank**-0.5), rank**-0.5)
            self.dt_proj.bias.copy_(initial_steps(inner))

    def init_state(self, batch: int) -> State:
        """Return zeros for the last inputs of the convolution, and for the channels."""
        zeros = self.D.new_zeros
        return zeros(batch, _KERNEL - 1, self.inner), zeros(batch, self.inner, _STATE)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute u and the gate."""
        u, z = self.in_proj(x).chunk(2, dim=-1)
        return u, F.silu(z)

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state: the last inputs of the convolution, and the channels."""
        tail, channels = state
        u, gate = entered.each()
        extended = torch.cat([tail, u], dim=1)
        assert self.conv1d.bias is not None
        u = F.silu(convolve(extended, self.conv1d.weight, self.conv1d.bias))
        step, B, C = self.x_proj(u).split([self.rank, _STATE, _STATE], dim=-1)
        step = F.softplus(self.dt_proj(step))
        y, channels = selective_scan(step, -self.A_log.exp(), u, B, C, channels, self.spread)
        return (y, u, gate), (extended[:, extended.shape[1] - (_KERNEL - 1) :], channels)

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Add D u, gate and project."""
        y, u, gate = mixed
        return self.out_proj((y + self.D * u) * gate)


class MambaBlock(Block):
    """A mixer with a norm before it and a residual around it."""

    def __init__(self, width: int, eigenvalues: Eigenvalues) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.mixer = MambaMixer(width, eigenvalues)

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm and the mixer."""
        return self.norm, self.mixer


@final
class MambaTracker(StackedModel):
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
        blocks = (MambaBlock(hidden_size, eigenvalues) for _ in range(layers))
        norm = nn.RMSNorm(hidden_size, eps=1e-5)
        super().__init__(symbols, classes, hidden_size, blocks, norm, 0.1, _EXPAND * hidden_size * _STATE)
