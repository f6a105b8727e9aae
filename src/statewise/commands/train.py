"""`statewise train` and `statewise evaluate`."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of, numbers_of, path_of, torch_threads
from statewise.errors import RunError, StatewiseError
from statewise.machines import Machine, identical
from statewise.machines import machine as build_machine
from statewise.machines.machine_files import to_json
from statewise.models.table import is_own, spec_of
from statewise.runs.run import Run, RunLike, load
from statewise.tasks import Task, sampling_of
from statewise.training.metrics import Metrics, Score
from statewise.training.options import RunOptions, resolve
from statewise.wording import Lines, Result, counted

_EVENTS = "events"
ShowMetrics = Callable[[Metrics, int], None]


def train(
    task: MachineLike | None = None,
    model: str | type | None = None,
    out: PathLike | None = None,
    config: PathLike | Mapping[str, Any] | None = None,
    recipe: str | None = None,
    hidden: int | None = None,
    embedding: int | None = None,
    additive: str | None = None,
    readout: str | None = None,
    steps: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    schedule: str | None = None,
    weight_decay: float | None = None,
    loss: str | None = None,
    longest: int | None = None,
    late: int | None = None,
    supervision: str | None = None,
    samples: int | None = None,
    seed: int | None = None,
    validation: int | None = None,
    stop_score: float | None = None,
    polish: bool | None = None,
    threads: int = 1,
    tensorboard: bool = False,
    show: ShowMetrics | None = None,
) -> Run:
    """Train one model on one machine.

    Args:
        task: the machine that is tracked
        model: a level such as full or block(2), a baseline, or file.py:Class
        out: the run's directory; an interrupted run is resumed
        config: a TOML file with any of these options and of the others that a run has
        recipe: statewise (ours), or stated (the paper's)
        hidden: the hidden size
        embedding: the size of a trained embedding; 0 is one-hot
        additive: none, constant or input
        readout: plain or normalised
        steps: training steps
        batch: sequences per step
        lr: the highest learning rate
        schedule: constant or cosine
        weight_decay: decoupled decay of all weights
        loss: cross-entropy, or squared (the distance from one-hot answers)
        longest: the longest training sequences
        late: the longest sequences late in training; 0 for none
        supervision: final, closed (by one more token), aligned or chain (of thought)
        samples: train on so many sequences only
        seed: of weights and sequences
        validation: set so many further sequences aside, and report them
        stop_score: end once this score is reached at length 500
        polish: polish the trained network too, and test it again; it is kept in OUT/polished
        threads: torch threads; one is bit for bit repeatable
        tensorboard: write scalars for TensorBoard into OUT/events
        show: called after each evaluation with what was measured and the number of steps
    """
    given = {name: value for name, value in locals().items() if name in RunOptions.model_fields}
    kept = task if isinstance(task, Machine) else None
    if kept is not None:
        given |= {"task": kept.name or "machine", "machine": _hash_of(kept)}
    elif task is not None:
        given["task"] = os.fspath(task) if isinstance(task, str | os.PathLike) else machine_of(task)
    given["model"] = None if model is None else spec_of(model)
    if isinstance(config, Mapping):
        given = dict(config) | {name: value for name, value in given.items() if value is not None}
    options = resolve(given, None if isinstance(config, Mapping) else path_of(config))
    own = None
    if is_own(options.model):
        from statewise.models import own_class, source_hash

        own = own_class(options.model if model is None else model)
        options = options.change(source=source_hash(options.model if model is None else model))
    directory = path_of(out)
    if tensorboard and directory is None:
        raise RunError("scalars for TensorBoard need a directory; give out too")

    from statewise.runs.execution import PlannedRun, execute_one

    with torch_threads(threads), _scalars(directory if tensorboard else None, options.probe) as write:

        def see(member: int, metrics: Metrics, steps: int) -> None:
            write(metrics, steps)
            if show is not None:
                show(metrics, steps)

        run = execute_one(PlannedRun(options, directory, kept, own), see)
        if not options.polish:
            return run

        from statewise.theory.polish.recording import polish_recorded

        return polish_recorded(run)


def _hash_of(machine: Machine) -> str | None:
    """Return the hash of a machine that its name does not build; None where the name says it all."""
    with suppress(StatewiseError):
        if identical(build_machine(machine.name), machine):
            return None
    return hashlib.sha256(to_json(machine).encode()).hexdigest()


@dataclass(frozen=True)
class Scores(Result):
    """Accuracy and score at each length.

    Args:
        run: the directory of the run; None for one in memory.
        title: model and task.
        scores: one for each length.
        words: sequences per length.
        drawn: the file of the plot.
    """

    run: str | None
    title: str
    scores: tuple[Score, ...]
    words: int
    drawn: Path | None = None

    @property
    def lengths(self) -> list[int]:
        """The lengths."""
        return [score.length for score in self.scores]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by length."""
        written = {
            "run": self.run,
            "lengths": self.lengths,
            "accuracy": [score.accuracy for score in self.scores],
            "score": [score.score for score in self.scores],
            "score_majority": [score.score_majority for score in self.scores],
            "constant": [score.constant for score in self.scores],
            "coverage": [None if score.coverage is None else asdict(score.coverage) for score in self.scores],
            "words": self.words,
        }
        return written if self.drawn is None else written | {"plot": str(self.drawn)}

    def lines(self) -> Lines:
        """Return a line for each length."""
        lines = [(f"length {score.length:,}", _score_line(score)) for score in self.scores]
        return lines if self.drawn is None else [*lines, ("plot", str(self.drawn))]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length into a .png or .svg file."""
        from statewise.report.curves import draw_scores
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(path))
        draw_scores(Path(path), self.lengths, [score.score for score in self.scores], self.title)
        return Path(path)


def _score_line(score: Score) -> str:
    shown = f"accuracy {score.accuracy:.3f}  score {score.score:.3f}  constant answer {score.constant:.3f}"
    found = score.coverage
    if found is None:
        return shown
    return f"{shown}  {found.walked:,} of {counted(found.pairs, 'transition')}, worst {found.worst:.3f}"


def evaluate(
    run: RunLike,
    lengths: Sequence[int] = (10, 500, 10_000),
    model: str | type | None = None,
    words: int = 200,
    reembed: int = 0,
    sign_rule: bool = False,
    plot: PathLike | None = None,
    threads: int = 1,
    tests: str = "balanced",
) -> Scores:
    """Evaluate a network at any lengths, beside the best constant answer.

    Args:
        run: the directory of a run
        lengths: sequence lengths (on the command line separated by commas)
        model: the class of a run of one's own, such as file.py:Class
        words: sequences per length
        reembed: put the nearest prototype in place every so many symbols
        sign_rule: correct the sign of the hidden state
        plot: draw score against length into this .png or .svg
        threads: torch threads
        tests: balanced, with all outputs equally frequent as far as the machine allows, or uniform
    """
    asked = numbers_of("lengths", lengths)
    check_least("words", words, 1)
    check_least("reembed", reembed, 0)
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    opened = load(run, model)
    longest = opened.model.longest
    if longest is not None and opened.task.written_length(max(asked)) > longest:
        raise RunError(
            f"{opened.name} reads at most {longest:,} tokens, length {max(asked):,} is asked for; leave it out"
        )

    from statewise.training.evaluation import evaluate_model

    with torch_threads(threads):
        network = _corrected(opened, reembed, sign_rule) if reembed or sign_rule else opened.model
        task = opened.task
        task = replace(task, tests=sampling_of(tests)) if isinstance(task, Task) else task
        scores = evaluate_model(network, task, asked, words, opened.seed + 1, coverage=True)
    title = f"{opened.name} on {opened.source.name if opened.options is None else opened.options.task}"
    found = Scores(opened.where, title, tuple(scores), words)
    return found if plot is None else replace(found, drawn=found.plot(plot))


def _corrected(run: Run, every: int, sign_rule: bool) -> Any:
    from statewise.commands.exact import prototypes_of
    from statewise.models import StateTracker
    from statewise.theory import Corrected

    found = prototypes_of(run, run.machine)
    assert isinstance(run.model, StateTracker)
    return Corrected(run.model, found, every, sign_rule)


@contextmanager
def _scalars(directory: Path | None, lengths: Sequence[int]) -> Iterator[ShowMetrics]:
    """Yield a function that writes metrics for TensorBoard, or one that does nothing."""
    if directory is None:
        yield lambda metrics, steps: None
        return
    from statewise.report.scalars import Scalars

    with Scalars(directory / _EVENTS, lengths) as scalars:
        yield scalars.write
