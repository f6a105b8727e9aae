"""Trials: each model on each task, tuned alike, trained with several seeds, recorded in a store.

The first setting is tried on every task with the first seed, then the others where it was not perfect at training
lengths (where it was, none could be better, and it is kept), then the chosen one with the other seeds. What the store
has is not run again, so that the same call resumes.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.errors import GridError, StatewiseError, shorten
from statewise.machines import Machine
from statewise.machines.catalogue import from_file
from statewise.machines.machine_files import to_json
from statewise.runs.record import Record
from statewise.store import Store, small_weights
from statewise.sweep.engine import Engine
from statewise.sweep.jobs import Job, check_jobs, make_jobs
from statewise.sweep.judging import judged
from statewise.sweep.packs import Costs, make_packs
from statewise.sweep.runner import EngineOptions, GridPlan, left_to_run, plan_jobs
from statewise.sweep.schedule import Progress, ShowProgress, clean, going_on_later, not_done, run_packs, work_folder
from statewise.sweep.terms import SETTINGS, Setting, Terms
from statewise.sweep.trial_records import FIRST_SEED, Trial, choose_setting, trial_of
from statewise.sweep.work import BLOCKED, failed_record
from statewise.tasks import SequenceSource
from statewise.training.options import RunOptions

if TYPE_CHECKING:
    from statewise.models import OwnSource

MOST_RUNS = 20_000
_PERFECT = 1.0
# sizes of the networks on which classes are tried
_SYMBOLS = 2


@dataclass(frozen=True, eq=False)
class TriedTask:
    """A task of a trial.

    Args:
        name: as options have it: an expression, a file, or the name of a machine that was given as a value.
        source: the machine or the sequences that it stands for.
        identity: the hash of a machine that its name does not build.
        here: whether only this process has its sequences.
    """

    name: str
    source: Machine | SequenceSource
    identity: str | None = None
    here: bool = False

    @property
    def kept(self) -> Machine | SequenceSource | None:
        """Its source, where the name of a machine alone does not say all."""
        return self.source if self.identity is not None or isinstance(self.source, SequenceSource) else None

    @property
    def text(self) -> str | None:
        """The text of a machine that its name alone does not build; None of anything else."""
        apart = self.identity is not None or from_file(self.name)
        return to_json(self.source) if apart and isinstance(self.source, Machine) else None


@dataclass(frozen=True)
class TriedModel:
    """A model of a trial.

    Args:
        name: as options have it.
        reads: the longest sequence that it reads; None is any.
        own: its class, where that is a user's own and workers cannot import it by its name.
    """

    name: str
    reads: int | None = None
    own: type | None = None

    @cached_property
    def source(self) -> "OwnSource | None":
        """The source of a class that workers cannot import."""
        from statewise.models import own_source

        return None if self.own is None else own_source(self.own)


def check_size(tasks: int, models: int, seeds: int) -> None:
    """Refuse more runs than one call should begin."""
    runs = tasks * models * (len(SETTINGS) + seeds - 1)
    if runs > MOST_RUNS:
        raise GridError(
            f"{tasks:,} x {models:,} (tasks x models) with {seeds:,} seeds take up to {runs:,} runs; at most "
            f"{MOST_RUNS:,} are begun at once; compare fewer, or write a sweep"
        )


@dataclass(frozen=True)
class Trials:
    """What all trials became.

    Args:
        trials: for each task all models.
        ran: how many runs were done now; the others were in the store.
    """

    trials: tuple[Trial, ...]
    ran: int


# a model on a task
Pair = tuple[TriedTask, TriedModel]


def run_trials(
    directory: Path,
    tasks: Sequence[TriedTask],
    models: Sequence[TriedModel],
    terms: Terms,
    seeds: int,
    engine: EngineOptions,
    retry_failed: bool = False,
    show: ShowProgress | None = None,
) -> Trials:
    """Run every model on every task, and return what became of them.

    Args:
        directory: of the store, which is begun if need be.
        tasks: what is tracked.
        models: what is trained.
        terms: what is the same for all.
        seeds: how many each, from 0.
        engine: on what runs are done; classes that workers cannot import are trained in this process.
        retry_failed: do runs again that have failed.
        show: called with the progress, about once a second.
    """
    check_size(len(tasks), len(models), seeds)
    pairs = [(task, model) for task in tasks for model in models]
    able = [pair for pair in pairs if _reads_enough(pair, terms)]
    first = list(zip(able, _jobs([(pair, SETTINGS[0], FIRST_SEED) for pair in able], terms), strict=True))
    check_jobs([job for pair, job in first if not _only_here(pair)])
    _check_here({model: job for (task, model), job in first if _only_here((task, model))})
    with Store.open(directory, write=True) as store, going_on_later(store), ExitStack() as held:
        runner = _Runner(store, engine, retry_failed, show, held)
        found: dict[Pair, list[Record]] = {pair: [] for pair in pairs}

        def run(wanted: Sequence[tuple[Pair, Setting, int]]) -> None:
            jobs = _jobs(wanted, terms)
            pairs = [pair for pair, _, _ in wanted]
            runner.run(jobs, {job.key: pair for pair, job in zip(pairs, jobs, strict=True) if _only_here(pair)})
            for (pair, _, _), job in zip(wanted, jobs, strict=True):
                found[pair].append(runner.record(job))

        others = _others(able, seeds)
        begun = [(pair, SETTINGS[0], FIRST_SEED) for pair in able]
        runner.expect(_jobs([*begun, *_tuning(able), *others], terms))
        run(begun)
        tuned = _tuning([pair for pair in able if (found[pair][0].score_id or 0.0) < _PERFECT])
        runner.expect(_jobs([*tuned, *others], terms))
        run(tuned)
        chosen = [(pair, choose_setting(found[pair]), seed) for pair, _, seed in others]
        runner.expect(_jobs(chosen, terms))
        run(chosen)
        trials = [trial_of(task.name, model.name, found[task, model], model.reads) for task, model in pairs]
        return Trials(tuple(trials), runner.ran)


def plan_trials(
    directory: Path | None,
    tasks: Sequence[TriedTask],
    models: Sequence[TriedModel],
    terms: Terms,
    seeds: int,
    engine: EngineOptions,
    retry_failed: bool = False,
) -> GridPlan:
    """Return what `run_trials` would do at most, and about how long that and the least that it may do would take."""
    check_size(len(tasks), len(models), seeds)
    able = [pair for pair in ((task, model) for task in tasks for model in models) if _reads_enough(pair, terms)]
    first, others = [(pair, SETTINGS[0], FIRST_SEED) for pair in able], _others(able, seeds)
    jobs = _jobs([*first, *_tuning(able), *others], terms)
    check_jobs([job for pair, job in zip(able, jobs, strict=False) if not _only_here(pair)])
    standing, left, costs = left_to_run(directory, jobs, retry_failed)
    least = {job.key for job in _jobs([*first, *others], terms)}
    tuning = sum(job.key not in least for job in left)
    plan = plan_jobs(standing, left, costs, engine.workers)
    share = 1 - tuning / len(left) if left else 1.0
    return replace(plan, least_s=round(plan.estimate_s * share, 1))


def _tuning(pairs: Sequence[Pair]) -> list[tuple[Pair, Setting, int]]:
    """Return the runs of the settings that are tried where the first was not perfect."""
    return [(pair, setting, FIRST_SEED) for pair in pairs for setting in SETTINGS[1:]]


def _others(pairs: Sequence[Pair], seeds: int) -> list[tuple[Pair, Setting, int]]:
    """Return the runs of the other seeds; which setting they have is decided later."""
    return [(pair, SETTINGS[0], seed) for pair in pairs for seed in range(FIRST_SEED + 1, seeds)]


def _reads_enough(pair: Pair, terms: Terms) -> bool:
    """Return whether a model reads what a task trains on, and some test length; if not, it has no runs."""
    task, model = pair
    if model.reads is None:
        return True
    options = terms.options(task.name, model.name, SETTINGS[0], FIRST_SEED, model.reads, task.kept)
    return max(options.longest, *options.probe, min(options.test_lengths)) <= model.reads


def _only_here(pair: Pair) -> bool:
    """Return whether only this process has the class of the model, or the sequences of the task."""
    task, model = pair
    return task.here or model.own is not None


def _jobs(wanted: Sequence[tuple[Pair, Setting, int]], terms: Terms) -> list[Job]:
    """Make the job of each run; a machine that its name does not build goes along."""
    runs = []
    for (task, model), setting, seed in wanted:
        options = terms.options(task.name, model.name, setting, seed, model.reads, task.kept)
        runs.append(options.change(machine=task.identity))
    pairs = [pair for pair, _, _ in wanted]
    named = iter(make_jobs(options for (_, model), options in zip(pairs, runs, strict=True) if model.own is None))
    jobs = []
    for (task, model), options in zip(pairs, runs, strict=True):
        job = next(named) if model.own is None else _job_here(task, model, options)
        jobs.append(job if task.identity is None else replace(job, machine=task.text))
    return jobs


def _check_here(jobs: Mapping[TriedModel, Job]) -> None:
    """Try users' classes that train in this process before any run is; the first that is no model is one sentence."""
    from statewise.models.own_check import check_own

    for model, job in jobs.items():
        own = model.own or job.own
        if own is not None:
            check_own(own, job.options.model_options, _SYMBOLS, _SYMBOLS)


def _job_here(task: TriedTask, model: TriedModel, options: RunOptions) -> Job:
    """Make a job whose class only this process has."""
    assert model.source is not None
    text = task.text if task.identity is None else None
    options = options.change(source=model.source.sha256)
    return Job(options.key(text), options, text, model.source)


class _Runner:
    """Do jobs, on one engine that is started when it is first needed, or in this process."""

    def __init__(
        self, store: Store, engine: EngineOptions, retry_failed: bool, show: ShowProgress | None, held: ExitStack
    ) -> None:
        self.store, self.options, self.retry_failed, self.held = store, engine, retry_failed, held
        self.show = show or (lambda progress: None)
        self.engine: Engine | None = None
        # of classes whose source is not known, which a store cannot tell apart
        self.here: dict[str, Record] = {}
        self.ran = 0
        self.progress = Progress(0, 0.0)
        clean(store)

    def expect(self, jobs: Sequence[Job]) -> None:
        """Count what may be left to do, which results so far may have made less, and tell its cost by theirs."""
        left = not_done(self.store, jobs, self.retry_failed)
        costs = Costs(self.store.costs())
        progress = self.progress
        progress.total = progress.done + len(left)
        # what was done has cost what it took, whatever was expected
        progress.done_cost = progress.seconds * self.options.workers if progress.done else 0.0
        progress.cost = progress.done_cost + sum(costs.seconds(job.options) for job in left)

    def run(self, jobs: Sequence[Job], here: Mapping[str, Pair]) -> None:
        """Do the jobs that the store does not have; those whose keys are given in this process."""
        left = not_done(self.store, [job for job in jobs if job.key not in here], self.retry_failed)
        packs = make_packs(left, Costs(self.store.costs()), self.options.workers, self.options.device)
        self.ran += len(left)
        if packs:
            if self.engine is None:
                self.engine = self.held.enter_context(closing(self.options.start(self.store, self.options.workers)))
            run_packs(self.store, packs, self.engine, self.show, self.progress)
        known = self.store.keys(failed=not self.retry_failed)
        mine = [job for job in jobs if job.key in here]
        costs = Costs(self.store.costs())
        for job in mine:
            task, model = here[job.key]
            if job.key not in known or (model.own is not None and job.options.source is None):
                self._run_here(job, task, model.own or job.own)
                self.progress.statuses[self.record(job).status] += 1
                self.progress.done_cost += costs.seconds(job.options)
            self.show(self.progress)

    def record(self, job: Job) -> Record:
        """Return the record of a job that was done."""
        record = self.here.get(job.key) or self.store.record(job.key)
        assert record is not None
        return record

    def _run_here(self, job: Job, task: TriedTask, own: type | None) -> None:
        from statewise.runs.execution import PlannedRun, execute_one

        self.ran += 1
        folder = work_folder(self.store.directory) / job.key
        weights: bytes | None = None
        text = None if job.source is None else job.source.kept
        plan = PlannedRun(job.options, folder, task.source, own, text, self.options.device)
        try:
            run = execute_one(plan, lambda member, metrics, steps: None)
            assert run.record is not None
            record = run.record.with_key(job.key)
            weights = None if record.status == "diverged" else small_weights(folder)
            record = judged(record, run) if weights is None else record
        except BLOCKED:
            raise
        except Exception as error:
            # whatever a user's class raises is its own failure, and no reason to lose the table
            why = str(error) if isinstance(error, StatewiseError) else f"{type(error).__name__}: {shorten(error, 160)}"
            record = failed_record(job, why)
        self.here[job.key] = record
        texts = (None if job.machine is None else job.machine.encode(), plan.source)
        self.store.add([record], {} if weights is None else {job.key: weights}, [text for text in texts if text])
        shutil.rmtree(folder, ignore_errors=True)
