"""The training loop, on one page: resume, train, evaluate, save, stop, test. One run or many go the same way."""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from torch import Tensor

from statewise.errors import RunError, shorten
from statewise.interruption import Interrupted, deferred
from statewise.models.interface import SequenceModel
from statewise.tasks import SequenceTask
from statewise.training.checkpoints import read_checkpoint, write_checkpoint
from statewise.training.evaluation import evaluate_batch, evaluate_held_out, evaluate_model, pooled
from statewise.training.metrics import HeldOut, Metrics, Score
from statewise.training.plans import EvaluationPlan
from statewise.training.state import Training
from statewise.training.step import advance, check_alike

_HISTORY = TypeAdapter(tuple[Metrics, ...])
# called after each evaluation with the member's number, what was measured, and how many steps there are in all
Show = Callable[[int, Metrics, int], None]


@dataclass
class Session:
    """One run under way: what is trained, what is evaluated, where checkpoints go, and what was measured so far.

    Args:
        training: what is trained.
        evaluation: what is evaluated and when.
        directory: of the checkpoints; None keeps none.
    """

    training: Training
    evaluation: EvaluationPlan
    directory: Path | None
    history: list[Metrics] = field(default_factory=list)
    began: float = 0.0
    # the step of the last checkpoint
    saved: int | None = None

    @property
    def over(self) -> bool:
        """Whether no further step is to be taken."""
        left = self.training.step < self.training.optimisation.steps
        return not left or self.training.diverged or self.enough

    @property
    def enough(self) -> bool:
        """Whether the plan's criterion for stopping early is met."""
        plan, recent = self.evaluation, self.history[-self.evaluation.patience :]
        if len(recent) < plan.patience:
            return False
        tracked = plan.stop_score > 0 and all(metrics.scores[-1] >= plan.stop_score for metrics in recent)
        losses = [m.loss if m.validation is None else m.validation for m in recent]
        settled = plan.settle > 0 and all(loss is not None and loss <= plan.settle for loss in losses)
        return tracked or settled

    @property
    def until_evaluation(self) -> int:
        """How many steps there are before the next evaluation."""
        step, every = self.training.step, self.evaluation.every
        return min(every - step % every, self.training.optimisation.steps - step)


@dataclass(frozen=True)
class Outcome:
    """How a training ended, and what the final test measured; a training that diverged is not tested."""

    status: Literal["done", "stopped", "diverged"]
    steps: int
    seconds: float
    tokens: int
    loss: float | None
    parameters: int
    scores: tuple[Score, ...]
    in_distribution: Score | None
    validation: HeldOut | None
    history: tuple[Metrics, ...]


def train_sessions(sessions: Sequence[Session], show: Show) -> Iterator[tuple[int, Outcome]]:
    """Train each session to the end of its plan, from wherever its checkpoint is, test it, and yield how it ended.

    Several sessions are trained in one tensor program; each has its own evaluations, checkpoints and early stop. Each
    evaluation is saved, so that a kill costs at most the steps since the last one, and Ctrl-C, SIGTERM or SIGHUP none;
    going on from there is the same as never having stopped.
    """
    for session in sessions:
        check_lengths(session.training.model.longest, session.training.task, session.evaluation)
    if len(sessions) > 1:
        check_alike([session.training for session in sessions], begun=False)
    for session in sessions:
        _resume(session)
    under_way = list(range(len(sessions)))
    try:
        while under_way:
            for index in [index for index in under_way if sessions[index].over]:
                under_way.remove(index)
                yield index, _finish(sessions[index])
            # members that were interrupted earlier than others catch up first
            for group in _in_step(under_way, sessions):
                _advance([sessions[index] for index in group])
                for index in group:
                    _evaluate(sessions[index], index, show)
    except KeyboardInterrupt as stop:
        raise Interrupted.of(stop, _kept(sessions)) from None


def _advance(group: Sequence[Session]) -> None:
    """Train to the next evaluation; if the process is asked to end before, save what there is."""
    with deferred() as request:
        advance([session.training for session in group], group[0].until_evaluation, request.asked)
        if request.asked():
            for session in group:
                session.training.check_finite()
                if not session.training.diverged:
                    _save(session)
    request.check()


def _kept(sessions: Sequence[Session]) -> str:
    """Say what an interruption has left, and how to go on."""
    saved = [session for session in sessions if session.saved is not None]
    if not saved:
        where = "without a directory nothing is kept" if sessions[0].directory is None else "nothing was saved yet"
        return f"{where}; the same command begins anew"
    first = saved[0]
    what = f'"{shorten(first.directory)}" is saved at step {first.saved:,} of {first.training.optimisation.steps:,}'
    return f"{what}{'' if len(saved) == 1 else ', with the others'}; the same command goes on from there"


def check_lengths(longest: int | None, task: SequenceTask, plan: EvaluationPlan) -> None:
    """Refuse sequences that are longer than a model reads, before a step is taken."""
    wanted = task.written_length(max(*plan.probe, *plan.lengths, task.lengths.longest, task.lengths.late))
    if longest is not None and wanted > longest:
        raise RunError(
            f"this model reads at most {longest} tokens, {wanted} are asked for; shorten the lengths "
            "(a transformer with positions=none reads any)"
        )


def _resume(session: Session) -> None:
    saved = None if session.directory is None else read_checkpoint(session.directory)
    if saved is not None:
        try:
            _restore(session, *saved)
        except (LookupError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            if isinstance(error, RunError):
                raise
            raise RunError(
                f'the checkpoint in "{shorten(session.directory)}" is none of this training ({shorten(error, 100)}); '
                "start anew"
            ) from None
    session.began = time.perf_counter() - (session.history[-1].seconds if session.history else 0.0)


def _restore(session: Session, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    training = session.training
    training.restore(tensors, values)
    if not 0 <= training.step <= training.optimisation.steps:
        raise ValueError(f"step {training.step:,} of {training.optimisation.steps:,}")
    training.check_finite()
    if training.diverged:
        raise RunError(f'the weights in "{shorten(session.directory)}" are not finite; start anew')
    session.saved = training.step
    # "looks" is what earlier versions called it
    written = values["looks"] if "looks" in values else values["history"]
    session.history = list(_HISTORY.validate_json(json.dumps(written), strict=True))
    for metrics in session.history:
        within = all(-1 <= score <= 1 for score in metrics.scores) and 0 <= metrics.step <= training.step
        if not within or len(metrics.scores) != len(session.evaluation.probe):
            raise ValueError(f"the evaluation at step {metrics.step:,}")


def _in_step(indices: list[int], sessions: Sequence[Session]) -> list[list[int]]:
    """Group members that stand at the same step and are evaluated at the same one next."""
    groups: dict[tuple[int, int], list[int]] = {}
    for index in indices:
        groups.setdefault((sessions[index].training.step, sessions[index].until_evaluation), []).append(index)
    return list(groups.values())


def _evaluate(session: Session, index: int, show: Show) -> None:
    """Evaluate the model as it is, and save it; one that has diverged is left as it was saved last."""
    training, plan = session.training, session.evaluation
    training.check_finite()
    if training.diverged:
        return
    model = _model(training)
    task = training.task
    probes = [(length, task.probe(training.seed, length, plan.probe_words)) for length in plan.probe]
    scores = [evaluate_batch(model, task, length, batch) for length, batch in probes]
    held_out = evaluate_held_out(model, training.task, training.seed, training.optimisation.loss)
    seconds = time.perf_counter() - session.began
    validation = None if held_out is None else held_out.loss
    session.history.append(
        Metrics(training.step, training.loss, tuple(score.score for score in scores), seconds, validation)
    )
    _save(session)
    show(index, session.history[-1], training.optimisation.steps)


def _save(session: Session) -> None:
    if session.directory is None:
        return
    tensors, values = session.training.state()
    values = {**values, "history": [asdict(metrics) for metrics in session.history]}
    with deferred() as request:
        write_checkpoint(session.directory, f"step-{session.training.step}", tensors, values)
        session.saved = session.training.step
    request.check()


def _finish(session: Session) -> Outcome:
    """Test the model on the lengths of the plan and on the training lengths."""
    training, plan = session.training, session.evaluation
    ended = "stopped" if session.enough else "done"
    status = "diverged" if training.diverged else ended
    if status == "done" and training.use_average():
        _save(session)
    scores, inside, held_out = [], None, None
    if status != "diverged":
        model = _model(training)
        scores = evaluate_model(model, training.task, plan.lengths, plan.words, training.seed)
        inside = _in_distribution(model, training, plan.words)
        held_out = evaluate_held_out(model, training.task, training.seed, training.optimisation.loss)
    return Outcome(
        status,
        training.step,
        time.perf_counter() - session.began,
        training.tokens,
        training.loss if math.isfinite(training.loss) else None,
        sum(parameter.numel() for parameter in training.trained.values()),
        tuple(scores),
        inside,
        held_out,
        tuple(session.history),
    )


def _in_distribution(model: SequenceModel, training: Training, words: int) -> Score:
    """Evaluate sequences of every training length, about as many in all as at any other length."""
    batches = training.task.familiar(training.seed, words)
    return pooled([evaluate_batch(model, training.task, batch.tokens.shape[1], batch) for batch in batches])


def _model(training: Training) -> SequenceModel:
    training.model.eval()
    return training.model
