"""Records as a page reads them: light values, grouped by what they are about."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeVar

from statewise.errors import ExpressionError
from statewise.expressions import Call, parse
from statewise.models.table import KINDS, kind_of
from statewise.papers.verdicts import best_rate
from statewise.runs.record import Record
from statewise.store import LENGTH
from statewise.training.options import RECIPES, RunOptions
from statewise.training.plans import Optimisation

# the score from which a task counts as tracked
TRACKED = 0.99
_MOST_EVALUATIONS = 40
_KINDS = list(KINDS)
# of readouts, losses and supervisions, for a reader
_NAMES = {
    "plain": "plain readout",
    "normalised": "state normalised",
    "cross-entropy": "cross-entropy",
    "squared": "squared error",
    "final": "answers at the end",
    "closed": "answers after a closing token",
    "aligned": "answers after each symbol",
    "chain": "chain of thought",
}

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class Evaluation:
    """One evaluation during training: the loss, and the score at the probed length where it was measured."""

    step: int
    loss: float | None
    score: float | None


@dataclass(frozen=True)
class Subject:
    """What a task is about: a family of machines, and which of them; seeds of random machines are left out."""

    family: str
    size: int | None

    def __str__(self) -> str:
        """Write it for a reader: "modular addition, m = 5"."""
        return self.family if self.size is None else f"{self.family}, m = {self.size}"


@dataclass(frozen=True, eq=False)
class Entry:
    """One run of a store.

    Args:
        record: with few of its evaluations.
        judged: the length at which the store's runs are judged.
        probed: the length at which evaluations during training are shown.
    """

    record: Record
    judged: int = LENGTH
    probed: int = LENGTH

    @cached_property
    def key(self) -> str:
        """The run's identity."""
        return self.record.key or self.options.key()

    @property
    def status(self) -> str:
        """How it ended: done, stopped, diverged or failed."""
        return self.record.status

    @property
    def options(self) -> RunOptions:
        """The options of the run."""
        return self.record.config

    @cached_property
    def scores(self) -> dict[int, float]:
        """The scores by test length."""
        return {score.length: score.score for score in self.record.scores}

    @property
    def score(self) -> float | None:
        """The score at the length at which runs are judged."""
        return self.scores.get(self.judged)

    @property
    def score_id(self) -> float | None:
        """The score on training lengths."""
        return self.record.score_id

    @cached_property
    def constants(self) -> dict[int, float]:
        """The scores of the best constant answer by test length, where they are known."""
        found = {score.length: score.measured_constant for score in self.record.scores}
        return {length: constant for length, constant in found.items() if constant is not None}

    @property
    def constant(self) -> float | None:
        """The score of the best constant answer at the length at which runs are judged."""
        return self.constants.get(self.judged)

    @property
    def tracked(self) -> bool:
        """Whether the machine was tracked to the judged length, and no constant answer does as well."""
        judged = self.record.score_at(self.judged)
        return judged is not None and judged.score >= TRACKED and judged.beats_constant

    @cached_property
    def history(self) -> tuple[Evaluation, ...]:
        """What was measured during training, thinned out; losses that are not finite are left out."""
        probe = self.record.probe
        place = probe.index(self.probed) if self.probed in probe else None
        return tuple(
            Evaluation(
                metrics.step,
                metrics.loss if metrics.loss is not None and math.isfinite(metrics.loss) else None,
                None if place is None else metrics.scores[place],
            )
            for metrics in self.record.history
        )

    @cached_property
    def subject(self) -> Subject:
        """What its task is about."""
        return subject_of(self.options.task)

    @cached_property
    def kind(self) -> str:
        """The kind of its model, a name without arguments; of a user's own model, all of its name."""
        kind = kind_of(self.options.model)
        return self.options.model if kind is None else kind.name

    @cached_property
    def label(self) -> str:
        """What sets its model apart from others in one chart: its name, and what is unusual about it."""
        extra = [] if self.options.additive == "none" else [f"+ {self.options.additive}"]
        return " ".join([self.options.model, *extra])

    @cached_property
    def training(self) -> str:
        """How it was trained: its recipe, and what of readout, loss and supervision differs from that."""
        options = self.options
        own = _usual(options.model, options.recipe)
        given = (options.readout, options.loss, options.supervision)
        unlike = [value for value, usual in zip(given, own, strict=True) if value != usual]
        return ", ".join([f"{options.recipe} recipe", *(_NAMES[what] for what in unlike)])

    @property
    def loss_name(self) -> str:
        """What training minimised, for a reader."""
        return _NAMES[self.options.loss]


@cache
def _usual(model: str, recipe: str) -> tuple[str, str, str]:
    """Return the readout, the loss and the supervision of a recipe for a model."""
    kind = kind_of(model) if recipe == "statewise" else None
    given = RECIPES[recipe] | dict({} if kind is None else kind.recipe)
    return given["readout"], given.get("loss", Optimisation.loss), given.get("supervision", "final")


def read_entries(records: Iterable[Record]) -> list[Entry]:
    """Read records, and keep of them what a page shows; all are judged at one length."""
    # most of a record is its history, so that it is thinned before the next is read
    light = [record.model_copy(update={"history": thinned(record.history, _MOST_EVALUATIONS)}) for record in records]
    judged = judged_at({score.length: score.score for score in record.scores} for record in light)
    probed = judged_at((dict.fromkeys(record.probe, 0.0) for record in light), judged)
    return [Entry(record, judged, probed) for record in light]


def model_order(entry: Entry) -> tuple[int, str, bool]:
    """Return where a run's model stands: from the highest level of the hierarchy down, then the others."""
    place = _KINDS.index(entry.kind) if entry.kind in _KINDS else len(_KINDS)
    return place, entry.options.model, entry.options.additive != "none"


def judged_at(scores: Iterable[Mapping[int, float]], preferred: int = LENGTH) -> int:
    """Return the preferred length where any run was tested there, otherwise the longest at which one was.

    Args:
        scores: of each run, by length.
        preferred: the paper's length, or another.
    """
    tested = {length for some in scores for length in some}
    return preferred if preferred in tested else max(tested, default=preferred)


def subject_of(task: str) -> Subject:
    """Split a task into its family and its size; a text that is no expression is a family of its own."""
    try:
        parsed = parse(task)
    except ExpressionError:
        return Subject(task, None)
    if not isinstance(parsed, Call):
        return Subject(task, None)
    first = parsed.args[0] if parsed.args else None
    size = first if isinstance(first, int) and not isinstance(first, bool) else None
    rest = [str(value) for value in parsed.args[0 if size is None else 1 :]]
    named = {name: value for name, value in parsed.kwargs.items() if name != "seed"}
    rest += [value if isinstance(value, str) else f"{name} {value}" for name, value in named.items()]
    name = parsed.name.replace("_", " ")
    return Subject(f"{name} ({', '.join(rest)})" if rest else name, size)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Group runs, or what else there is, by a key, in order of first appearance."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def at_best_rate(entries: Sequence[Entry]) -> list[Entry]:
    """Return the runs at the best rate, as the paper chooses; where none was tested far, by their longest length."""
    length = judged_at(entry.scores for entry in entries)
    ended = [entry for entry in entries if length in entry.scores or entry.status == "diverged"]
    by_rate = grouped(ended, lambda entry: entry.options.lr)
    if not by_rate:
        return []
    # a run that diverged counts as chance: the seeds that survive do not stand for all
    scores = {
        rate: [(entry.scores.get(length, 0.0), entry.score_id or 0.0) for entry in some]
        for rate, some in by_rate.items()
    }
    return [entry for entry in by_rate[best_rate(scores)] if length in entry.scores]


def thinned(evaluations: Sequence[_Item], most: int) -> Sequence[_Item]:
    """Return at most so many evaluations, evenly spread, with the last."""
    stride = max(1, math.ceil(len(evaluations) / most))
    return evaluations[(len(evaluations) - 1) % stride :: stride]
