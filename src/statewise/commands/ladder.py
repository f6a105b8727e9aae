"""`statewise ladder`: where an architecture stands, on tasks ordered by their algebra."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from statewise.commands.inputs import PathLike, check_least, device_of, list_of, path_of, torch_threads, words_or_count
from statewise.commands.trying import store_of, tried_models, tried_task
from statewise.errors import RunError
from statewise.models.table import short_names
from statewise.papers.architectures import predicted
from statewise.papers.cards import FAR, LEARN, LENGTHS, REACHED, Card, cards_of
from statewise.papers.rungs import RUNGS
from statewise.stages import say
from statewise.sweep import EngineOptions, GridPlan, ShowProgress
from statewise.sweep.terms import Terms
from statewise.sweep.trials import check_size, plan_trials, run_trials
from statewise.wording import Lines, Result, columns, fixed


@dataclass(frozen=True)
class Ladder(Result):
    """The cards of one or several models.

    Args:
        cards: one for each model.
        terms: what was the same for all runs.
        ran: how many runs were done now; the others were in the store.
        file: the page or picture that was written.
        plan: of a dry run, what would be done; then there are no cards.
    """

    cards: tuple[Card, ...]
    terms: Terms
    ran: int
    file: Path | None = None
    plan: GridPlan | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the cards; that of a single model is the object itself; of a dry run its plan."""
        if self.plan is not None:
            return self.plan.to_dict()
        cards = [card.to_dict() for card in self.cards]
        one = cards[0] if len(cards) == 1 else {"models": cards}
        written = {} if self.file is None else {"card": str(self.file)}
        return {**one, "terms": str(self.terms), "ran": self.ran, **written}

    def lines(self) -> Lines:
        """Return the card of one model, or a table of several and all rungs; of a dry run its plan."""
        if self.plan is not None:
            return self.plan.lines()
        shown = self._card(self.cards[0]) if len(self.cards) == 1 else self._overview()
        below = [f"terms: {self.terms}", *([] if self.file is None else [str(self.file)])]
        return [("", line) for line in (*shown, *below)]

    def write(self, file: PathLike) -> Path:
        """Write the cards as an .html page, or draw one card or an overview of several as .png or .svg."""
        from statewise.report.ladder_cards import write_cards

        write_cards(Path(file), self.cards, str(self.terms))
        return Path(file)

    def _card(self, card: Card) -> list[str]:
        from statewise.report.ladder_cards import MARKS, headline, name_of, size_of, theory_of

        lengths = ("2 to 10", *(f"length {length}" for length in LENGTHS))
        rows = [["", "rung", "class", *lengths, "constant", "theory", "what is known"]]
        for standing in card.standings:
            trial, said = standing.trial, predicted(card.model, standing.rung)
            scores = [standing.train, *(standing.middle(length) for length in LENGTHS), trial.constant(FAR)]
            row = ["✓" if standing.reached else "", standing.rung.label, standing.rung.algebra]
            known = trial.reason or standing.rung.fact
            rows.append([*row, *map(_score, scores), MARKS[said], known])
        about = [name_of(card.model), headline(card), size_of(card), *theory_of(card)]
        legend = "scores are medians over seeds; theory: ✓ can, ✗ cannot, · not decided by a theorem used here"
        return [*about, *columns(rows), legend]

    def _overview(self) -> list[str]:
        rungs = [standing.rung for standing in self.cards[0].standings]
        names = short_names([card.model for card in self.cards])
        rows = [["model", *(rung.label for rung in rungs), "reached"]]
        for card in self.cards:
            scores = [_score(standing.middle(FAR)) + ("✓" if standing.reached else "") for standing in card.standings]
            rows.append([names[card.model], *scores, f"{card.count} of {len(rungs)}"])
        return [
            *columns(rows),
            f"medians over seeds at length {FAR}; ✓ at least {REACHED:g}, and beats the constant answer",
        ]


def ladder(
    models: Sequence[str | type],
    seeds: int = 3,
    store: PathLike | None = None,
    steps: int = 3_000,
    words: int | None = None,
    engine: str = "local",
    workers: int = 2,
    retry_failed: bool = False,
    dry_run: bool = False,
    card: PathLike | None = None,
    test_sequences: int = 500,
    device: str = "cpu",
    show: ShowProgress | None = None,
) -> Ladder:
    """Show where a model stands on tasks ordered by their algebra.

    Args:
        models: levels, baselines, classes or file.py:Class; or learn, the learner without gradients
        seeds: how many seeds each, from 0
        store: the store's directory; what it has is not run again
        steps: training steps of every model
        words: the same as --test-sequences, as it was called before
        engine: local, or ray
        workers: packs of runs at once
        retry_failed: try runs again that have failed
        dry_run: show what would be run, and about how long it takes, from a few steps that are timed
        card: write the card into this .html, .png or .svg; of several models an overview
        test_sequences: how many are drawn per length
        device: where to compute: cpu, cuda, mps or auto
        show: called with the progress, about once a second
    """
    count = words_or_count(words, test_sequences)[1]
    for name, value in (("seeds", seeds), ("steps", steps)):
        check_least(name, value, 1)
    named = list_of(models)
    if not named:
        raise RunError("there is no model; name at least one")
    check_size(len(RUNGS), len(named), seeds)
    file = path_of(card)
    if file is not None:
        from statewise.report.ladder_cards import check_card_file

        check_card_file(file)
    terms = Terms(steps, LENGTHS, count)
    on = EngineOptions(engine, workers, device=device_of(device))
    with torch_threads(1), store_of(store) as directory:
        tasks = [tried_task(rung.task) for rung in RUNGS]
        entered = tried_models([model for model in named if model != LEARN], tasks[0], terms)
        if dry_run:
            plan = plan_trials(path_of(store), tasks, entered, terms, seeds, on, retry_failed)
            return Ladder((), terms, 0, plan=plan)
        made = run_trials(directory, tasks, entered, terms, seeds, on, retry_failed, show)
    cards = cards_of(made.trials, [model.name for model in entered])
    if LEARN in named:
        from statewise.papers.ladder_learner import learn_rung, learner_card

        rows = []
        for place, rung in enumerate(RUNGS):
            say("learning without gradients", place / len(RUNGS), rung.label)
            rows += [learn_rung(rung.task, seed, terms) for seed in range(seeds)]
        cards.append(learner_card(rows, terms, RUNGS))
    found = Ladder(tuple(cards), terms, made.ran)
    return found if file is None else replace(found, file=found.write(file))


def _score(score: float | None) -> str:
    return "-" if score is None else fixed(score)
