"""What a training would take, before it is begun."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewise.errors import shorten
from statewise.runs.run import Run
from statewise.tasks import Source
from statewise.training.options import RunOptions
from statewise.wording import Lines, Result, duration

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class TrainingPlan(Result):
    """What a training would take.

    Args:
        options: of the run.
        parameters: how many numbers are trained.
        estimate_s: the seconds of training and tests, from a few steps that were timed.
    """

    options: RunOptions
    parameters: int
    estimate_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {"steps": self.options.steps, "parameters": self.parameters, "estimate_s": self.estimate_s}

    def lines(self) -> Lines:
        """Return the plan for a reader."""
        options = self.options
        about = f"{duration(self.estimate_s)} with the tests, from a few steps that were timed now"
        judged = [name for name, asked in (("certify", options.certify), ("polish", options.polish)) if asked]
        after = f"; {' and '.join(judged)} comes on top" if judged else ""
        return [
            ("run", f"{options.model} on {shorten(options.task)}, {self.parameters:,} parameters"),
            ("steps", f"{options.steps:,} of {options.batch:,} sequences"),
            ("about", about + after),
        ]


def planned(options: RunOptions, kept: Source | None, own: "type[nn.Module] | None", device: str) -> Run:
    """Return a run that was not trained, with its plan."""
    from statewise.training import build_training, check_lengths
    from statewise.training.estimate import training_seconds

    training = build_training(options, kept, own, device)
    check_lengths(training.model.longest, training.task, options.evaluation)
    parameters = sum(parameter.numel() for parameter in training.trained.values())
    seconds = training_seconds([training], options.evaluation)
    plan = TrainingPlan(options, parameters, round(seconds, 1))
    untrained = build_training(options, kept, own, device).model
    return Run(training.task.source, options=options, summary=plan, held=untrained, own=own)
