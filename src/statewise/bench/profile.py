"""What share of a whole training run is not arithmetic: drawing sequences, evaluating, saving, moving weights?"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from statewise.bench.timing import Row
from statewise.files import temporary_folder
from statewise.runs import PlannedRun, execute_one
from statewise.tasks import Task
from statewise.training import loop, resolve, step

SHARE = 0.15


def measure() -> list[Row]:
    """Do the run of `statewise train --task 'modular_addition(5)' --model full` with a clock around each part."""
    options = resolve({"task": "modular_addition(5)", "model": "full"})
    spent: dict[str, float] = {}
    with temporary_folder() as folder, _clocks(spent):
        began = time.perf_counter()
        execute_one(PlannedRun(options, folder / "run"), lambda member, metrics, steps: None)
        whole = time.perf_counter() - began
    rows = [Row(f"{part}, {options.steps:,} steps", "the whole run", seconds, whole) for part, seconds in spent.items()]
    rows.append(Row("all of these together", "the whole run", sum(spent.values()), whole, 1 / SHARE))
    return rows


@contextmanager
def _clocks(spent: dict[str, float]) -> Iterator[None]:
    """Put a clock around everything that is not forward and backward."""
    places: list[tuple[str, Any, str]] = [
        ("drawing sequences", Task, "batch"),
        ("moving weights", step, "adam_step"),
        ("evaluating", loop, "evaluate_model"),
        ("saving", loop, "write_checkpoint"),
    ]
    former = [getattr(owner, name) for _, owner, name in places]
    for (part, owner, name), function in zip(places, former, strict=True):
        spent[part] = 0.0
        setattr(owner, name, _clocked(part, function, spent))
    try:
        yield
    finally:
        for (_, owner, name), function in zip(places, former, strict=True):
            setattr(owner, name, function)


def _clocked(part: str, function: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] += time.perf_counter() - began

    return timed
