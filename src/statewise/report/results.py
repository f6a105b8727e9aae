"""The results of a store: every model on every task, mean over seeds, beside the best constant answer.

Runs that differ in their seed alone are one cell. Where a cell has several settings (rate, loss, ...), the one counts
that is best on training lengths, never at a test length. What models train on, how long and at which size tells rows
apart: a row never mixes training lengths, steps or sizes.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from statistics import fmean, pstdev
from typing import Any

from statewise.models.table import short_names
from statewise.report.entries import TRACKED, Entry, grouped, judged_at, model_order
from statewise.runs.record import RecordedScore
from statewise.training.metrics import span_text
from statewise.training.options import RunOptions

# options that are tuned: the best of their values counts
TUNED = (
    "recipe", "lr", "loss", "readout", "schedule", "warmup", "weight_decay", "readout_decay", "clip", "average",
    "length_power",
)  # fmt: skip
# seeds, and what is measured of a run: neither changes what it is trained on
_MEASURED = ("seed", "polish", "every", "probe", "probe_words", "test_lengths", "words", "validation")
# options that have a column of their own, or are part of a model's label
_SHOWN = (
    "task", "machine", "model", "additive", "shortest", "longest", "growth_share", "late", "late_share",
    "late_until", "samples", "steps",
)  # fmt: skip
# when lengths grow, which their column leaves out
_SHARES = ("growth_share", "late_share", "late_until")
_NAMES = {"lr": "rate", "hidden": "H", "weight_decay": "weight decay", "tests": "tests"}
# values that need no name beside them
_BARE = {"cross-entropy": "cross-entropy", "squared": "squared error"}
# columns of test lengths that a page has room for
MOST_LENGTHS = 6


@dataclass(frozen=True)
class Spread:
    """A score over seeds, and the best constant answer on the same sequences.

    Args:
        scores: of each seed; a run that diverged counts as chance.
        constant: the mean over seeds; None where it is not known.
        beats: whether the mean is above that, by more than two standard errors.
        span: where sequences of several lengths are scored together, the shortest and the longest.
    """

    scores: tuple[float, ...]
    constant: float | None
    beats: bool
    span: tuple[int, int] | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.scores)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over seeds; None of one seed."""
        return pstdev(self.scores) if len(self.scores) > 1 else None

    @property
    def learned(self) -> bool:
        """Whether the mean is at least 0.99, and no constant answer does as well."""
        return self.mean >= TRACKED and self.beats


@dataclass(frozen=True, eq=False)
class Setting:
    """The runs of one setting, which differ in their seeds.

    Args:
        name: how it differs from other settings of its row; empty where there are none.
        entries: its runs that have ended, by seed.
    """

    name: str
    entries: tuple[Entry, ...]

    @cached_property
    def inside(self) -> Spread | None:
        """The score on training lengths; None where no run has one."""
        return _spread(self.entries, attrgetter("record.in_distribution"))

    @cached_property
    def scores(self) -> dict[int, Spread]:
        """The scores by test length."""
        lengths = sorted({length for entry in self.entries for length in entry.scores})
        found = {length: _spread(self.entries, lambda entry, n=length: entry.record.score_at(n)) for length in lengths}
        return {length: spread for length, spread in found.items() if spread is not None}

    @property
    def diverged(self) -> int:
        """How many of its runs diverged."""
        return sum(entry.status == "diverged" for entry in self.entries)

    @property
    def rank(self) -> tuple[float, bool, float, float]:
        """Its place among the settings of a row: by training lengths alone, the best first.

        Among equals squared error comes before cross-entropy, then the highest rate, as in `compare`; then the lowest
        training loss.
        """
        losses = [entry.record.loss for entry in self.entries if entry.record.loss is not None]
        options = self.entries[0].options
        inside = -math.inf if self.inside is None else self.inside.mean
        return -inside, options.loss != "squared", -options.lr, fmean(losses) if losses else math.inf


@dataclass(frozen=True, eq=False)
class ResultRow:
    """One model on one task.

    Args:
        place: its name on the page.
        model: its name, with what is unusual about it.
        note: what tells it apart from other rows of the model on the task; empty where there are none.
        settings: all settings with a run that has ended, the best on training lengths first.
        failed: how many runs of it failed.
    """

    place: str
    model: str
    note: str
    settings: tuple[Setting, ...]
    failed: int

    @property
    def best(self) -> Setting:
        """The setting that counts."""
        return self.settings[0]

    @property
    def options(self) -> RunOptions:
        """The options of its first run."""
        return self.best.entries[0].options

    @property
    def lengths(self) -> str:
        """The training lengths in words."""
        return training_lengths(self.options)

    @property
    def steps(self) -> str:
        """The steps that were taken, of all seeds."""
        taken = [entry.record.steps for entry in self.best.entries]
        return f"{min(taken):,}" if min(taken) == max(taken) else f"{min(taken):,} to {max(taken):,}"

    @property
    def parameters(self) -> int | None:
        """How many weights were trained."""
        return self.best.entries[0].record.parameters

    @property
    def seconds(self) -> float | None:
        """Seconds of one core for a run, the mean over seeds."""
        found = [cost for entry in self.best.entries if (cost := entry.record.cost) is not None]
        return fmean(found) if found else None

    @property
    def name(self) -> str:
        """Model and note."""
        return f"{self.model}, {self.note}" if self.note else self.model


@dataclass(frozen=True, eq=False)
class TaskResults:
    """The rows of one task.

    Args:
        title: the task; of random machines that differ in their seed, how many there are.
        tests: how test sequences were drawn, where that is the same for all rows.
        rows: models from the highest level down, then the others.
    """

    title: str
    tests: str | None
    rows: tuple[ResultRow, ...]

    @cached_property
    def shared(self) -> str:
        """What all rows were trained on; empty where nothing is shared."""
        return ", ".join(text for text, values in self._terms if len(values) == 1)

    def own_terms(self, row: ResultRow) -> str:
        """Write what a row was trained on, as far as rows of the task differ in it."""
        texts = (row.lengths, f"{row.steps} steps")
        return ", ".join(text for text, (_, values) in zip(texts, self._terms, strict=True) if len(values) > 1)

    @cached_property
    def _terms(self) -> tuple[tuple[str, set[str]], ...]:
        lengths, steps = {row.lengths for row in self.rows}, {row.steps for row in self.rows}
        return (f"training lengths {min(lengths)}", lengths), (f"{min(steps)} steps", steps)


def results_of(entries: Iterable[Entry]) -> list[TaskResults]:
    """Group the runs of a store by task, model, and what they were trained on."""
    tasks = grouped(entries, lambda entry: (entry.subject, entry.options.machine))
    ordered = sorted(tasks.values(), key=lambda some: (some[0].subject.family, some[0].subject.size or 0))
    names = _names(entry for some in ordered for entry in some)
    made = [_task_results(number, some, names) for number, some in enumerate(ordered)]
    return [task for task in made if task.rows]


def shown_lengths(tasks: Sequence[TaskResults], most: int = MOST_LENGTHS) -> list[int]:
    """Return the test lengths that have a column: all, or those at which most rows were tested, with the judged one."""
    rows = [row for task in tasks for row in task.rows]
    counts = Counter(length for row in rows for length in row.best.scores)
    judged = judged_at(dict.fromkeys(row.best.scores, 0.0) for row in rows)
    return sorted(sorted(counts, key=lambda length: (length != judged, -counts[length], length))[:most])


def length_names(tasks: Iterable[TaskResults]) -> dict[int, str]:
    """Return how test lengths are called; where sequences of several are scored together, by which those are."""
    found: dict[int, set[tuple[int, int] | None]] = {}
    for row in (row for task in tasks for row in task.rows):
        for length, spread in row.best.scores.items():
            found.setdefault(length, set()).add(spread.span)
    return {
        length: span_text(length, next(iter(spans))) if len(spans) == 1 else f"up to {length:,}"
        for length, spans in found.items()
    }


def training_lengths(options: RunOptions) -> str:
    """Write the training lengths of a run: "2 to 10, curriculum"."""
    parts = [f"{options.shortest:,} to {options.longest:,}"]
    parts += ["curriculum"] if options.growth_share else []
    parts += [f"late to {options.late:,}"] if options.late > options.longest else []
    parts += [] if options.samples is None else [f"{options.samples:,} sequences"]
    return ", ".join(parts)


def _names(entries: Iterable[Entry]) -> dict[str, str]:
    """Return by label how models are called, as `compare` calls them, with what is unusual about them."""
    labels = {entry.label: entry.options.model for entry in entries}
    names = short_names(labels.values())
    return {label: names[model] + label.removeprefix(model) for label, model in labels.items()}


def _task_results(number: int, entries: Sequence[Entry], names: Mapping[str, str]) -> TaskResults:
    by_row = grouped(sorted(entries, key=model_order), lambda entry: _terms(entry.options))
    ended = {terms: some for terms, some in by_row.items() if any(_has_ended(entry) for entry in some)}
    differing = _differing([some[0] for some in ended.values()])
    rows = [
        ResultRow(
            f"row-{number}-{place}",
            names[some[0].label],
            _written(some[0].options, differing[some[0].label]),
            _settings(some),
            sum(entry.status == "failed" for entry in some),
        )
        for place, some in enumerate(ended.values())
    ]
    machines = list(dict.fromkeys(entry.options.task for entry in entries))
    title = machines[0] if len(machines) == 1 else f"{entries[0].subject}: {len(machines):,} machines"
    tests = {row.options.tests for row in rows}
    return TaskResults(title, tests.pop() if len(tests) == 1 else None, tuple(rows))


def _has_ended(entry: Entry) -> bool:
    return entry.status != "failed"


def _terms(options: RunOptions) -> Hashable:
    """Return what tells rows of one task apart: every option that is neither tuned nor measured."""
    aside = {*TUNED, *_MEASURED, "task"}
    return tuple((name, value) for name, value in options if name not in aside)


def _settings(entries: Sequence[Entry]) -> tuple[Setting, ...]:
    ended = [entry for entry in entries if _has_ended(entry)]
    groups = grouped(ended, lambda entry: tuple(getattr(entry.options, name) for name in TUNED))
    varied = [name for place, name in enumerate(TUNED) if len({values[place] for values in groups}) > 1]
    made = [Setting(_written(some[0].options, varied), _by_seed(some)) for some in groups.values()]
    return tuple(sorted(made, key=lambda setting: setting.rank))


def _by_seed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return one run for each seed and machine: where it was measured several times, the run with most results."""
    again = grouped(entries, attrgetter("options.seed", "options.task"))
    most = {
        seed: max(some, key=lambda e: (e.record.polished is not None, len(e.scores))) for seed, some in again.items()
    }
    return tuple(most[seed] for seed in sorted(most))


def _differing(firsts: Sequence[Entry]) -> dict[str, list[str]]:
    """Return, for each model, the options that its rows on a task differ in, and that no column shows."""
    # test sequences of two kinds are named in every row: their scores do not compare
    always = ["tests"] if _differ(firsts, ["tests"]) else []
    found: dict[str, list[str]] = {}
    for label, some in grouped(firsts, lambda entry: entry.label).items():
        names = [name for name in RunOptions.model_fields if name not in (*TUNED, *_MEASURED, *_SHOWN, *always)]
        found[label] = [*_differ(some, names), *always]
        for alike in grouped(some, lambda entry: (training_lengths(entry.options), entry.options.steps)).values():
            found[label] += [name for name in _differ(alike, _SHARES) if name not in found[label]]
    return found


def _differ(entries: Sequence[Entry], names: Sequence[str]) -> list[str]:
    return [name for name in names if len({getattr(entry.options, name) for entry in entries}) > 1]


def _written(options: RunOptions, names: Sequence[str]) -> str:
    """Write some options for a reader: "rate 0.01, squared error"."""
    return ", ".join(_option(name, getattr(options, name)) for name in names)


def _option(name: str, value: Any) -> str:
    if name == "source":
        return f"source {str(value)[:8]}"
    if value in _BARE:
        return _BARE[value]
    if name in ("recipe", "readout", "tests"):
        return f"{value} {name}"
    shown = f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return f"{_NAMES.get(name, name.replace('_', ' '))} {shown}"


def _spread(entries: Sequence[Entry], score: Any) -> Spread | None:
    """Return a score over the seeds that were tested; a run that diverged counts as chance."""
    found: Mapping[str, RecordedScore | None] = {entry.key: score(entry) for entry in entries}
    tested = [one for one in found.values() if one is not None]
    if not tested:
        return None
    scores = [
        0.0 if one is None else one.score
        for entry in entries
        if (one := found[entry.key]) is not None or entry.status == "diverged"
    ]
    known = [one.measured_constant for one in tested]
    constants = [constant for constant in known if constant is not None]
    constant = fmean(constants) if constants else None
    bound = (constant or 0.0) + 2 * fmean(one.constant_error for one in tested)
    return Spread(tuple(scores), constant, fmean(scores) > bound, tested[0].span)
