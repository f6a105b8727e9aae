"""A run: a trained network, or one that was written, with its machine and how it came to be."""

import logging
import math
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.errors import RunError, shorten
from statewise.machines import Machine
from statewise.runs.directory import (
    CONFIG,
    NETWORK,
    NetworkManifest,
    check_directory,
    read_manifest,
    read_options,
    read_record,
    read_source,
)
from statewise.runs.record import Record, RecordedPolish, RecordedScore, RecordedVerdict
from statewise.tasks import Lengths, SequenceTask, Source, Supervision, Task
from statewise.training.options import RunOptions
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from torch import nn

    from statewise.models import SequenceModel


@dataclass(frozen=True)
class Kept:
    """What a store keeps of a run beside its record.

    Args:
        where: the store and the run's key.
        weights: as safetensors; None where they were too large, or there are none.
        source: the text of a user's own model; None where it was too long, or there is none.
    """

    where: str
    weights: bytes | None = None
    source: bytes | None = None


@dataclass(frozen=True, eq=False)
class Run(Result):
    """A network with its machine, as `train`, `compile`, `snap` and `learn` return it and `load` reads it.

    Args:
        source: the machine that it is to track, as it was kept; of a run on sequences without one, their names.
        path: its directory; None if it is in memory only.
        options: of a trained run, its resolved options.
        record: of a trained run that has ended, its record.
        manifest: of a network that was not trained, how it came to be.
        summary: what the command that made it reported.
        held: its model, where it is in memory already.
        own: the class of its model, where that is a user's own.
        kept: of a run of a store, what it keeps in place of a directory.
    """

    source: Source
    path: Path | None = None
    options: RunOptions | None = None
    record: Record | None = None
    manifest: NetworkManifest | None = None
    summary: Result | None = None
    held: "SequenceModel | None" = None
    own: "type[nn.Module] | None" = None
    kept: Kept | None = None

    def __post_init__(self) -> None:
        # weights are read when they are first asked for, wherever the process is by then
        object.__setattr__(self, "home", None if self.path is None else self.path.absolute())

    home: Path = field(init=False, repr=False)

    @property
    def machine(self) -> Machine:
        """The machine that it is to track; a run on sequences without one is refused."""
        if not isinstance(self.source, Machine):
            raise RunError(f"{shorten(self.source.name)} is no machine, but a set of sequences; give --machine MACHINE")
        return self.source

    @cached_property
    def model(self) -> "SequenceModel":
        """The network, ready to be evaluated."""
        if self.held is not None:
            return self.held.eval()
        if self.path is None and self.kept is None:
            raise RunError("training diverged, so there is no network; train it again with a smaller rate")
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
    def where(self) -> str | None:
        """Its directory, as it was given, or its store and key; None if it is in memory only."""
        if self.path is None:
            return None if self.kept is None else self.kept.where
        return str(self.path)

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
        if self.manifest is not None and self.manifest.origin == "polished":
            # the empty sequence is not solved for
            return self.manifest.shortest or 1
        return self.lengths.shortest if self.trained else 0

    @property
    def seed(self) -> int:
        """The seed of its weights and sequences."""
        return 0 if self.options is None else self.options.seed

    @cached_property
    def task(self) -> SequenceTask:
        """Its task; a machine that always answers alike makes none."""
        return Task(self.machine) if self.options is None else self.options.build_task(self.source)

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
        where = self.where
        if self.record is None:
            return {**({} if self.manifest is None else self.manifest.facts), "run": where}
        inside, polished, whole = self.record.in_distribution, self.record.polished, self.record.pooled
        longest = max(self.record.scores, key=lambda score: score.length, default=None)
        written = {} if polished is None else {"polished": polished.model_dump(mode="json")}
        written |= {} if self.record.verdict is None else {"verdict": self.record.verdict.model_dump(mode="json")}
        written |= {
            "run": where,
            "status": self.record.status,
            "score_id": self.record.score_id,
            "constant_id": None if inside is None else inside.measured_constant,
            "score_ood": None if longest is None else longest.score,
            "constant_ood": None if longest is None else longest.measured_constant,
            "steps": self.record.steps,
            "seconds": self.record.seconds,
        }
        return written if whole is None else written | {"score_test": whole.score, "constant": whole.constant}

    def lines(self) -> Lines:
        """Return the run for a reader."""
        if self.summary is not None:
            return self.summary.lines()
        where = self.where or "in memory"
        if self.record is not None and self.record.status == "failed":
            return [("run", f"{where}: {self.name} on {self.record.config.task}, failed: {self.record.reason}")]
        if self.record is None:
            origin = "not finished" if self.manifest is None else self.manifest.origin
            return [("run", f"{where}: {self.name} on {shorten(self.source.name)}, {origin}")]
        loss = math.nan if self.record.loss is None else self.record.loss
        inside = self.record.in_distribution
        took = "" if self.record.seconds is None else f" in {self.record.seconds:.1f} s"
        return [
            ("run", f"{where}: {self.name} on {self.record.config.task}, {self.record.status}"),
            ("steps", f"{self.record.steps:,}{took}, last loss {loss:.3g}"),
            ("training lengths", "not tested" if inside is None else _score_text(inside)),
            *((f"length {score.length:,}", _score_text(score)) for score in self.record.scores),
            *_test_set_lines(self.record),
            *_verdict_lines(self.record.verdict),
            *_polish_lines(self.record.polished),
        ]


def _score_text(score: RecordedScore) -> str:
    """Write a score beside the best constant answer on the same sequences."""
    constant = score.measured_constant
    shown = f"score {score.score:.3f}" + ("" if constant is None else f"  constant answer {constant:.3f}")
    return shown if score.at_end is None else f"{shown}  at the end: score {score.at_end.score:.3f}"


def _test_set_lines(record: Record) -> Lines:
    """Return the score of a user's own test set as a whole."""
    whole = record.pooled
    return [] if whole is None or len(record.scores) < 2 else [("all lengths", _score_text(whole))]


def _polish_lines(polished: RecordedPolish | None) -> Lines:
    if polished is None:
        return []
    if polished.residual is None:
        return [("polished", f"{polished.status}: {polished.reason}")]
    how = f"residual {polished.residual:.1e}, hidden size {polished.rank}, {polished.seconds:.1f} s"
    proven = (
        []
        if polished.horizon is None
        else [("proven", f"all sequences of the task of up to {polished.horizon:,} symbols")]
    )
    scores = [(f"  length {score.length:,}", _score_text(score)) for score in polished.scores]
    return [("polished", f"{polished.status}: {how}"), *scores, *(_verdict_lines(polished.verdict) or proven)]


def _verdict_lines(verdict: RecordedVerdict | None) -> Lines:
    """Write what was decided of a network: that all sequences are right, or from which length on one is known wrong."""
    if verdict is None:
        return []
    if verdict.status == "proven":
        return [("proven", "all sequences of the task")]
    proven = [("proven", f"all sequences of the task of up to {verdict.proven_to:,} symbols")]
    wrong = [("refuted", f"by a sequence of {verdict.wrong_at:,} symbols")] if verdict.wrong_at is not None else []
    return [*(proven if verdict.proven_to else []), *wrong] or [("unknown", "neither proven nor refuted")]


RunLike = Run | str | os.PathLike[str]


def load(run: RunLike, model: str | type | None = None) -> Run:
    """Open a run directory, of this format or of the first.

    Args:
        run: the directory; a run is returned as it is.
        model: the class of its model, or `file.py:Class`, where that is a user's own: a directory never makes statewise
            import code by itself.
    """
    if isinstance(run, Run):
        return run if model is None else replace(run, own=own_of(run.options, model), held=None)
    if not isinstance(run, str | os.PathLike):
        raise RunError(f"a run is {shorten(repr(run))}; expected a Run or its directory")
    directory = Path(run)
    if not (directory / CONFIG).is_file() and not (directory / NETWORK).is_file():
        raise RunError(f'"{shorten(directory)}" is not the directory of a run; give one that train or compile wrote')
    check_directory(directory)
    source = read_source(directory)
    manifest = read_manifest(directory)
    if manifest is not None:
        return Run(source, directory, manifest=manifest)
    options = read_options(directory)
    return Run(source, directory, options, read_record(directory), own=own_of(options, model))


def own_of(options: RunOptions | None, model: str | type | None) -> "type[nn.Module] | None":
    """Return the class that a user gave for a run; one whose source is another than that of the run is warned of."""
    if model is None or options is None:
        return None
    from statewise.models import has_source, own_class

    made = own_class(model)
    if options.source is not None and not has_source(model, options.source):
        logging.getLogger("statewise").warning(
            "statewise: the source of %s is not that of the run, which was trained as %s", made.__name__, options.model
        )
    return made
