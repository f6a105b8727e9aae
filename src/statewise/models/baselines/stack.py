"""What recurrent networks of blocks share: an embedding, blocks one above the other, a last norm, and a readout.

A block has three parts: what it computes of each token alone before time is mixed, the recurrence, and what it computes
of each token alone after. The lowest block reads embeddings, so that its first part is computed once for each symbol.
Where some answers are asked for, what follows is computed for the tokens that they depend on, and the highest block's
last part where an answer is asked for: padding is computed in the recurrences alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from statewise.errors import TransitionError
from statewise.models.interface import RecurrentModel

Sequence = Float[Tensor, "batch time width"]
Table = Float[Tensor, "row width"]
# floats that the largest tensor of a chunk of evaluation may take
CHUNK_FLOATS = 8_000_000


@dataclass(frozen=True)
class Entered:
    """What a block computes of each token alone, before time is mixed.

    Args:
        parts: [batch, time, ...] each, or [symbols, ...] where codes are given.
        codes: the row of the parts that belongs to each token; None where tokens have parts of their own.
    """

    parts: tuple[Tensor, ...]
    codes: Int[Tensor, "batch time"] | None = None

    def each(self, begin: int = 0) -> tuple[Tensor, ...]:
        """Return the parts of every token, [batch, time, ...], from number `begin` on."""
        parts = self.parts[begin:]
        return parts if self.codes is None else tuple(pick(part, self.codes) for part in parts)


def pick(rows: Float[Tensor, "row *rest"], which: Int[Tensor, "*place"]) -> Tensor:
    """Return the rows of numbers `which`; gradients of equal numbers are summed row by row, faster than by indexing."""
    return F.embedding(which, rows.flatten(1)).unflatten(-1, rows.shape[1:])


class Recurrence(nn.Module, ABC):
    """A map of sequences with a state of its own: a block of a stack, or what mixes over time in one."""

    @abstractmethod
    def init_state(self, batch: int) -> Any:
        """Return the state before the first input."""

    @abstractmethod
    def enter(self, x: Float[Tensor, "*token width"]) -> tuple[Tensor, ...]:
        """Compute what depends on each token alone, and is needed to mix over time or after it."""

    @abstractmethod
    def mix(self, entered: Entered, state: Any) -> tuple[tuple[Tensor, ...], Any]:
        """Run over time from a state; return what `leave` needs, [batch, time, ...] each, and the last state."""

    @abstractmethod
    def leave(self, x: Float[Tensor, "*token width"], *mixed: Tensor) -> Float[Tensor, "*token width"]:
        """Compute the output of each token from its input and from what was mixed."""

    def forward(self, x: Sequence, state: Any) -> tuple[Sequence, Any]:
        """Run from a state; return all outputs, and the state to go on from."""
        mixed, state = self.mix(Entered(self.enter(x)), state)
        return self.leave(x, *mixed), state


class Block(Recurrence, ABC):
    """A block around a recurrence: a norm before it, a residual around it, and what follows."""

    @abstractmethod
    def parts(self) -> tuple[nn.Module, Recurrence]:
        """Return the norm before the recurrence, and the recurrence."""

    def finish(self, x: Float[Tensor, "*token width"]) -> Float[Tensor, "*token width"]:
        """Compute what follows the residual; nothing does unless a block says so."""
        return x

    def init_state(self, batch: int) -> Any:
        """Return that of the recurrence."""
        return self.parts()[1].init_state(batch)

    def enter(self, x: Float[Tensor, "*token width"]) -> tuple[Tensor, ...]:
        """Normalise the input; the rest is the recurrence's."""
        norm, recurrence = self.parts()
        return recurrence.enter(norm(x))

    def mix(self, entered: Entered, state: Any) -> tuple[tuple[Tensor, ...], Any]:
        """Run the recurrence over time."""
        return self.parts()[1].mix(entered, state)

    def leave(self, x: Float[Tensor, "*token width"], *mixed: Tensor) -> Float[Tensor, "*token width"]:
        """Add what the recurrence makes of the normalised input, then what follows."""
        return self.finish(x + self.parts()[1].leave(x, *mixed))


def run_blocks(
    blocks: Items[Recurrence], table: Table, codes: Int[Tensor, "batch time"], state: Items[Any]
) -> tuple[Float[Tensor, "batch time width"], list[Any]]:
    """Run blocks one above the other; return what the highest one makes of the tokens, and all states.

    Args:
        blocks: from the lowest to the highest.
        table: the inputs that occur.
        codes: which of them each token is.
        state: of every block.
    """
    x, after = pick(table, codes), []
    for place, (block, before) in enumerate(zip(blocks, state, strict=True)):
        # a program that is traced is one for all batches
        few = place == 0 and not torch.compiler.is_compiling() and len(table) < codes.numel()
        mixed, reached = block.mix(Entered(block.enter(table), codes) if few else Entered(block.enter(x)), before)
        x = block.leave(x, *mixed)
        after.append(reached)
    return x, after


def run_for_answers(
    blocks: Items[Recurrence],
    table: Table,
    codes: Int[Tensor, "batch time"],
    rows: Int[Tensor, " answer"],
    places: Int[Tensor, " answer"],
) -> Float[Tensor, "answer width"]:
    """Run blocks from the beginning of sequences; return what the highest one makes of some tokens.

    Args:
        blocks: from the lowest to the highest.
        table: the inputs that occur.
        codes: which of them each token is.
        rows: the sequence of each answer.
        places: the token of it after which the answer is asked for.
    """
    batch, time = codes.shape
    # answers depend on what comes before them in their sequence
    last = places.new_full((batch,), -1).scatter_reduce(0, rows, places, "amax")
    needed = torch.arange(time, device=codes.device) <= last.unsqueeze(1)
    kept, asked = needed.flatten().nonzero().squeeze(1), rows * time + places
    # of the tokens that are not kept anything may be read: no answer depends on it
    where = (needed.flatten().cumsum(0) - 1).clamp(min=0).view(batch, time)
    few = len(table) < len(kept)
    x, inputs = (table, codes) if few else (pick(table, codes.flatten()[kept]), where)
    for place, block in enumerate(blocks):
        mixed, _ = block.mix(Entered(block.enter(x), inputs), block.init_state(batch))
        chosen = asked if place == len(blocks) - 1 else kept
        x = block.leave(pick(x, inputs.flatten()[chosen]), *(pick(part.flatten(0, 1), chosen) for part in mixed))
        inputs = where
    return x


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
        x, after = run_blocks(self._stack(), self.embedding.weight, tokens, state)
        return self.readout(self.norm(x)), after

    def answers(
        self, tokens: Int[Tensor, "batch time"], rows: Int[Tensor, " answer"], places: Int[Tensor, " answer"]
    ) -> Float[Tensor, "answer classes"]:
        """Run all blocks, but for padding."""
        return self.readout(self.norm(run_for_answers(self._stack(), self.embedding.weight, tokens, rows, places)))

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
