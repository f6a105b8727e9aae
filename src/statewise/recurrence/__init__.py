"""How h_t = A(x_t) h_{t-1} is computed over a sequence."""

from statewise.recurrence.fused_step import FullWeights, losses_and_gradients
from statewise.recurrence.readout import read_direction
from statewise.recurrence.reference import rescale, rescale_exactly, unroll, unroll_normalised
from statewise.recurrence.request import RESCALE_EVERY, TokenBatch
from statewise.recurrence.sequence import sequence_backend, unroll_sequence
from statewise.recurrence.tokens import read_tokens, resume_tokens, states_by_table, token_table

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
    "token_table",
    "unroll",
    "unroll_normalised",
    "unroll_sequence",
]
