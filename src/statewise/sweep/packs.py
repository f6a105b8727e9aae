"""Packs of runs: pieces of work that one worker does at once.

Runs of one shape are trained as an ensemble; their packs are sized by what runs like them have cost, and the longest go
first, so that the last worker does not end long after the others.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from statewise.machines.machine_files import from_json
from statewise.models.table import kind_of
from statewise.sweep.jobs import Job
from statewise.tasks import build_source
from statewise.training.options import RunOptions

# a piece of work should take about this long: much more is lost with a worker, much less is spent on handing over
_LEAST_SECONDS, _MOST_SECONDS = 20.0, 600.0
_MOST_MEMBERS = 16
# symbols that an ensemble reads in one step
_MOST_SYMBOLS = 2_000_000
# seconds per step of a user's own model, if none has been measured yet
_OWN_COST = 0.01
# members of an ensemble may differ in these, as far as their machines have one alphabet and as many outputs
_MAY_DIFFER = frozenset({"task", "lr", "seed", "samples"})


@dataclass(frozen=True)
class Pack:
    """Runs that one worker does together.

    Args:
        jobs: the runs.
        seconds: what they are expected to take.
        attempt: how often they have been attempted before.
        losses: how often what they ran on was lost, through no fault of theirs.
        device: where they compute; not part of their identities.
    """

    jobs: tuple[Job, ...]
    seconds: float
    attempt: int = 0
    losses: int = 0
    device: str = "cpu"

    def again(self, keys: Iterable[str]) -> "Pack":
        """Return the runs with these keys as they were, for another node."""
        wanted = set(keys)
        left = tuple(job for job in self.jobs if job.key in wanted)
        each = self.seconds / len(self.jobs)
        return Pack(left, each * len(left), self.attempt, self.losses + 1, self.device)

    def split(self, keys: Iterable[str]) -> list["Pack"]:
        """Return smaller packs of the runs with these keys for the next attempt: first about the root, then singles."""
        wanted = set(keys)
        left = tuple(job for job in self.jobs if job.key in wanted)
        size = 1 if self.attempt else math.isqrt(max(1, len(left) - 1)) + (len(left) > 1)
        size = max(1, min(size, len(left)))
        each = self.seconds / len(self.jobs)
        return [
            replace(self, jobs=left[i : i + size], seconds=each * len(left[i : i + size]), attempt=self.attempt + 1)
            for i in range(0, len(left), size)
        ]


class Costs:
    """What a step of a run costs, as measured by runs like it, on its task if there are any, or else guessed.

    Args:
        measured: model, recipe, hidden size, task, seconds of one core and steps, from a store.
    """

    def __init__(self, measured: Iterable[tuple[str, str, int, str, float, int]] = ()) -> None:
        totals: dict[tuple[Any, ...], tuple[float, int]] = {}
        for model, recipe, hidden, task, seconds, steps in measured:
            for like in ((model, recipe, hidden), (model, recipe, hidden, any_seed(task))):
                before, taken = totals.get(like, (0.0, 0))
                totals[like] = before + seconds, taken + steps
        self._measured = {like: seconds / steps for like, (seconds, steps) in totals.items()}

    def known(self, options: RunOptions) -> bool:
        """Return whether runs like this one have been measured."""
        return (options.model, options.recipe, options.hidden) in self._measured

    def seconds(self, options: RunOptions) -> float:
        """Return what a whole run is expected to take of one core."""
        kind = kind_of(options.model)
        guess: float = (_OWN_COST if kind is None else kind.cost) * max(1.0, options.hidden / 64) ** 1.5
        like = options.model, options.recipe, options.hidden
        on_others = self._measured.get(like, guess)
        return options.steps * self._measured.get((*like, any_seed(options.task)), on_others)


def make_packs(jobs: Sequence[Job], costs: Costs, workers: int, device: str = "cpu") -> list[Pack]:
    """Put runs into packs for a device, the longest first."""
    total = sum(costs.seconds(job.options) for job in jobs)
    aim = min(_MOST_SECONDS, max(_LEAST_SECONDS, total / (6 * max(1, workers))))
    packs: list[Pack] = []
    for alike in _by_shape(jobs):
        each = costs.seconds(alike[0].options)
        size = _most_together(alike[0].options)
        if each > 0:
            size = max(1, min(size, round(aim / each)))
        # as even as possible: 17 runs are 9 and 8, not 16 and 1
        count = math.ceil(len(alike) / size)
        parts = [alike[i * len(alike) // count : (i + 1) * len(alike) // count] for i in range(count)]
        packs += [Pack(tuple(part), each * len(part), device=device) for part in parts]
    return sorted(packs, key=lambda pack: -pack.seconds)


def any_seed(task: str) -> str:
    """Return a task without its seed: machines that are drawn alike cost alike."""
    return re.sub(r"seed=\d+", "seed", task)


def _by_shape(jobs: Sequence[Job]) -> list[list[Job]]:
    shapes: dict[Any, list[Job]] = {}
    for job in jobs:
        shapes.setdefault(_shape(job), []).append(job)
    return list(shapes.values())


def _shape(job: Job) -> Any:
    """Return what runs of one ensemble have in common; a run that cannot be stacked has its key."""
    if not job.stacked:
        return job.key
    same = tuple(value for name, value in job.options if name not in _MAY_DIFFER)
    return same, _sizes(job.options.task, job.machine)


def _most_together(options: RunOptions) -> int:
    # sizes that make no run are refused by its worker
    symbols = max(1, options.batch * max(options.longest, options.late))
    return max(1, min(_MOST_MEMBERS, _MOST_SYMBOLS // symbols))


@lru_cache(maxsize=100_000)
def _sizes(task: str, text: str | None) -> tuple[int, int]:
    """Return the symbols and classes of a task; a task that cannot be built is refused by its own worker."""
    try:
        built = build_source(task) if text is None else from_json(text)
    except ValueError:
        return 0, 0
    return built.symbols, built.classes
