"""Are sixteen runs in one tensor program faster than one after another, and do they end the same?"""

import time
from collections.abc import Callable

import torch

from statewise.bench.timing import Row
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models import build_model
from statewise.tasks import Task
from statewise.training import Optimisation, Training, advance, evaluate_model

TASK, HIDDEN, STEPS, LENGTH, SEQUENCES = "modular_addition(5)", 64, 400, 10, 200
RATES, SEEDS = (3e-4, 1e-3, 2e-3, 3e-3), (0, 1, 2, 3)


def measure() -> list[Row]:
    """Train 4 rates x 4 seeds three ways, from the same weights on the same sequences, and compare scores."""
    # what is loaded and found out once counts for none of them
    warm = _members()
    advance(warm[:1], 2)
    advance(warm[1:], 2)
    _train_plainly(_members()[0], 2)
    timed = {name: _timed(train) for name, train in _WAYS.items()}
    together, together_s = timed["together"]
    case = f"{len(together)} runs of full, H {HIDDEN}, {TASK}, {STEPS} steps, the same scores"
    rows = []
    for rival, target in (("torch, one after another", 3.0), ("one after another", 1.0)):
        alone, alone_s = timed[rival]
        for one, other in zip(alone, together, strict=True):
            scores = [evaluate_model(t.model.eval(), t.task, [LENGTH], SEQUENCES, 0)[0].score for t in (one, other)]
            if abs(scores[0] - scores[1]) > 0.02:
                raise WrongAnswerError(f"seed {one.seed}: score {scores[0]:.3f} alone, {scores[1]:.3f} together")
        rows.append(Row(case, rival, together_s, alone_s, target=target))
    return rows


def _timed(train: Callable[[list[Training]], None]) -> tuple[list[Training], float]:
    began = time.perf_counter()
    members = _members()
    train(members)
    return members, time.perf_counter() - began


def _one_after_another(members: list[Training]) -> None:
    for training in members:
        advance([training], STEPS)


def _train_plainly(training: Training, steps: int) -> None:
    """Train as a loop written in torch does: forward, cross-entropy, backward, AdamW."""
    model = training.model.train()
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    for step in range(steps):
        batch = training.task.batch(training.seed, step, training.optimisation.batch)
        logits = model.at_end(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(batch.finals)).backward()
        for group in optimiser.param_groups:
            group["lr"] = training.optimisation.rate(step)
        optimiser.step()


def _plainly_one_after_another(members: list[Training]) -> None:
    for training in members:
        _train_plainly(training, STEPS)


_WAYS: dict[str, Callable[[list[Training]], None]] = {
    "torch, one after another": _plainly_one_after_another,
    "one after another": _one_after_another,
    "together": lambda members: advance(members, STEPS),
}


def _members() -> list[Training]:
    task = Task(machine(TASK))
    trainings = []
    for seed in SEEDS:
        for rate in RATES:
            model = build_model("full", task.vocabulary, task.machine.classes, HIDDEN, seed)
            trainings.append(Training(model, task, Optimisation(lr=rate, steps=STEPS, schedule="cosine"), seed))
    return trainings
