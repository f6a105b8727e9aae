"""What a training will take: a few real steps and evaluations are timed, and multiplied."""

import math
import time
from collections.abc import Callable, Sequence

from statewise.training.evaluation import evaluate_batch
from statewise.training.plans import EvaluationPlan
from statewise.training.state import Training
from statewise.training.step import advance

# where in training steps are timed, since lengths may change on the way, and how many of them
_WHERE, _STEPS, _FEW = (1 / 6, 1 / 2, 5 / 6), 20, 2
# a step that takes longer than this is timed a few times only
_LONG = 0.05
# tests of longer sequences are computed from those of these two lengths
_TIMED_LENGTHS = (100, 400)

Clock = Callable[[], float]


def training_seconds(trainings: Sequence[Training], plan: EvaluationPlan, clock: Clock = time.perf_counter) -> float:
    """Return about how long trainings that share one shape take together, from here to their tests.

    The trainings are used up: they take steps, and are to be built again.

    Args:
        trainings: at their first step.
        plan: what is evaluated and when, of each.
        clock: tells seconds.
    """
    steps = trainings[0].optimisation.steps
    # what happens once, such as building kernels, is no part of a step
    advance(trainings, 1)
    each = [_step_seconds(trainings, round(where * steps), clock) for where in _WHERE]
    evaluations = math.ceil(steps / plan.every)
    first = trainings[0]
    probes = _test_seconds(first, plan.probe, plan.probe_words, clock)
    tests = _test_seconds(first, plan.lengths, plan.words, clock)
    return steps * sum(each) / len(each) + len(trainings) * (evaluations * probes + tests)


def _step_seconds(trainings: Sequence[Training], step: int, clock: Clock) -> float:
    for training in trainings:
        training.step, training.diverged = step, False
    began = clock()
    advance(trainings, _FEW)
    each = (clock() - began) / _FEW
    if each > _LONG:
        return each
    began = clock()
    advance(trainings, _STEPS)
    return (clock() - began) / _STEPS


def _test_seconds(training: Training, lengths: Sequence[int], words: int, clock: Clock) -> float:
    """Return what tests at some lengths take; long ones by how two shorter ones differ."""
    known: dict[int, float] = {}
    short, middle = _TIMED_LENGTHS
    for length in sorted({min(length, middle) for length in lengths} | ({short} if max(lengths) > middle else set())):
        batch = training.task.probe(training.seed, length, words)
        training.model.eval()
        began = clock()
        evaluate_batch(training.model, training.task, length, batch)
        known[length] = clock() - began
    power = 1.0
    if max(lengths) > middle and known[short] > 0 and known[middle] > 0:
        power = min(2.0, max(1.0, math.log(known[middle] / known[short]) / math.log(middle / short)))
    return sum(known[min(length, middle)] * max(1.0, length / middle) ** power for length in lengths)
