"""Are sixteen runs in one tensor program faster than one after another, and do they end the same?"""

import time

from statewise.bench.timing import Row
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models.catalogue import build_model
from statewise.tasks import Task
from statewise.training.ensemble import advance_together
from statewise.training.evaluation import evaluate
from statewise.training.plan import Optimisation
from statewise.training.training import Training

TASK, HIDDEN, STEPS, LENGTH, WORDS = "modular_addition(5)", 64, 400, 10, 200
RATES, SEEDS = (3e-4, 1e-3, 2e-3, 3e-3), (0, 1, 2, 3)


def measure() -> list[Row]:
    """Trains 4 rates x 4 seeds both ways, from the same weights on the same words, and compares scores."""
    # what is loaded and found out once counts for neither
    warm = _members()
    warm[0].advance(2)
    advance_together(warm[1:], 2)
    began = time.perf_counter()
    alone = _members()
    for training in alone:
        training.advance(STEPS)
    alone_s = time.perf_counter() - began
    began = time.perf_counter()
    together = _members()
    advance_together(together, STEPS)
    together_s = time.perf_counter() - began
    for one, other in zip(alone, together, strict=True):
        scores = [evaluate(t.model.eval(), t.task, [LENGTH], WORDS, 0)[0].score for t in (one, other)]  # pyright: ignore[reportArgumentType]
        if abs(scores[0] - scores[1]) > 0.02:
            raise WrongAnswerError(f"seed {one.seed}: score {scores[0]:.3f} alone, {scores[1]:.3f} together")
    case = f"{len(alone)} runs of full, H {HIDDEN}, {TASK}, {STEPS} steps, the same scores"
    return [Row(case, "one after another", together_s, alone_s, target=3.0)]


def _members() -> list[Training]:
    task = Task(machine(TASK))
    trainings = []
    for seed in SEEDS:
        for rate in RATES:
            model = build_model("full", task.tokens, task.machine.classes, HIDDEN, seed)
            trainings.append(Training(model, task, Optimisation(lr=rate, steps=STEPS, schedule="cosine"), seed))
    return trainings
