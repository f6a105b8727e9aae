"""From plain options to a task, a model and its training: the same for every command."""

from typing import Any

from torch import nn

from statewise.machines import Machine, machine
from statewise.models import build_model
from statewise.task import Lengths, Task
from statewise.train import Optimisation, Training


def build_task(options: dict[str, Any], kept: Machine | None = None) -> Task:
    """Builds the task of a run's options, on the machine that the run kept if it is given."""
    late_from = round(options["steps"] * (1 - options["late_share"]))
    late_to = max(late_from, round(options["steps"] * 0.9))
    lengths = Lengths(options["shortest"], options["longest"], options["growth"], options["late"], late_from, late_to)
    return Task(
        kept or machine(options["task"]), lengths, options["supervision"], options["samples"], options["validation"]
    )


def build_network(options: dict[str, Any], task: Task) -> nn.Module:
    """Builds the untrained model of a run's options."""
    return build_model(
        options["model"],
        task.machine.symbols,
        task.machine.classes,
        options["hidden"],
        options["seed"],
        options["additive"],
        options["embedding"],
        options["readout"],
    )


def build_training(options: dict[str, Any], kept: Machine | None = None) -> Training:
    """Builds a training at its first step."""
    task = build_task(options, kept)
    names = ("lr", "steps", "batch", "schedule", "warmup", "weight_decay", "readout_decay", "clip", "average")
    optimisation = Optimisation(**{name: options[name] for name in names})
    return Training(build_network(options, task), task, optimisation, options["seed"])
