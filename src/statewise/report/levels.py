"""The hierarchy as a store shows it: what each level tracked, what it did not, and which runs do not say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from statewise.report.entries import Run, Subject, grouped
from statewise.wording import counted

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
    """One level.

    Args:
        name: of the level.
        tracks: what it can track.
        matrix: what its matrices are.
        families: its outcomes by family of tasks.
        silent: what is to be said of runs that have no outcome; nothing where there are none.
    """

    name: str
    tracks: str
    matrix: str
    families: tuple[tuple[str, tuple[Outcome, ...]], ...]
    silent: str

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
    rungs = []
    for name, (tracks, matrix) in LADDER.items():
        of_level = [run for run in runs if run.level == name]
        plain = [run for run in of_level if run.additive == "none"]
        families: dict[str, list[Outcome]] = {}
        silent: list[Run] = []
        for subject, some in grouped(plain, lambda run: run.subject).items():
            scored = [(run.far, run) for run in some if run.far is not None]
            if not scored:
                silent += some
                continue
            score, best = max(scored, key=lambda pair: pair[0])
            families.setdefault(subject.family, []).append(Outcome(subject, best.tracked, score, best.model, best.key))
        ordered = [
            (family, tuple(sorted(outcomes, key=lambda outcome: outcome.subject.size or 0)))
            for family, outcomes in sorted(families.items())
        ]
        said = _said(silent, bool(ordered), len(of_level) - len(plain))
        rungs.append(Rung(name, tracks, matrix, tuple(ordered), said))
    return rungs


def _said(silent: Sequence[Run], others: bool, additive: int) -> str:
    """Says of runs without an outcome how many there are, and why.

    Args:
        silent: the runs.
        others: whether the level has outcomes.
        additive: how many runs of the level have an additive term.
    """
    if not silent and others:
        return ""
    if not silent:
        return f"{counted(additive, 'run')}, all with an additive term" if additive else "no runs in this store"
    tested = any(run.scores for run in silent)
    why = f"none tested at {silent[0].judged:,}" if tested else "none with a score"
    ends = Counter(run.status for run in silent if run.status != "done")
    how = "".join(f", {count} {status}" for status, count in ends.items())
    return f"{counted(len(silent), 'run')}{' of further tasks' if others else ''}, {why}{how}"
