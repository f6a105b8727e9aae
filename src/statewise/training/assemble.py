"""From plain options to a task, a model, its training and a plan: the same for every command."""

from dataclasses import fields
from typing import Any

from torch import nn

from statewise.machines import Machine, machine
from statewise.models.catalogue import build_model
from statewise.tasks.task import Lengths, Task
from statewise.training.plan import Optimisation, Plan
from statewise.training.training import Training


def build_task(options: dict[str, Any], kept: Machine | None = None) -> Task:
    """Builds the task of a run's options, on the machine that the run kept if it is given."""
    steps = options["steps"]
    growth = round(steps * options["growth_share"])
    late_from = round(steps * (1 - options["late_share"]))
    late_to = max(late_from, round(steps * options["late_until"]))
    lengths = Lengths(options["shortest"], options["longest"], growth, options["late"], late_from, late_to)
    return Task(
        kept or machine(options["task"]), lengths, options["supervision"], options["samples"], options["validation"]
    )


def build_network(options: dict[str, Any], tokens: int, classes: int) -> nn.Module:
    """Builds the untrained model of a run's options."""
    return build_model(
        options["model"],
        tokens,
        classes,
        options["hidden"],
        options["seed"],
        options["additive"],
        options["embedding"],
        options["readout"],
    )


def build_training(options: dict[str, Any], kept: Machine | None = None) -> Training:
    """Builds a training at its first step."""
    task = build_task(options, kept)
    network = build_network(options, task.tokens, task.machine.classes)
    return Training(network, task, build_optimisation(options), options["seed"])


def build_optimisation(options: dict[str, Any]) -> Optimisation:
    """Builds how a run's weights are moved."""
    return Optimisation(**{field.name: options[field.name] for field in fields(Optimisation)})


def build_plan(options: dict[str, Any]) -> Plan:
    """Builds what a run looks at."""
    given: dict[str, Any] = {field.name: options[field.name] for field in fields(Plan) if field.name in options}
    given |= {"lengths": tuple(options["test_lengths"]), "probe": tuple(options["probe"])}
    return Plan(**given)
