"""Jobs: the runs of a sweep, each with its key, checked before any is begun."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from statewise.machines import machine
from statewise.machines.catalogue import from_file
from statewise.machines.machine_files import from_json, to_json
from statewise.models.table import is_own
from statewise.training.options import RunOptions

# of a very large grid only so many kinds of runs are checked
_MOST = 5_000
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
    """

    key: str
    options: RunOptions
    machine: str | None = None

    @property
    def stacked(self) -> bool:
        """Whether it is trained as the member of an ensemble, if need be of itself alone."""
        from statewise.training import can_stack

        return can_stack(self.options)


def make_jobs(runs: Iterable[RunOptions]) -> list[Job]:
    """Give each run its key; a machine from a file goes along, since a worker may not have the file."""
    texts: dict[str, str | None] = {}
    sources: dict[str, str | None] = {}
    jobs = []
    for options in runs:
        task, model = options.task, options.model
        if task not in texts:
            texts[task] = to_json(machine(task)) if from_file(task) else None
        if is_own(model) and options.source is None:
            if model not in sources:
                sources[model] = _source(model)
            options = options.change(source=sources[model])
        jobs.append(Job(options.key(texts[task]), options, texts[task]))
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
    for group in by_task.values():
        first = group[0]
        task = first.options.build_task(None if first.machine is None else from_json(first.machine))
        for options in (job.options for job in group):
            network = tuple(getattr(options, name) for name in _OF_A_NETWORK)
            if network not in longest:
                longest[network] = options.model_options.build(_SYMBOLS, _SYMBOLS, options.seed).longest
            # refuses rates and steps that no run can have
            _ = options.optimisation
            check_lengths(longest[network], task, options.evaluation)


def _source(model: str) -> str | None:
    """Return the hash of the source of a user's own class."""
    from statewise.models import source_hash

    return source_hash(model)
