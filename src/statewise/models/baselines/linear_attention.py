"""What the models with a matrix as state share: norms, the MLP, and the block.

The state of a head is a matrix S that takes in values under keys and is read by queries, o_t = S_t^T q_t. How S
changes is the mixer's; each model has one in a file of its own.
"""

import math
from abc import ABC
from collections.abc import Callable, Iterable
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.models.baselines.stack import Block, Recurrence, StackedModel, check_heads

NORM_EPS = 1e-5
# floats that the projections of a token take for each unit of width, about
_FLOATS_PER_UNIT = 8

Tokens = Float[Tensor, "*token width"]
Heads = Float[Tensor, "*token heads size"]


class OutputNorm(nn.Module):
    """The end of a mixer: y = W_o norm(o), each head divided by its root mean square."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width // heads, eps=NORM_EPS)
        self.o_proj = nn.Linear(width, width, bias=False)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Need nothing of the input."""
        return ()

    def forward(self, o: Heads) -> Tokens:
        """Normalise the heads and mix them."""
        return self.o_proj(self.norm(o).flatten(-2))


class GatedOutputNorm(nn.Module):
    """The end of a mixer with a gate: y = W_o (norm(o) * silu(W_g x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width // heads, eps=NORM_EPS)
        self.g_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def enter(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute the gate."""
        return (F.silu(self.g_proj(x)),)

    def forward(self, o: Heads, gate: Tokens) -> Tokens:
        """Normalise the heads, gate and mix them."""
        return self.o_proj(self.norm(o).flatten(-2) * gate)


Output = OutputNorm | GatedOutputNorm


class SwiGLU(nn.Module):
    """The MLP of these models: W_d (silu(W_g x) * W_u x), 8/3 as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = math.ceil(8 * width / 3)
        self.gate_up_proj = nn.Linear(width, 2 * inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tokens) -> Tokens:
        """Apply it to each token."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class MixerBlock(Block):
    """A mixer, then an MLP; each with a norm before it and a residual around it."""

    def __init__(self, width: int, mixer: Recurrence) -> None:
        super().__init__()
        self.mixer_norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mixer = mixer
        self.mlp_norm = nn.RMSNorm(width, eps=NORM_EPS)
        self.mlp = SwiGLU(width)

    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm and the mixer."""
        return self.mixer_norm, self.mixer

    def finish(self, x: Tokens) -> Tokens:
        """Add the MLP."""
        return x + self.mlp(self.mlp_norm(x))


class LinearAttentionTracker(StackedModel, ABC):
    """An embedding, blocks, a last norm, and a linear readout.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        mixers: one for each block.
    """

    def __init__(self, symbols: int, classes: int, hidden_size: int, mixers: Iterable[Recurrence]) -> None:
        blocks = (MixerBlock(hidden_size, mixer) for mixer in mixers)
        norm = nn.RMSNorm(hidden_size, eps=NORM_EPS)
        super().__init__(symbols, classes, hidden_size, blocks, norm, 0.1, _FLOATS_PER_UNIT * hidden_size)


class HeadedTracker(LinearAttentionTracker, ABC):
    """A network whose mixers have a width and heads, and no other options.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        layers: how many blocks.
        heads: how many heads.
    """

    # as users write it, and what mixes over time
    name: ClassVar[str]
    mixer: ClassVar[Callable[[int, int], Recurrence]]

    def __init__(self, symbols: int, classes: int, hidden_size: int, layers: int = 1, heads: int = 4) -> None:
        check_heads(self.name, hidden_size, heads)
        # all before the embedding is drawn
        mixers = [type(self).mixer(hidden_size, heads) for _ in range(layers)]
        super().__init__(symbols, classes, hidden_size, mixers)
