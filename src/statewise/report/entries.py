"""Records as a page reads them: light values, grouped by what they are about."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from statewise.errors import ExpressionError
from statewise.expressions import Call, parse
from statewise.papers.choice import best_rate
from statewise.store import LENGTH

# the length at which the paper scores, and the score from which a task counts as tracked
FAR, TRACKED = LENGTH, 0.99
_MOST_LOOKS = 40

Look = TypeVar("Look")
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Seen:
    """One look during training: the loss, and the score at the length of looks where it was tried."""

    step: int
    loss: float | None
    score: float | None


@dataclass(frozen=True)
class Subject:
    """What a task is about: a family of machines, and which of them; seeds of random machines are left out."""

    family: str
    size: int | None

    def __str__(self) -> str:
        """Writes it for a reader: "modular addition, m = 5"."""
        return self.family if self.size is None else f"{self.family}, m = {self.size}"


@dataclass(frozen=True, eq=False)
class Run:
    """One recorded run.

    Args:
        key: of the store.
        status: done, stopped, diverged or failed.
        config: resolved.
        scores: by test length.
        history: what looks saw, thinned out.
        record: what else was recorded, without the history.
        judged: the length at which the store's runs are judged.
        looked: the length at which looks are scored.
    """

    key: str
    status: str
    config: dict[str, Any]
    scores: dict[int, float]
    history: tuple[Seen, ...]
    record: dict[str, Any]
    judged: int = FAR
    looked: int = FAR

    @property
    def task(self) -> str:
        """The machine, as it was written."""
        return str(self.config.get("task"))

    @property
    def model(self) -> str:
        """The model, as it was written."""
        return str(self.config.get("model"))

    @property
    def rate(self) -> float:
        """The learning rate."""
        return _number(self.config.get("lr")) or 0.0

    @property
    def far(self) -> float | None:
        """The score at the length at which runs are judged."""
        return self.scores.get(self.judged)

    @property
    def near(self) -> float | None:
        """The score on training lengths."""
        return _number((self.record.get("in_distribution") or {}).get("score"))

    @property
    def tracked(self) -> bool:
        """Whether the machine was followed to the far length."""
        return self.far is not None and self.far >= TRACKED

    @property
    def additive(self) -> str:
        """The additive term."""
        return str(self.config.get("additive") or "none")

    @cached_property
    def subject(self) -> Subject:
        """What its task is about."""
        return subject_of(self.task)

    @cached_property
    def level(self) -> str:
        """The name of its model without arguments."""
        return _name_of(self.model)

    @cached_property
    def label(self) -> str:
        """What sets its model apart from others in one chart: its name, and what is unusual about it."""
        extra = [] if self.additive == "none" else [f"+ {self.additive}"]
        supervision = self.config.get("supervision", "final")
        extra += [] if supervision == "final" else [str(supervision)]
        return " ".join([self.model, *extra])


def read_runs(records: Iterable[dict[str, Any]]) -> list[Run]:
    """Reads records, and keeps of them what a page shows; all are judged at one length."""
    # most of a record is its history, so that it is thinned before the next is read
    light = [record | {"history": thinned(record.get("history") or [], _MOST_LOOKS)} for record in records]
    scores = [_scores(record) for record in light]
    judged = judged_at(scores)
    looked = judged_at((dict.fromkeys(record.get("probe") or [], 0.0) for record in light), judged)
    return [_run(record, some, judged, looked) for record, some in zip(light, scores, strict=True)]


def judged_at(scores: Iterable[Mapping[int, float]], preferred: int = FAR) -> int:
    """Gives the preferred length where any run was tested there, otherwise the longest at which one was.

    Args:
        scores: of each run, by length.
        preferred: the paper's length, or another.
    """
    tested = {length for some in scores for length in some}
    return preferred if preferred in tested else max(tested, default=preferred)


def subject_of(task: str) -> Subject:
    """Tells the family of a task from its size; a text that is no expression is a family of its own."""
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


def grouped(items: Iterable[_Item], key: Callable[[_Item], Any]) -> dict[Any, list[_Item]]:
    """Puts runs, or what else there is, together that have the same key, in order of first appearance."""
    groups: dict[Any, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def at_best_rate(runs: Sequence[Run]) -> list[Run]:
    """Gives the runs at the best rate, as the paper chooses; where none was tested far, by their longest length."""
    length = judged_at(run.scores for run in runs)
    ended = [run for run in runs if length in run.scores or run.status == "diverged"]
    by_rate = grouped(ended, lambda run: run.rate)
    if not by_rate:
        return []
    # a run that diverged counts as chance: the seeds that survive do not speak for all
    scores = {rate: [(run.scores.get(length, 0.0), run.near or 0.0) for run in some] for rate, some in by_rate.items()}
    return [run for run in by_rate[best_rate(scores)] if length in run.scores]


def thinned(looks: Sequence[Look], most: int) -> Sequence[Look]:
    """Gives at most so many looks, evenly spread, with the last."""
    stride = max(1, math.ceil(len(looks) / most))
    return looks[(len(looks) - 1) % stride :: stride]


def _scores(record: dict[str, Any]) -> dict[int, float]:
    each = ((int(score["length"]), _number(score["score"])) for score in record.get("scores") or [])
    return {length: score for length, score in each if score is not None}


def _run(record: dict[str, Any], scores: dict[int, float], judged: int, looked: int) -> Run:
    probe = list(record.get("probe") or [])
    place = probe.index(looked) if looked in probe else None
    history = tuple(
        Seen(look["step"], _number(look["loss"]), None if place is None else _number(look["scores"][place]))
        for look in record["history"]
    )
    rest = {name: value for name, value in record.items() if name not in ("history", "config", "key", "status")}
    config = record.get("config") or {}
    return Run(str(record["key"]), str(record["status"]), config, scores, history, rest, judged, looked)


def _number(value: Any) -> float | None:
    """Gives a finite number, or None."""
    usable = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if usable else None


def _name_of(model: str) -> str:
    try:
        parsed = parse(model)
    except ExpressionError:
        return model
    return parsed.name if isinstance(parsed, Call) else model
