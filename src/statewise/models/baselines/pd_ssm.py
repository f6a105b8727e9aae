"""PD-SSM: structured sparse transition matrices (Terzić et al., 2025, 2509.22284), in plain torch."""

import math
from typing import Any, final

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.models.baselines.stack import Recurrence, Sequence, StackedModel

# how much wider than the state the MLPs of D are
_WIDER = 2

States = Complex[Tensor, "time batch hidden"]
State = Complex[Tensor, "batch hidden"]


class _SparseScan(torch.autograd.Function):
    """x_t = P_t D_t x_{t-1} + b_t, written out by hand: column j of P_t has its one in row argmax_i soft_t[j, i].

    A step sends each entry to its row, so that no matrix is multiplied. The gradient of P_t is passed straight through
    to `soft`; it needs all pairs of entries, and is computed for all steps at once. A parallel scan exists, since
    products of such matrices are such matrices, but it does more work than this short loop.
    """

    @staticmethod
    def forward(ctx: Any, soft: Tensor, D: Tensor, b: Tensor, first: Tensor) -> Tensor:
        batch, hidden = first.shape
        begins = hidden * torch.arange(batch, device=first.device).unsqueeze(1)
        rows = (soft.argmax(dim=-1) + begins).flatten(1)
        states = first.new_empty(len(D) + 1, batch, hidden)
        states[0], states[1:] = first, b
        for t in range(len(D)):
            states[t + 1].view(-1).scatter_add_(0, rows[t], (D[t] * states[t]).view(-1))
        ctx.save_for_backward(D, states, rows)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, to_x: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        D, states, rows = ctx.saved_tensors
        to_b, conjugate = to_x.clone(memory_format=torch.contiguous_format), D.conj().resolve_conj()
        # what flows back to D_t x_{t-1}
        moved, to_first = torch.empty_like(to_b), torch.zeros_like(states[0])
        for t in range(len(D) - 1, -1, -1):
            torch.index_select(to_b[t].view(-1), 0, rows[t], out=moved[t].view(-1))
            torch.mul(conjugate[t], moved[t], out=to_first)
            if t:
                to_b[t - 1] += to_first
        to_soft = None
        if ctx.needs_input_grad[0]:
            to_soft = torch.view_as_real(D * states[:-1]) @ torch.view_as_real(to_b).mT
        return to_soft, moved * states[:-1].conj(), to_b, to_first


def sparse_scan(soft: Float[Tensor, "time batch column row"], D: States, b: States, first: State) -> States:
    """Compute every x_t = P_t D_t x_{t-1} + b_t, where P_t is the one-hot form of `soft`, column by column.

    Args:
        soft: the probability of each row in each column; gradients are as if it were P.
        D: the diagonals.
        b: what is added at each step.
        first: x before the first step.
    """
    return _SparseScan.apply(soft, D, b, first)  # pyright: ignore[reportReturnType]


class PDMixer(nn.Module):
    """One state space: x_t = P(u_t) D(u_t) x_{t-1} + B u_t,  y_t = C [Re x_t, Im x_t] + D u_t, with a complex state x.

    D(u) is diagonal, with magnitudes in (0, 1) and phases in (0, 2 pi), each the sigmoid of an MLP of u. P(u) has one
    1 in each column, in the row of the largest entry of M(u) = sum_k softmax(S u)_k M_k, a mixture of the trained
    matrices M_1, ..., M_K; its gradient is that of the softmax of the column. The state begins as the first unit
    vector. The columns of M are stored as rows.
    """

    def __init__(self, width: int, dictionary: int) -> None:
        super().__init__()
        self.magnitude, self.phase = (
            nn.Sequential(nn.Linear(width, _WIDER * width), nn.GELU(), nn.Linear(_WIDER * width, width), nn.Sigmoid())
            for _ in range(2)
        )
        self.S = nn.Linear(width, dictionary, bias=False)
        self.M = nn.Parameter(torch.randn(dictionary, width, width) * width**-0.5)
        self.B = nn.Linear(width, 2 * width, bias=False)
        nn.init.normal_(self.B.weight, std=(2 * width) ** -0.5)
        self.C = nn.Linear(2 * width, width)
        self.D = nn.Parameter(torch.randn(width) * width**-0.5)

    def forward(self, u: Sequence, x: State) -> tuple[Sequence, State]:
        """Run from a state; return every y, and the last state."""
        # time comes first in the scan
        entering = u.transpose(0, 1).contiguous()
        soft = torch.einsum("tbk,kji->tbji", self.S(entering).softmax(dim=-1), self.M).softmax(dim=-1)
        D = torch.polar(self.magnitude(entering), 2 * math.pi * self.phase(entering))
        b = torch.complex(*self.B(entering).chunk(2, dim=-1))
        states = sparse_scan(soft, D, b, x)
        y = self.C(torch.cat([states.real, states.imag], dim=-1)) + self.D * entering
        return y.transpose(0, 1), states[-1]


class PDBlock(Recurrence):
    """A PD-SSM with a norm after it; the term D u of its output stands for the residual."""

    def __init__(self, width: int, dictionary: int) -> None:
        super().__init__()
        self.mixer = PDMixer(width, dictionary)
        self.norm = nn.LayerNorm(width)

    def init_state(self, batch: int) -> State:
        """Return the first unit vector for every sequence."""
        scale = self.norm.weight
        first = torch.zeros(batch, len(scale), dtype=torch.complex(scale, scale).dtype, device=scale.device)
        first[:, 0] = 1
        return first

    def forward(self, x: Sequence, state: State) -> tuple[Sequence, State]:
        """Normalise what the mixer makes of the input."""
        mixed, state = self.mixer(x, state)
        return self.norm(mixed), state


@final
class PDTracker(StackedModel):
    """An embedding, PD-SSM blocks, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks, and of their states.
        layers: how many blocks.
        dictionary: how many matrices P is mixed from, K in the paper.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, dictionary: int = 8) -> None:
        if dictionary < 1:
            raise TransitionError(f"pd_ssm needs a dictionary of at least 1 matrix, got {dictionary}; use 8")
        stack = (PDBlock(hidden_size, dictionary) for _ in range(layers))
        super().__init__(symbols, classes, hidden_size, stack, nn.Identity(), 1.0, hidden_size**2)
