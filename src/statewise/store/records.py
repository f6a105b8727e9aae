"""What a record is, and under which key and columns it is kept."""

import hashlib
import json
import re
from typing import Any

from statewise.errors import StoreError, shorten
from statewise.store.shapes import MISSING, Check, Fault, any_number, fields, many, number, optional, text, whole
from statewise.wording import counted

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

_KEY = text(re.compile("[0-9a-f]{32}").fullmatch, "32 hexadecimal digits")
_STATUS = text(STATUSES.__contains__, f"one of {', '.join(STATUSES)}")
# seconds since 1970; calendars end with the year 9999
_TIME = number(0.0, 250e9, "a time in seconds since 1970")
_FINITE = number()
_RESULT = number(-1.0, 1.0, "a score from -1 to 1")
_SHARE = number(0.0, 1.0, "a share from 0 to 1")
_COUNTS = {"count": whole(1), "classes": whole(2), "majority": _SHARE, "accuracy": _SHARE}
_SCORE = fields({"length": whole(1), "score": _RESULT} | _COUNTS, ("length", "score"), together=tuple(_COUNTS))
_LOOK_FIELDS = {"step": whole(0), "loss": optional(any_number()), "scores": many(_RESULT)}
_LOOK = fields(_LOOK_FIELDS, tuple(_LOOK_FIELDS))


def _option(value: Any) -> Fault | None:
    """Takes what an option can be; lists in lists could nest deeper than they can be shown."""
    parts = value if type(value) is list else (value,)
    for part in parts:
        if part is not None and type(part) is not str and type(part) is not bool and _FINITE(part) is not None:
            return "", value, "a text, a number, or a list of these"
    return None


def _record(samples: Check, needed: tuple[str, ...] = ()) -> Check:
    """Describes a record: every field that anyone reads.

    Args:
        samples: the check of this option, over whose values curves are drawn.
        needed: fields that such a record has beside those that all have.
    """
    options = {name: text() for name in ("task", "model", "recipe", "additive", "readout", "supervision")}
    options |= {"lr": number(), "seed": whole(0), "hidden": whole(1), "embedding": whole(0), "samples": samples}
    options |= {"shortest": whole(), "longest": whole(), "steps": whole()}
    known = {
        "config": fields(options, others=_option),
        "key": _KEY,
        "status": _STATUS,
        "steps": whole(0),
        "seconds": number(0.0, expected="a number from 0 on"),
        "shared": whole(1),
        "finished": _TIME,
        "loss": optional(number()),
        "parameters": whole(0),
        "scores": many(_SCORE),
        "in_distribution": optional(_SCORE),
        "history": many(_LOOK),
        "probe": many(whole(1)),
        "versions": fields({}, others=text()),
        "commit": optional(text()),
        "reason": text(),
    }
    return fields(known, ("config", "key", "status", *needed))


_UNTESTED = _record(optional(whole()))
_TESTED = _record(optional(whole(1)), ("scores", "in_distribution", "loss"))


def key_of(config: dict[str, Any], machine: str | None = None) -> str:
    """Gives the key of a run: a hash of its resolved config, and of the machine's text where that came from a file."""
    written = json.dumps([config, machine], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()[:32]


def is_null(config: dict[str, Any]) -> bool:
    """Whether a run does nothing."""
    return str(config.get("task")).split("(")[0] == "null"


def check_record(record: Any) -> None:
    """Refuses what is no record of a run; whoever reads one may rely on what is described here."""
    fault = (_TESTED if _is_tested(record) else _UNTESTED)(record) or _unseen(record)
    if fault is None:
        return
    where, value, expected = fault
    key = record.get("key") if isinstance(record, dict) else None
    what = f'a record with key "{shorten(key, 40)}"' if isinstance(key, str) else "a record"
    place = shorten(where.removeprefix("."), 80)
    found = "is no object" if not place else f"has no {place}" if value is MISSING else f"has {place} {_shown(value)}"
    raise StoreError(f"{what} {found}; expected {expected}; leave it out")


def _is_tested(record: Any) -> bool:
    """Whether a run came to be tested, so that its numbers are read; a run that failed did not, nor does a null run."""
    if not isinstance(record, dict) or "scores" in record:
        return True
    config = record.get("config")
    return record.get("status") != "failed" and not (isinstance(config, dict) and is_null(config))


def _unseen(record: dict[str, Any]) -> Fault | None:
    """Finds a look that lacks the score of some length at which looks were taken."""
    lengths = len(record.get("probe", ()))
    for place, look in enumerate(record.get("history", ())):
        if len(look["scores"]) < lengths:
            return f".history[{place}].scores", look["scores"], f"{lengths} scores, as many as probe has lengths"
    return None


def _shown(value: Any) -> str:
    # what has parts may be too large to be written
    if isinstance(value, dict | list):
        return f"with {counted(len(value), 'part')}"
    return f'"{shorten(value, 40)}"' if isinstance(value, str) else shorten(value, 40)


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
