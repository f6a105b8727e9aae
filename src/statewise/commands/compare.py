"""`statewise compare`: every model on every task, on equal terms, in one table and one plot."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.commands.inputs import MachineLike, PathLike, check_least, list_of, machine_of, numbers_of, path_of
from statewise.commands.train import train
from statewise.errors import NetworkError, RunError
from statewise.machines import Machine
from statewise.models.table import is_own, spec_of
from statewise.runs.run import Run
from statewise.training.options import RunOptions, resolve
from statewise.wording import Lines, Result, columns, counted, fixed

# what models train on must be the same for all of them: recipes let lengths grow by level
_EQUAL_TERMS = {"late": 0, "growth_share": 0.3, "supervision": "final", "tests": "balanced"}
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
        diverged: how many of these diverged; they count as chance.
        train: the score on training lengths of each seed.
        scores: by length, the score of each seed; lengths that the model cannot read are not there.
        constant: by length, the score of the best constant answer on the same sequences.
        parameters: how many were trained.
        seconds: of all runs.
        verdict: what is decided of the networks, where anything can be; of several seeds the weakest.
    """

    task: str
    model: str
    seeds: tuple[int, ...]
    diverged: int
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
            "diverged": self.diverged,
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
        drawn: the file of the plot.
    """

    cells: tuple[ComparedCell, ...]
    lengths: tuple[int, ...]
    terms: str
    drawn: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rows."""
        whole: dict[str, Any] = {"terms": self.terms, "rows": [cell.to_dict() for cell in self.cells]}
        return whole if self.drawn is None else whole | {"plot": str(self.drawn)}

    def lines(self) -> Lines:
        """Return the table for a reader: mean ± standard deviation over seeds, beside the best constant answer."""
        head = ["task", "model", "parameters", "training lengths"]
        head += [part for length in self.lengths for part in (f"length {length:,}", "constant")]
        rows = [[*head, "verdict"]]
        for cell in self.cells:
            row = [cell.task or "(unnamed)", self._names[cell.model], f"{cell.parameters:,}", _spread(cell.train)]
            for length in self.lengths:
                tested = length in cell.scores
                row += [_spread(cell.scores[length]), fixed(cell.constant[length])] if tested else ["-", "-"]
            rows.append([*row, f"{cell.diverged} diverged" if cell.diverged else cell.verdict or "-"])
        shown = [*columns(rows), self.terms]
        return [("", line) for line in (shown if self.drawn is None else [*shown, f"plot: {self.drawn}"])]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length, a panel for each task and a curve for each model, into a .png or .svg file."""
        from statewise.report.curves import draw_comparison

        panels: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for cell in self.cells:
            points = [(length, fmean(scores)) for length, scores in cell.scores.items()]
            panels.setdefault(cell.task, {})[self._names[cell.model]] = points
        draw_comparison(Path(path), panels)
        return Path(path)

    @property
    def _names(self) -> dict[str, str]:
        """Models by their short names, where these are one model's alone."""
        models = list(dict.fromkeys(cell.model for cell in self.cells))
        short = {model: model.rpartition(":")[2] for model in models}
        return {model: name if list(short.values()).count(name) == 1 else model for model, name in short.items()}


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
        lengths: test lengths (on the command line separated by commas)
        words: sequences per length
        steps: training steps of every model
        hidden: the hidden size of every model; else that of its recipe
        out: keep the runs in this directory; what is there is not trained again
        plot: draw score against length into this .png or .svg
        show: called with a line for each run that has ended
    """
    asked = numbers_of("lengths", lengths)
    for name, value in (("seeds", seeds), ("words", words), ("steps", steps)):
        check_least(name, value, 1)
    machines = [machine_of(task) for task in list_of(tasks)]
    named = list_of(models)
    if not machines or not named:
        raise RunError("there is nothing to compare; give at least one task and one model")
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    common = {"words": words, **_EQUAL_TERMS, "steps": steps, "hidden": hidden}
    # every model is built once before the first is trained
    readable = {spec_of(model): _readable(machines[0], model, asked, common) for model in named}
    cells = []
    for machine in machines:
        for model in named:
            lengths_read = readable[spec_of(model)]
            runs = []
            for seed in range(seeds):
                given = common | {"test_lengths": lengths_read or asked[:1], "seed": seed}
                runs.append(_train(machine, model, given, path_of(out)))
                if show is not None:
                    show(f"{machine.name}, {runs[-1].name}, seed {seed}: {runs[-1].record and runs[-1].record.status}")
            cells.append(_cell(machine, runs, lengths_read))
    longest = f"sequences of 2 to 10 symbols, {steps:,} steps, {counted(seeds, 'seed')}; tests are balanced"
    found = Comparison(tuple(cells), asked, f"all models: {longest}; score 0 is chance, 1 is perfect")
    return found if plot is None else replace(found, drawn=found.plot(plot))


def _options(machine: Machine, model: str | type, given: Mapping[str, Any]) -> RunOptions:
    return resolve({"task": machine.name or "machine", "model": spec_of(model), **given})


def _readable(
    machine: Machine, model: str | type, lengths: tuple[int, ...], given: Mapping[str, Any]
) -> tuple[int, ...]:
    """Build a model, and return the lengths that it can read."""
    from statewise.models import own_class

    options = _options(machine, model, given)
    own = own_class(model) if is_own(options.model) else None
    longest = options.model_options.build(machine.symbols, machine.classes, 0, own).longest
    return tuple(length for length in lengths if longest is None or length <= longest)


def _train(machine: Machine, model: str | type, given: Mapping[str, Any], out: Path | None) -> Run:
    # another budget is another run, in a folder of its own
    key = _options(machine, model, given).key()[:8]
    name = re.sub(r"[^\w.()=,-]+", "_", f"{machine.name}-{spec_of(model).rpartition(':')[2]}-{given['seed']}-{key}")
    return train(machine, model, out=None if out is None else out / name, config=given)


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
        sum(record.status == "diverged" for record in records),
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

    if run.record is None or run.record.status == "diverged":
        return None
    try:
        network = network_of_run(run)
    except NetworkError:
        return None
    return certify(network, run.machine, run.shortest, work=_SEARCH).status


def _weakest(verdicts: list[str | None]) -> str | None:
    known = [verdict for verdict in verdicts if verdict is not None]
    return min(known, key=_STRENGTH.index) if len(known) == len(verdicts) else None


def _spread(scores: Sequence[float]) -> str:
    return fixed(fmean(scores)) + (f" ± {fixed(pstdev(scores))}" if len(scores) > 1 else "")
