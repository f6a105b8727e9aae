"""Records as runs write them, without running anything."""

import json
from typing import Any

from statewise.runs import Record, parse_record
from statewise.training import RunOptions


def record(options: RunOptions, at_500: float, inside: float = 1.0, **changed: Any) -> Record:
    """Return the record of a run with a score at each test length."""
    written = {
        "key": options.key(),
        "status": "done",
        "config": options.to_dict(),
        "steps": options.steps,
        "seconds": 1.0,
        "loss": 0.0,
        "parameters": 1,
        "scores": [{"length": length, "score": at_500 if length >= 500 else inside} for length in options.test_lengths],
        "in_distribution": {"length": 10, "score": inside},
        "validation": None,
        "history": [],
        "probe": options.probe,
        "finished": 1_000.0,
    }
    return parse_record(json.dumps(written | changed))


def failed(options: RunOptions) -> Record:
    """Return the record of a run that could not be run."""
    written = {"key": options.key(), "status": "failed", "config": options.to_dict(), "reason": "there was no memory"}
    return parse_record(json.dumps(written))
