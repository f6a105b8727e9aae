"""What share of a whole training run is not arithmetic: drawing words, trying the model, saving, moving weights?"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import statewise.runs.run as run_module
import statewise.training.training as train_module
from statewise.bench.timing import Row
from statewise.machines import machine
from statewise.models.catalogue import build_model
from statewise.tasks import Lengths, Task
from statewise.training.plan import Optimisation, Plan
from statewise.training.training import Training

# what the run of `statewise train --task 'modular_addition(5)' --model full` does
STEPS, HIDDEN = 2_000, 64
LENGTHS = Lengths(2, 10, growth=600, late=160, late_from=800, late_to=1_800)
SHARE = 0.15


def measure() -> list[Row]:
    """Runs one training to its end with a clock around each part."""
    task = Task(machine("modular_addition(5)"), LENGTHS)
    model = build_model("full", task.tokens, task.machine.classes, HIDDEN, seed=0)
    how = Optimisation(lr=1e-3, steps=STEPS, schedule="cosine", length_power=1.0)
    training = Training(model, task, how, seed=0)
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, _clocks(spent, training):
        began = time.perf_counter()
        run_module.run(training, Plan(), {"bench": "profile"}, Path(folder) / "run", lambda look, steps: None)
        whole = time.perf_counter() - began
    rows = [Row(f"{part}, {STEPS:,} steps", "the whole run", seconds, whole) for part, seconds in spent.items()]
    rows.append(Row("all of these together", "the whole run", sum(spent.values()), whole, 1 / SHARE))
    return rows


@contextmanager
def _clocks(spent: dict[str, float], training: Training) -> Iterator[None]:
    """Puts a clock around everything that is not forward and backward."""
    places: list[tuple[str, Any, str]] = [
        ("drawing words", Task, "batch"),
        ("moving weights", train_module.Adam, "step"),
        ("trying the model", run_module, "evaluate"),
        ("saving", run_module, "write_checkpoint"),
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
