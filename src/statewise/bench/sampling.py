"""What share of a training step goes into drawing its words? Aimed at: at most a twentieth."""

import itertools
from collections.abc import Callable

from statewise.bench.timing import Row, best_times
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models.catalogue import build_model
from statewise.tasks import Task
from statewise.training.plan import Optimisation
from statewise.training.training import Training

CASES = [
    ("modular_addition(5)", "full", 64),
    ("modular_addition(5)", "full", 256),
    ("modular_addition(5)", "rotation", 64),
    ("modular_addition(5)", "diagonal", 64),
    ("modular_arithmetic(5)", "full", 64),
    ("random_machine(25, seed=0)", "full", 64),
    ("modular_addition(5)", "lstm", 256),
]


BATCHES = 128


def measure() -> list[Row]:
    """Times batches alone and whole steps, on words of the training lengths."""
    rows = []
    for name, model, hidden in CASES:
        task = Task(machine(name))
        network = build_model(model, task.tokens, task.machine.classes, hidden, seed=0)
        training = Training(network, task, Optimisation(), seed=0)
        seed, size = training.seed, training.optimisation.batch
        batch = task.batch(seed, 3, size)
        if not (task.machine.outputs[task.machine.track(batch.words)] == batch.outputs).all():
            raise WrongAnswerError(f"the answers of {name} are not its machine's")
        times = best_times({"batches": _draw(task, seed, size), "step": lambda t=training: t.advance(1)})
        rows.append(
            Row(
                f"words of {name}, {size} a batch",
                f"a step of {model}, H {hidden}",
                times["batches"] / BATCHES,
                times["step"],
                target=20.0,
            )
        )
    return rows


def _draw(task: Task, seed: int, size: int) -> Callable[[], None]:
    """Draws batches that no call drew before."""
    position = itertools.count(1_000)

    def some() -> None:
        for _ in range(BATCHES):
            task.batch(seed, next(position), size)

    return some
