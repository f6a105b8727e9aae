"""How h_t = A(x_t) h_{t-1} is computed over a sequence: one file per form, all tested against one slow reference."""

from statewise.recurrence.dispatch import (
    read_tokens,
    resume_tokens,
    sequence_backend,
    states_by_table,
    token_table,
    unroll_sequence,
)
from statewise.recurrence.full import FullWeights, losses_and_gradients
from statewise.recurrence.readout import read_direction
from statewise.recurrence.reference import unroll, unroll_normalised
from statewise.recurrence.scaling import RESCALE_EVERY, rescale, rescale_exactly, to_unit_size
from statewise.recurrence.token_batch import TokenBatch

__all__ = [
    "RESCALE_EVERY",
    "FullWeights",
    "TokenBatch",
    "losses_and_gradients",
    "read_direction",
    "read_tokens",
    "rescale",
    "rescale_exactly",
    "resume_tokens",
    "sequence_backend",
    "states_by_table",
    "to_unit_size",
    "token_table",
    "unroll",
    "unroll_normalised",
    "unroll_sequence",
]
