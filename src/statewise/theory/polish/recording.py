"""Polish as the last step of a run: the network beside the trained one, and what it reached in the run's record."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from statewise.errors import NetworkError, RunError
from statewise.machines import Machine, minimise
from statewise.models.tracker import StateTracker
from statewise.runs.directory import NetworkManifest, write_network, write_record
from statewise.runs.record import RecordedPolish, RecordedScore, RecordedVerdict
from statewise.runs.run import Run
from statewise.stages import say
from statewise.tasks import BEYOND_SYMBOLS, Task, legal_moves
from statewise.theory.certify import Verdict, certify, prove_horizon
from statewise.theory.certify.recording import recorded_verdict, written_verdict
from statewise.theory.network import network_of
from statewise.theory.polish import Polished, polish_tracker
from statewise.theory.polish.exact import Exact, make_exact
from statewise.theory.polish.least_squares import Show
from statewise.theory.polish.sequences import LabelledSource, OwnSequences, TaskSequences
from statewise.training.evaluation import evaluate_model

# where a run directory keeps its polished network
POLISHED = "polished"
# rounds bound the work; the clock is for machines that are far slower than expected
_SECONDS = 120.0
# sequences that are taken of a task that has no machine and no fixed set
_DRAWN = 4_096
# what torch raises where a decomposition does not converge
_NO_SOLUTION: type[Exception] = torch.linalg.LinAlgError  # pyright: ignore[reportPrivateImportUsage]


def polish_network(
    run: Run, source: LabelledSource | None, seed: int, rank: int | None, seconds: float, show: Show | None
) -> tuple[Polished, int | None]:
    """Polish the network of a run; return it, and the length up to which it is proven.

    Args:
        run: a trained network.
        source: labelled sequences; None takes the run's training set if that is fixed, and else draws from its task.
        seed: of the sequences.
        rank: see `polish_tracker`.
        seconds: how long the solver may take.
        show: called after each round with its number and the residual.
    """
    if run.supervision in BEYOND_SYMBOLS:
        reads = {"chain": "was trained on chains of thought", "closed": "reads one more token at the end"}
        raise NetworkError(f"the network {reads[run.supervision]}; polish one with supervision final or aligned")
    if run.record is not None and run.record.status == "diverged":
        raise NetworkError("training diverged, so there is nothing to polish; train it again with a smaller rate")
    model = run.model
    # what is no product of matrices is refused with its reason
    network_of(model)
    assert isinstance(model, StateTracker)
    found = polish_tracker(model, source or source_of(run), seed, rank, seconds, show)
    if found.outcome != "converged":
        return found, None
    if not isinstance(run.source, Machine):
        # without a machine there is nothing to be proven equal to
        return found, None
    minimal = minimise(run.source)
    say("bounding the growth of errors")
    near = prove_horizon(network_of(found.model), minimal, legal=legal_moves(minimal))
    return found, None if near is None else near.length


def exact_network(run: Run, found: Polished, source: LabelledSource | None, seed: int) -> tuple[Exact, Verdict | None]:
    """Write a polished network in whole numbers; return it, and the verdict on it and the machine of its task, if any.

    Args:
        run: that was polished.
        found: the polished network.
        source: labelled sequences; None takes those of the run.
        seed: of the sequences.
    """
    say("writing the network in whole numbers")
    made = make_exact(found, source or source_of(run), run.source, _shortest(run) or 1, seed)
    if made.model is None or not isinstance(run.source, Machine):
        return made, None
    return made, certify(network_of(made.model), run.source, _shortest(run) or 1, work=0)


def polished_manifest(run: Run, found: Polished, facts: dict[str, Any], exact: Exact | None = None) -> NetworkManifest:
    """Return the manifest of a polished network.

    Args:
        run: that was polished.
        found: the network.
        facts: what was reached.
        exact: what it became, where that was asked for.
    """
    level, hidden, how = found.level, found.rank, found.reason
    if exact is not None and exact.model is not None:
        level, hidden, how = exact.level, len(exact.model.initial_state), exact.reason
    return NetworkManifest(origin="polished", model=level, hidden=hidden, how=how, facts=facts, shortest=_shortest(run))


def _shortest(run: Run) -> int | None:
    """Return the shortest sequences that a polished network is meant for; None for the shortest that there are."""
    # a machine answers every sequence; a set of them says nothing of shorter ones
    return None if isinstance(run.source, Machine) else run.shortest


def polish_recorded(run: Run, show: Show | None = None) -> Run:
    """Polish a finished run whose options ask for it, test and judge the result as the run was, and record it.

    A run that is recorded already is returned as it is, so that an interrupted polish is done again and nothing else.
    """
    options, record = run.options, run.record
    if options is None or record is None or not options.polish or record.polished is not None:
        return run
    began = time.perf_counter()
    try:
        found, horizon = polish_network(run, None, options.seed, None, _SECONDS, show)
    except (NetworkError, RunError, _NO_SOLUTION) as error:
        reached = RecordedPolish(status="refused", reason=str(error))
    else:
        took = round(time.perf_counter() - began, 2)
        scores = evaluate_model(found.model, run.task, options.test_lengths, options.words, options.seed)
        reached = RecordedPolish(
            status=found.outcome,
            objective=found.objective,
            rank=found.rank,
            residual=found.residual,
            horizon=horizon,
            scores=tuple(map(RecordedScore.of, scores)),
            rounds=found.rounds,
            seconds=took,
        ).model_copy(update=_verdicts(run, found))
        if run.path is not None:
            manifest = polished_manifest(run, found, reached.model_dump())
            _replace(run.path / POLISHED, found, run, manifest)
    written = record.model_copy(update={"polished": reached})
    if run.path is not None:
        write_record(run.path, written)
    return replace(run, record=written)


def _verdicts(run: Run, found: Polished) -> dict[str, RecordedVerdict | None]:
    """Judge a polished network as it is and in whole numbers, where the run's options ask for verdicts."""
    if run.options is None or not run.options.certify or found.outcome != "converged":
        return {}
    began = time.perf_counter()
    _, exact = exact_network(run, found, None, run.options.seed)
    took = time.perf_counter() - began
    return {
        "verdict": recorded_verdict(run, found.model, run.options.certify),
        "exact": None if exact is None else written_verdict(exact, took),
    }


def source_of(run: Run) -> LabelledSource:
    """Return what polish may use of a run: its training set with the answers it was given, if that is fixed."""
    task = run.task
    if task.samples is None and isinstance(task, Task):
        return TaskSequences(task)
    batch = task.batch(run.seed, 0, _DRAWN) if task.samples is None else task.fixed(run.seed)
    ends = np.arange(batch.tokens.shape[1]) == batch.lengths[:, None] - 1
    rows, places = np.nonzero(ends if batch.asked is None else batch.asked)
    words = [tuple(batch.tokens[row, : place + 1].tolist()) for row, place in zip(rows, places, strict=True)]
    return OwnSequences(words, batch.outputs[rows, places].tolist(), run.source.classes)


def _replace(directory: Path, found: Polished, run: Run, manifest: NetworkManifest) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    write_network(directory, found.model, run.source, manifest)
