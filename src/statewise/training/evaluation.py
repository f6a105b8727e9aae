"""Accuracy and chance-normalised score per length."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from statewise.models.interface import SequenceModel
from statewise.tasks import Batch, SequenceTask, Supervision, Task
from statewise.training.loss import objective
from statewise.training.metrics import Coverage, HeldOut, Score
from statewise.training.plans import Loss


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
    return [evaluate_batch(model, task, length, task.test(seed, length, count), coverage) for length in lengths]


def pooled(scores: list[Score]) -> Score:
    """Pool the scores of several lengths as one of their longest."""
    count, correct = sum(s.count for s in scores), sum(s.correct for s in scores)
    majority = sum(s.majority * s.count for s in scores) / count
    return Score(max(s.length for s in scores), count, correct, scores[0].classes, majority)


def evaluate_held_out(
    model: SequenceModel, task: SequenceTask, seed: int, loss: Loss = "cross-entropy"
) -> HeldOut | None:
    """Evaluate a model on the validation sequences of a fixed set; None where none are set aside."""
    if not task.validation:
        return None
    batch = task.held_out(seed)
    with torch.no_grad():
        value = objective(model, batch, loss).item()
        answers = model.at_end(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths)).argmax(dim=-1)
    return HeldOut(len(batch.lengths), value, float((answers.numpy() == batch.finals).mean()))


def evaluate_batch(
    model: SequenceModel, task: SequenceTask, length: int, batch: Batch, coverage: bool = False
) -> Score:
    """Evaluate a model at the end of sequences.

    Args:
        model: what is evaluated.
        task: what they are of.
        length: what their score is reported as.
        batch: the sequences; those of several lengths are read length by length.
        coverage: whether the score says what of the machine they walked, where there is one.
    """
    tokens = torch.from_numpy(batch.tokens)
    finals = torch.from_numpy(batch.finals)
    answers = torch.empty_like(finals)
    for each in np.unique(batch.lengths).tolist():
        rows = torch.from_numpy(np.flatnonzero(batch.lengths == each))
        answers[rows] = _answers(model, task, tokens[rows, :each])
    right = int((answers == finals).sum())
    majority = int(torch.bincount(finals).max()) / len(finals)
    covered = _coverage(task, batch, (answers == finals).numpy()) if coverage and isinstance(task, Task) else None
    return Score(length, len(finals), right, task.classes, majority, covered)


def _answers(model: SequenceModel, task: SequenceTask, tokens: Tensor) -> Tensor:
    """Return the answers at the end of sequences of one length."""
    read = _READERS[task.supervision]
    at_once = model.sequences_at_once(task.written_length(tokens.shape[1]))
    with torch.no_grad():
        return torch.cat([read(model, rows, task.source.symbols) for rows in tokens.split(at_once)])


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
