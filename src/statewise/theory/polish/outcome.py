"""What polishing returns: a network, and how far the solver came."""

from dataclasses import dataclass
from typing import Literal

from statewise.models.tracker import StateTracker

Objective = Literal["values", "closure"]
Outcome = Literal["converged", "not converged", "rank not found"]
# the mean square residual of a sequence at which a network counts as exact
TOLERANCE = 1e-22


@dataclass(frozen=True, eq=False)
class Polished:
    """A polished network, and how far the solver came.

    Args:
        model: the network, in float64; the trained one where no rank was found.
        level: its level.
        objective: what was solved.
        rank: the hidden size that is left.
        reason: how that was chosen.
        residual: the mean square distance from the objective, over the sequences.
        outcome: whether it vanished; "rank not found" where nothing in the network follows the answers.
        rounds: linear systems that were solved.
        sequences: how many were solved for.
    """

    model: StateTracker
    level: str
    objective: Objective
    rank: int
    reason: str
    residual: float
    outcome: Outcome
    rounds: int
    sequences: int
