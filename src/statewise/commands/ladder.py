"""`statewise ladder`: where an architecture stands, on tasks ordered by their algebra."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from statewise.commands.inputs import PathLike, check_least, list_of, torch_threads
from statewise.commands.trying import store_of, tried_models, tried_task
from statewise.errors import RunError
from statewise.papers.rungs import RUNGS, Rung
from statewise.sweep import EngineOptions, ShowProgress
from statewise.sweep.terms import Terms
from statewise.sweep.trials import Trial, check_size, run_trials
from statewise.wording import Lines, Result, columns, duration, fixed

LENGTHS = (10, 100, 500)
# the median over seeds that reaches a rung, at the longest of these
_REACHED = 0.99


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
    def reached(self) -> bool:
        """Whether the median over seeds is nearly perfect at the longest length, and beats the constant answer."""
        found = self.middle(LENGTHS[-1])
        return found is not None and found >= _REACHED and self.trial.beats_constant(LENGTHS[-1])

    def to_dict(self) -> dict[str, Any]:
        """Return the rung as plain values."""
        trial = self.trial
        by_length = {length: trial.scores(length) for length in LENGTHS}
        return {
            "task": self.rung.task,
            "class": self.rung.algebra,
            "fact": self.rung.fact,
            "reached": self.reached,
            "train": list(trial.train),
            "scores": {str(length): list(scores) for length, scores in by_length.items() if scores is not None},
            "constant": {
                str(length): trial.constant(length) for length in by_length if trial.constant(length) is not None
            },
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
    """One model on all rungs."""

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

    def to_dict(self) -> dict[str, Any]:
        """Return the card as plain values."""
        return {
            "model": self.model,
            "rungs": [standing.to_dict() for standing in self.standings],
            "reached": None if self.reached is None else self.reached.task,
            "failed": None if self.failed is None else self.failed.task,
            "count": self.count,
        }


@dataclass(frozen=True)
class Ladder(Result):
    """The cards of one or several models.

    Args:
        cards: one for each model.
        terms: what was the same for all runs.
        ran: how many runs were done now.
    """

    cards: tuple[Card, ...]
    terms: Terms
    ran: int

    def to_dict(self) -> dict[str, Any]:
        """Return the cards; that of a single model is the object itself."""
        cards = [card.to_dict() for card in self.cards]
        one = cards[0] if len(cards) == 1 else {"models": cards}
        return {**one, "terms": str(self.terms), "ran": self.ran}

    def lines(self) -> Lines:
        """Return a card, or a table of models and rungs."""
        return [("", line) for line in self._card(self.cards[0])]

    def _card(self, card: Card) -> list[str]:
        rows = [["", "rung", "class", "training lengths", *(f"length {length}" for length in LENGTHS), "constant"]]
        for standing in card.standings:
            trial, shown = standing.trial, [standing.middle(length) for length in LENGTHS]
            rows.append(
                [
                    "✓" if standing.reached else "",
                    standing.rung.label,
                    standing.rung.algebra,
                    fixed(median(trial.train)) if trial.train else "-",
                    *("-" if score is None else fixed(score) for score in shown),
                    "-" if (constant := trial.constant(LENGTHS[-1])) is None else fixed(constant),
                ]
            )
        highest = "none" if card.reached is None else card.reached.label
        first = "none" if card.failed is None else card.failed.label
        seconds = sum(standing.trial.seconds for standing in card.standings)
        return [
            f"{card.model}: {card.count} of {len(card.standings)} rungs; highest: {highest}; first failed: {first}",
            *columns(rows),
            f"medians over seeds; {duration(seconds)} of one core",
            str(self.terms),
        ]


def ladder(
    models: Sequence[str | type],
    seeds: int = 3,
    store: PathLike | None = None,
    steps: int = 3_000,
    words: int = 500,
    engine: str = "local",
    workers: int = 2,
    retry_failed: bool = False,
    show: ShowProgress | None = None,
) -> Ladder:
    """Show where a model stands on tasks ordered by their algebra.

    Args:
        models: levels, baselines, classes or file.py:Class
        seeds: how many seeds each, from 0
        store: the store's directory; what it has is not run again
        steps: training steps of every model
        words: test sequences per length
        engine: local, or ray
        workers: packs of runs at once
        retry_failed: try runs again that have failed
        show: called with the progress, about once a second
    """
    for name, value in (("seeds", seeds), ("words", words), ("steps", steps)):
        check_least(name, value, 1)
    named = list_of(models)
    if not named:
        raise RunError("there is no model; name at least one")
    check_size(len(RUNGS), len(named), seeds)
    terms = Terms(steps, LENGTHS, words)
    on = EngineOptions(engine, workers)
    with torch_threads(1), store_of(store) as directory:
        tasks = [tried_task(rung.task) for rung in RUNGS]
        entered = tried_models(named, tasks[0], terms)
        made = run_trials(directory, tasks, entered, terms, seeds, on, retry_failed, show)
    by_place = {(trial.task, trial.model): trial for trial in made.trials}
    cards = [
        Card(model.name, tuple(Standing(rung, by_place[rung.task, model.name]) for rung in RUNGS)) for model in entered
    ]
    return Ladder(tuple(cards), terms, made.ran)
