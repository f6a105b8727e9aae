"""From options to a finished run: open its directory, train, test, record."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from statewise.models.own_check import check_own
from statewise.runs.directory import held_directory, open_directory, write_record
from statewise.runs.record import FORMAT, Record, RecordedHeldOut, RecordedMetrics, RecordedScore, provenance
from statewise.runs.run import Run
from statewise.tasks import Source
from statewise.training.loop import Outcome, Session, Show, check_lengths, train_sessions
from statewise.training.options import RunOptions
from statewise.training.state import build_training


@dataclass(frozen=True)
class PlannedRun:
    """A run to be done.

    Args:
        options: resolved.
        directory: where it is kept; None keeps nothing.
        task_source: the machine or the sequences that it is trained on, where they are not to be built from their name.
        own: the class of its model, where that is a user's own.
        source: the text of that class, which is kept beside the record and never imported.
        device: where it computes; not part of its identity, as the number of threads is not.
    """

    options: RunOptions
    directory: Path | None = None
    task_source: Source | None = None
    own: type[nn.Module] | None = None
    source: bytes | None = None
    device: str = "cpu"


def execute(plans: Sequence[PlannedRun], show: Show) -> Iterator[tuple[int, Run]]:
    """Do runs, several in one tensor program, and yield each as it ends; one that has ended before is not done again.

    Each run is recorded as if it had been done alone. Its directory is held until all have ended.
    """
    with ExitStack() as held:
        yield from _execute(plans, show, held)


def _execute(plans: Sequence[PlannedRun], show: Show, directories: ExitStack) -> Iterator[tuple[int, Run]]:
    sessions: dict[int, Session] = {}
    finished: dict[int, Run] = {}
    for index, plan in enumerate(plans):
        training = build_training(plan.options, plan.task_source, plan.own, plan.device)
        evaluation = plan.options.evaluation
        check_lengths(training.model.longest, training.task, evaluation)
        if plan.own is not None:
            task = training.task
            check_own(plan.own, plan.options.model_options, task.vocabulary, task.source.classes)
        source = training.task.source
        record = None
        if plan.directory is not None:
            directories.enter_context(held_directory(plan.directory))
            record = open_directory(plan.directory, plan.options, source, plan.source)
        if record is not None:
            finished[index] = Run(source, plan.directory, plan.options, record, own=plan.own)
        else:
            sessions[index] = Session(training, evaluation, plan.directory)
    yield from finished.items()
    order = list(sessions)
    for place, outcome in train_sessions(list(sessions.values()), lambda m, metrics, n: show(order[m], metrics, n)):
        plan, session = plans[order[place]], sessions[order[place]]
        record = record_of(plan.options, outcome)
        if plan.directory is not None:
            write_record(plan.directory, record)
        source, model = session.training.task.source, session.training.model
        # weights that are not finite are no network; a directory still has the last that were. Proofs are for the CPU
        held = None if outcome.status == "diverged" else model.cpu()
        yield order[place], Run(source, plan.directory, plan.options, record, held=held, own=plan.own)


def execute_one(plan: PlannedRun, show: Show) -> Run:
    """Do one run, or read it if it has ended before."""
    ((_, run),) = execute([plan], show)
    return run


def record_of(options: RunOptions, outcome: Outcome) -> Record:
    """Record how a training ended."""
    inside, held_out = outcome.in_distribution, outcome.validation
    made = provenance()
    return Record(
        format=FORMAT,
        status=outcome.status,
        config=options,
        steps=outcome.steps,
        seconds=round(outcome.seconds, 2),
        tokens_per_second=round(outcome.tokens / max(outcome.seconds, 1e-9)),
        loss=outcome.loss,
        parameters=outcome.parameters,
        scores=tuple(map(RecordedScore.of, outcome.scores)),
        in_distribution=None if inside is None else RecordedScore.of(inside),
        validation=None if held_out is None else RecordedHeldOut.of(held_out),
        history=tuple(map(RecordedMetrics.of, outcome.history)),
        probe=options.probe,
        versions=made.versions,
        commit=made.commit,
        finished=round(time.time(), 1),
    )
