"""Rows of a store: what is kept of each run beside its record, so that it is listed and filtered without it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from statewise.errors import StoreError
from statewise.machines.catalogue import from_file
from statewise.runs.record import Record, RecordedScore

# the length at which runs are compared
LENGTH = 500


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run as lists show it.

    Args:
        key: the run's identity.
        status: how it ended.
        task: what it was trained on.
        model: its model.
        recipe: its recipe.
        lr: its learning rate.
        seed: of its weights and sequences.
        hidden: its hidden size.
        steps: how many were taken; None if it failed.
        seconds: how long that took, tests included.
        cost: seconds of one core.
        score_id: the score on training lengths.
        score_ood: the score at the length at which runs are compared, or at the longest that was tested.
        finished: when it ended, in seconds since 1970.
    """

    key: str
    status: str
    task: str
    model: str
    recipe: str
    lr: float
    seed: int
    hidden: int
    steps: int | None = None
    seconds: float | None = None
    cost: float | None = None
    score_id: float | None = None
    score_ood: float | None = None
    finished: float | None = None

    @classmethod
    def of(cls, record: Record) -> "StoredRun":
        """Return the row of a record, which must have a key."""
        options, compared = record.config, compared_score(record)
        return cls(
            key=need_key(record),
            status=record.status,
            task=options.task,
            model=options.model,
            recipe=options.recipe,
            lr=options.lr,
            seed=options.seed,
            hidden=options.hidden,
            # a run that failed has not counted its steps
            steps=record.steps if "steps" in record.model_fields_set else None,
            seconds=record.seconds,
            cost=record.cost,
            score_id=record.score_id,
            score_ood=None if compared is None else compared.score,
            finished=record.finished,
        )

    @property
    def columns(self) -> list[Any]:
        """The values of the database's columns."""
        return [getattr(self, column) for column in COLUMNS]

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {"key": self.key, **dict(zip(COLUMNS, self.columns, strict=True))}


def compared_score(record: Record) -> RecordedScore | None:
    """Return the score at the length at which runs are compared, or at the longest that was tested."""
    return record.score_at(LENGTH) or max(record.scores, key=lambda score: score.length, default=None)


def constants_of(record: Record) -> dict[str, float | None]:
    """Return the scores of the best constant answers, by the names of the scores that they stand beside."""
    beside = {"score_id": record.in_distribution, "score_ood": compared_score(record)}
    beside |= {f"score_{score.length}": score for score in record.scores}
    return {name: None if score is None else score.measured_constant for name, score in beside.items()}


def agrees(record: Record, columns: Sequence[Any]) -> bool:
    """Return whether what columns say of a run is what its record says, as far as every version wrote them alike."""
    beside, own = dict(zip(COLUMNS, columns, strict=True)), StoredRun.of(record).to_dict()
    return all(beside[name] == own[name] for name in _UNCHANGED)


def is_from_file(record: Record) -> bool:
    """Return whether a run's machine came from a file, whose text is part of its key."""
    return record.config.machine is None and from_file(record.config.task)


def need_key(record: Record) -> str:
    """Return the key of a record; one without a key is refused."""
    if record.key is None:
        raise StoreError("a record has no key; expected 32 hexadecimal digits; leave it out")
    return record.key


COLUMNS = tuple(field.name for field in fields(StoredRun) if field.name != "key")
# the same in every version
_UNCHANGED = ("status", "task", "model", "recipe", "lr", "seed", "hidden")
