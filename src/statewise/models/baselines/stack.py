"""What recurrent networks of blocks share: an embedding, blocks one above the other, a last norm, and a readout."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.models.interface import RecurrentModel

Sequence = Float[Tensor, "batch time width"]
# floats that the largest tensor of a chunk of evaluation may take
CHUNK_FLOATS = 8_000_000


class Recurrence(nn.Module, ABC):
    """A map of sequences with a state of its own: a block of a stack, or what mixes over time in one."""

    @abstractmethod
    def init_state(self, batch: int) -> Any:
        """Return the state before the first input."""

    @abstractmethod
    def forward(self, x: Sequence, state: Any) -> tuple[Sequence, Any]:
        """Run from a state; return all outputs, and the state to go on from."""


class StackedModel(RecurrentModel, ABC):
    """Blocks above an embedding: what each does is up to the network.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: the width of the blocks.
        blocks: from the lowest to the highest.
        norm: what the readout's input goes through.
        spread: the standard deviation of the initial embedding.
        floats: how many floats a token takes in the largest tensor of a run.
    """

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        blocks: Iterable[Recurrence],
        norm: nn.Module,
        spread: float,
        floats: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, hidden_size)
        nn.init.normal_(self.embedding.weight, std=spread)
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.readout = nn.Linear(hidden_size, classes)
        self.floats = floats

    def init_state(self, batch: int) -> list[Any]:
        """Return the state of every block before the first token."""
        return [block.init_state(batch) for block in self._stack()]

    def run(
        self, tokens: Int[Tensor, "batch time"], state: list[Any]
    ) -> tuple[Float[Tensor, "batch time classes"], list[Any]]:
        """Run all blocks."""
        x, after = self.embedding(tokens), []
        for block, before in zip(self._stack(), state, strict=True):
            x, reached = block(x, before)
            after.append(reached)
        return self.readout(self.norm(x)), after

    def tokens_at_once(self) -> int:
        """Bound the largest tensor of a chunk."""
        return max(1, CHUNK_FLOATS // self.floats)

    def _stack(self) -> list[Recurrence]:
        return [block for block in self.blocks if isinstance(block, Recurrence)]


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
