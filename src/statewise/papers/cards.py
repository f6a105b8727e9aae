"""Cards: where a model stands on the rungs of the ladder, from the records of its trials."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from statewise.papers.rungs import RUNGS, Rung
from statewise.sweep.trial_records import Trial

# what cards call the learner without gradients, in place of a model
LEARN = "learn"
# the longest training length, 10 times and 50 times as long
LENGTHS = (10, 100, 500)
FAR = LENGTHS[-1]
# the median over seeds that reaches a rung, at the longest of these
REACHED = 0.99


@dataclass(frozen=True)
class Standing:
    """One model on one rung.

    Args:
        rung: the task.
        trial: what became of the model on it.
    """

    rung: Rung
    trial: Trial

    def middle(self, length: int) -> float | None:
        """Return the median over seeds at a length; None where the model cannot read it."""
        scores = self.trial.scores(length)
        return None if scores is None else median(scores)

    @property
    def train(self) -> float | None:
        """The median over seeds at training lengths."""
        return median(self.trial.train) if self.trial.train else None

    @property
    def reached(self) -> bool:
        """Whether the median over seeds is nearly perfect at the longest length, and beats the constant answer."""
        found = self.middle(FAR)
        return found is not None and found >= REACHED and self.trial.beats_constant(FAR)

    def to_dict(self) -> dict[str, Any]:
        """Return the rung as plain values."""
        trial = self.trial
        scores = {str(length): list(found) for length in LENGTHS if (found := trial.scores(length)) is not None}
        constant = {str(length): found for length in LENGTHS if (found := trial.constant(length)) is not None}
        return {
            "task": self.rung.task,
            "class": self.rung.algebra,
            "fact": self.rung.fact,
            "reached": self.reached,
            "train": list(trial.train),
            "scores": scores,
            "constant": constant,
            "loss": None if trial.setting is None else trial.setting.loss,
            "lr": None if trial.setting is None else trial.setting.lr,
            "seeds": list(trial.seeds),
            "parameters": trial.parameters,
            "seconds": round(trial.seconds, 1),
            "reads": trial.reads,
            "reason": trial.reason,
        }


@dataclass(frozen=True)
class Card:
    """One model on all rungs.

    Args:
        model: its name.
        standings: one for each rung, in their order.
    """

    model: str
    standings: tuple[Standing, ...]

    @property
    def reached(self) -> Rung | None:
        """The highest rung that was reached."""
        return next((standing.rung for standing in reversed(self.standings) if standing.reached), None)

    @property
    def failed(self) -> Rung | None:
        """The first rung that was not reached."""
        return next((standing.rung for standing in self.standings if not standing.reached), None)

    @property
    def count(self) -> int:
        """How many rungs were reached."""
        return sum(standing.reached for standing in self.standings)

    @property
    def parameters(self) -> tuple[int, int] | None:
        """The least and the most parameters over the rungs; None where nothing was trained."""
        found = [standing.trial.parameters for standing in self.standings if standing.trial.parameters is not None]
        return (min(found), max(found)) if found else None

    @property
    def seconds(self) -> float:
        """Seconds of one core, of all runs."""
        return math.fsum(standing.trial.seconds for standing in self.standings)

    def to_dict(self) -> dict[str, Any]:
        """Return the card as plain values."""
        return {
            "model": self.model,
            "rungs": [standing.to_dict() for standing in self.standings],
            "reached": None if self.reached is None else self.reached.task,
            "failed": None if self.failed is None else self.failed.task,
            "count": self.count,
            "seconds": round(self.seconds, 1),
        }


def cards_of(trials: Iterable[Trial], models: Sequence[str] | None = None) -> list[Card]:
    """Sort trials into a card for each model; a rung without a trial is left out.

    Args:
        trials: of any tasks; those that are no rung are left out.
        models: whose cards, in which order; None for all, as they first occur.
    """
    by_place = {(trial.model, trial.task): trial for trial in trials}
    named = list(dict.fromkeys(model for model, _ in by_place)) if models is None else models
    cards = []
    for model in named:
        found = [(rung, by_place[model, rung.task]) for rung in RUNGS if (model, rung.task) in by_place]
        cards.append(Card(model, tuple(Standing(rung, trial) for rung, trial in found)))
    return [card for card in cards if card.standings]
