"""Additive terms: h' = A h + b is a matrix on (h, 1), so that the kernels of linear levels compute it.

    [[A, b], [0, 1]] (h, 1) = (A h + b, 1)

Where A is made of blocks, each block gets a 1 of its own, and stays a block of one more row and column.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.recurrence.blocks import Blocks, block_states
from statewise.recurrence.events import event_states
from statewise.recurrence.form import Inputs, Inside, LogNorm, SequenceForm, State, States, resume_by_steps
from statewise.recurrence.full import grouped_states
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Additive
from statewise.transitions.additive import affine_matrix

# the coefficients of the linear part, and the offset
Table = tuple[Tensor, Float[Tensor, "token hidden"]]


@final
class AffineForm(SequenceForm[Additive]):
    """Products on (h, 1), of one matrix or of blocks; over real-valued inputs the term is added as it is."""

    def states(self, table: Table, h0: State, batch: TokenBatch) -> States:
        """Multiply (h, 1) by the matrix of each token."""
        return self._of_tokens(table, h0, batch)

    def end(self, table: Table, h0: State, batch: TokenBatch) -> State:
        """Multiply (h, 1) by the matrix of each token up to the end of each row."""
        return self._of_tokens(table, h0, batch)

    def resume(self, table: Table, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Go step by step, since the offset must be added at the scale of the state."""
        return resume_by_steps(self.transition, table, h, log_norm, batch)

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the blocks of a piece of time, then its states."""
        linear, offset = self.transition.linear, self.transition.offset_of(x)
        return event_states(linear, x, offset, h0, inside, normalise)

    def _of_tokens(self, table: Table, h0: State, batch: TokenBatch) -> Float[Tensor, "batch *time hidden"]:
        matrices = self._matrices(table)
        blocks = matrices.shape[1]
        longer = _append_ones(h0, blocks)
        if blocks == 1:
            return _remove_ones(grouped_states(matrices.squeeze(1), longer, batch), blocks)
        return _remove_ones(block_states(matrices, longer, batch), blocks)

    def _matrices(self, table: Table) -> Blocks:
        """Return [[A, b], [0, 1]] of each token, block by block."""
        coefficients, offset = table
        blocks = self.transition.linear.blocks(coefficients)
        return affine_matrix(blocks, offset.unflatten(-1, blocks.shape[1:3]))


def _append_ones(h: State, blocks: int) -> Float[Tensor, "batch longer"]:
    """Append a 1 to the part of each block."""
    return torch.nn.functional.pad(h.unflatten(-1, (blocks, -1)), (0, 1), value=1.0).flatten(-2)


def _remove_ones(h: Float[Tensor, "*batch longer"], blocks: int) -> Float[Tensor, "*batch hidden"]:
    """Remove the last entry of each block."""
    return h.unflatten(-1, (blocks, -1))[..., :-1].flatten(-2)
