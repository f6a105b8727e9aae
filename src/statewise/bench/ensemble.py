"""Are sixteen runs in one tensor program faster than one after another, and do they end the same?"""

import time

from statewise.bench.timing import Row
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models import build_model
from statewise.tasks import Task
from statewise.training import Optimisation, Training, advance, evaluate_model

TASK, HIDDEN, STEPS, LENGTH, SEQUENCES = "modular_addition(5)", 64, 400, 10, 200
RATES, SEEDS = (3e-4, 1e-3, 2e-3, 3e-3), (0, 1, 2, 3)


def measure() -> list[Row]:
    """Train 4 rates x 4 seeds both ways, from the same weights on the same sequences, and compare scores."""
    # what is loaded and found out once counts for neither
    warm = _members()
    advance(warm[:1], 2)
    advance(warm[1:], 2)
    began = time.perf_counter()
    alone = _members()
    for training in alone:
        advance([training], STEPS)
    alone_s = time.perf_counter() - began
    began = time.perf_counter()
    together = _members()
    advance(together, STEPS)
    together_s = time.perf_counter() - began
    for one, other in zip(alone, together, strict=True):
        scores = [evaluate_model(t.model.eval(), t.task, [LENGTH], SEQUENCES, 0)[0].score for t in (one, other)]
        if abs(scores[0] - scores[1]) > 0.02:
            raise WrongAnswerError(f"seed {one.seed}: score {scores[0]:.3f} alone, {scores[1]:.3f} together")
    case = f"{len(alone)} runs of full, H {HIDDEN}, {TASK}, {STEPS} steps, the same scores"
    return [Row(case, "one after another", together_s, alone_s, target=3.0)]


def _members() -> list[Training]:
    task = Task(machine(TASK))
    trainings = []
    for seed in SEEDS:
        for rate in RATES:
            model = build_model("full", task.vocabulary, task.machine.classes, HIDDEN, seed)
            trainings.append(Training(model, task, Optimisation(lr=rate, steps=STEPS, schedule="cosine"), seed))
    return trainings
