"""The audit: what tests say of every network, beside what is proven of it, and refuted."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal, get_args

from statewise.papers.comparison import CONVERGED, Table
from statewise.papers.facts import Fact
from statewise.papers.lines import NOTHING, length_text
from statewise.runs.record import Record, RecordedScore, RecordedVerdict

AUDIT = "audit"
# the lengths at which networks are tested; the second is the paper's
TESTED = (10, 500, 10_000)
PAPERS, FAR = TESTED[1:]
Training = Literal["stated", "statewise", "polished"]
TRAININGS: tuple[Training, ...] = get_args(Training)
TITLES: Mapping[Training, str] = {
    "stated": "as trained by the paper's protocol",
    "statewise": "as trained by our recipe",
    "polished": "our recipe, polished",
}
ALL_LEVELS = "all levels"


@dataclass(frozen=True)
class Audited(Fact):
    """One network: its scores, and the verdict on it.

    Args:
        training: how it came to be.
        model: its level.
        task: the column of its table.
        seed: of the run.
        key: of the run.
        scores: by tested length.
        verdict: what was decided of it.
        exact: of a polished network, what was decided of it in whole numbers; None where it was not written in them.
    """

    training: Training
    model: str
    task: str
    seed: int
    key: str
    scores: Mapping[int, float]
    verdict: RecordedVerdict
    exact: RecordedVerdict | None = None

    def right(self, length: int) -> bool:
        """Return whether every test sequence of a length was answered correctly: a score of exactly 1."""
        return self.scores.get(length) == 1.0

    @property
    def right_to(self) -> int:
        """The longest tested length up to which it was right at all tested lengths; 0 if it was wrong at the first."""
        wrong = next((place for place, length in enumerate(TESTED) if not self.right(length)), len(TESTED))
        return TESTED[wrong - 1] if wrong else 0

    @property
    def contradicted(self) -> bool:
        """Whether a test sequence was answered wrong at a length at which all are proven right."""
        return any(not self.right(length) and length <= self.verdict.proven_to for length in self.scores)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it; the proven length of a network that is proven for all is empty."""
        scores = {f"score_{length}": self.scores.get(length) for length in TESTED}
        verdict, known = self.verdict, self.verdict.proven_to
        named = {name: getattr(self, name) for name in ("training", "model", "task", "seed", "key")}
        return {
            **named,
            **scores,
            "status": verdict.status,
            "method": verdict.method,
            "proven_to": int(known) if math.isfinite(known) else None,
            "wrong_at": verdict.wrong_at,
            "exact": None if self.exact is None else self.exact.status,
        }


@dataclass(frozen=True)
class AuditRow:
    """All networks of one level under one training.

    Args:
        training: how they came to be.
        model: their level.
        runs: how many were planned.
        networks: how many there are: a run that diverged, or whose polish did not converge, has none.
        right: how many answered every test sequence correctly, by length.
        refuted_right: how many of these are refuted.
        refuted: how many of all are.
        wrong_at: over the refuted, the median length of the shortest sequence that is known to be answered wrong.
        proven_to: over all, the median of the lengths up to which every sequence is proven right: infinite where all
            are, 0 where nothing is proven.
        proven: how many are proven for all lengths.
        exact: how many are proven for all lengths once they are written in whole numbers.
    """

    training: Training
    model: str
    runs: int
    networks: int
    right: Mapping[int, int]
    refuted_right: Mapping[int, int]
    refuted: int
    wrong_at: int | None
    proven_to: int | float
    proven: int
    exact: int

    def texts(self) -> list[str]:
        """Return its numbers for a reader, one for each heading."""
        shown = [self.model, f"{self.networks}" if self.networks == self.runs else f"{self.networks} of {self.runs}"]
        if not self.networks:
            return [*shown, *[NOTHING] * (len(headings(self.training)) - len(shown))]
        for length in (PAPERS, FAR):
            shown += [f"{self.right[length]}", f"{self.refuted_right[length]}" if self.right[length] else NOTHING]
        shown += [f"{self.refuted}", NOTHING if self.wrong_at is None else length_text(self.wrong_at)]
        shown += [proven_text(self.proven_to), f"{self.proven}"]
        return [*shown, f"{self.exact}"] if self.training == "polished" else shown


def headings(training: Training) -> list[str]:
    """Return the headings of a training's rows."""
    tested = [part for length in (PAPERS, FAR) for part in (f"1.00 at {length:,}", "of these refuted")]
    shown = ["level", "networks", *tested, "all refuted", "wrong at (median)", "proven up to (median)"]
    shown.append("proven for all lengths")
    return [*shown, "for all lengths in whole numbers"] if training == "polished" else shown


def audited(table: Table, records: Iterable[Record]) -> list[Audited]:
    """Return the networks of a table that have a verdict: as trained, and polished where polish converged."""
    by_key = {record.key or record.config.key(): record for record in records}
    tasks = {key: (row.model, str(cell.column)) for row in table.rows for cell in row.cells for key in cell.runs}
    found = []
    for key, (model, task) in tasks.items():
        record = by_key[key]
        training: Training = "stated" if record.config.recipe == "stated" else "statewise"
        seed, polish = record.config.seed, record.polished
        if record.verdict is not None:
            found.append(Audited(training, model, task, seed, key, _scores(record.scores), record.verdict))
        if polish is not None and polish.status == CONVERGED and polish.verdict is not None:
            scores = _scores(polish.scores)
            found.append(Audited("polished", model, task, seed, key, scores, polish.verdict, polish.exact))
    return found


def audit_rows(table: Table, networks: Sequence[Audited], training: Training) -> list[AuditRow]:
    """Return a row for each level under a training, then one for all of them."""
    reading = "stated" if training == "stated" else "statewise"
    planned: dict[str, int] = {}
    for row in table.rows:
        if row.reading == reading:
            planned[row.model] = planned.get(row.model, 0) + sum(cell.planned for cell in row.cells)
    some = [network for network in networks if network.training == training]
    rows = [_row(training, model, runs, [n for n in some if n.model == model]) for model, runs in planned.items()]
    return [*rows, _row(training, ALL_LEVELS, sum(planned.values()), some)]


def proven_text(length: int | float) -> str:
    """Write a proven length for a reader."""
    if not length:
        return NOTHING
    return "all lengths" if math.isinf(length) else length_text(int(length))


def _row(training: Training, model: str, runs: int, networks: Sequence[Audited]) -> AuditRow:
    right = {length: [network for network in networks if network.right(length)] for length in TESTED}
    wrong = [network.verdict.wrong_at for network in networks if network.verdict.wrong_at is not None]
    return AuditRow(
        training=training,
        model=model,
        runs=runs,
        networks=len(networks),
        right={length: len(some) for length, some in right.items()},
        refuted_right={length: len(refuted(some)) for length, some in right.items()},
        refuted=len(refuted(networks)),
        wrong_at=median_low(wrong) if wrong else None,
        proven_to=median_low([network.verdict.proven_to for network in networks]) if networks else 0,
        proven=sum(network.verdict.status == "proven" for network in networks),
        exact=sum(network.exact is not None and network.exact.status == "proven" for network in networks),
    )


def refuted(networks: Iterable[Audited]) -> list[Audited]:
    """Return the networks of which a sequence is known that they answer wrong."""
    return [network for network in networks if network.verdict.status == "refuted"]


def _scores(scores: Iterable[RecordedScore]) -> dict[int, float]:
    return {score.length: score.score for score in scores}
