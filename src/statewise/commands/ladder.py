"""`statewise ladder`: where an architecture stands, on tasks ordered by their algebra."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from statewise.commands.inputs import PathLike, check_least, list_of, torch_threads
from statewise.commands.trying import store_of, tried_models, tried_task
from statewise.errors import RunError
from statewise.papers.cards import FAR, LENGTHS, Card, cards_of
from statewise.papers.rungs import RUNGS
from statewise.sweep import EngineOptions, ShowProgress
from statewise.sweep.terms import Terms
from statewise.sweep.trials import check_size, run_trials
from statewise.wording import Lines, Result, columns, duration, fixed


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
                    "-" if standing.train is None else fixed(standing.train),
                    *("-" if score is None else fixed(score) for score in shown),
                    "-" if (constant := trial.constant(FAR)) is None else fixed(constant),
                ]
            )
        highest = "none" if card.reached is None else card.reached.label
        first = "none" if card.failed is None else card.failed.label
        return [
            f"{card.model}: {card.count} of {len(card.standings)} rungs; highest: {highest}; first failed: {first}",
            *columns(rows),
            f"medians over seeds; {duration(card.seconds)} of one core",
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
    cards = cards_of(made.trials, [model.name for model in entered])
    return Ladder(tuple(cards), terms, made.ran)
