"""The story of one run: train, look, save, stop, test, record. It reads from top to bottom."""

import json
import math
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from statewise.errors import RunError, shorten
from statewise.files import write_whole
from statewise.machines import Machine, identical, read_machine, write_machine
from statewise.tasks.task import Task
from statewise.training.checkpoints import read_checkpoint, write_checkpoint
from statewise.training.evaluation import Score, evaluate, evaluate_held_out, pooled
from statewise.training.plan import Plan
from statewise.training.training import Training

MACHINE = "machine.json"


@dataclass(frozen=True)
class Look:
    """What one look during training saw."""

    step: int
    loss: float
    scores: tuple[float, ...]
    seconds: float
    # the loss on validation words, where there are any
    validation: float | None = None


Show = Callable[[Look, int], None]


@dataclass
class Story:
    """One run under way: what is trained and how, where it is kept, and what has been seen so far."""

    training: Training
    plan: Plan
    config: dict[str, Any]
    directory: Path
    looks: list[Look] = field(default_factory=list)
    began: float = 0.0

    @property
    def over(self) -> bool:
        """Whether no further step is to be taken."""
        left = self.training.step < self.training.optimisation.steps
        return not left or self.training.diverged or _enough(self.looks, self.plan)

    @property
    def until_look(self) -> int:
        """How many steps there are before the next look."""
        step, every = self.training.step, self.plan.every
        return min(every - step % every, self.training.optimisation.steps - step)


def run(training: Training, plan: Plan, config: dict[str, Any], directory: Path, show: Show) -> dict[str, Any]:
    """Trains to the end of the plan, from wherever the directory's checkpoint is, and gives the run's record.

    A finished directory gives its record back. Each look is saved, so that Ctrl-C or a kill costs at most the steps
    since the last one; going on from there is the same as never having stopped.
    """
    story = Story(training, plan, config, directory)
    finished = begin(story)
    if finished is not None:
        return finished
    while not story.over:
        training.advance(story.until_look)
        look(story, show)
    return finish(story)


def begin(story: Story) -> dict[str, Any] | None:
    """Opens the directory and takes up what it holds; gives the record of a run that has finished."""
    training = story.training
    check_lengths(longest_word(training.model), training.task, story.plan)
    finished = open_directory(story.directory, story.config, training.task.machine)
    if finished is None:
        story.looks = _take_up(training, story.directory)
        story.began = time.perf_counter() - (story.looks[-1].seconds if story.looks else 0.0)
    return finished


def longest_word(model: nn.Module) -> int | None:
    """Gives how many tokens a model reads at most; None for any number."""
    return getattr(model, "longest_word", None)


def check_lengths(longest: int | None, task: Task, plan: Plan) -> None:
    """Refuses words that are longer than a model reads, before a step is taken."""
    wanted = task.written_length(max(*plan.probe, *plan.lengths, task.lengths.longest, task.lengths.late))
    if longest is not None and wanted > longest:
        raise RunError(
            f"this model reads at most {longest} tokens, {wanted} are asked for; shorten the lengths, "
            "or use positions=none"
        )


def look(story: Story, show: Show) -> None:
    """Tries the model as it is, and saves it; one that has diverged is left as it was at the last look."""
    training, plan = story.training, story.plan
    training.check_finite()
    if training.diverged:
        return
    seen = evaluate(_model(training), training.task, plan.probe, plan.probe_words, training.seed)
    held_out = evaluate_held_out(_model(training), training.task, training.seed)
    validation = None if held_out is None else held_out.loss
    seconds = time.perf_counter() - story.began
    story.looks.append(Look(training.step, training.loss, tuple(s.score for s in seen), seconds, validation))
    _save(training, story.looks, story.directory)
    show(story.looks[-1], training.optimisation.steps)


def finish(story: Story) -> dict[str, Any]:
    """Tests the model, and writes and gives the run's record."""
    training, plan = story.training, story.plan
    status = "diverged" if training.diverged else "stopped" if _enough(story.looks, plan) else "done"
    if status == "done" and training.use_average():
        _save(training, story.looks, story.directory)
    scores: list[Score] = []
    if status != "diverged":
        scores = evaluate(_model(training), training.task, plan.lengths, plan.words, training.seed)
    written = json.dumps(_record(story, scores, status), indent=1)
    write_whole(story.directory / "record.json", written + "\n")
    return json.loads(written)


def open_directory(directory: Path, config: dict[str, Any], machine: Machine) -> dict[str, Any] | None:
    """Begins or takes up a run directory; gives the record of one that has finished.

    The machine is kept beside the config, so that a run stays what it was when a file that it came from changes.
    """
    file = directory / "config.json"
    if file.exists():
        try:
            held = json.loads(file.read_text())
        except (OSError, ValueError):
            raise RunError(f'"{shorten(file)}" cannot be read; use another directory') from None
        if held != config:
            other = next(key for key in {**held, **config} if held.get(key) != config.get(key))
            differs = f"{other}={shorten(held.get(other))}, not {shorten(config.get(other))}"
            raise RunError(f'"{shorten(directory)}" holds a run with {differs}; use another directory')
        if not identical(read_machine(str(directory / MACHINE)), machine):
            raise RunError(f'"{shorten(directory)}" holds a run on another machine of this name; use another directory')
        record = directory / "record.json"
        try:
            return json.loads(record.read_text()) if record.exists() else None
        except (OSError, ValueError):
            raise RunError(f'"{shorten(record)}" is damaged; delete it, and the run tests its model again') from None
    if directory.exists() and not directory.is_dir():
        raise RunError(f'"{shorten(directory)}" is a file; give the run a directory of its own')
    if directory.exists() and any(directory.iterdir()):
        raise RunError(f'"{shorten(directory)}" is not empty and holds no run; use another directory')
    write_machine(machine, directory / MACHINE)
    write_whole(file, json.dumps(config, indent=1) + "\n")
    return None


def _take_up(training: Training, directory: Path) -> list[Look]:
    saved = read_checkpoint(directory)
    if saved is None:
        return []
    tensors, values = saved
    training.restore(tensors, values)
    return [Look(**(seen | {"scores": tuple(seen["scores"])})) for seen in values["looks"]]


def _save(training: Training, looks: list[Look], directory: Path) -> None:
    tensors, values = training.state()
    values = {**values, "looks": [asdict(seen) for seen in looks]}
    write_checkpoint(directory, f"step-{training.step}", tensors, values)


def _enough(looks: list[Look], plan: Plan) -> bool:
    recent = looks[-plan.patience :]
    if len(recent) < plan.patience:
        return False
    tracked = plan.stop_score > 0 and all(look.scores[-1] >= plan.stop_score for look in recent)
    losses = [look.loss if look.validation is None else look.validation for look in recent]
    settled = plan.settle > 0 and max(losses) <= plan.settle
    return tracked or settled


def _in_distribution(training: Training, words: int) -> Score:
    """Tries words of every training length, about as many in all as at any other length."""
    lengths = range(training.task.lengths.shortest, training.task.lengths.longest + 1)
    each = math.ceil(words / len(lengths))
    return pooled(evaluate(_model(training), training.task, lengths, each, training.seed))


def _written(score: Score) -> dict[str, Any]:
    return asdict(score) | {"accuracy": score.accuracy, "score": score.score, "score_majority": score.score_majority}


def _model(training: Training) -> Any:
    training.model.eval()
    return training.model


def _record(story: Story, scores: list[Score], status: str) -> dict[str, Any]:
    training, seconds = story.training, time.perf_counter() - story.began
    finished = status != "diverged"
    inside = _in_distribution(training, story.plan.words) if finished else None
    held_out = evaluate_held_out(_model(training), training.task, training.seed) if finished else None
    return {
        "status": status,
        "config": story.config,
        "steps": training.step,
        "seconds": round(seconds, 2),
        "tokens_per_second": round(training.tokens / seconds),
        "loss": training.loss if math.isfinite(training.loss) else None,
        "parameters": sum(p.numel() for p in training.model.parameters() if p.requires_grad),
        "scores": [_written(score) for score in scores],
        "in_distribution": None if inside is None else _written(inside),
        "validation": None if held_out is None else asdict(held_out),
        "history": [asdict(seen) for seen in story.looks],
        "probe": list(story.plan.probe),
    } | provenance()


def provenance() -> dict[str, Any]:
    """Gives what a number depends on besides its config: versions, and the commit of the source."""
    return {
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "statewise": _version()},
        "commit": _commit(),
    }


def _version() -> str:
    from statewise import __version__

    return __version__


@cache
def _commit() -> str | None:
    """The commit of the source tree, where this file is part of one."""
    ask = ["git", "log", "-1", "--format=%H", "--", Path(__file__).name]
    try:
        done = subprocess.run(ask, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5, check=True)
        if not done.stdout.strip():
            return None
        ask = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(ask, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
