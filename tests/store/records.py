"""Small records for tests of stores, and a way to change a store behind its back."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from statewise.runs import Record, parse_record
from statewise.store import DATABASE
from statewise.training.options import resolve


def record(seed: int = 0, status: str = "done", task: str = "parity", **more: Any) -> Record:
    """Return a valid record, with fields put in or replaced."""
    return parse_record(json.dumps(record_dict(seed, status, task, **more)))


def record_dict(seed: int = 0, status: str = "done", task: str = "parity", **more: Any) -> dict[str, Any]:
    """Return the same as JSON has it, where fields may be replaced by wrong ones."""
    options = resolve({"task": task, "model": "full", "recipe": "stated", "hidden": 4, "seed": seed})
    made = {"key": options.key(), "status": status, "config": options.to_dict(), "steps": 10, "seconds": 2.0}
    tested = {} if status == "failed" else {"loss": 0.5, "scores": [], "in_distribution": None}
    return made | tested | more


def change_database(directory: Path, change: str, *values: Any) -> None:
    """Change a store's database behind its back."""
    with sqlite3.connect(directory / DATABASE) as connection:
        connection.execute(change, values)
    connection.close()
