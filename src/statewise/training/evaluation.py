"""Accuracy and chance-normalised score per length."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from statewise.errors import ModelError, StatewiseError
from statewise.machines.conformance import conformance_suite
from statewise.models.interface import AdaptedModel, SequenceModel
from statewise.models.own import describe_error
from statewise.stages import say
from statewise.tasks import Batch, SequenceTask, Supervision, Task, legal_moves
from statewise.tasks.words_task import WordsTask
from statewise.training.loss import objective, tensor_on
from statewise.training.metrics import Coverage, HeldOut, Score, SuiteScore, pooled_majority
from statewise.training.plans import Loss

# symbols whose logits are computed at once, and validation symbols that are read at once
_SYMBOLS_AT_ONCE, _HELD_OUT_AT_ONCE = 1 << 18, 1 << 20


def evaluate_model(
    model: SequenceModel, task: SequenceTask, lengths: Iterable[int], count: int, seed: int, coverage: bool = False
) -> list[Score]:
    """Evaluate a model on `count` sequences of each length, answered at their end.

    Sequences are read in chunks of time, so that memory does not grow with length.

    Args:
        model: what is evaluated.
        task: where sequences come from.
        lengths: how long they are.
        count: how many there are of each.
        seed: of the sequences.
        coverage: whether scores say what of the machine the sequences walked, where there is one.
    """
    lengths, scores = list(lengths), []
    for place, length in enumerate(lengths):
        # what is left to read, by symbols
        say("testing", sum(lengths[:place]) / max(1, sum(lengths)), f"{count:,} sequences of length {length:,}")
        scores.append(evaluate_batch(model, task, length, task.test(seed, length, count), coverage))
    return scores


def pooled(scores: list[Score]) -> Score:
    """Pool the scores of several lengths as one of their longest."""
    count, correct = sum(s.count for s in scores), sum(s.correct for s in scores)
    majority = pooled_majority((s.count, s.majority, s.labels) for s in scores)
    ends = [s.at_end for s in scores if s.at_end is not None]
    at_end = pooled(ends) if ends else None
    spans = [s.span or (s.length, s.length) for s in scores]
    span = min(low for low, _ in spans), max(high for _, high in spans)
    return Score(max(s.length for s in scores), count, correct, scores[0].classes, majority, at_end=at_end, span=span)


def evaluate_held_out(
    model: SequenceModel, task: SequenceTask, seed: int, loss: Loss = "cross-entropy"
) -> HeldOut | None:
    """Evaluate a model on the validation sequences of a fixed set; None where none are set aside."""
    if not task.validation:
        return None
    batch = task.held_out(seed)
    at_once = max(1, _HELD_OUT_AT_ONCE // batch.tokens.shape[1])
    parts = [batch.rows(slice(i, i + at_once)) for i in range(0, len(batch.lengths), at_once)]
    with torch.no_grad():
        values = [objective(model, part, loss).item() for part in parts]
        ends = [model.at_end(tensor_on(model.device, p.tokens), tensor_on(model.device, p.lengths)) for p in parts]
        answers = [logits.argmax(dim=-1).cpu() for logits in ends]
    weighted = sum(v * p.answers for v, p in zip(values, parts, strict=True)) / batch.answers
    value = values[0] if len(values) == 1 else weighted
    return HeldOut(len(batch.lengths), value, float((torch.cat(answers).numpy() == batch.finals).mean()))


def evaluate_batch(
    model: SequenceModel, task: SequenceTask, length: int, batch: Batch, coverage: bool = False
) -> Score:
    """Evaluate a model at the end of sequences, or, where a batch asks for that, after each symbol.

    Args:
        model: what is evaluated.
        task: what they are of.
        length: what their score is reported as.
        batch: the sequences; those of several lengths are read length by length.
        coverage: whether the score says what of the machine they walked, where there is one.
    """
    try:
        return _evaluate_batch(model, task, length, batch, coverage)
    except Exception as error:
        if isinstance(error, StatewiseError) or not isinstance(model, AdaptedModel):
            raise
        made, most = type(model.module), int(batch.lengths.max())
        raise ModelError(
            f"{made.__name__} cannot read sequences of {most:,} symbols: {describe_error(error, made)}; "
            "test shorter ones, and give the class an attribute longest with the most that it reads"
        ) from error


def _evaluate_batch(model: SequenceModel, task: SequenceTask, length: int, batch: Batch, coverage: bool) -> Score:
    if batch.asked is not None:
        return _evaluate_symbols(model, task, length, batch, batch.asked)
    finals = torch.from_numpy(batch.finals)
    answers = torch.empty_like(finals)
    for each in np.unique(batch.lengths).tolist():
        rows = np.flatnonzero(batch.lengths == each)
        answers[rows] = _answers(model, task, batch.tokens[rows, :each])
    if isinstance(task, WordsTask):
        return _score(task, length, batch, batch.finals, (answers == finals).numpy())
    right = int((answers == finals).sum())
    majority = int(torch.bincount(finals).max()) / len(finals)
    covered = _coverage(task, batch, (answers == finals).numpy()) if coverage and isinstance(task, Task) else None
    return Score(length, len(finals), right, task.classes, majority, covered)


def _evaluate_symbols(
    model: SequenceModel, task: SequenceTask, length: int, batch: Batch, asked: Bool[np.ndarray, "batch time"]
) -> Score:
    """Evaluate a model after each symbol, and at the end; sequences of similar lengths are read together."""
    right = np.zeros(batch.outputs.shape, dtype=bool)
    order = np.argsort(-batch.lengths, kind="stable")
    with torch.no_grad():
        while len(order):
            longest = int(batch.lengths[order[0]])
            rows = order[: max(1, min(model.sequences_at_once(longest), _SYMBOLS_AT_ONCE // longest))]
            order = order[len(rows) :]
            logits = model(tensor_on(model.device, batch.tokens[rows, :longest]))
            # logits that are no numbers are no answer
            answers = torch.where(logits.isnan().any(dim=-1), -1, logits.argmax(dim=-1)).cpu().numpy()
            right[rows, :longest] = answers == batch.outputs[rows, :longest]
    ends = right[np.arange(len(right)), batch.lengths - 1]
    at_end = _score(task, length, batch, batch.finals, ends)
    return replace(_score(task, length, batch, batch.outputs[asked], right[asked]), at_end=at_end)


def _score(
    task: SequenceTask,
    length: int,
    batch: Batch,
    answers: Int[np.ndarray, " answer"],
    right: Bool[np.ndarray, " answer"],
) -> Score:
    """Score answers of a user's own sequences."""
    span = int(batch.lengths.min()), int(batch.lengths.max())
    labels = np.bincount(answers, minlength=task.source.classes)
    majority = int(labels.max()) / len(answers)
    return Score(
        length,
        len(answers),
        int(right.sum()),
        task.classes,
        majority,
        labels=tuple(labels.tolist()),
        span=None if span == (length, length) else span,
    )


def evaluate_suite(model: SequenceModel, task: Task, suite: str) -> SuiteScore:
    """Evaluate a model on a conformance suite of its task's machine."""
    machine = task.machine
    whole = conformance_suite(suite, machine, legal_moves(machine))
    words = [word for word in whole if model.longest is None or task.written_length(len(word)) <= model.longest]
    correct, wrong, walked = 0, None, set[int]()
    for _, group in itertools.groupby(words, key=len):
        tokens = np.array(list(group), dtype=np.int64)
        after = machine.track(tokens)
        before = np.concatenate([np.full((len(after), 1), machine.start), after[:, :-1]], axis=1)
        walked |= set(np.unique(before * machine.symbols + tokens).tolist())
        right = _answers(model, task, tokens).numpy() == machine.outputs[after[:, -1]]
        correct += int(right.sum())
        if wrong is None and not right.all():
            wrong = tuple(tokens[int(np.argmin(right))].tolist())
    return SuiteScore(suite, len(words), correct, len(words[-1]), len(walked), len(whole) - len(words), wrong)


def _answers(model: SequenceModel, task: SequenceTask, tokens: np.ndarray) -> Tensor:
    """Return the answers at the end of sequences of one length."""
    read = _READERS[task.supervision]
    at_once = model.sequences_at_once(task.written_length(tokens.shape[1]))
    with torch.no_grad():
        rows_at_once = tensor_on(model.device, tokens).split(at_once)
        return torch.cat([read(model, rows, task.source.symbols) for rows in rows_at_once]).cpu()


def _coverage(task: Task, batch: Batch, right: Bool[np.ndarray, " batch"]) -> Coverage:
    """Count the pairs of a state and a symbol that sequences walked, and find the one that ends worst."""
    machine = task.machine
    after = machine.track(batch.tokens)
    before = np.concatenate([np.full((len(after), 1), machine.start), after[:, :-1]], axis=1)
    pairs = before * machine.symbols + batch.tokens
    ends, place = np.unique(pairs[:, -1], return_inverse=True)
    accuracies = np.bincount(place.ravel(), weights=right) / np.bincount(place.ravel())
    worst = int(np.argmin(accuracies))
    where = divmod(int(ends[worst]), machine.symbols)
    return Coverage(len(np.unique(pairs)), task.moves, float(accuracies[worst]), where)


def _read(model: SequenceModel, tokens: Tensor, symbols: int) -> Tensor:
    """Return the answers after the last symbols."""
    logits = _advance(model, tokens)[0]
    # logits that are no numbers are no answer
    return torch.where(logits.isnan().any(dim=-1), -1, logits.argmax(dim=-1))


def _read_closed(model: SequenceModel, tokens: Tensor, symbols: int) -> Tensor:
    """Return the answers after one more token, which ends each sequence."""
    return _read(model, torch.cat([tokens, tokens.new_full((len(tokens), 1), symbols)], dim=1), symbols)


def _write_chain(model: SequenceModel, tokens: Tensor, symbols: int) -> Tensor:
    """Let the model write its outputs one by one, each read back before the next; return the last."""
    state = _advance(model, tokens)[1]
    token = tokens.new_full((len(tokens),), symbols)
    for _ in range(tokens.shape[1]):
        logits, state = model.step(token, state)
        token = symbols + 1 + logits.argmax(dim=-1)
    return token - symbols - 1


def _advance(model: SequenceModel, tokens: Tensor) -> tuple[Tensor, Any]:
    state = model.init_state(len(tokens))
    logits = torch.empty(0)
    for piece in tokens.split(max(1, model.tokens_at_once() // len(tokens)), dim=1):
        logits, state = model.advance(piece, state)
    return logits, state


_READERS: dict[Supervision, Callable[[SequenceModel, Tensor, int], Tensor]] = {
    "final": _read,
    "aligned": _read,
    "closed": _read_closed,
    "chain": _write_chain,
}
