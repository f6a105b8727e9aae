"""`statewise train` and `statewise evaluate`."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from statewise.commands.inputs import (
    MachineLike,
    PathLike,
    SharesLike,
    WordsLike,
    check_least,
    device_of,
    machine_of,
    numbers_of,
    own_sequences,
    path_of,
    torch_threads,
    words_or_count,
)
from statewise.commands.planned import planned
from statewise.errors import RunError, StatewiseError, shorten
from statewise.machines import Machine, identical
from statewise.machines import machine as build_machine
from statewise.machines.machine_files import to_json
from statewise.models.table import is_own, spec_of
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.tasks import BEYOND_SYMBOLS, SequenceTask, Task, sampling_of
from statewise.tasks.words import WordsSource, evaluation_source
from statewise.tasks.words_task import WordsTask
from statewise.training.metrics import Metrics, Score, SuiteScore, span_text
from statewise.training.options import RunOptions, resolve
from statewise.wording import Lines, Result, counted

_EVENTS = "events"
# at which networks are evaluated unless other lengths are given
LENGTHS = (10, 500, 10_000)
ShowMetrics = Callable[[Metrics, int, Sequence[int]], None]


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
    draws: str | None = None,
    tests: str | None = None,
    seed: int | None = None,
    validation: int | None = None,
    stop_score: float | None = None,
    polish: bool | None = None,
    threads: int = 1,
    tensorboard: bool = False,
    device: str = "cpu",
    words: WordsLike | None = None,
    validation_words: PathLike | None = None,
    test_words: PathLike | None = None,
    shares: SharesLike | None = None,
    dry_run: bool = False,
    show: ShowMetrics | None = None,
) -> Run:
    """Train one model on one machine, or on labelled sequences of one's own.

    Args:
        task: the machine that is tracked
        model: a level such as full or block(2), a baseline, or file.py:Class
        out: the run's directory; an interrupted run is resumed
        config: a TOML file with any of these options and of the others that a run has
        recipe: statewise (ours, the default), or stated (the paper's)
        hidden: the hidden size; default: the recipe's, 64 for most models
        embedding: the size of a trained embedding; 0, the default, is one-hot
        additive: none (the default), constant or input
        readout: plain or normalised; default: the recipe's
        steps: training steps; default: the recipe's, 2,000 for levels
        batch: sequences per step; default: 64
        lr: the highest learning rate; default: the recipe's
        schedule: constant or cosine; default: the recipe's
        weight_decay: decoupled decay of all weights; default: the recipe's
        loss: cross-entropy, or squared (the distance from one-hot answers); default: the recipe's
        longest: the longest training sequences; default: 10
        late: the longest sequences late in training; 0, the default, for none
        supervision: final, closed (by one more token), aligned or chain (of thought); default: the recipe's
        samples: train on so many sequences only; default: fresh ones in every step
        draws: uniform or balanced training sequences; by default balanced where a constant answer does well
        tests: uniform or balanced test sequences; default: the recipe's
        seed: of weights and sequences; default: 0
        validation: set so many further sequences aside, and report them; default: 0
        stop_score: end once this score is reached at length 500; 0, the default, never
        polish: polish the trained network too, and test it again; it is kept in OUT/polished
        threads: torch threads; one is bit for bit repeatable
        tensorboard: write scalars for TensorBoard into OUT/events
        device: where to compute: cpu, cuda, mps or auto
        words: labelled sequences instead of a machine: .csv or .jsonl, or a folder of FLaRe; in Python also pairs
        validation_words: validation sequences; else a share of --words
        test_words: test sequences; else a share of --words
        shares: of training, validation and test in --words: 0.8,0.1,0.1
        dry_run: train nothing; show about how long it takes, from a few steps that are timed
        show: called after each evaluation with what was measured, the number of steps, and the lengths of the scores
    """
    # `words` of a run's options is how many sequences it is tested on
    given = {name: value for name, value in locals().items() if name in RunOptions.model_fields and name != "words"}
    own_words = own_sequences(words, validation_words, test_words, shares)
    if own_words is not None and task is not None:
        raise RunError("a machine and sequences of one's own are given; give one of --task and --words")
    kept = task if isinstance(task, Machine) else own_words if isinstance(own_words, WordsSource) else None
    if isinstance(kept, WordsSource):
        given["task"] = kept.name
    elif isinstance(own_words, str):
        given["task"] = own_words
    elif kept is not None:
        given |= {"task": kept.name or "machine", "machine": hash_of(kept)}
    elif task is not None:
        given["task"] = os.fspath(task) if isinstance(task, str | os.PathLike) else machine_of(task)
    given["model"] = None if model is None else spec_of(model)
    if isinstance(config, Mapping):
        given = dict(config) | {name: value for name, value in given.items() if value is not None}
    options = resolve(given, None if isinstance(config, Mapping) else path_of(config), kept)
    own = source = None
    if is_own(options.model):
        from statewise.models import own_class, own_source

        named = options.model if model is None else model
        source = own_source(named)
        own = own_class(named) if isinstance(named, type) else source.load()
        options = options.change(source=source.sha256)
    directory, where = path_of(out), device_of(device)
    if dry_run:
        with torch_threads(threads):
            return planned(options, kept, own, where)
    if tensorboard and directory is None:
        raise RunError("scalars for TensorBoard need a directory; give out too")

    from statewise.runs.execution import PlannedRun, execute_one

    with torch_threads(threads), _scalars(directory if tensorboard else None, options.probe) as write:

        def see(member: int, metrics: Metrics, steps: int) -> None:
            write(metrics, steps)
            if show is not None:
                show(metrics, steps, options.probe)

        text = None if source is None else source.kept
        run = execute_one(PlannedRun(options, directory, kept, own, text, where), see)
        if options.certify:
            from statewise.theory.certify.recording import certify_recorded

            run = certify_recorded(run)
        if options.polish:
            from statewise.theory.polish.recording import polish_recorded

            run = polish_recorded(run)
        return run


def hash_of(machine: Machine) -> str | None:
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
        suite: how it answers a conformance suite, where that was asked for.
        machine: names the symbols of that suite's sequences.
        own: whether the sequences are a set of a user's own, which is worth a score as a whole.
    """

    run: str | None
    title: str
    scores: tuple[Score, ...]
    words: int
    drawn: Path | None = None
    suite: SuiteScore | None = None
    machine: Machine | None = None
    own: bool = False

    @property
    def lengths(self) -> list[int]:
        """The lengths."""
        return [score.length for score in self.scores]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by length."""
        whole, ends = _pooled(self.scores), [score.at_end for score in self.scores]
        written = {
            "run": self.run,
            "lengths": self.lengths,
            **({} if all(score.span is None for score in self.scores) else {"spans": self._spans}),
            "accuracy": [score.accuracy for score in self.scores],
            "score": [score.score for score in self.scores],
            "score_majority": [score.score_majority for score in self.scores],
            "constant": [score.constant for score in self.scores],
            "coverage": [None if score.coverage is None else asdict(score.coverage) for score in self.scores],
            "words": self.words,
            "pooled": {"accuracy": whole.accuracy, "score": whole.score, "constant": whole.constant},
        }
        if any(end is not None for end in ends):
            written["accuracy_at_end"] = [None if end is None else end.accuracy for end in ends]
        if self.suite is not None:
            written["suite"] = asdict(self.suite) | {"wrong": self._wrong}
        return written if self.drawn is None else written | {"plot": str(self.drawn)}

    def lines(self) -> Lines:
        """Return a line for each length."""
        lines = [(_length_text(score), _score_line(score)) for score in self.scores]
        if self.own and len(lines) > 1:
            lines.append(("all lengths", _score_line(_pooled(self.scores))))
        lines += [] if self.suite is None else _suite_lines(self.suite, self._wrong)
        return lines if self.drawn is None else [*lines, ("plot", str(self.drawn))]

    @property
    def _spans(self) -> list[list[int]]:
        """The shortest and the longest sequences of each score."""
        return [list(score.span or (score.length, score.length)) for score in self.scores]

    @property
    def _wrong(self) -> list[str] | None:
        """A shortest sequence of the suite that was answered wrongly, by the names of its symbols."""
        if self.suite is None or self.suite.wrong is None or self.machine is None:
            return None
        return [self.machine.alphabet[symbol] for symbol in self.suite.wrong]

    def plot(self, path: PathLike) -> Path:
        """Draw score against length into a .png or .svg file."""
        from statewise.report.curves import draw_scores
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(path))
        lengths = [longest for _, longest in self._spans]
        draw_scores(Path(path), lengths, [score.score for score in self.scores], self.title)
        return Path(path)


def _length_text(score: Score) -> str:
    return f"length{'' if score.span is None else 's'} {span_text(score.length, score.span)}"


def _pooled(scores: Sequence[Score]) -> Score:
    from statewise.training.evaluation import pooled

    return pooled(list(scores))


def _score_line(score: Score) -> str:
    shown = f"accuracy {score.accuracy:.3f}  score {score.score:.3f}  constant answer {score.constant:.3f}"
    if score.at_end is not None:
        ends = f"accuracy {score.at_end.accuracy:.3f}  constant answer {score.at_end.constant:.3f}"
        shown = f"{shown}  at the end: {ends}"
    found = score.coverage
    if found is None:
        return shown
    return f"{shown}  {found.walked:,} of {counted(found.pairs, 'transition')}, worst {found.worst:.3f}"


def _suite_lines(suite: SuiteScore, wrong: list[str] | None) -> Lines:
    reach = f"{counted(suite.transitions, 'transition')}, sequences of up to {suite.longest:,} symbols"
    lines = [(suite.suite, f"accuracy {suite.accuracy:.3f}  {suite.correct:,} of {suite.words:,} correct  {reach}")]
    if suite.unread:
        lines.append(("", f"{counted(suite.unread, 'sequence')} of the suite too long for the model"))
    return lines if wrong is None else [*lines, ("wrong on", shorten(" ".join(wrong), 200))]


def evaluate(
    run: RunLike,
    lengths: Sequence[int] | None = None,
    model: str | type | None = None,
    words: int | PathLike | None = None,
    reembed: int = 0,
    sign_rule: bool = False,
    plot: PathLike | None = None,
    threads: int = 1,
    tests: str = "balanced",
    suite: str | None = None,
    device: str = "cpu",
    test_sequences: int = 200,
) -> Scores:
    """Evaluate a network at any lengths, beside the best constant answer.

    Args:
        run: the directory of a run, or STORE#KEY
        lengths: sequence lengths (on the command line separated by commas): 10,500,10000 unless others are given; of
            sequences of one's own, those of these lengths alone, and unless any are given all
        model: the class of a run of one's own, such as file.py:Class
        words: a file of labelled sequences to evaluate on (a number is --test-sequences, as before)
        reembed: put the nearest prototype in place every so many symbols
        sign_rule: correct the sign of the hidden state
        plot: draw score against length into this .png or .svg
        threads: torch threads
        tests: balanced, with all outputs equally frequent as far as the machine allows, or uniform
        suite: test every transition too, by transition-cover or by the w-method
        device: where to compute: cpu, cuda, mps or auto
        test_sequences: how many are drawn per length
    """
    asked = LENGTHS if lengths is None else numbers_of("lengths", lengths)
    file, count = words_or_count(words, test_sequences)
    check_least("reembed", reembed, 0)
    if plot is not None:
        from statewise.report.figure import check_figure_file

        check_figure_file(Path(plot))
    where = device_of(device)
    opened = load(run, model)
    task = _evaluated_on(opened, file, tests)
    if isinstance(task, WordsTask):
        task = task if lengths is None else task.at_lengths(asked)
        asked, count = task.buckets, len(task.sets[2])
    longest = opened.model.longest
    if longest is not None and task.written_length(max(asked)) > longest:
        raise RunError(
            f"{opened.name} reads at most {longest:,} tokens, length {max(asked):,} is asked for; leave it out"
        )

    from statewise.training.evaluation import evaluate_model, evaluate_suite

    with torch_threads(threads):
        network = _corrected(opened, reembed, sign_rule) if reembed or sign_rule else opened.model
        network = network.to(where)
        scores = evaluate_model(network, task, asked, count, opened.seed + 1, coverage=True)
        covered = None if suite is None else evaluate_suite(network, _task_of_machine(opened), suite)
    title = f"{opened.name} on {opened.source.name if opened.options is None else opened.options.task}"
    machine = opened.source if isinstance(opened.source, Machine) else None
    own = isinstance(task, WordsTask)
    found = Scores(opened.where, title, tuple(scores), count, suite=covered, machine=machine, own=own)
    return found if plot is None else replace(found, drawn=found.plot(plot))


def _task_of_machine(run: Run) -> Task:
    """Return the task of a run, which a conformance suite needs to have a machine."""
    task = run.task
    if not isinstance(task, Task):
        raise RunError("the run has no machine, which a conformance suite is made of; leave the suite out")
    return task


def _evaluated_on(run: Run, file: WordsLike | None, tests: str) -> SequenceTask:
    """Return what a run is evaluated on: its own task, or the sequences of a file in its names."""
    if file is not None:
        if not isinstance(file, str | os.PathLike):
            raise RunError("networks are evaluated on sequences in a file; write these into one")
        if run.supervision in BEYOND_SYMBOLS:
            raise RunError(
                f"the network was trained with supervision {run.supervision}, which reads more than symbols; "
                "evaluate it on its own task"
            )
        source = evaluation_source(Path(file), run.source, "the network")
        return WordsTask(source, source.sets, source.aligned, run.lengths, "aligned" if source.aligned else "final")
    task = run.task
    return replace(task, tests=sampling_of(tests)) if isinstance(task, Task) else task


def _corrected(run: Run, every: int, sign_rule: bool) -> Any:
    from statewise.commands.extract import prototypes_of
    from statewise.models import StateTracker
    from statewise.theory import Corrected

    found = prototypes_of(run, run.machine)
    assert isinstance(run.model, StateTracker)
    return Corrected(run.model, found, every, sign_rule)


@contextmanager
def _scalars(directory: Path | None, lengths: Sequence[int]) -> Iterator[Callable[[Metrics, int], None]]:
    """Yield a function that writes metrics for TensorBoard, or one that does nothing."""
    if directory is None:
        yield lambda metrics, steps: None
        return
    from statewise.report.scalars import Scalars

    with Scalars(directory / _EVENTS, lengths) as scalars:
        yield scalars.write
