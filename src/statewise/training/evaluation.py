"""Accuracy and chance-normalised score per length."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from statewise.tasks.task import Task
from statewise.training.loss import objective


@runtime_checkable
class Model(Protocol):
    """What evaluation asks of a model: a state that advances."""

    def init_state(self, batch: int) -> Any:
        """Gives the state before the first token."""
        ...

    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Advances by several tokens; gives the logits after the last."""
        ...

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Advances by one token."""
        ...

    def words_at_once(self, length: int) -> int:
        """Gives how many words of a length fit into memory together."""
        ...

    def tokens_at_once(self) -> int:
        """Gives how many tokens, words times symbols, a chunk may have."""
        ...


@dataclass(frozen=True)
class HeldOut:
    """How a model does on the words set aside for validation, asked as in training."""

    count: int
    loss: float
    accuracy: float


@dataclass(frozen=True)
class Score:
    """How often a model is right at the end of words of one length.

    Args:
        length: symbols per word.
        count: how many words were tried.
        correct: how many were answered rightly.
        classes: how many answers there are, so that guessing is right 1/m of the time.
        majority: the share of the most frequent right answer among these words.
    """

    length: int
    count: int
    correct: int
    classes: int
    majority: float

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return self.correct / self.count

    @property
    def score(self) -> float:
        """(accuracy - 1/m) / (1 - 1/m): 0 is guessing, 1 is perfect."""
        return (self.accuracy - 1 / self.classes) / (1 - 1 / self.classes)

    @property
    def score_majority(self) -> float:
        """The same against always giving the most frequent answer; 1 is perfect."""
        return (self.accuracy - self.majority) / (1 - self.majority) if self.majority < 1 else float(self.accuracy == 1)


def evaluate(model: Model, task: Task, lengths: Iterable[int], count: int, seed: int) -> list[Score]:
    """Tries a model on `count` words of each length, answered at their end.

    Words are handed over in chunks of time, so that memory does not grow with length.
    """
    return [_evaluate_one(model, task, length, count, seed) for length in lengths]


def pooled(scores: list[Score]) -> Score:
    """Puts the scores of several lengths together as one of their longest."""
    count, correct = sum(s.count for s in scores), sum(s.correct for s in scores)
    majority = sum(s.majority * s.count for s in scores) / count
    return Score(max(s.length for s in scores), count, correct, scores[0].classes, majority)


def evaluate_held_out(model: Any, task: Task, seed: int) -> HeldOut | None:
    """Tries a model on the validation words of a fixed set; None where none are set aside."""
    if not task.validation:
        return None
    batch = task.held_out(seed)
    with torch.no_grad():
        loss = objective(model, batch).item()
        answers = model.at_end(torch.from_numpy(batch.words), torch.from_numpy(batch.lengths)).argmax(dim=-1)
    return HeldOut(len(batch.lengths), loss, float((answers.numpy() == batch.finals).mean()))


def _evaluate_one(model: Model, task: Task, length: int, count: int, seed: int) -> Score:
    batch = task.test(seed, length, count)
    tokens = torch.from_numpy(batch.words)
    finals = torch.from_numpy(batch.finals)
    read = partial(_write_chain, symbols=task.machine.symbols) if task.supervision == "chain" else _read
    at_once = model.words_at_once(task.written_length(length))
    with torch.no_grad():
        answers = torch.cat([read(model, words) for words in tokens.split(at_once)])
    right = int((answers == finals).sum())
    majority = int(torch.bincount(finals).max()) / count
    return Score(length, count, right, task.classes, majority)


def _read(model: Model, words: Tensor) -> Tensor:
    """Gives the answers after the last symbols of words."""
    return _advance(model, words)[0].argmax(dim=-1)


def _write_chain(model: Model, words: Tensor, symbols: int) -> Tensor:
    """Lets the model write its outputs one by one, each read back before the next; gives the last."""
    state = _advance(model, words)[1]
    token = words.new_full((len(words),), symbols)
    for _ in range(words.shape[1]):
        logits, state = model.step(token, state)
        token = symbols + 1 + logits.argmax(dim=-1)
    return token - symbols - 1


def _advance(model: Model, words: Tensor) -> tuple[Tensor, Any]:
    state = model.init_state(len(words))
    logits = torch.empty(0)
    for piece in words.split(max(1, model.tokens_at_once() // len(words)), dim=1):
        logits, state = model.advance(piece, state)
    return logits, state
