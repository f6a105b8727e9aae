"""What runs will take of which the store has none alike: a few real steps of each kind are timed."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from statewise.machines.machine_files import from_json
from statewise.stages import say
from statewise.sweep.packs import Pack, any_seed

# when so many kinds were timed, or so many seconds went into it, the others keep their guess, corrected by these
_MOST_KINDS, _BUDGET = 40, 10.0
# options on which the time of a step does not depend
_NO_MATTER = frozenset({"task", "seed", "lr", "samples", "machine", "source"})


def time_packs(
    packs: Sequence[Pack], clock: Callable[[], float] = time.perf_counter, budget: float = _BUDGET
) -> list[float]:
    """Return what packs take, in seconds of one core: one of each kind is timed, the costliest kinds first.

    Args:
        packs: of runs.
        clock: tells seconds.
        budget: for all timing; at least one kind is timed.
    """
    import torch

    kinds: dict[Any, list[int]] = {}
    for place, pack in enumerate(packs):
        kinds.setdefault(_kind(pack), []).append(place)
    seconds = [pack.seconds for pack in packs]
    totals: dict[str, tuple[float, float]] = {}
    waiting = _in_order([(packs[places[0]].jobs[0].options.model, places) for places in kinds.values()], seconds)
    threads, began, left = torch.get_num_threads(), clock(), list(waiting)
    torch.set_num_threads(1)
    try:
        for number, (model, places) in enumerate(waiting):
            if number == _MOST_KINDS or (number and clock() - began > budget):
                break
            say("timing a few steps", number / len(waiting), f"of each of {len(waiting):,} kinds of runs")
            found = _seconds_of(packs[places[0]], clock)
            if found is None:
                continue
            guessed, timed = totals.get(model, (0.0, 0.0))
            totals[model] = guessed + seconds[places[0]], timed + found
            left.remove((model, places))
            for place in places:
                seconds[place] = found
    finally:
        torch.set_num_threads(threads)
    overall = _ratio(*map(sum, zip(*totals.values(), strict=True))) if totals else 1.0
    for model, places in left:
        for place in places:
            seconds[place] *= _ratio(*totals[model]) if model in totals else overall
    return seconds


def _in_order(kinds: Sequence[tuple[str, list[int]]], seconds: Sequence[float]) -> list[tuple[str, list[int]]]:
    """Order kinds of runs: the costliest of each model first, then the second of each."""
    rank: dict[str, int] = {}
    ranked = []
    for kind in sorted(kinds, key=lambda kind: -sum(seconds[place] for place in kind[1])):
        rank[kind[0]] = rank.get(kind[0], 0) + 1
        ranked.append((rank[kind[0]], kind))
    return [kind for _, kind in sorted(ranked, key=lambda entry: entry[0])]


def _ratio(guessed: float, timed: float) -> float:
    return timed / guessed if guessed else 1.0


def _kind(pack: Pack) -> Any:
    """Return what packs have in common that take about as long."""
    options = pack.jobs[0].options
    same = tuple(value for name, value in options if name not in _NO_MATTER)
    return same, any_seed(options.task), len(pack.jobs)


def _seconds_of(pack: Pack, clock: Callable[[], float]) -> float | None:
    """Time a pack; None where its runs cannot be built, which their worker reports."""
    from statewise.training import build_training
    from statewise.training.estimate import training_seconds

    together = pack.jobs[0].stacked
    jobs = pack.jobs if together else pack.jobs[:1]
    try:
        trainings = [
            build_training(job.options, None if job.machine is None else from_json(job.machine), job.own)
            for job in jobs
        ]
        found = training_seconds(trainings, jobs[0].options.evaluation, clock)
    except Exception:
        # whatever a user's class raises, and whatever options make no run
        return None
    return found if together else found * len(pack.jobs)
