"""The record of a run: a typed value, read and checked in one place."""

import math
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, model_validator

from statewise.errors import StoreError, shorten
from statewise.training.metrics import HeldOut, Metrics, Score, pooled_majority
from statewise.training.options import RunOptions
from statewise.wording import counted

# of record.json and config.json; files without a number are of format 1
FORMAT = 2
Status = Literal["done", "stopped", "diverged", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)

# the whole numbers of SQLite and Parquet end here; calendars end with the year 9999
LARGEST, _LAST_SECOND = 2**63 - 1, 250e9
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Share = Annotated[float, Field(ge=0, le=1)]
ScoreValue = Annotated[float, Field(ge=-1, le=1)]


class _Checked(BaseModel):
    # NaN stays NaN in JSON: null means that nothing was measured
    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", allow_inf_nan=False, ser_json_inf_nan="constants"
    )


class RecordedScore(_Checked):
    """The score of one length; records of other origin may lack the counts behind it.

    Where labels stand after each symbol, symbols are counted, and `at_end` has the score at the ends.
    """

    length: Positive
    score: ScoreValue
    count: Positive | None = None
    correct: Whole | None = None
    classes: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    majority: Share | None = None
    accuracy: Share | None = None
    score_majority: float | None = None
    at_end: "RecordedScore | None" = None
    labels: tuple[Whole, ...] | None = None
    # where sequences of several lengths are scored together, the shortest and the longest
    span: tuple[Positive, Positive] | None = None

    @model_validator(mode="after")
    def _check_counts(self) -> "RecordedScore":
        counts = (self.count, self.classes, self.majority, self.accuracy)
        if None in counts and counts != (None,) * len(counts):
            raise ValueError("count, classes, majority and accuracy are there together or not at all")
        return self

    @property
    def constant(self) -> float:
        """The score of the best constant answer on the same sequences; 0 where that is not known."""
        if self.majority is None or self.classes is None:
            return 0.0
        chance = 1 / self.classes
        return (self.majority - chance) / (1 - chance)

    @property
    def measured_constant(self) -> float | None:
        """The score of the best constant answer; None where that is not known."""
        return None if self.majority is None else self.constant

    @property
    def constant_error(self) -> float:
        """The standard error of the constant answer's score, from the number of sequences; 0 where it is not known."""
        if self.majority is None or self.classes is None or self.count is None:
            return 0.0
        return math.sqrt(self.majority * (1 - self.majority) / self.count) / (1 - 1 / self.classes)

    @property
    def beats_constant(self) -> bool:
        """Whether the score is above that of the best constant answer, by more than two standard errors."""
        return self.score > self.constant + 2 * self.constant_error

    @classmethod
    def of(cls, score: Score) -> "RecordedScore":
        """Record a score with everything that follows from it."""
        more: dict[str, Any] = {} if score.at_end is None else {"at_end": cls.of(score.at_end)}
        more |= {} if score.labels is None else {"labels": score.labels}
        more |= {} if score.span is None or score.labels is None else {"span": score.span}
        return cls(
            length=score.length,
            count=score.count,
            correct=score.correct,
            classes=score.classes,
            majority=score.majority,
            accuracy=score.accuracy,
            score=score.score,
            score_majority=score.score_majority,
            **more,
        )


def mean_beats_constant(scores: "Iterable[RecordedScore | None]") -> bool:
    """Return whether the mean of several runs is above the best constant answer by more than two standard errors.

    A run without a score counts as chance.
    """
    given = list(scores)
    known = [score for score in given if score is not None]
    if not known:
        return False
    mean = math.fsum(score.score for score in known) / len(given)
    return mean > math.fsum(score.constant + 2 * score.constant_error for score in known) / len(known)


class RecordedMetrics(_Checked):
    """One evaluation during training."""

    model_config = ConfigDict(allow_inf_nan=True)

    step: Whole
    loss: float | None
    scores: tuple[ScoreValue, ...]
    seconds: float = 0.0
    validation: float | None = None

    @classmethod
    def of(cls, metrics: Metrics) -> "RecordedMetrics":
        """Record what was measured."""
        return cls(
            step=metrics.step,
            loss=metrics.loss,
            scores=metrics.scores,
            seconds=metrics.seconds,
            validation=metrics.validation,
        )


class RecordedHeldOut(_Checked):
    """Loss and accuracy on validation sequences."""

    count: Positive
    loss: float | None
    accuracy: Share

    @classmethod
    def of(cls, held_out: HeldOut) -> "RecordedHeldOut":
        """Record what was measured."""
        loss = held_out.loss if math.isfinite(held_out.loss) else None
        return cls(count=held_out.count, loss=loss, accuracy=held_out.accuracy)


class RecordedVerdict(_Checked):
    """What was decided of a network and the machine of its task.

    Args:
        status: proven at every length, refuted by a sequence, correct up to a horizon, or unknown.
        length: of that sequence, or of the horizon.
        horizon: the length up to which all sequences are proven right, beside a wrong sequence too; None if no such
            length is known, or if all are.
        method: what decided.
        seconds: how long that took.
    """

    status: Literal["proven", "refuted", "horizon", "unknown"]
    length: Whole | None = None
    horizon: Whole | None = None
    method: str | None = None
    seconds: Annotated[float, Field(ge=0)] = 0.0

    @property
    def proven_to(self) -> int | float:
        """The length up to which all sequences are proven right: infinite if all are, 0 if no such length is known."""
        known = self.length if self.status == "horizon" else self.horizon
        return math.inf if self.status == "proven" else known or 0

    @property
    def wrong_at(self) -> int | None:
        """The length of the sequence that refutes it, if one does."""
        return self.length if self.status == "refuted" else None


class RecordedPolish(_Checked):
    """What polishing a trained network reached.

    Args:
        status: whether the residual vanished; "refused" where the network is none that polish takes.
        objective: what was solved: "values" or "closure"; None where nothing was.
        rank: the hidden size that is left.
        residual: the mean square distance from the objective.
        horizon: all sequences of up to so many symbols are right (proven); None if nothing is proven.
        scores: of the final test, of the polished network.
        rounds: linear systems that were solved.
        seconds: how long it took.
        reason: why it was refused.
        verdict: what was decided of the polished network, where the run's options ask for verdicts.
        exact: what was decided of it in whole numbers; None where it was not written in them.
    """

    status: Literal["converged", "not converged", "rank not found", "refused"]
    objective: Literal["values", "closure"] | None = None
    rank: Positive | None = None
    residual: Annotated[float, Field(ge=0)] | None = None
    horizon: Whole | None = None
    scores: tuple[RecordedScore, ...] = ()
    rounds: Whole = 0
    seconds: Annotated[float, Field(ge=0)] = 0.0
    reason: str | None = None
    verdict: RecordedVerdict | None = None
    exact: RecordedVerdict | None = None


class Record(_Checked):
    """What is known of a run that has ended.

    Args:
        format: of the record.
        key: the run's identity, where it is known.
        status: how it ended; "stopped" is early, by its plan's criterion.
        config: its resolved options.
        steps: how many were taken.
        seconds: how long that took, tests included.
        shared: how many runs of one ensemble shared these seconds.
        tokens_per_second: of training.
        loss: the last mean training loss.
        parameters: how many were trained.
        scores: of the final test.
        in_distribution: the score over all training lengths.
        validation: loss and accuracy on validation sequences.
        history: the evaluations during training.
        probe: the lengths of these.
        versions: of what the numbers depend on.
        commit: of the source tree.
        finished: when it ended, in seconds since 1970.
        reason: why it failed.
        polished: what polishing the trained network reached, where that was asked for.
        verdict: what was decided of the trained network, where its options ask for that, or where its weights were too
            large to be kept in a store.
    """

    format: int = 1
    key: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    status: Status
    config: RunOptions
    steps: Whole = 0
    seconds: Annotated[float, Field(ge=0)] | None = None
    shared: Positive = 1
    tokens_per_second: float | None = None
    loss: float | None = None
    parameters: Whole | None = None
    scores: tuple[RecordedScore, ...] = ()
    in_distribution: RecordedScore | None = None
    validation: RecordedHeldOut | None = None
    history: tuple[RecordedMetrics, ...] = ()
    probe: tuple[Positive, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    finished: Annotated[float, Field(ge=0, le=_LAST_SECOND)] | None = None
    reason: str | None = None
    polished: RecordedPolish | None = None
    verdict: RecordedVerdict | None = None

    @model_validator(mode="after")
    def _check_history(self) -> "Record":
        if any(len(metrics.scores) < len(self.probe) for metrics in self.history):
            raise ValueError(f"each evaluation has {len(self.probe)} scores, as many as probe has lengths")
        return self

    @field_serializer("config")
    def _write_config(self, options: RunOptions) -> dict[str, Any]:
        return options.to_dict()

    @property
    def score_id(self) -> float | None:
        """The score on training lengths."""
        return None if self.in_distribution is None else self.in_distribution.score

    @property
    def cost(self) -> float | None:
        """Seconds of one core: an ensemble's members share its seconds."""
        return None if self.seconds is None else self.seconds / self.shared

    @property
    def pooled(self) -> RecordedScore | None:
        """The score of a user's own test set over all lengths; None of any other run."""
        return _pooled(self.scores) if self.config.sequences is not None else None

    def score_at(self, length: int) -> RecordedScore | None:
        """Return the score at a length, if it was tested there."""
        return next((score for score in self.scores if score.length == length), None)

    def with_key(self, key: str) -> "Record":
        """Return the same record under a key."""
        return self.model_copy(update={"key": key})

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON has it, without what was never set."""
        return self.model_dump(mode="json", exclude_unset=True)

    def to_json(self) -> str:
        """Write the record on one line."""
        return self.model_dump_json(exclude_unset=True)


def _pooled(scores: Sequence[RecordedScore]) -> RecordedScore | None:
    """Pool scores of several lengths."""
    count, correct, classes, constants = 0, 0, 2, []
    for score in scores:
        if score.count is None or score.correct is None or score.majority is None or score.classes is None:
            return None
        count, correct, classes = count + score.count, correct + score.correct, score.classes
        constants.append((score.count, score.majority, score.labels))
    if not count:
        return None
    ends = [s.at_end for s in scores if s.at_end is not None]
    at_end = _pooled(ends)
    whole = Score(max(s.length for s in scores), count, correct, classes, pooled_majority(constants))
    found = RecordedScore.of(whole)
    return found if at_end is None else found.model_copy(update={"at_end": at_end})


def parse_record(text: str | bytes) -> Record:
    """Read and check a record; what is no record is refused in one sentence."""
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        raise StoreError(_sentence(error)) from None


@dataclass(frozen=True)
class Provenance:
    """What a number depends on besides its options: versions, and the commit of the source."""

    versions: dict[str, str]
    commit: str | None


def provenance() -> Provenance:
    """Return the versions and the commit that compute here."""
    import torch

    from statewise import __version__

    versions = {"python": platform.python_version(), "torch": torch.__version__, "statewise": __version__}
    return Provenance(versions, _commit())


@cache
def _commit() -> str | None:
    """Return the commit of the source tree, where this file is part of one."""
    here = Path(__file__)
    try:
        for ask in (["git", "log", "-1", "--format=%H", "--", here.name], ["git", "rev-parse", "HEAD"]):
            done = subprocess.run(ask, cwd=here.parent, capture_output=True, text=True, timeout=30, check=True)
            if not done.stdout.strip():
                return None
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _sentence(error: ValidationError) -> str:
    """Say what of a record is wrong: where, what stands there, what was expected."""
    first = error.errors(include_url=False)[0]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]]
    where, value = shorten("".join(parts).removeprefix("."), 80), first["input"]
    if first["type"] == "json_invalid":
        return f"a record is no JSON: {shorten(first['msg'], 100)}; expected one object on a line; leave it out"
    shown = f"with {counted(len(value), 'part')}" if isinstance(value, dict | list) else shorten(repr(value), 40)
    missing = first["type"] == "missing"
    found = "is no object" if not where else f"has no {where}" if missing else f"has {where} {shown}"
    expected = shorten(first["msg"].removeprefix("Value error, ").removeprefix("Input should be "), 120)
    return f"a record {found}; expected {'it' if missing else expected.lower()}; leave it out"
