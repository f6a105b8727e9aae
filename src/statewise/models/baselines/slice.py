"""SLiCE: structured linear controlled differential equations (Walker et al., 2025, 2505.17761), in plain torch."""

import math
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.errors import TransitionError
from statewise.models.baselines.stack import Block, Entered, Recurrence, StackedModel

# the spread of the initial vector fields, and how much wider than the network its MLPs are
_INIT_STD, _WIDER = 0.01, 4
# chunks pay from so many steps on, each of at most so many entries
_SHORTEST, _SMALL = 32, 2048

Matrices = Float[Tensor, "time out in lane"]
Vectors = Float[Tensor, "time entry lane"]


class _AffineScan(torch.autograd.Function):
    """y_t = M_t y_{t-1} + b_t in every lane, written out by hand.

    Lanes, the blocks of all sequences, come last: vector instructions run along them, whatever the size of a block. The
    gradients of y are a recurrence of the same form backwards, and those of all M_t one outer product after it.
    """

    @staticmethod
    def forward(ctx: Any, M: Tensor, b: Tensor, first: Tensor) -> Tensor:
        states = _by_chunks(M, b, first) if _chunks_pay(M) else _by_steps(M, b, first)
        ctx.save_for_backward(M, states)
        return states[1:]

    @staticmethod
    def backward(ctx: Any, to_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        M, states = ctx.saved_tensors
        to_b, to_first = _back_by_chunks(M, to_y) if _chunks_pay(M) else _back_by_steps(M, to_y)
        return to_b.unsqueeze(2) * states[:-1].unsqueeze(1), to_b, to_first


def _chunks_pay(M: Tensor) -> bool:
    """Return whether steps are many, and so small that calls are most of their time."""
    return len(M) >= _SHORTEST and M[0].numel() <= _SMALL


def _by_steps(M: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """Return `first` and every y_t."""
    states = first.new_empty(len(M) + 1, *first.shape)
    states[0] = first
    product = torch.empty_like(M[0]) if len(M) else M
    for t in range(len(M)):
        torch.sum(torch.mul(M[t], states[t], out=product), dim=1, out=states[t + 1])
        states[t + 1] += b[t]
    return states


def _back_by_steps(M: Tensor, to_y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of all b_t, and of `first`."""
    to_b = to_y.clone(memory_format=torch.contiguous_format)
    to_first = to_y.new_zeros(to_y.shape[1:])
    product = torch.empty_like(M[0]) if len(M) else M
    for t in range(len(M) - 1, -1, -1):
        torch.sum(torch.mul(M[t], to_b[t].unsqueeze(1), out=product), dim=0, out=to_first)
        if t:
            to_b[t - 1] += to_first
    return to_b, to_first


def _back_by_chunks(M: Tensor, to_y: Tensor) -> tuple[Tensor, Tensor]:
    """Do the same as a recurrence from the last gradient: M_t^T leads from that of y_t to that of y_{t-1}."""
    given = torch.cat([torch.zeros_like(to_y[:1]), to_y[:-1]])
    back = _by_chunks(M.transpose(1, 2).flip(0), given.flip(0), to_y[-1]).flip(0)
    return back[1:], back[0]


def _by_chunks(M: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """Do the same: compose the maps of all chunks side by side, apply them in turn, then fill in the chunks."""
    time, size, lanes = len(M), M.shape[1], M.shape[3]
    chunks = math.isqrt(time)
    length = -(-time // chunks)
    # maps as [M b]; steps at the end that are missing change nothing
    maps = torch.cat([M, b.unsqueeze(2)], dim=2)
    missing = chunks * length - time
    if missing:
        one = torch.eye(size, size + 1, dtype=M.dtype, device=M.device).view(1, size, size + 1, 1)
        maps = torch.cat([maps, one.expand(missing, -1, -1, lanes)])
    # [step of a chunk, out, in, chunk, lane]
    maps = maps.unflatten(0, (chunks, length)).permute(1, 2, 3, 0, 4).contiguous()
    for t in range(1, length):
        composed = (maps[t, :, :size, None] * maps[t - 1].unsqueeze(0)).sum(dim=1)
        composed[:, size] += maps[t, :, size]
        maps[t] = composed
    begins = [first]
    for chunk in range(chunks):
        last = maps[-1, :, :, chunk]
        begins.append((last[:, :size] * begins[-1]).sum(dim=1) + last[:, size])
    inner = (maps[:, :, :size] * torch.stack(begins[:-1], dim=1)).sum(dim=2) + maps[:, :, size]
    states = inner.permute(2, 0, 1, 3).flatten(0, 1)[:time]
    return torch.cat([first.unsqueeze(0), states])


def affine_scan(M: Matrices, b: Vectors, first: Float[Tensor, "entry lane"]) -> Vectors:
    """Compute every y_t = M_t y_{t-1} + b_t.

    Args:
        M: the matrices of each step.
        b: what is added at each step.
        first: y before the first step.
    """
    return _AffineScan.apply(M, b, first)  # pyright: ignore[reportReturnType]


class Slice(Recurrence):
    """One recurrence: y_t = y_{t-1} + A(x_t) y_{t-1} + B(x_t), with A(x) in blocks on the diagonal.

    A and B, the vector fields `vf_A` and `vf_B`, are linear in (1, x), an increment of time and one of the path. The
    first y, `init`, is trained.
    """

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.init = nn.Parameter(torch.randn(width) * _INIT_STD)
        self.vf_A = nn.Linear(width + 1, width * block, bias=False)
        self.vf_B = nn.Linear(width + 1, width, bias=False)
        nn.init.normal_(self.vf_A.weight, std=_INIT_STD / block**0.5)
        nn.init.normal_(self.vf_B.weight, std=_INIT_STD)

    def init_state(self, batch: int) -> Float[Tensor, "batch width"]:
        """Return the trained first y of every sequence."""
        return self.init.expand(batch, -1)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute I + A(x) and B(x), entries of blocks first, then blocks."""
        width, size = len(self.init), self.block
        # rows of the weights are put in this order
        A = self.vf_A.weight.unflatten(0, (width // size, size, size)).permute(1, 2, 0, 3).flatten(0, 2)
        B = self.vf_B.weight.unflatten(0, (width // size, size)).transpose(0, 1).flatten(0, 1)
        one = torch.eye(size, dtype=x.dtype, device=x.device).flatten().repeat_interleave(width // size)
        return F.linear(x, A[:, 1:], A[:, 0] + one), F.linear(x, B[:, 1:], B[:, 0])

    def mix(self, entered: Entered, state: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Run from a y; return every y, and the last."""
        size, blocks = self.block, state.shape[1] // self.block
        M, b = (part.permute(1, 2, 0) for part in entered.each())
        M, b = M.unflatten(1, (size, size, blocks)).flatten(3), b.unflatten(1, (size, blocks)).flatten(2)
        states = affine_scan(M, b, state.unflatten(1, (blocks, size)).permute(2, 1, 0).flatten(1))
        ys = states.unflatten(2, (blocks, -1)).permute(3, 0, 2, 1).flatten(2)
        return (ys,), ys[:, -1]

    def leave(self, x: Tensor, *mixed: Tensor) -> Tensor:
        """Return every y."""
        return mixed[0]


class SliceBlock(Block):
    """A SLiCE, then an MLP four times as wide; each with a norm before it and a residual around it."""

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(width, eps=1e-6)
        self.slice = Slice(width, block)
        self.norm2 = nn.RMSNorm(width, eps=1e-6)
        self.token_mlp = nn.Sequential(nn.Linear(width, _WIDER * width), nn.GELU(), nn.Linear(_WIDER * width, width))

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm and the SLiCE."""
        return self.norm1, self.slice

    def finish(self, x: Tensor) -> Tensor:
        """Add the MLP."""
        return x + self.token_mlp(self.norm2(x))


@final
class SliceTracker(StackedModel):
    """An embedding, SLiCE blocks, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        block: the size of the blocks on the diagonal of A; 1 is a diagonal.
        layers: how many layers.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, block: int, layers: int = 1) -> None:
        if block < 1 or hidden_size % block:
            raise TransitionError(
                f"slice needs a block size that divides its hidden size {hidden_size}, got {block}; correct it"
            )
        stack = (SliceBlock(hidden_size, block) for _ in range(layers))
        super().__init__(symbols, classes, hidden_size, stack, nn.Identity(), 1.0, hidden_size * block)
