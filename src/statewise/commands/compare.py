"""`statewise compare`: every model on every task, on equal terms, in one table and one plot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.commands.inputs import (
    MachineLike,
    PathLike,
    SharesLike,
    WordsLike,
    check_least,
    device_of,
    list_of,
    numbers_of,
    own_sequences,
    path_of,
    torch_threads,
    words_or_count,
)
from statewise.commands.trying import store_of, tried_models, tried_task, weakest_verdict
from statewise.errors import RunError, shorten
from statewise.models.table import short_names
from statewise.store import Store
from statewise.sweep import EngineOptions, GridPlan, ShowProgress
from statewise.sweep.terms import SETTINGS, Terms
from statewise.sweep.trial_records import Trial
from statewise.sweep.trials import check_size, plan_trials, run_trials
from statewise.tasks import has_machine
from statewise.training.metrics import span_text
from statewise.training.options import RunOptions
from statewise.wording import Lines, Result, columns, counted, duration, fixed

# of a score that does not beat the best constant answer
_NO_BETTER = "×"


@dataclass(frozen=True)
class ComparedCell:
    """One model on one task.

    Args:
        trial: its runs.
        asked: the options of one of its runs, had the model read all lengths.
        verdict: what is decided of the networks, where anything can be; of several seeds the weakest.
    """

    trial: Trial
    asked: RunOptions
    verdict: str | None = None

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.trial.task

    @property
    def lengths(self) -> tuple[int, ...]:
        """At which it was to be tested."""
        return self.asked.test_lengths

    @property
    def trained(self) -> tuple[int, int]:
        """The shortest and the longest training sequences."""
        return self.asked.shortest, self.asked.longest

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.trial.model

    @property
    def diverged(self) -> int:
        """How many seeds diverged; they count as chance."""
        return self.trial.count("diverged")

    @property
    def failed(self) -> int:
        """How many seeds failed; they count as chance."""
        return self.trial.count("failed")

    @property
    def scores(self) -> dict[int, tuple[float, ...]]:
        """By length, the score of each seed; lengths that the model cannot read are not there."""
        return {length: found for length in self.lengths if (found := self.trial.scores(length)) is not None}

    @property
    def constant(self) -> dict[int, float]:
        """By length, the score of the best constant answer on the same sequences."""
        return {length: found for length in self.lengths if (found := self.trial.constant(length)) is not None}

    def longest(self, length: int) -> int:
        """Return how long the longest sequences are that are scored as those of a length."""
        span = self.trial.span(length)
        return length if span is None else span[1]

    @property
    def pooled(self) -> tuple[float, ...] | None:
        """The score of each seed on a user's own test set as a whole; None where there is none, or it is too long."""
        reads = self.trial.reads
        return self.trial.pooled if reads is None or max(self.lengths) <= reads else None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        trial = self.trial
        pooled = self.pooled
        of_set = {} if pooled is None else {"pooled": list(pooled), "pooled_constant": trial.pooled_constant}
        return {
            "task": self.task,
            "model": self.model,
            "seeds": list(trial.seeds),
            "diverged": self.diverged,
            "failed": self.failed,
            "reason": trial.reason,
            "training_lengths": list(self.trained),
            "steps": self.asked.steps,
            "loss": None if trial.setting is None else trial.setting.loss,
            "lr": None if trial.setting is None else trial.setting.lr,
            "parameters": trial.parameters,
            "seconds": round(trial.seconds, 2),
            "train": list(trial.train),
            "train_constant": trial.train_constant,
            "scores": {str(length): list(scores) for length, scores in self.scores.items()},
            "constant": {str(length): score for length, score in self.constant.items()},
            "beats_constant": {str(length): trial.beats_constant(length) for length in self.scores},
            **of_set,
            "reads": trial.reads,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Comparison(Result):
    """A table of models and tasks.

    Args:
        cells: one for each task and model.
        terms: what was the same for all runs.
        ran: how many runs were done now; the others were in the store.
        files: what was written of it.
        plan: of a dry run, what would be done; then there are no cells.
    """

    cells: tuple[ComparedCell, ...]
    terms: Terms
    ran: int
    files: tuple[Path, ...] = ()
    plan: GridPlan | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rows; of a dry run its plan."""
        if self.plan is not None:
            return self.plan.to_dict()
        return {
            "rows": [cell.to_dict() for cell in self.cells],
            "terms": self.written_terms,
            "ran": self.ran,
            "files": [str(file) for file in self.files],
        }

    @property
    def lengths(self) -> list[int]:
        """The lengths of all tests."""
        return sorted({length for cell in self.cells for length in cell.lengths})

    @property
    def written_terms(self) -> str:
        """The terms for a reader."""
        has = {has_machine(cell.task) for cell in self.cells}
        if False not in has:
            return str(self.terms)
        own = "lengths, supervision and test sequences of tasks without a machine are their own"
        return f"{self.terms}; {own}" if True in has else f"{self.terms.alike}; {own}"

    def table(self) -> list[list[str]]:
        """Return the table as texts, its head first: mean ± standard deviation over seeds, then the constant answer."""
        trained = {cell.trained for cell in self.cells}
        shown = "lengths {} to {}".format(*trained.pop()) if len(trained) == 1 else "training lengths"
        head = ["task", "model", "loss, rate", "parameters", "seconds", shown, "constant"]
        head += [part for length in self.lengths for part in (self._length_text(length), "constant")]
        head += ["whole test set", "constant"] if self._has_sets else []
        names = short_names([cell.model for cell in self.cells])
        return [[*head, "verdict"], *(self._row(cell, names[cell.model]) for cell in self.cells)]

    def lines(self) -> Lines:
        """Return the table for a reader, with the terms below it; of a dry run its plan."""
        if self.plan is not None:
            return self.plan.lines()
        table = columns(self.table())
        notes = (
            [f"{_NO_BETTER} does not beat the best constant answer"] if any(_NO_BETTER in row for row in table) else []
        )
        notes += [
            f"{cell.model} on {cell.task}: {cell.trial.reason}" for cell in self.cells if cell.trial.reason is not None
        ]
        seeds = max((len(cell.trial.seeds) for cell in self.cells), default=0)
        spent = duration(sum(cell.trial.seconds for cell in self.cells))
        notes.append(f"{counted(seeds, 'seed')}; {counted(self.ran, 'run')} now; {spent} of one core in all")
        return [("", line) for line in (*table, *notes, self.written_terms, *map(str, self.files))]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file."""
        from statewise.report.curves import Panel, draw_comparison

        names = short_names([cell.model for cell in self.cells])
        panels: dict[str, Panel] = {}
        for cell in self.cells:
            panel = panels.setdefault(cell.task, Panel(trained=cell.trained))
            panel.curves[names[cell.model]] = [
                (cell.longest(n), fmean(some), pstdev(some)) for n, some in cell.scores.items()
            ]
            panel.constant.update({cell.longest(n): constant for n, constant in cell.constant.items()})
        draw_comparison(Path(path), panels)
        return Path(path)

    def write_csv(self, path: PathLike) -> Path:
        """Write a row for each task and model, with means and standard deviations as numbers."""
        from statewise.report.table_files import write_csv

        rows = []
        for cell in self.cells:
            row = cell.to_dict()
            kept = {
                name: row[name]
                for name in ("task", "model", "steps", "loss", "lr", "parameters", "seconds", "diverged", "failed")
            }
            kept |= {"seeds": len(row["seeds"]), "shortest": cell.asked.shortest, "longest": cell.asked.longest}
            kept |= _numbers("train", cell.trial.train, cell.trial.train_constant)
            for length in self.lengths:
                kept |= _numbers(str(length), cell.scores.get(length, ()), cell.constant.get(length))
            if self._has_sets:
                kept |= _numbers("pooled", cell.pooled or (), cell.trial.pooled_constant)
            rows.append(kept | {"verdict": cell.verdict, "reads": cell.trial.reads, "reason": cell.trial.reason})
        write_csv(Path(path), rows)
        return Path(path)

    def write_latex(self, path: PathLike) -> Path:
        """Write the table as LaTeX, for the package booktabs."""
        from statewise.report.table_files import write_latex

        write_latex(Path(path), self.table(), self.written_terms)
        return Path(path)

    def _length_text(self, length: int) -> str:
        """Name a test length; where sequences of several are scored together, which those are."""
        spans = {cell.trial.span(length) for cell in self.cells if length in cell.scores}
        span = spans.pop() if len(spans) == 1 else None
        return f"length{'' if span is None else 's'} {span_text(length, span)}"

    @property
    def _has_sets(self) -> bool:
        return any(cell.asked.sequences is not None for cell in self.cells)

    def _row(self, cell: ComparedCell, name: str) -> list[str]:
        trial = cell.trial
        row = [cell.task, name, "-" if trial.setting is None else str(trial.setting)]
        row += ["-" if trial.parameters is None else f"{trial.parameters:,}", f"{trial.seconds:,.0f}"]
        row += [_marked(trial.train, trial.train_beats_constant), _number(trial.train_constant)]
        for length in self.lengths:
            if trial.reads is not None and length > trial.reads and length in cell.lengths:
                row += [f"reads at most {trial.reads:,}", "-"]
            else:
                row += [
                    _marked(cell.scores.get(length, ()), trial.beats_constant(length)),
                    _number(cell.constant.get(length)),
                ]
        row += (
            [_marked(cell.pooled or (), trial.pooled_beats_constant), _number(trial.pooled_constant)]
            if self._has_sets
            else []
        )
        ended = [f"{count} {what}" for count, what in ((cell.diverged, "diverged"), (cell.failed, "failed")) if count]
        return [*row, ", ".join(ended) or cell.verdict or "-"]


def compare(
    tasks: Sequence[MachineLike] | None = None,
    models: Sequence[str | type] | None = None,
    seeds: int = 3,
    lengths: Sequence[int] = (10, 500, 10_000),
    words: int | WordsLike | None = None,
    steps: int = 2_000,
    hidden: int = Terms.hidden,
    store: PathLike | None = None,
    engine: str = "local",
    workers: int = 2,
    retry_failed: bool = False,
    dry_run: bool = False,
    plot: PathLike | None = None,
    csv: PathLike | None = None,
    latex: PathLike | None = None,
    validation_words: PathLike | None = None,
    test_words: PathLike | None = None,
    shares: SharesLike | None = None,
    test_sequences: int = 200,
    device: str = "cpu",
    show: ShowProgress | None = None,
) -> Comparison:
    """Train every model on every task, on equal terms, and put the scores into one table.

    Models train on the same sequences (of machines 2 to 10 symbols with a curriculum, answered after each symbol),
    steps, batch and hidden size. Loss and rate are tuned alike at training lengths; all else is each model's recipe.

    Args:
        tasks: machines, or tasks without one, such as words("train.csv")
        models: levels, baselines, classes or file.py:Class
        seeds: how many seeds each, from 0
        lengths: test lengths (on the command line separated by commas)
        words: labelled sequences as one more task, as train takes them (a number is --test-sequences, as before)
        steps: training steps of every model
        hidden: the hidden size of every model
        store: the store's directory; what it has is not run again
        engine: local, or ray
        workers: packs of runs at once
        retry_failed: try runs again that have failed
        dry_run: show what would be run, and about how long it takes, from a few steps that are timed
        plot: draw score against length into this .png or .svg
        csv: write the table with all numbers into this file
        latex: write the table as LaTeX into this file
        validation_words: validation sequences; else a share of --words
        test_words: test sequences; else a share of --words
        shares: of training, validation and test in --words: 0.8,0.1,0.1
        test_sequences: how many are drawn per length, of machines
        device: where to compute: cpu, cuda, mps or auto
        show: called with the progress, about once a second
    """
    asked = numbers_of("lengths", lengths)
    sequences, count = words_or_count(words, test_sequences)
    own = own_sequences(sequences, validation_words, test_words, shares)
    for name, value in (("seeds", seeds), ("steps", steps), ("hidden", hidden)):
        check_least(name, value, 1)
    given, named = ([] if some is None else list_of(some) for some in (tasks, models))
    given += [] if own is None else [own]
    if not given or not named:
        raise RunError("there is nothing to compare; give at least one task and one model")
    check_size(len(given), len(named), seeds)
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    for file in (plot, csv, latex):
        if file is not None and Path(file).is_dir():
            raise RunError(f'"{shorten(file)}" is a directory; expected a file for the table or the plot; name one')
    terms = Terms(steps, tuple(dict.fromkeys(asked)), count, hidden)
    on = EngineOptions(engine, workers, device=device_of(device))
    # what is computed here is small, and more threads would wait for each other beside the workers
    with torch_threads(1), store_of(store) as directory:
        tried = [tried_task(task) for task in given]
        entered = tried_models(named, tried[0], terms)
        if dry_run:
            plan = plan_trials(path_of(store), tried, entered, terms, seeds, on, retry_failed)
            return Comparison((), terms, 0, plan=plan)
        made = run_trials(directory, tried, entered, terms, seeds, on, retry_failed, show)
        places = [(task, model) for task in tried for model in entered]
        with Store.open(directory) as opened:
            cells = [
                ComparedCell(
                    trial,
                    terms.options(task.name, model.name, SETTINGS[0], 0, kept=task.kept),
                    weakest_verdict(opened, trial, task, model),
                )
                for (task, model), trial in zip(places, made.trials, strict=True)
            ]
    found = Comparison(tuple(cells), terms, made.ran)
    writers = ((found.plot, path_of(plot)), (found.write_csv, path_of(csv)), (found.write_latex, path_of(latex)))
    return replace(found, files=tuple(write(file) for write, file in writers if file is not None))


def _marked(scores: Sequence[float], beats_constant: bool) -> str:
    """Write mean ± standard deviation, with a mark where that does not beat the best constant answer."""
    if not scores:
        return "-"
    shown = fixed(fmean(scores)) + (f" ± {fixed(pstdev(scores))}" if len(scores) > 1 else "")
    return shown if beats_constant else f"{shown} {_NO_BETTER}"


def _number(value: float | None) -> str:
    return "-" if value is None else fixed(value)


def _numbers(name: str, scores: Sequence[float], constant: float | None) -> dict[str, float | None]:
    """Return the columns of a length: mean, standard deviation and constant answer."""
    mean, std = (fmean(scores), pstdev(scores)) if scores else (None, None)
    return {f"score_{name}": mean, f"std_{name}": std, f"constant_{name}": constant}
