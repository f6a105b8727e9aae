"""`statewise compare`: every model on every task, on equal terms, in one table and one plot."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of, path_of
from statewise.commands.train import train
from statewise.errors import NetworkError, RunError
from statewise.machines import Machine
from statewise.runs.run import Run
from statewise.wording import Lines, Result, columns, fixed

# what models train on must be the same for all of them: recipes let lengths grow by level
_EQUAL_TERMS = {"late": 0, "growth_share": 0.3, "supervision": "final"}
# hidden-state updates that the search for a wrong word may take, and verdicts from the weakest to the strongest
_SEARCH = 200_000
_STRENGTH = ("refuted", "unknown", "horizon", "proven")


@dataclass(frozen=True)
class ComparedCell:
    """One model on one task.

    Args:
        task: the name of the machine.
        model: the name of the model.
        seeds: of its runs.
        train: the score on training lengths of each seed.
        scores: by length, the score of each seed.
        constant: by length, the score of the best constant answer on the same sequences.
        parameters: how many were trained.
        seconds: of all runs.
        verdict: what is proven of the networks, where anything can be; of several seeds the weakest.
    """

    task: str
    model: str
    seeds: tuple[int, ...]
    train: tuple[float, ...]
    scores: dict[int, tuple[float, ...]]
    constant: dict[int, float]
    parameters: int
    seconds: float
    verdict: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {
            "task": self.task,
            "model": self.model,
            "seeds": list(self.seeds),
            "train": list(self.train),
            "scores": {str(length): list(scores) for length, scores in self.scores.items()},
            "constant": {str(length): score for length, score in self.constant.items()},
            "parameters": self.parameters,
            "seconds": self.seconds,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Comparison(Result):
    """A table of models and tasks.

    Args:
        cells: one for each task and model.
        lengths: at which they were tested.
        terms: what was the same for all runs, in words.
    """

    cells: tuple[ComparedCell, ...]
    lengths: tuple[int, ...]
    terms: str

    def to_dict(self) -> dict[str, Any]:
        """Return the rows."""
        return {"terms": self.terms, "rows": [cell.to_dict() for cell in self.cells]}

    def lines(self) -> Lines:
        """Return the table for a reader: mean ± standard deviation over seeds, beside the best constant answer."""
        head = ["task", "model", "parameters", "training lengths"]
        head += [part for length in self.lengths for part in (f"length {length:,}", "constant")]
        head.append("verdict")
        rows = [head]
        for cell in self.cells:
            row = [cell.task, _short(cell.model), f"{cell.parameters:,}", _spread(cell.train)]
            for length in self.lengths:
                row += [_spread(cell.scores[length]), fixed(cell.constant[length])]
            rows.append([*row, cell.verdict or "-"])
        return [("", line) for line in (*columns(rows), self.terms)]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file."""
        from statewise.report.curves import draw_comparison

        tasks = list(dict.fromkeys(cell.task for cell in self.cells))
        panels = {
            task: {_short(c.model): [(n, fmean(s)) for n, s in c.scores.items()] for c in self.cells if c.task == task}
            for task in tasks
        }
        draw_comparison(Path(path), panels)
        return Path(path)


def compare(
    tasks: Sequence[MachineLike],
    models: Sequence[str | type],
    seeds: int = 3,
    lengths: Sequence[int] = (10, 500, 10_000),
    words: int = 200,
    steps: int = 2_000,
    hidden: int | None = None,
    out: PathLike | None = None,
    plot: PathLike | None = None,
    show: Callable[[str], None] | None = None,
) -> Comparison:
    """Train every model on every task, on equal terms, and put the scores into one table.

    Models train on the same sequences (2 to 10 symbols, short ones first, answered at the end), steps and batch; rates
    and widths are those of each model's recipe unless given.

    Args:
        tasks: the machines
        models: levels, baselines, classes or file.py:Class
        seeds: how many seeds each, from 0
        lengths: test lengths, separated by commas
        words: sequences per length
        steps: training steps of every model
        hidden: the hidden size of every model; else that of its recipe
        out: keep the runs in this directory; what is there is not trained again
        plot: draw score against length into this .png or .svg
        show: called with a line for each run that has ended
    """
    lengths = tuple(lengths)
    check_least(seeds_1=seeds, words_1=words, steps_1=steps)
    if not tasks or not models:
        raise RunError("there is nothing to compare; give at least one task and one model")
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    machines = [machine_of(task) for task in tasks]
    cells = []
    for machine in machines:
        for model in models:
            runs = []
            for seed in range(seeds):
                runs.append(_train(machine, model, seed, steps, hidden, lengths, words, path_of(out)))
                if show is not None:
                    show(f"{machine.name}, {runs[-1].name}, seed {seed}: {runs[-1].record and runs[-1].record.status}")
            cells.append(_cell(machine, runs, lengths))
    longest = f"sequences of 2 to 10 symbols, {steps:,} steps, {seeds} seed{'s' if seeds > 1 else ''}"
    found = Comparison(tuple(cells), lengths, f"all models: {longest}; score 0 is chance, 1 is perfect")
    if plot is not None:
        found.plot(plot)
    return found


def _train(
    machine: Machine,
    model: str | type,
    seed: int,
    steps: int,
    hidden: int | None,
    lengths: tuple[int, ...],
    words: int,
    out: Path | None,
) -> Run:
    name = model if isinstance(model, str) else model.__name__
    folder = re.sub(r"[^\w.()=,-]+", "_", f"{machine.name}-{name}-{seed}")
    return train(
        machine,
        model,
        out=None if out is None else out / folder,
        config={"test_lengths": lengths, "words": words, **_EQUAL_TERMS},
        hidden=hidden,
        steps=steps,
        seed=seed,
    )


def _cell(machine: Machine, runs: list[Run], lengths: tuple[int, ...]) -> ComparedCell:
    records = [run.record for run in runs if run.record is not None]
    scores: dict[int, tuple[float, ...]] = {}
    constant: dict[int, float] = {}
    for length in lengths:
        found = [record.score_at(length) for record in records]
        # a run that diverged counts as chance
        scores[length] = tuple(0.0 if score is None else score.score for score in found)
        constant[length] = fmean([score.constant for score in found if score is not None] or [0.0])
    return ComparedCell(
        machine.name,
        runs[0].name,
        tuple(run.seed for run in runs),
        tuple(record.score_id or 0.0 for record in records),
        scores,
        constant,
        records[0].parameters or 0,
        round(sum(record.seconds or 0.0 for record in records), 2),
        _weakest([_verdict(run) for run in runs]),
    )


def _verdict(run: Run) -> str | None:
    """Return what a small search decides of a network that is a product of matrices; None of any other."""
    from statewise.commands.exact import network_of_run
    from statewise.theory.certify import certify

    try:
        network = network_of_run(run)
    except NetworkError:
        return None
    return certify(network, run.machine, run.shortest, work=_SEARCH).status


def _weakest(verdicts: list[str | None]) -> str | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    return min(known, key=_STRENGTH.index) if len(known) == len(verdicts) else None


def _short(model: str) -> str:
    """Return a model's name without the file or module of a class of one's own."""
    return model.rpartition(":")[2]


def _spread(scores: Sequence[float]) -> str:
    return fixed(fmean(scores)) + (f" ± {fixed(pstdev(scores))}" if len(scores) > 1 else "")
