"""Run directories as commands see them: a trained or written network, its machine, and how it came to be."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.errors import NetworkError, RunError, shorten
from statewise.files import reason_of, write_whole
from statewise.machines import Machine, read_machine, write_machine
from statewise.models.tracker import StateTracker
from statewise.runs.run import MACHINE, provenance
from statewise.tasks import Task
from statewise.theory.network import Network, network_of
from statewise.training.assemble import build_network, build_task
from statewise.training.checkpoints import read_checkpoint, write_checkpoint
from statewise.training.options import RunConfig, resolve


@dataclass(frozen=True, eq=False)
class Saved:
    """What a run directory holds.

    Args:
        options: the run's configuration.
        machine: the machine that it is about, as it was kept.
        model: its network, ready to be asked.
        trained: whether it was trained; otherwise it was written, and every length counts.
    """

    options: dict[str, Any]
    machine: Machine
    model: Any
    trained: bool

    @property
    def task(self) -> Task:
        """Its task; a machine that always answers alike makes none."""
        return build_task(self.options, self.machine)

    @property
    def network(self) -> Network:
        """The network as numbers, for proofs and repairs."""
        if self.options["supervision"] == "chain":
            raise NetworkError(
                "the network was trained on chains of thought and reads its own outputs, so its answer is no function "
                "of a word; train it with supervision final or aligned"
            )
        return network_of(self.model)

    @property
    def shortest(self) -> int:
        """The shortest words that the network is meant for."""
        return self.options["shortest"] if self.trained else 0


def load_run(run: Path) -> Saved:
    """Reads a run directory."""
    try:
        options = RunConfig.model_validate_json((run / "config.json").read_text()).model_dump(mode="json")
    except (OSError, ValueError):
        raise RunError(
            f'"{shorten(run)}" is not the directory of a run; give one that train or compile wrote'
        ) from None
    machine = read_machine(str(run / MACHINE))
    saved = read_checkpoint(run)
    if saved is None:
        raise RunError(f'"{shorten(run)}" has no checkpoint: it was cut short, or diverged at once; train it again')
    tensors, values = saved
    weights = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
    tokens = build_task(options, machine).tokens if options["supervision"] == "chain" else machine.symbols
    model = build_network(options, tokens, machine.classes).to(next(iter(weights.values())).dtype)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise RunError(
            f'the checkpoint in "{shorten(run)}" holds weights that fit no network for its machine; make it anew'
        ) from None
    return Saved(options, machine, model.eval(), values.get("status") != "written")


def save_network(directory: Path, model: StateTracker, level: str, machine: Machine, record: dict[str, Any]) -> None:
    """Writes a network that was made, not trained, as a run directory that every command reads; whole or not at all."""
    check_free(directory)
    hidden = len(model.initial_state)
    given = {"task": machine.name or "machine", "model": level, "hidden": hidden, "embedding": 0}
    config = resolve(None, given | {"readout": model.readout_kind}).model_dump(mode="json")
    aside = directory.parent / f".{directory.name}.{os.getpid()}"
    try:
        aside.mkdir(parents=True)
        write_machine(machine, aside / MACHINE)
        write_whole(aside / "config.json", json.dumps(config, indent=1) + "\n")
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        values = {"status": "written", "step": 0, "loss": 0.0, "tokens": 0, "looks": []}
        write_checkpoint(aside, "step-0", tensors, values)
        written = {"config": config, "scores": [], "in_distribution": None} | record | provenance()
        write_whole(aside / "record.json", json.dumps(written, indent=1) + "\n")
        if directory.is_dir():
            directory.rmdir()
        os.replace(aside, directory)
    except OSError as error:
        raise RunError(f'cannot write "{shorten(directory)}": {reason_of(error)}; use another directory') from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def check_free(directory: Path) -> None:
    """Refuses a directory that holds anything."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise RunError(f'"{shorten(directory)}" is there already and not empty; give a new directory')
