"""Diagonal matrices: entry by entry, h_t = a_t * h_{t-1}, as interleaved blocks of size 1.

A positive diagonal is given by its logarithms, a_t = exp(c_t), and is the same otherwise.
"""

from abc import abstractmethod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.recurrence.blocks import interleaved_states, resume_interleaved, sequence_of_blocks
from statewise.recurrence.form import (
    Inputs,
    Inside,
    Level,
    LogNorm,
    SequenceForm,
    State,
    States,
    kernels_without_gradient,
    resume_in_pieces,
)
from statewise.recurrence.scaling import rescale_exactly
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Diagonal, Positive

# largest logarithms beyond this are taken out: for the steps between two rescalings, exp of them is out of range
_LARGEST_LOG = 9.0

Entries = Float[Tensor, "*batch hidden"]
Table = Float[Tensor, "token hidden"]


class _EntryByEntry(SequenceForm[Level]):
    """Diagonals, however their coefficients are written."""

    @abstractmethod
    def entries(self, coefficients: Entries) -> Entries:
        """Return the diagonal itself."""

    def states(self, table: Table, h0: State, batch: TokenBatch) -> States:
        """Multiply entry by entry."""
        return self._of_tokens(table, h0, batch)

    def end(self, table: Table, h0: State, batch: TokenBatch) -> State:
        """Multiply entry by entry, and let gradients begin at the end of each row."""
        return self._of_tokens(table, h0, batch)

    def resume(self, table: Table, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Keep the states of one piece of the sequence at a time, where the kernels can."""
        if not kernels_without_gradient(table, h, batch):
            return resume_in_pieces(self, table, h, log_norm, batch)
        a = self.entries(table)[:, None, None]
        last, log_norm = resume_interleaved(a, h.unsqueeze(1), log_norm, batch.tokens)
        return rescale_exactly(last.squeeze(1), log_norm)

    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Compute the diagonal of each input; that of padding is 1."""
        a = self.entries(self._for_sequence(self.transition.coefficients(x), normalise))
        if inside is not None:
            a = torch.where(inside.unsqueeze(-1), a, 1.0)
        return sequence_of_blocks(a[:, :, None, None], h0.unsqueeze(1), normalise).squeeze(2)

    def _for_sequence(self, coefficients: Entries, normalise: bool) -> Entries:
        """Return coefficients of the same directions, in the range of their type."""
        return coefficients

    def _of_tokens(self, table: Table, h0: State, batch: TokenBatch) -> Float[Tensor, "batch *time hidden"]:
        return interleaved_states(self.entries(table)[:, None, None], h0.unsqueeze(1), batch).squeeze(-2)


@final
class DiagonalForm(_EntryByEntry[Diagonal]):
    """Coefficients are the diagonal."""

    def entries(self, coefficients: Entries) -> Entries:
        """Return the coefficients."""
        return coefficients


@final
class PositiveForm(_EntryByEntry[Positive]):
    """Coefficients are the logarithms of the diagonal."""

    def entries(self, coefficients: Entries) -> Entries:
        """Return the exponentials of the coefficients."""
        return coefficients.exp()

    def resume(self, table: Table, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Move large logarithms of whole rows into the scale."""
        shifts = _common_logs(table)
        log_norm = log_norm + shifts.squeeze(1).double()[batch.tokens].sum(dim=1)
        return super().resume(table - shifts, h, log_norm, batch)

    def _of_tokens(self, table: Table, h0: State, batch: TokenBatch) -> Float[Tensor, "batch *time hidden"]:
        # states up to a positive factor may do without factors that are out of range
        return super()._of_tokens(table - _common_logs(table) if batch.every else table, h0, batch)

    def _for_sequence(self, coefficients: Entries, normalise: bool) -> Entries:
        return coefficients - _common_logs(coefficients) if normalise else coefficients


def _common_logs(table: Entries) -> Float[Tensor, "*batch 1"]:
    """Return the largest logarithm of each row as a constant, where exp of it is large or small; else 0."""
    largest = table.detach().amax(dim=-1, keepdim=True)
    return torch.where((largest.abs() > _LARGEST_LOG) & largest.isfinite(), largest, 0.0)
