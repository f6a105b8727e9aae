"""Proofs and refutations: does a network answer as a machine does, on every word?"""

from statewise.theory.certify.counts import decide_by_counts
from statewise.theory.certify.exact_replay import Word, replay
from statewise.theory.certify.float_runs import certify_run
from statewise.theory.certify.horizon import prove_horizon
from statewise.theory.certify.orbit import decide_by_orbit, decide_by_series
from statewise.theory.certify.refute import Counterexample, search
from statewise.theory.certify.verdict import Verdict, certify

__all__ = [
    "Counterexample",
    "Verdict",
    "Word",
    "certify",
    "certify_run",
    "decide_by_counts",
    "decide_by_orbit",
    "decide_by_series",
    "prove_horizon",
    "replay",
    "search",
]
