"""PD-SSM: structured sparse transition matrices (Terzić et al., 2025, 2509.22284), in plain torch."""

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.models.baselines.stack import Block, Entered, Recurrence, StackedModel

# how much wider than the state the MLPs of D are
_WIDER = 2
_NO_NORM = nn.Identity()
# chunks pay from so many steps on, each of at most so many entries
_SHORTEST, _SMALL = 32, 1024

States = Complex[Tensor, "time batch hidden"]
State = Complex[Tensor, "batch hidden"]


class _SparseScan(torch.autograd.Function):
    """x_t = P_t D_t x_{t-1} + b_t, written out by hand: column j of P_t has its one in row argmax_i soft[j, i].

    A step sends each entry to its row, so that no matrix is multiplied. The gradient of P_t is passed straight through
    to the `soft` of its code; it needs all pairs of entries, and is one product for all steps of a code.
    """

    @staticmethod
    def forward(ctx: Any, soft: Tensor, D: Tensor, b: Tensor, first: Tensor, codes: Tensor) -> Tensor:
        rows, states = soft.argmax(dim=-1)[codes], torch.cat([first.unsqueeze(0), b])
        chunks = Chunks.compose(rows, D, b) if _chunks_pay(rows) else None
        fill = _by_steps if chunks is None else chunks.fill
        fill(rows, D, states)
        ctx.save_for_backward(D, states, rows, codes)
        ctx.soft_shape, ctx.chunks = soft.shape, chunks
        return states[1:]

    @staticmethod
    def backward(ctx: Any, to_x: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        D, states, rows, codes = ctx.saved_tensors
        to_b, conjugate = to_x.clone(memory_format=torch.contiguous_format), D.conj().resolve_conj()
        fill_back = _back_by_steps if ctx.chunks is None else ctx.chunks.fill_back
        moved, to_first = fill_back(rows, conjugate, to_b)
        to_soft = _by_code(D * states[:-1], to_b, codes, ctx.soft_shape) if ctx.needs_input_grad[0] else None
        return to_soft, moved * states[:-1].conj(), to_b, to_first, None


def _chunks_pay(rows: Tensor) -> bool:
    """Return whether steps are many, and so small that calls are most of their time."""
    return len(rows) >= _SHORTEST and rows[0].numel() <= _SMALL


def _by_steps(rows: Tensor, D: Tensor, states: Tensor) -> None:
    """Add P_t D_t x_{t-1} to every b_t, which `states` holds after the first x."""
    for row, d, before, after in zip(rows, D, states[:-1], states[1:], strict=True):
        after.scatter_add_(-1, row, d * before)


def _back_by_steps(rows: Tensor, conjugate: Tensor, to_b: Tensor) -> tuple[Tensor, Tensor]:
    """Add to the gradient of every x_t what flows back to it; return those of every D_t x_{t-1}, and of the first x."""
    moved, to_first = torch.empty_like(to_b), torch.zeros_like(to_b[0])
    steps = [part.unbind() for part in (rows, conjugate, to_b, moved)]
    for t, (row, d, given, taken) in reversed(list(enumerate(zip(*steps, strict=True)))):
        torch.gather(given, -1, row, out=taken)
        torch.mul(d, taken, out=to_first)
        if t:
            steps[2][t - 1].add_(to_first)
    return moved, to_first


@dataclass(frozen=True)
class Chunks:
    """The steps of a sequence in chunks, each composed to one step: products of matrices P D are of the same form.

    Column j of P_2 D_2 P_1 D_1 has its one entry in row r_2(r_1(j)), and it is d_2(r_1(j)) d_1(j). All chunks are
    composed side by side and applied in turn; then all are run side by side, each from where it begins.

    Args:
        length: of a chunk; the last may be shorter.
        rows: of all chunks but the last, where each column has its one entry.
        D: that entry.
        b: what a chunk makes of 0.
    """

    length: int
    rows: Int[Tensor, "chunk batch hidden"]
    D: States
    b: States

    @classmethod
    def compose(cls, rows: Tensor, D: Tensor, b: Tensor) -> "Chunks":
        """Compose every chunk but the last; there are about as many chunks as steps in one."""
        length = -(-len(rows) // math.isqrt(len(rows)))
        end = (len(rows) - 1) // length * length
        parts = [[part[i:end:length] for i in range(length)] for part in (rows, D, b)]
        r, d, x = (part[0] for part in parts)
        for row, diagonal, added in zip(*(part[1:] for part in parts), strict=True):
            x = added.clone().scatter_add_(-1, row, diagonal * x)
            d, r = d * diagonal.gather(-1, r), row.gather(-1, r)
        return cls(length, r, d, x)

    def fill(self, rows: Tensor, D: Tensor, states: Tensor) -> None:
        """Do as `_by_steps` does."""
        time, length = len(rows), self.length
        begins = states[:time:length]
        for row, d, x, before, after in zip(self.rows, self.D, self.b, begins[:-1], begins[1:], strict=True):
            after.copy_(x).scatter_add_(-1, row, d * before)
        # the last step of a chunk leads to where the next begins, which is there
        for i in range(length - 1):
            states[i + 1 :: length].scatter_add_(-1, rows[i::length], D[i::length] * states[i:time:length])
        if time % length == 0:
            states[time].scatter_add_(-1, rows[-1], D[-1] * states[-2])

    def fill_back(self, rows: Tensor, conjugate: Tensor, to_b: Tensor) -> tuple[Tensor, Tensor]:
        """Do as `_back_by_steps` does."""
        length = self.length
        # what flows out of every chunk but the first, of what was given within it
        flows = torch.zeros_like(self.D)
        for i in range(2 * length - 1, length - 1, -1):
            given = to_b[i::length]
            some = flows[: len(given)]
            torch.mul(conjugate[i::length], (given + some).gather(-1, rows[i::length]), out=some)
        for chunk in range(len(flows) - 2, -1, -1):
            flows[chunk] += self.D[chunk + 1].conj() * flows[chunk + 1].gather(-1, self.rows[chunk + 1])
        to_b[length - 1 : len(flows) * length : length] += flows
        moved, to_first = torch.empty_like(to_b), torch.empty_like(to_b[0])
        for i in range(length - 1, -1, -1):
            taken = to_b[i::length].gather(-1, rows[i::length])
            moved[i::length] = taken
            back = conjugate[i::length] * taken
            if i:
                to_b[i - 1 :: length][: len(back)] += back
            else:
                to_first = back[0]
        return moved, to_first


def _by_code(columns: Tensor, rows: Tensor, codes: Tensor, shape: torch.Size) -> Float[Tensor, "code column row"]:
    """Sum the products of columns and rows, real and imaginary parts alike, over the steps of each code."""
    columns, rows = (torch.view_as_real(part).flatten(0, 1) for part in (columns, rows))
    count, codes = shape[0], codes.flatten()
    if 4 * count > len(codes):
        # most steps have a code of their own
        return columns.new_zeros(shape).index_add_(0, codes, columns @ rows.mT)
    codes, order = codes.sort()
    # two rows a step: the real parts and the imaginary ones
    columns, rows = (part.mT[order].flatten(0, 1) for part in (columns, rows))
    sizes = (2 * torch.bincount(codes, minlength=count)).tolist()
    pairs = zip(columns.split(sizes), rows.split(sizes), strict=True)
    return torch.stack([column.mT @ row for column, row in pairs])


def sparse_scan(
    soft: Float[Tensor, "code column row"], D: States, b: States, first: State, codes: Int[Tensor, "time batch"]
) -> States:
    """Compute every x_t = P_t D_t x_{t-1} + b_t, where P_t is the one-hot form of `soft`, column by column.

    Args:
        soft: the probability of each row in each column; gradients are as if it were P.
        D: the diagonals.
        b: what is added at each step.
        first: x before the first step.
        codes: which of `soft` each step has; steps may share one, and then there are fewer than steps.
    """
    return _SparseScan.apply(soft, D, b, first, codes)  # pyright: ignore[reportReturnType]


class PDMixer(Recurrence):
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

    def init_state(self, batch: int) -> State:
        """Return the first unit vector for every sequence."""
        dtype = torch.complex(self.D, self.D).dtype
        first = torch.zeros(batch, len(self.D), dtype=dtype, device=self.D.device)
        first[:, 0] = 1
        return first

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the soft form of P; then D and B u, side by side."""
        mixture = self.S(x).softmax(dim=-1)
        soft = (mixture @ self.M.flatten(1)).unflatten(-1, self.M.shape[1:]).softmax(dim=-1)
        D = torch.polar(self.magnitude(x), 2 * math.pi * self.phase(x))
        return soft, torch.cat([D.real, D.imag, self.B(x)], dim=-1)

    def mix(self, entered: Entered, state: State) -> tuple[tuple[Tensor, ...], State]:
        """Run from a state; return the real and the imaginary parts of every x, and the last x."""
        soft, codes, (parts,) = entered.parts[0], entered.codes, entered.each(1)
        if codes is None:
            soft = soft.flatten(0, 1)
            codes = torch.arange(len(soft), device=soft.device).view(parts.shape[:2])
        # time comes first in the scan
        D, b = (torch.complex(*part.chunk(2, dim=-1)) for part in parts.transpose(0, 1).chunk(2, dim=-1))
        states = sparse_scan(soft, D, b, state, codes.T)
        return (torch.cat([states.real, states.imag], dim=-1).transpose(0, 1),), states[-1]

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Read the states."""
        (states,) = mixed
        return self.C(states) + self.D * x


class PDBlock(Block):
    """A PD-SSM with a norm after it; the term D u of its output stands for the residual."""

    def __init__(self, width: int, dictionary: int) -> None:
        super().__init__()
        self.mixer = PDMixer(width, dictionary)
        self.norm = nn.LayerNorm(width)

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the mixer, with no norm before it."""
        return _NO_NORM, self.mixer

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Normalise what the mixer makes of the input."""
        return self.norm(self.mixer.leave(x, *mixed))


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
