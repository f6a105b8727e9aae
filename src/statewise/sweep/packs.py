"""Packs of runs: pieces of work that one worker does at once.

Runs of one shape are trained as an ensemble; their packs are sized by what runs like them have cost, and the longest go
first, so that the last worker does not end long after the others.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from statewise.machines import machine
from statewise.machines.files import from_json
from statewise.store import is_null

# a piece of work should take about this long: much more is lost with a worker, much less is spent on handing over
_LEAST_SECONDS, _MOST_SECONDS = 20.0, 600.0
_MOST_MEMBERS, _MOST_EMPTY = 16, 1_000
# symbols that an ensemble reads in one step
_MOST_SYMBOLS = 2_000_000
# seconds per step at hidden size 64 where nothing has been measured yet
_GUESSES = {"full": 0.003, "cp": 0.03, "block": 0.008, "rotation": 0.01, "rnn": 0.003, "lstm": 0.004, "gru": 0.004}
_GUESSES |= {"diagonal": 0.003, "positive": 0.003, "mamba": 0.04, "transformer": 0.01}
_STACKED = ("full", "block", "rotation", "diagonal", "positive")


@dataclass(frozen=True)
class Job:
    """One run to be done.

    Args:
        key: of its record.
        config: its resolved options.
        machine: the text of its machine, where that came from a file.
    """

    key: str
    config: dict[str, Any]
    machine: str | None = None

    @property
    def null(self) -> bool:
        """Whether this is a run of the null task, which does nothing."""
        return is_null(self.config)

    @property
    def stacked(self) -> bool:
        """Whether it is trained as the member of an ensemble, if need be of itself alone.

        A member's numbers do not depend on its companions, so they are the same however runs are packed.
        """
        config = self.config
        alone = config["additive"] != "none" or config["supervision"] != "final" or config["average"] > 0
        return not self.null and config["model"].split("(")[0] in _STACKED and not alone


@dataclass(frozen=True)
class Pack:
    """Runs that one worker does together.

    Args:
        jobs: the runs.
        seconds: what they are expected to take.
        attempt: how often they have been tried before.
    """

    jobs: tuple[Job, ...]
    seconds: float
    attempt: int = 0

    def split(self, keys: Iterable[str]) -> list["Pack"]:
        """Gives smaller packs of the runs with these keys, tried once more: first about the root, then one by one."""
        wanted = set(keys)
        left = [job for job in self.jobs if job.key in wanted]
        size = 1 if self.attempt else math.isqrt(max(1, len(left) - 1)) + (len(left) > 1)
        size = max(1, min(size, len(left)))
        each = self.seconds / len(self.jobs)
        return [
            Pack(tuple(left[i : i + size]), each * len(left[i : i + size]), self.attempt + 1)
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
            for like in ((model, recipe, hidden), (model, recipe, hidden, _any_seed(task))):
                before, taken = totals.get(like, (0.0, 0))
                totals[like] = before + seconds, taken + steps
        self._measured = {like: seconds / steps for like, (seconds, steps) in totals.items()}

    def known(self, config: dict[str, Any]) -> bool:
        """Whether runs like this one have been measured."""
        return is_null(config) or (config["model"], config["recipe"], config["hidden"]) in self._measured

    def seconds(self, config: dict[str, Any]) -> float:
        """Gives what a whole run is expected to take of one core."""
        family = config["model"].split("(")[0]
        if is_null(config):
            return 0.0
        guess = _GUESSES.get(family, 0.01) * max(1.0, (config["hidden"] / 64)) ** 1.5
        like = config["model"], config["recipe"], config["hidden"]
        on_others = self._measured.get(like, guess)
        return config["steps"] * self._measured.get((*like, _any_seed(config["task"])), on_others)


def _any_seed(task: str) -> str:
    """Gives a task without its seed: machines that are drawn alike cost alike."""
    return re.sub(r"seed=\d+", "seed", task)


def make_packs(jobs: Sequence[Job], costs: Costs, workers: int) -> list[Pack]:
    """Puts runs into packs, the longest first."""
    total = sum(costs.seconds(job.config) for job in jobs)
    aim = min(_MOST_SECONDS, max(_LEAST_SECONDS, total / (6 * max(1, workers))))
    packs: list[Pack] = []
    for alike in _by_shape(jobs):
        each = costs.seconds(alike[0].config)
        size = _most_together(alike[0])
        if not alike[0].null and each > 0:
            size = max(1, min(size, round(aim / each)))
        # as even as possible: 17 runs are 9 and 8, not 16 and 1
        count = math.ceil(len(alike) / size)
        parts = [alike[i * len(alike) // count : (i + 1) * len(alike) // count] for i in range(count)]
        packs += [Pack(tuple(part), each * len(part)) for part in parts]
    return sorted(packs, key=lambda pack: -pack.seconds)


def _by_shape(jobs: Sequence[Job]) -> list[list[Job]]:
    shapes: dict[Any, list[Job]] = {}
    for job in jobs:
        shapes.setdefault(_shape(job), []).append(job)
    return list(shapes.values())


def _shape(job: Job) -> Any:
    """Gives what runs of one ensemble have in common; a run that cannot be stacked has its key."""
    config = job.config
    if job.null:
        return "null"
    if not job.stacked:
        return job.key
    same = tuple((k, str(v)) for k, v in config.items() if k not in ("task", "lr", "seed", "samples"))
    return same, _sizes(config["task"], job.machine)


def _most_together(job: Job) -> int:
    config = job.config
    if job.null:
        return _MOST_EMPTY
    # sizes that make no run are found out by its worker
    symbols = max(1, config["batch"] * max(config["longest"], config["late"]))
    return max(1, min(_MOST_MEMBERS, _MOST_SYMBOLS // symbols))


@lru_cache(maxsize=100_000)
def _sizes(task: str, text: str | None) -> tuple[int, int]:
    """Gives the symbols and classes of a task; a task that cannot be built is found out by its own worker."""
    try:
        built = machine(task) if text is None else from_json(text)
    except ValueError:
        return 0, 0
    return built.symbols, built.classes
