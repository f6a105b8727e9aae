"""Are sixteen runs in one tensor program faster than one after another, and do they end the same?

Squared error with weight decay is held to the same: against plain torch for its answers, and against cross-entropy for
its time.
"""

import copy
import math
import time
from collections.abc import Callable

import torch

from statewise.bench.steps import DECAY, NO_SLOWER, plain_loss
from statewise.bench.timing import Row, require_close
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models import build_model
from statewise.tasks import Task
from statewise.training import Optimisation, Training, advance, evaluate_model
from statewise.training.plans import Loss

TASK, HIDDEN, STEPS, LENGTH, SEQUENCES = "modular_addition(5)", 64, 400, 10, 200
RATES, SEEDS = (3e-4, 1e-3, 2e-3, 3e-3), (0, 1, 2, 3)
TURNS = 3
_DECAYS: dict[Loss, float] = {"cross-entropy": 0.0, "squared": DECAY}


def measure(hidden: int = HIDDEN, steps: int = STEPS, turns: int = TURNS) -> list[Row]:
    """Train 4 rates x 4 seeds several ways, from the same weights on the same sequences, and compare scores.

    Args:
        hidden: the hidden size.
        steps: of each run.
        turns: how often each way is timed, by turns; the best counts.
    """

    def members(loss: Loss) -> list[Training]:
        return _members(hidden, steps, loss)

    ways: dict[str, tuple[Loss, Callable[[list[Training], int], None]]] = {
        "torch, one after another": ("cross-entropy", _plainly_one_after_another),
        "one after another": ("cross-entropy", _one_after_another),
        "together": ("cross-entropy", advance),
        "squared": ("squared", advance),
    }
    for loss in _DECAYS:
        _check_step(members(loss))
    # what is loaded and found out once counts for none of them
    for loss, train in ways.values():
        train(members(loss)[:2], 2)
    best, trained = dict.fromkeys(ways, math.inf), {}
    for _ in range(turns):
        for name, (loss, train) in ways.items():
            began = time.perf_counter()
            trained[name] = members(loss)
            train(trained[name], steps)
            best[name] = min(best[name], time.perf_counter() - began)
    plainly = members("squared")
    _plainly_one_after_another(plainly, steps)
    _require_same_scores(plainly, trained["squared"])
    case = f"{len(plainly)} runs of full, H {hidden}, {TASK}, {steps} steps, the same scores"
    rows = []
    for rival, target in (("torch, one after another", 3.0), ("one after another", 1.0)):
        _require_same_scores(trained[rival], trained["together"])
        rows.append(Row(case, rival, best["together"], best[rival], target))
    squared = f"{case}, squared error, weight decay {DECAY}"
    rows.append(Row(squared, "ours together, cross-entropy", best["squared"], best["together"], NO_SLOWER))
    return rows


def _check_step(members: list[Training]) -> None:
    """Compare the loss and the gradients of one step together with plain torch, and its moves with torch's AdamW."""
    references = copy.deepcopy(members)
    advance(members, 1)
    for member, reference in zip(members, references, strict=True):
        require_close("ensemble", torch.tensor(member.loss), _plain_loss(reference, 0).detach())
        optimiser = _plain_optimiser(reference)
        before = {name: weight.detach().clone() for name, weight in reference.trained.items()}
        for name, weight in reference.trained.items():
            # after one step the running mean is a tenth of the gradient
            gradient = 10 * member.moments[name][0]
            assert weight.grad is not None
            require_close("ensemble", gradient, weight.grad)
            weight.grad = gradient
        _plain_step(optimiser, reference, 0)
        for name, weight in reference.trained.items():
            require_close("ensemble", member.trained[name] - before[name], weight - before[name])


def _require_same_scores(some: list[Training], others: list[Training]) -> None:
    for one, other in zip(some, others, strict=True):
        scores = [evaluate_model(t.model.eval(), t.task, [LENGTH], SEQUENCES, 0)[0].score for t in (one, other)]
        if abs(scores[0] - scores[1]) > 0.02:
            raise WrongAnswerError(f"seed {one.seed}: score {scores[0]:.3f} alone, {scores[1]:.3f} together")


def _one_after_another(members: list[Training], steps: int) -> None:
    for training in members:
        advance([training], steps)


def _plainly_one_after_another(members: list[Training], steps: int) -> None:
    for training in members:
        _train_plainly(training, steps)


def _train_plainly(training: Training, steps: int) -> None:
    """Train as a loop written in torch does: forward, loss, backward, AdamW."""
    optimiser = _plain_optimiser(training)
    for step in range(steps):
        _plain_loss(training, step)
        _plain_step(optimiser, training, step)


def _plain_optimiser(training: Training) -> torch.optim.Optimizer:
    return torch.optim.AdamW(training.model.parameters(), weight_decay=training.optimisation.weight_decay)


def _plain_loss(training: Training, step: int) -> torch.Tensor:
    """Compute the loss of a step's batch, and leave its gradients behind."""
    model = training.model.train()
    batch = training.task.batch(training.seed, step, training.optimisation.batch)
    logits = model.at_end(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths))
    model.zero_grad()
    loss = plain_loss(logits, torch.from_numpy(batch.finals), training.optimisation.loss)
    loss.backward()
    return loss


def _plain_step(optimiser: torch.optim.Optimizer, training: Training, step: int) -> None:
    for group in optimiser.param_groups:
        group["lr"] = training.optimisation.rate(step)
    optimiser.step()


def _members(hidden: int, steps: int, loss: Loss) -> list[Training]:
    task = Task(machine(TASK))
    trainings = []
    for seed in SEEDS:
        for rate in RATES:
            model = build_model("full", task.vocabulary, task.machine.classes, hidden, seed)
            how = Optimisation(lr=rate, steps=steps, schedule="cosine", weight_decay=_DECAYS[loss], loss=loss)
            trainings.append(Training(model, task, how, seed))
    return trainings
