"""What a record is, and under which key and columns it is kept."""

import hashlib
import json
import re
from typing import Any

from statewise.errors import StoreError, shorten

STATUSES = ("done", "stopped", "diverged", "failed")
# the length at which runs are compared
LENGTH = 500
COLUMNS = (
    "status",
    "task",
    "model",
    "recipe",
    "lr",
    "seed",
    "hidden",
    "steps",
    "seconds",
    "cost",
    "score_id",
    "score_ood",
    "finished",
)


def key_of(config: dict[str, Any], machine: str | None = None) -> str:
    """Gives the key of a run: a hash of its resolved config, and of the machine's text where that came from a file."""
    written = json.dumps([config, machine], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def check_record(record: Any) -> None:
    """Refuses what is no record of a run."""
    what = "a record" if not isinstance(record, dict) else f'a record with key "{shorten(record.get("key"), 40)}"'
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise StoreError(f"{what} has no config; expected an object of options; leave it out")
    config = record["config"]
    kinds = {"status": str, "key": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(record.get(name), kind)]
    wrong += [name for name in ("steps", "seconds", "finished") if not _number(record.get(name))]
    wrong += [f"config.{name}" for name in ("lr", "seed", "hidden") if not _number(config.get(name))]
    wrong += [f"config.{name}" for name in ("task", "model", "recipe") if not isinstance(config.get(name), str | None)]
    if not wrong and not re.fullmatch("[0-9a-f]{32}", record["key"]):
        wrong = ["key"]
    if not wrong and record["status"] not in STATUSES:
        wrong = ["status"]
    scores = [*(record.get("scores") or []), *filter(None, [record.get("in_distribution")])]
    if not all(isinstance(score, dict) and isinstance(score.get("score"), int | float) for score in scores):
        wrong.append("scores")
    if wrong:
        raise StoreError(f"{what} has a wrong {wrong[0]}; expected what a run writes; leave it out")


def _number(value: Any) -> bool:
    # SQLite's whole numbers end at 2^63
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


def columns_of(record: dict[str, Any]) -> list[Any]:
    """Gives the values of a record's columns."""
    config = record["config"]
    scores = {score["length"]: score["score"] for score in record.get("scores") or []}
    inside = record.get("in_distribution")
    values = {
        "status": record["status"],
        **{name: config.get(name) for name in ("task", "model", "recipe", "lr", "seed", "hidden")},
        "steps": record.get("steps"),
        "seconds": record.get("seconds"),
        # an ensemble's members share its seconds
        "cost": None if record.get("seconds") is None else record["seconds"] / record.get("shared", 1),
        "score_id": None if inside is None else inside["score"],
        # the length that tables are about, or the longest there is
        "score_ood": scores.get(LENGTH, scores[max(scores)] if scores else None),
        "finished": record.get("finished"),
    }
    return [values[column] for column in COLUMNS]
