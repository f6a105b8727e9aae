"""Looks at runs before any is begun: what cannot be built is refused at once, not found out by a worker."""

from collections.abc import Iterable
from typing import Any

from statewise.machines.files import from_json
from statewise.sweep.packs import Job

# of a very large grid only so many kinds of runs are looked at
_MOST = 5_000
# what a network needs to be built; how many symbols it reads makes none possible or impossible
_OF_A_NETWORK = ("model", "hidden", "embedding", "additive", "readout")
_SYMBOLS = 2
# what neither the task nor its lengths depend on
_NOT_OF_A_TASK = frozenset({*_OF_A_NETWORK, "recipe", "lr", "seed", "every", "words", "test_lengths", "probe"})


def check(jobs: Iterable[Job]) -> None:
    """Builds the task, the plan and the network of every kind of run once; the first that cannot be built is told."""
    kinds: dict[Any, Job] = {}
    for job in jobs:
        if not job.null and len(kinds) < _MOST:
            kinds.setdefault(tuple(str(value) for name, value in job.config.items() if name != "seed"), job)
    if not kinds:
        return
    from statewise.runs.run import check_lengths, longest_word
    from statewise.training.assemble import build_network, build_optimisation, build_plan, build_task

    by_task: dict[Any, list[Job]] = {}
    for job in kinds.values():
        of_it = tuple(str(value) for name, value in job.config.items() if name not in _NOT_OF_A_TASK)
        by_task.setdefault(of_it, []).append(job)
    longest: dict[Any, int | None] = {}
    for group in by_task.values():
        task = build_task(group[0].config, None if group[0].machine is None else from_json(group[0].machine))
        for config in (job.config for job in group):
            network = tuple(config[name] for name in _OF_A_NETWORK)
            if network not in longest:
                longest[network] = longest_word(build_network(config, _SYMBOLS, _SYMBOLS))
            build_optimisation(config)
            check_lengths(longest[network], task, build_plan(config))
