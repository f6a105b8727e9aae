"""From options to a finished run: open its directory, train, test, record."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from statewise.errors import ModelError, StatewiseError, shorten
from statewise.models.interface import AdaptedModel
from statewise.runs.directory import open_directory, write_record
from statewise.runs.record import FORMAT, Record, RecordedHeldOut, RecordedMetrics, RecordedScore, provenance
from statewise.runs.run import Run
from statewise.tasks import Source
from statewise.training.loop import Outcome, Session, Show, check_lengths, train_sessions
from statewise.training.loss import objective
from statewise.training.options import RunOptions
from statewise.training.state import Training, build_training

# sequences on which a model of a user's own is tried before it is trained
_FEW = 4


@dataclass(frozen=True)
class PlannedRun:
    """A run to be done.

    Args:
        options: resolved.
        directory: where it is kept; None keeps nothing.
        source: the machine or the sequences that it is trained on, where they are not to be built from their name.
        own: the class of its model, where that is a user's own.
    """

    options: RunOptions
    directory: Path | None = None
    source: Source | None = None
    own: type[nn.Module] | None = None


def execute(plans: Sequence[PlannedRun], show: Show) -> Iterator[tuple[int, Run]]:
    """Do runs, several in one tensor program, and yield each as it ends; one that has ended before is not done again.

    Each run is recorded as if it had been done alone.
    """
    sessions: dict[int, Session] = {}
    finished: dict[int, Run] = {}
    for index, plan in enumerate(plans):
        training = build_training(plan.options, plan.source, plan.own)
        evaluation = plan.options.evaluation
        check_lengths(training.model.longest, training.task, evaluation)
        if plan.own is not None:
            _try_once(training)
        source = training.task.source
        held = None if plan.directory is None else open_directory(plan.directory, plan.options, source)
        if held is not None:
            finished[index] = Run(source, plan.directory, plan.options, held, own=plan.own)
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
        # weights that are not finite are no network; a directory still has the last that were
        held = None if outcome.status == "diverged" else model
        yield order[place], Run(source, plan.directory, plan.options, record, held=held, own=plan.own)


def _try_once(training: Training) -> None:
    """Run a model of a user's own on one small batch, and back, before anything is begun for it."""
    model, batch = training.model, training.task.batch(training.seed, 0, _FEW)
    name = type(model.module if isinstance(model, AdaptedModel) else model).__name__
    tokens = torch.from_numpy(batch.tokens)
    try:
        with torch.random.fork_rng(devices=[]):
            objective(model, batch).backward()
            with torch.no_grad():
                whole = model.eval()(tokens)[:, -1]
                logits, state = model.advance(tokens[:, :1], model.init_state(len(tokens)))
                if tokens.shape[1] > 1:
                    logits, state = model.advance(tokens[:, 1:], state)
    except StatewiseError:
        raise
    except Exception as error:
        raise ModelError(f"{name} cannot be trained: {type(error).__name__}: {shorten(error, 160)}") from error
    finally:
        model.zero_grad(set_to_none=True)
    if tuple(logits.shape) != tuple(whole.shape):
        raise ModelError(
            f"{name}.advance gave logits of shape {tuple(logits.shape)}; expected those after the last token, "
            f"[batch, classes], here {tuple(whole.shape)}, and the state"
        )
    if bool(whole.isfinite().all()) and not torch.allclose(logits, whole, rtol=1e-3, atol=1e-4):
        raise ModelError(f"{name}.advance and {name}.forward disagree on the same tokens; make them compute the same")


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
