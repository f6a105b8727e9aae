"""What the models with a matrix as state share: norms, the block, and everything around blocks.

The state of a head is a matrix S that takes in values under keys and is read by queries, o_t = S_t^T q_t. How S
changes is the mixer's; each model has one in a file of its own.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.errors import TransitionError
from statewise.models.interface import RecurrentModel

NORM_EPS = 1e-5
# floats that the projections of a chunk of evaluation may take, at about this many per token and unit of width
_CHUNK_FLOATS, _FLOATS_PER_UNIT = 16_000_000, 16

Inputs = Float[Tensor, "batch time width"]
Heads = Float[Tensor, "batch time heads size"]


class Mixer(nn.Module, ABC):
    """A recurrence over time with a state of its own."""

    @abstractmethod
    def init_state(self, batch: int) -> Any:
        """Return the state before the first input."""

    @abstractmethod
    def forward(self, x: Inputs, state: Any) -> tuple[Inputs, Any]:
        """Run from a state; return the outputs, and the state to go on from."""


class OutputNorm(nn.Module):
    """The end of a mixer: y = W_o norm(o), each head divided by its root mean square."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width // heads, eps=NORM_EPS)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, o: Heads, x: Inputs) -> Inputs:
        """Normalise the heads and mix them."""
        return self.o_proj(self.norm(o).flatten(2))


class GatedOutputNorm(nn.Module):
    """The end of a mixer with a gate: y = W_o (norm(o) * silu(W_g x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width // heads, eps=NORM_EPS)
        self.g_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, o: Heads, x: Inputs) -> Inputs:
        """Normalise the heads, gate and mix them."""
        return self.o_proj(self.norm(o).flatten(2) * F.silu(self.g_proj(x)))


class SwiGLU(nn.Module):
    """The MLP of these models: W_d (silu(W_g x) * W_u x), 8/3 as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = math.ceil(8 * width / 3)
        self.gate_up_proj = nn.Linear(width, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Inputs) -> Inputs:
        """Apply it to each token."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class MixerBlock(nn.Module):
    """A mixer, then an MLP; each with a norm before it and a residual around it."""

    def __init__(self, width: int, mixer: Mixer) -> None:
        super().__init__()
        self.mixer_norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mixer = mixer
        self.mlp_norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mlp = SwiGLU(width)

    def forward(self, x: Inputs, state: Any) -> tuple[Inputs, Any]:
        """Add what the mixer makes of the normalised input, then what the MLP does."""
        mixed, state = self.mixer(self.mixer_norm(x), state)
        x = x + mixed
        return x + self.mlp(self.mlp_norm(x)), state


class LinearAttentionTracker(RecurrentModel, ABC):
    """An embedding, blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        mixers: one for each block.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, mixers: Iterable[Mixer]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden_size)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.blocks = nn.ModuleList(MixerBlock(hidden_size, mixer) for mixer in mixers)
        self.norm = nn.RMSNorm(hidden_size, eps=NORM_EPS)
        self.readout = nn.Linear(hidden_size, classes)

    def init_state(self, batch: int) -> list[Any]:
        """Return the first state of every block."""
        return [block.mixer.init_state(batch) for block in self._blocks()]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[Any]
    ) -> tuple[Float[Tensor, "batch time classes"], list[Any]]:
        """Run all blocks."""
        x = self.embedding(tokens)
        after = []
        for block, before in zip(self._blocks(), state, strict=True):
            x, reached = block(x, before)
            after.append(reached)
        return self.readout(self.norm(x)), after

    def tokens_at_once(self) -> int:
        """Bound the projections of a chunk."""
        return max(1, _CHUNK_FLOATS // (_FLOATS_PER_UNIT * self.readout.weight.shape[1]))

    def _blocks(self) -> list[MixerBlock]:
        return [block for block in self.blocks if isinstance(block, MixerBlock)]


def check_heads(name: str, hidden_size: int, heads: int) -> None:
    """Refuse a hidden size that the heads do not divide.

    Args:
        name: of the model, as the user writes it.
        hidden_size: the width.
        heads: how many heads.
    """
    if heads < 1 or hidden_size % heads:
        raise TransitionError(
            f"{name} needs a hidden size that its {heads} heads divide, got {hidden_size}; "
            f"use another hidden size, or heads=1"
        )
