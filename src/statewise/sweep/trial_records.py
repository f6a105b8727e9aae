"""What became of a model on a task: records sorted into trials, by the setting that counts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from statewise.runs.record import Record, mean_beats_constant
from statewise.sweep.terms import SETTINGS, Setting, Terms
from statewise.tasks import has_machine

FIRST_SEED = 0
# where records have no score at training lengths
_NO_SCORE = -2.0


@dataclass(frozen=True)
class Trial:
    """What became of one model on one task.

    Args:
        task: its name.
        model: its name.
        setting: what was chosen; None where nothing was run.
        records: of the chosen setting, one for each seed.
        tuning: of the first seed, one for each setting that was tried.
        reads: the longest sequence that the model reads; None is any.
        refused: why nothing was run.
    """

    task: str
    model: str
    setting: Setting | None = None
    records: tuple[Record, ...] = ()
    tuning: tuple[Record, ...] = ()
    reads: int | None = None
    refused: str | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its runs."""
        return tuple(record.config.seed for record in self.records)

    @property
    def train(self) -> tuple[float, ...]:
        """The score at training lengths of each seed; a run without one counts as chance."""
        return tuple(record.score_id or 0.0 for record in self.records)

    @property
    def train_constant(self) -> float | None:
        """The score of the best constant answer at training lengths."""
        found = [record.in_distribution.constant for record in self.records if record.in_distribution is not None]
        return fmean(found) if found else None

    def scores(self, length: int) -> tuple[float, ...] | None:
        """Return the score of each seed at a length; None where the model cannot read it.

        A run that diverged or failed counts as chance.
        """
        if not self.records or (self.reads is not None and length > self.reads):
            return None
        found = [record.score_at(length) for record in self.records]
        return tuple(0.0 if score is None else score.score for score in found)

    @property
    def pooled(self) -> tuple[float, ...] | None:
        """The score of each seed on a user's own test set as a whole; None of any other task.

        A run that diverged or failed counts as chance.
        """
        if not self.records or self.records[0].config.sequences is None:
            return None
        return tuple(0.0 if record.pooled is None else record.pooled.score for record in self.records)

    @property
    def pooled_constant(self) -> float | None:
        """The score of the best constant answer on a user's own test set as a whole."""
        return next((record.pooled.constant for record in self.records if record.pooled is not None), None)

    def span(self, length: int) -> tuple[int, int] | None:
        """Return the shortest and the longest sequences scored as those of a length; None where all are of it."""
        scores = [score for record in self.records if (score := record.score_at(length)) is not None]
        return scores[0].span if scores else None

    def constant(self, length: int) -> float | None:
        """Return the score of the best constant answer on the same sequences; None where nothing was tested."""
        found = [score.constant for record in self.records if (score := record.score_at(length)) is not None]
        return fmean(found) if found else None

    def beats_constant(self, length: int) -> bool:
        """Return whether the mean over seeds beats the best constant answer at a length."""
        return self.scores(length) is not None and mean_beats_constant(r.score_at(length) for r in self.records)

    @property
    def train_beats_constant(self) -> bool:
        """Whether the mean over seeds beats the best constant answer at training lengths."""
        return mean_beats_constant(record.in_distribution for record in self.records)

    @property
    def pooled_beats_constant(self) -> bool:
        """Whether the mean over seeds beats the best constant answer on a user's own test set as a whole."""
        return mean_beats_constant(record.pooled for record in self.records)

    @property
    def parameters(self) -> int | None:
        """How many parameters were trained."""
        return next((record.parameters for record in self.records if record.parameters), None)

    @property
    def seconds(self) -> float:
        """Seconds of one core, of all its runs, tuning included."""
        runs = {record.key: record for record in (*self.tuning, *self.records)}
        return math.fsum(record.cost or 0.0 for record in runs.values())

    def count(self, status: str) -> int:
        """Return how many of its seeds ended so."""
        return sum(record.status == status for record in self.records)

    @property
    def reason(self) -> str | None:
        """Why its runs have no score, where they have none."""
        why = next((record.reason for record in self.records if record.status == "failed"), None)
        return self.refused or why or ("training diverged" if self.count("diverged") else None)


def trial_of(task: str, model: str, records: Iterable[Record], reads: int | None = None) -> Trial:
    """Sort the records of a model on a task: choose the setting, and take the runs of each seed with it."""
    by_place = {(_setting(record), record.config.seed): record for record in records}
    tuning = tuple(by_place[place] for setting in SETTINGS if (place := (setting, FIRST_SEED)) in by_place)
    if not tuning:
        return Trial(task, model, reads=reads)
    chosen = choose_setting(tuning)
    runs = sorted(
        (record for (setting, _), record in by_place.items() if setting == chosen), key=lambda r: r.config.seed
    )
    return Trial(task, model, chosen, tuple(runs), tuning, reads)


def trials_of(records: Iterable[Record], terms: Terms) -> list[Trial]:
    """Sort the records that were made on these terms into trials, in the order in which they first occur."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if on_terms(record, terms):
            groups.setdefault((record.config.task, record.config.model), []).append(record)
    trials = []
    for (task, model), found in groups.items():
        tested = max(max(record.config.test_lengths) for record in found)
        reads = None if tested >= max(terms.test_lengths) else tested
        trials.append(trial_of(task, model, found, reads))
    return trials


def on_terms(record: Record, terms: Terms) -> bool:
    """Return whether a run was one of a trial on these terms; what a model could read does not matter."""
    config, setting = record.config, _setting(record)
    if setting not in SETTINGS or not has_machine(config.task):
        return False
    kept = {"test_lengths": config.test_lengths, "machine": config.machine, "source": config.source}
    expected = terms.options(config.task, config.model, setting, config.seed).model_copy(update=kept)
    # what its machine asks for, which may not be at hand, was decided when it ran
    return expected.model_copy(update={"draws": config.draws}) == config if config.machine else expected == config


def _setting(record: Record) -> Setting:
    return Setting(record.config.loss, record.config.lr)


def choose_setting(tuning: Sequence[Record]) -> Setting:
    """Return the setting with the best score at training lengths, of equal ones the first that is named."""
    ordered = sorted(tuning, key=lambda record: SETTINGS.index(_setting(record)))
    best = max(ordered, key=lambda record: _NO_SCORE if record.score_id is None else record.score_id)
    return _setting(best)
