"""The hierarchy as a store shows it: what each level tracked, what it did not, and which runs were not tested."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from statewise.models.table import LEVELS
from statewise.report.entries import Entry, Subject, grouped
from statewise.wording import counted


@dataclass(frozen=True)
class Outcome:
    """How a level did on one task.

    Args:
        subject: the task.
        tracked: whether any run tracked it.
        score: the best at the length at which runs are judged.
        constant: the score of the best constant answer on the same sequences, where it is known.
        model: with which that was reached.
        key: of that run.
    """

    subject: Subject
    tracked: bool
    score: float
    constant: float | None
    model: str
    key: str


@dataclass(frozen=True)
class LevelSummary:
    """One level.

    Args:
        name: of the level.
        tracks: which machines it can track.
        matrix: what its matrices are.
        families: its outcomes by family of tasks.
        untested: how many runs have no outcome, and why; empty where there are none.
    """

    name: str
    tracks: str
    matrix: str
    families: tuple[tuple[str, tuple[Outcome, ...]], ...]
    untested: str

    @property
    def outcomes(self) -> list[Outcome]:
        """All of them."""
        return [outcome for _, outcomes in self.families for outcome in outcomes]

    @property
    def tracked(self) -> int:
        """How many tasks were tracked."""
        return sum(outcome.tracked for outcome in self.outcomes)


def summarise_levels(entries: Sequence[Entry]) -> list[LevelSummary]:
    """Sum up what each level did, of the runs without an additive term, from the highest level to the lowest."""
    summaries = []
    for name, kind in LEVELS.items():
        of_level = [entry for entry in entries if entry.kind == name]
        plain = [entry for entry in of_level if entry.options.additive == "none"]
        families: dict[str, list[Outcome]] = {}
        untested: list[Entry] = []
        for subject, some in grouped(plain, lambda entry: entry.subject).items():
            scored = [(entry.score, entry) for entry in some if entry.score is not None]
            if not scored:
                untested += some
                continue
            score, best = max(scored, key=lambda pair: pair[0])
            outcome = Outcome(subject, best.tracked, score, best.constant, best.options.model, best.key)
            families.setdefault(subject.family, []).append(outcome)
        ordered = tuple(
            (family, tuple(sorted(outcomes, key=lambda outcome: outcome.subject.size or 0)))
            for family, outcomes in sorted(families.items())
        )
        why = _explain(untested, bool(ordered), len(of_level) - len(plain))
        summaries.append(LevelSummary(name, kind.tracks, kind.matrix, ordered, why))
    return summaries


def _explain(untested: Sequence[Entry], others: bool, additive: int) -> str:
    """Write of runs without an outcome how many there are, and why.

    Args:
        untested: the runs.
        others: whether the level has outcomes.
        additive: how many runs of the level have an additive term.
    """
    if not untested and others:
        return ""
    if not untested:
        return f"{counted(additive, 'run')}, all with an additive term" if additive else "no runs in this store"
    tested = any(entry.scores for entry in untested)
    why = f"none tested at {untested[0].judged:,}" if tested else "none with a score"
    ends = Counter(entry.status for entry in untested if entry.status != "done")
    how = "".join(f", {count} {status}" for status, count in ends.items())
    return f"{counted(len(untested), 'run')}{' of further tasks' if others else ''}, {why}{how}"
