"""Benchmarks: one question per file; each checks its answers first, then times ours and its rivals in the same run."""
