"""What share of a training step goes into drawing its sequences? Aimed at: at most a twentieth."""

import itertools
from collections.abc import Callable

from statewise.bench.timing import Row, best_times
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models import build_model
from statewise.tasks import Task
from statewise.training import Optimisation, Training, advance

CASES = [
    ("modular_addition(5)", "full", 64),
    ("modular_addition(5)", "full", 256),
    ("modular_addition(5)", "rotation", 64),
    ("modular_addition(5)", "diagonal", 64),
    ("modular_arithmetic(5)", "full", 64),
    ("random_machine(25, seed=0)", "full", 64),
    ("modular_addition(5)", "lstm", 256),
]
# timed in one call
BATCHES, STEPS = 128, 16


def measure() -> list[Row]:
    """Time batches alone and whole steps, on sequences of the training lengths."""
    rows = []
    for name, model, hidden in CASES:
        task = Task(machine(name))
        network = build_model(model, task.vocabulary, task.machine.classes, hidden, seed=0)
        training = Training(network, task, Optimisation(), seed=0)
        seed, size = training.seed, training.optimisation.batch
        batch = task.batch(seed, 3, size)
        if not (task.machine.outputs[task.machine.track(batch.tokens)] == batch.outputs).all():
            raise WrongAnswerError(f"the answers of {name} are not its machine's")
        times = best_times({"batches": _draw(task, seed, size), "steps": lambda t=training: advance([t], STEPS)})
        rows.append(
            Row(
                f"sequences of {name}, {size} a batch",
                f"a step of {model}, H {hidden}",
                times["batches"] / BATCHES,
                times["steps"] / STEPS,
                target=20.0,
            )
        )
    return rows


def _draw(task: Task, seed: int, size: int) -> Callable[[], None]:
    """Return a function that draws batches that no call drew before."""
    position = itertools.count(1_000)

    def some() -> None:
        for _ in range(BATCHES):
            task.batch(seed, next(position), size)

    return some
