"""The hierarchy as a store shows it: what each level tracked, and what it did not."""

from collections.abc import Sequence
from dataclasses import dataclass

from statewise.report.runs import Run, Subject, grouped

# of finite groups, from the highest level to the lowest: what a level can track, and its matrix
LADDER: dict[str, tuple[str, str]] = {
    "full": ("any finite-state machine", "A(x) any matrix, linear in x"),
    "cp": ("more as its rank grows", "A(x) = W₁ diag(Wₓᵀx) W₂ᵀ"),
    "block": ("what fits into its blocks", "blocks of b × b, linear in x"),
    "rotation": ("of groups, the Abelian ones", "2 × 2 rotations, angles linear in x"),
    "diagonal": ("of groups, those of order 2: parity", "real numbers, linear in x"),
    "positive": ("of groups, none", "positive numbers"),
}


@dataclass(frozen=True)
class Outcome:
    """How a level did on one task.

    Args:
        subject: the task.
        tracked: whether any run tracked it.
        score: the best at the far length.
        model: with which that was reached.
        key: of that run.
    """

    subject: Subject
    tracked: bool
    score: float
    model: str
    key: str


@dataclass(frozen=True)
class Rung:
    """One level, with its outcomes by family of tasks."""

    name: str
    tracks: str
    matrix: str
    families: tuple[tuple[str, tuple[Outcome, ...]], ...]

    @property
    def outcomes(self) -> list[Outcome]:
        """All of them."""
        return [outcome for _, outcomes in self.families for outcome in outcomes]

    @property
    def tracked(self) -> int:
        """How many tasks were tracked."""
        return sum(outcome.tracked for outcome in self.outcomes)


def ladder(runs: Sequence[Run]) -> list[Rung]:
    """Sums up what each level did, of the runs without an additive term."""
    plain = [run for run in runs if run.far is not None and run.additive == "none"]
    rungs = []
    for name, (tracks, matrix) in LADDER.items():
        families: dict[str, list[Outcome]] = {}
        for subject, some in grouped((run for run in plain if run.level == name), lambda run: run.subject).items():
            best = max(some, key=lambda run: run.far or 0.0)
            outcome = Outcome(subject, best.tracked, best.far or 0.0, best.model, best.key)
            families.setdefault(subject.family, []).append(outcome)
        ordered = [
            (family, tuple(sorted(outcomes, key=lambda outcome: outcome.subject.size or 0)))
            for family, outcomes in sorted(families.items())
        ]
        rungs.append(Rung(name, tracks, matrix, tuple(ordered)))
    return rungs
