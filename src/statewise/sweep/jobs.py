"""Jobs: the runs of a sweep, each with its key, checked before any is begun."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from statewise.machines import machine
from statewise.machines.catalogue import from_file
from statewise.machines.machine_files import from_json, to_json
from statewise.models.table import is_own, without_options
from statewise.training.options import RunOptions

if TYPE_CHECKING:
    from torch import nn

    from statewise.models import OwnSource

# of a very large grid only so many kinds of runs are checked, and so many networks of users' own classes
_MOST, _MOST_OWN = 5_000, 50
# what a network needs to be built; how many symbols it reads makes none possible or impossible
_OF_A_NETWORK = ("model", "hidden", "embedding", "additive", "readout")
_SYMBOLS = 2
# what neither the task nor its lengths depend on
_NOT_OF_A_TASK = frozenset({*_OF_A_NETWORK, "recipe", "lr", "seed", "every", "words", "test_lengths", "probe"})


@dataclass(frozen=True)
class Job:
    """One run to be done.

    Args:
        key: the run's identity, and that of its record.
        options: its resolved options.
        machine: the text of its machine, if that came from a file.
        source: of a user's own model, where its class is and its text.
    """

    key: str
    options: RunOptions
    machine: str | None = None
    source: "OwnSource | None" = None

    @property
    def own(self) -> "type[nn.Module] | None":
        """The class of a user's own model, imported once in a process from the name that the user wrote."""
        return None if self.source is None else self.source.load()

    @property
    def stacked(self) -> bool:
        """Whether it is trained as the member of an ensemble, if need be of itself alone."""
        from statewise.training import can_stack

        return can_stack(self.options)


def make_jobs(runs: Iterable[RunOptions], machines: Iterable[str | None] = ()) -> list[Job]:
    """Give each run its key; a machine or a model from a file goes along, since a worker may not have the file.

    Args:
        runs: the resolved options of each.
        machines: of each run, the text of a machine that was given as a value, whose hash its options have.
    """
    texts: dict[str, str | None] = {}
    sources: dict[str, OwnSource] = {}
    jobs = []
    for options, value in zip_longest(runs, machines):
        task, model = options.task, options.model
        if value is None and task not in texts:
            texts[task] = to_json(machine(task)) if from_file(task) else None
        source = None
        # a class that was given as a value has its hash already, and is not sent by name
        if is_own(model) and options.source is None:
            # one class with many options is read once
            named = without_options(model)
            if named not in sources:
                sources[named] = _source(named)
            source = sources[named]
            options = options.change(source=source.sha256)
        text = texts[task] if value is None else None
        jobs.append(Job(options.key(text), options, text or value, source))
    return jobs


def check_jobs(jobs: Iterable[Job]) -> None:
    """Build the task, the plans and the network of every kind of run once, so that none is left to fail in a worker.

    The first that cannot be built is an error of one sentence.
    """
    kinds: dict[Any, Job] = {}
    for job in jobs:
        if len(kinds) < _MOST:
            kinds.setdefault(tuple(value for name, value in job.options if name != "seed"), job)
    from statewise.training import check_lengths

    by_task: dict[Any, list[Job]] = {}
    for job in kinds.values():
        of_it = tuple(value for name, value in job.options if name not in _NOT_OF_A_TASK)
        by_task.setdefault(of_it, []).append(job)
    longest: dict[Any, int | None] = {}
    of_own = 0
    for group in by_task.values():
        first = group[0]
        task = first.options.build_task(None if first.machine is None else from_json(first.machine))
        for job in group:
            options = job.options
            network = tuple(getattr(options, name) for name in _OF_A_NETWORK)
            if network not in longest and (job.source is None or of_own < _MOST_OWN):
                longest[network] = _try_network(job)
                of_own += job.source is not None
            # refuses rates and steps that no run can have
            _ = options.optimisation
            check_lengths(longest.get(network), task, options.evaluation)


def _try_network(job: Job) -> int | None:
    """Build the network of a job, try a user's own class, and return the longest sequence that it reads."""
    options, own = job.options.model_options, job.own
    if own is not None:
        from statewise.models.own_check import check_own

        check_own(own, options, _SYMBOLS, _SYMBOLS)
    return options.build(_SYMBOLS, _SYMBOLS, job.options.seed, own).longest


def _source(model: str) -> "OwnSource":
    from statewise.models import own_source

    return own_source(model)
