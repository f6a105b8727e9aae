"""How h_t = A(x_t) h_{t-1} is computed over a sequence."""

from statewise.recurrence.reference import rescale, unroll, unroll_normalised

__all__ = ["rescale", "unroll", "unroll_normalised"]
