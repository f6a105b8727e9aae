"""A run: a trained network, or one that was written, with its machine and how it came to be."""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.errors import RunError, shorten
from statewise.machines import Machine, read_machine
from statewise.runs.directory import CONFIG, MACHINE, NETWORK, NetworkManifest, read_manifest, read_options, read_record
from statewise.runs.record import Record
from statewise.tasks import Lengths, Supervision, Task
from statewise.training.options import RunOptions
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from torch import nn

    from statewise.models import SequenceModel


@dataclass(frozen=True, eq=False)
class Run(Result):
    """A network with its machine, as `train`, `compile`, `snap` and `learn` return it and `load` reads it.

    Args:
        machine: what it is to track, as it was kept.
        path: its directory; None if it is in memory only.
        options: of a trained run, its resolved options.
        record: of a trained run that has ended, its record.
        manifest: of a network that was not trained, how it came to be.
        summary: what the command that made it reported.
        held: its model, where it is in memory already.
        own: the class of its model, where that is a user's own.
    """

    machine: Machine
    path: Path | None = None
    options: RunOptions | None = None
    record: Record | None = None
    manifest: NetworkManifest | None = None
    summary: Result | None = None
    held: "SequenceModel | None" = None
    own: "type[nn.Module] | None" = None

    @cached_property
    def model(self) -> "SequenceModel":
        """The network, ready to be evaluated."""
        if self.held is not None:
            return self.held.eval()
        assert self.path is not None
        from statewise.runs.weights import load_model

        return load_model(self).eval()

    @property
    def trained(self) -> bool:
        """Whether it was trained; otherwise it was written, and sequences of every length count."""
        return self.options is not None

    @property
    def name(self) -> str:
        """The name of its model."""
        if self.options is not None:
            return self.options.model
        return "" if self.manifest is None else self.manifest.model

    @property
    def supervision(self) -> Supervision:
        """After which tokens answers were asked for in training."""
        return "final" if self.options is None else self.options.supervision

    @property
    def lengths(self) -> Lengths:
        """The training lengths; those of the paper for a network that was written."""
        return Lengths() if self.options is None else self.options.lengths

    @property
    def shortest(self) -> int:
        """The length of the shortest sequences that the network is meant for."""
        return self.lengths.shortest if self.trained else 0

    @property
    def seed(self) -> int:
        """The seed of its weights and sequences."""
        return 0 if self.options is None else self.options.seed

    @cached_property
    def task(self) -> Task:
        """Its task; a machine that always answers alike makes none."""
        return Task(self.machine) if self.options is None else self.options.build_task(self.machine)

    @property
    def failed(self) -> bool:
        """Whether training diverged, or what was made did not pass its own check."""
        if self.summary is not None:
            return self.summary.failed
        return self.record is not None and self.record.status == "diverged"

    def to_dict(self) -> dict[str, Any]:
        """Return what the command that made it reports."""
        if self.summary is not None:
            return self.summary.to_dict()
        where = None if self.path is None else str(self.path)
        if self.record is None:
            return {"run": where, **({} if self.manifest is None else self.manifest.facts)}
        scores = {score.length: score.score for score in self.record.scores}
        return {
            "run": where,
            "status": self.record.status,
            "score_id": self.record.score_id,
            "score_ood": scores.get(max(scores, default=0)),
            "steps": self.record.steps,
            "seconds": self.record.seconds,
        }

    def lines(self) -> Lines:
        """Return the run for a reader."""
        if self.summary is not None:
            return self.summary.lines()
        where = "in memory" if self.path is None else str(self.path)
        if self.record is None:
            origin = "not finished" if self.manifest is None else self.manifest.origin
            return [("run", f"{where}: {self.name} on {shorten(self.machine.name)}, {origin}")]
        loss, inside = (math.nan if value is None else value for value in (self.record.loss, self.record.score_id))
        return [
            ("run", f"{where}: {self.name} on {self.record.config.task}, {self.record.status}"),
            ("steps", f"{self.record.steps:,} in {self.record.seconds:.1f} s, last loss {loss:.3g}"),
            ("training lengths", f"score {inside:.3f}"),
            *((f"length {score.length:,}", f"score {score.score:.3f}") for score in self.record.scores),
        ]


RunLike = Run | str | os.PathLike[str]


def load(run: RunLike, model: "type[nn.Module] | None" = None) -> Run:
    """Open a run directory, of this format or of the first.

    Args:
        run: the directory; a run is returned as it is.
        model: the class of its model, where that is a user's own: a directory never makes statewise import code.
    """
    if isinstance(run, Run):
        return run
    directory = Path(run)
    if not (directory / CONFIG).is_file() and not (directory / NETWORK).is_file():
        raise RunError(f'"{shorten(directory)}" is not the directory of a run; give one that train or compile wrote')
    machine = read_machine(str(directory / MACHINE))
    manifest = read_manifest(directory)
    if manifest is not None:
        return Run(machine, directory, manifest=manifest)
    return Run(machine, directory, read_options(directory), read_record(directory), own=model)
