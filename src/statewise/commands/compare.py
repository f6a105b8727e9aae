"""`statewise compare`: every model on every task, on equal terms, in one table and one plot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.commands.inputs import MachineLike, PathLike, check_least, list_of, numbers_of, path_of, torch_threads
from statewise.commands.trying import short_names, store_of, tried_models, tried_task, weakest_verdict
from statewise.errors import RunError
from statewise.store import Store
from statewise.sweep import EngineOptions, ShowProgress
from statewise.sweep.terms import LONGEST, SHORTEST, Terms
from statewise.sweep.trials import Trial, check_size, run_trials
from statewise.wording import Lines, Result, columns, counted, duration, fixed

# of a score that does not beat the best constant answer
_NO_BETTER = "×"


@dataclass(frozen=True)
class ComparedCell:
    """One model on one task.

    Args:
        trial: its runs.
        lengths: at which it was to be tested.
        steps: of training.
        verdict: what is decided of the networks, where anything can be; of several seeds the weakest.
    """

    trial: Trial
    lengths: tuple[int, ...]
    steps: int
    verdict: str | None = None

    @property
    def task(self) -> str:
        """The name of the machine."""
        return self.trial.task

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

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        trial = self.trial
        return {
            "task": self.task,
            "model": self.model,
            "seeds": list(trial.seeds),
            "diverged": self.diverged,
            "failed": self.failed,
            "reason": trial.reason,
            "training_lengths": [SHORTEST, LONGEST],
            "steps": self.steps,
            "loss": None if trial.setting is None else trial.setting.loss,
            "lr": None if trial.setting is None else trial.setting.lr,
            "parameters": trial.parameters,
            "seconds": round(trial.seconds, 2),
            "train": list(trial.train),
            "train_constant": trial.train_constant,
            "scores": {str(length): list(scores) for length, scores in self.scores.items()},
            "constant": {str(length): score for length, score in self.constant.items()},
            "beats_constant": {str(length): trial.beats_constant(length) for length in self.scores},
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
    """

    cells: tuple[ComparedCell, ...]
    terms: Terms
    ran: int
    files: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the rows."""
        return {
            "rows": [cell.to_dict() for cell in self.cells],
            "terms": str(self.terms),
            "ran": self.ran,
            "files": [str(file) for file in self.files],
        }

    def table(self) -> list[list[str]]:
        """Return the table as texts, its head first: mean ± standard deviation over seeds, then the constant answer."""
        lengths = self.terms.test_lengths
        head = ["task", "model", "loss, rate", "parameters", "seconds", "lengths 2 to 10", "constant"]
        head += [part for length in lengths for part in (f"length {length:,}", "constant")]
        names = short_names([cell.model for cell in self.cells])
        return [[*head, "verdict"], *(self._row(cell, names[cell.model]) for cell in self.cells)]

    def lines(self) -> Lines:
        """Return the table for a reader, with the terms below it."""
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
        return [("", line) for line in (*table, *notes, str(self.terms), *map(str, self.files))]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file."""
        from statewise.report.curves import Panel, draw_comparison

        names = short_names([cell.model for cell in self.cells])
        panels: dict[str, Panel] = {}
        for cell in self.cells:
            panel = panels.setdefault(cell.task, Panel(trained=(SHORTEST, LONGEST)))
            panel.curves[names[cell.model]] = [(n, fmean(some), pstdev(some)) for n, some in cell.scores.items()]
            panel.constant.update(cell.constant)
        draw_comparison(Path(path), panels)
        return Path(path)

    def write_csv(self, path: PathLike) -> Path:
        """Write a row for each task and model, with means and standard deviations as numbers."""
        from statewise.report.comparison_files import write_csv

        rows = []
        for cell in self.cells:
            row = cell.to_dict()
            kept = {
                name: row[name]
                for name in ("task", "model", "steps", "loss", "lr", "parameters", "seconds", "diverged", "failed")
            }
            kept |= {"seeds": len(row["seeds"]), "shortest": SHORTEST, "longest": LONGEST}
            kept |= _numbers("train", cell.trial.train, cell.trial.train_constant)
            for length in self.terms.test_lengths:
                kept |= _numbers(str(length), cell.scores.get(length, ()), cell.constant.get(length))
            rows.append(kept | {"verdict": cell.verdict, "reads": cell.trial.reads, "reason": cell.trial.reason})
        write_csv(Path(path), rows)
        return Path(path)

    def write_latex(self, path: PathLike) -> Path:
        """Write the table as LaTeX, for the package booktabs."""
        from statewise.report.comparison_files import write_latex

        write_latex(Path(path), self.table(), str(self.terms))
        return Path(path)

    def _row(self, cell: ComparedCell, name: str) -> list[str]:
        trial = cell.trial
        row = [cell.task, name, "-" if trial.setting is None else str(trial.setting)]
        row += ["-" if trial.parameters is None else f"{trial.parameters:,}", f"{trial.seconds:,.0f}"]
        row += [_marked(trial.train, trial.train_constant), _number(trial.train_constant)]
        for length in cell.lengths:
            if trial.reads is not None and length > trial.reads:
                row += [f"reads at most {trial.reads:,}", "-"]
            else:
                row += [
                    _marked(cell.scores.get(length, ()), cell.constant.get(length)),
                    _number(cell.constant.get(length)),
                ]
        ended = [f"{count} {what}" for count, what in ((cell.diverged, "diverged"), (cell.failed, "failed")) if count]
        return [*row, ", ".join(ended) or cell.verdict or "-"]


def compare(
    tasks: Sequence[MachineLike],
    models: Sequence[str | type],
    seeds: int = 3,
    lengths: Sequence[int] = (10, 500, 10_000),
    words: int = 200,
    steps: int = 2_000,
    hidden: int = Terms.hidden,
    store: PathLike | None = None,
    engine: str = "local",
    workers: int = 2,
    retry_failed: bool = False,
    plot: PathLike | None = None,
    csv: PathLike | None = None,
    latex: PathLike | None = None,
    show: ShowProgress | None = None,
) -> Comparison:
    """Train every model on every task, on equal terms, and put the scores into one table.

    Models train on the same sequences (2 to 10 symbols, short ones first, answered after each symbol), steps, batch and
    hidden size. Loss and rate are tuned alike at training lengths; all else is each model's recipe.

    Args:
        tasks: the machines
        models: levels, baselines, classes or file.py:Class
        seeds: how many seeds each, from 0
        lengths: test lengths (on the command line separated by commas)
        words: test sequences per length
        steps: training steps of every model
        hidden: the hidden size of every model
        store: the store's directory; what it has is not run again
        engine: local, or ray
        workers: packs of runs at once
        retry_failed: try runs again that have failed
        plot: draw score against length into this .png or .svg
        csv: write the table with all numbers into this file
        latex: write the table as LaTeX into this file
        show: called with the progress, about once a second
    """
    asked = numbers_of("lengths", lengths)
    for name, value in (("seeds", seeds), ("words", words), ("steps", steps), ("hidden", hidden)):
        check_least(name, value, 1)
    machines, named = list_of(tasks), list_of(models)
    if not machines or not named:
        raise RunError("there is nothing to compare; give at least one task and one model")
    check_size(len(machines), len(named), seeds)
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    terms = Terms(steps, tuple(dict.fromkeys(asked)), words, hidden)
    on = EngineOptions(engine, workers)
    # what is computed here is small, and more threads would wait for each other beside the workers
    with torch_threads(1), store_of(store) as directory:
        tried = [tried_task(task) for task in machines]
        entered = tried_models(named, tried[0], terms)
        made = run_trials(directory, tried, entered, terms, seeds, on, retry_failed, show)
        places = [(task, model) for task in tried for model in entered]
        with Store.open(directory) as opened:
            cells = [
                ComparedCell(trial, terms.test_lengths, steps, weakest_verdict(opened, trial, task, model))
                for (task, model), trial in zip(places, made.trials, strict=True)
            ]
    found = Comparison(tuple(cells), terms, made.ran)
    writers = ((found.plot, path_of(plot)), (found.write_csv, path_of(csv)), (found.write_latex, path_of(latex)))
    return replace(found, files=tuple(write(file) for write, file in writers if file is not None))


def _marked(scores: Sequence[float], constant: float | None) -> str:
    """Write mean ± standard deviation, with a mark where that does not beat the best constant answer."""
    if not scores:
        return "-"
    shown = fixed(fmean(scores)) + (f" ± {fixed(pstdev(scores))}" if len(scores) > 1 else "")
    return shown if constant is not None and fmean(scores) > constant else f"{shown} {_NO_BETTER}"


def _number(value: float | None) -> str:
    return "-" if value is None else fixed(value)


def _numbers(name: str, scores: Sequence[float], constant: float | None) -> dict[str, float | None]:
    """Return the columns of a length: mean, standard deviation and constant answer."""
    mean, std = (fmean(scores), pstdev(scores)) if scores else (None, None)
    return {f"score_{name}": mean, f"std_{name}": std, f"constant_{name}": constant}
