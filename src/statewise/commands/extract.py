"""`statewise extract` and `snap`: the machine of a network, and how a network is repaired by it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statewise.commands.certify import Certification, aligned, network_of_run
from statewise.commands.inputs import MachineLike, PathLike, machine_of, path_of, torch_threads
from statewise.commands.made import made_run
from statewise.errors import NetworkError, RunError, shorten
from statewise.machines import Machine, minimise, write_machine
from statewise.runs.directory import check_free
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.theory import Extracted, Prototypes

# below this share of equal answers, what was read out is not what the network is
LEAST_AGREEMENT = 0.9
_MODES = ("exact", "project")


@dataclass(frozen=True, eq=False)
class Extraction(Result):
    """The machine that was read out of a network.

    Args:
        machine: minimal.
        extracted: how it was found, and on what its faithfulness rests.
        task: the machine that the network was to track; None if it was trained on sequences without one.
        out: the file that it was written to.
    """

    machine: Machine
    extracted: "Extracted"
    task: Machine | None
    out: Path | None = None

    @property
    def faithful(self) -> Literal["proven", "tested", "no"]:
        """Whether network and machine are proven equal, agree on every word that was tried, or differ on one."""
        return self.extracted.faithful

    @property
    def equals_task(self) -> bool | None:
        """Whether it is the machine of the task; None if that has none."""
        return None if self.task is None else self.machine == self.task

    def to_dict(self) -> dict[str, Any]:
        """Return what was found."""
        return {
            "states": self.machine.states,
            "faithful": self.faithful,
            "reason": self.extracted.reason,
            "agreement": self.extracted.agreement,
            "method": self.extracted.method,
            "equals_task": self.equals_task,
            "out": None if self.out is None else str(self.out),
        }

    def lines(self) -> Lines:
        """Return what was found for a reader."""
        found = self.extracted
        lines = [
            ("machine", f"{self.machine.states} states, {self.machine.symbols} symbols, read out by {found.method}"),
            ("faithful", f"{found.faithful}: {found.reason}"),
        ]
        if self.task is not None:
            same = "the same machine as" if self.equals_task else "another machine than"
            lines.append(("its task", f"{same} {shorten(self.task.name)}"))
        return lines if self.out is None else [*lines, ("out", str(self.out))]


def extract(run: RunLike, model: str | type | None = None, out: PathLike | None = None) -> Extraction:
    """Read the machine out of a network, without knowing its task.

    Args:
        run: the directory of a network, or STORE#KEY
        model: the class of a run of one's own, such as file.py:Class
        out: write the machine to this .json or .dot file
    """
    opened = load(run, model)
    with torch_threads(1):
        found = extract_from(opened)
    file = path_of(out)
    if file is not None:
        write_machine(found.machine, file)
    return Extraction(found.machine, found, _task_machine(opened), file)


@dataclass(frozen=True, eq=False)
class Snapped(Result):
    """A repaired network, and the verdict on it.

    Args:
        certification: of the repaired network.
        run: its directory.
        mode: how it was repaired.
        level: of the repaired network.
        hidden: its hidden size.
        how: the construction, in words.
        source: where the machine came from.
        task: the machine of the task, if it has one.
    """

    certification: Certification
    run: str | None
    mode: str
    level: str
    hidden: int
    how: str
    source: str
    task: Machine | None

    @property
    def failed(self) -> bool:
        """Whether the result is not proven."""
        return self.certification.status in ("refuted", "unknown")

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, and what was repaired."""
        target = self.certification.machine
        return self.certification.verdict_dict() | {
            "run": self.run,
            "mode": self.mode,
            "hidden": self.hidden,
            "states": target.states,
            "equals_task": None if self.task is None else target == self.task,
        }

    def lines(self) -> Lines:
        """Return what was repaired, and the verdict, for a reader."""
        target = self.certification.machine
        task = self.task
        same = "" if task is None else ", its task" if target == task else f", NOT its task, {shorten(task.name)}"
        lines = [
            ("machine", f"{target.states} states{same}; {self.source}"),
            ("network", f"{self.level}, hidden size {self.hidden}: {self.how}"),
            *self.certification.verdict_lines(),
        ]
        return lines if self.run is None else [*lines, ("run", self.run)]


def snap(
    run: RunLike,
    machine: MachineLike | None = None,
    model: str | type | None = None,
    mode: str = "exact",
    out: PathLike | None = None,
) -> Run:
    """Repair a trained network by its machine, and prove the result.

    Args:
        run: the directory of a trained network, or STORE#KEY
        machine: what it should be; else what it is
        model: the class of a run of one's own, such as file.py:Class
        mode: exact (one-hot states) or project (its own hidden space)
        out: the directory of the repaired network
    """
    if mode not in _MODES:
        raise RunError(f'mode is "{shorten(mode)}"; expected exact or project; correct it')
    target = None if machine is None else machine_of(machine)
    directory = path_of(out)
    if directory is not None:
        check_free(directory)
    opened = load(run, model)

    from statewise.theory import network_of, one_hot, snap_exact, snap_project
    from statewise.theory.certify import certify as decide

    with torch_threads(1):
        network = network_of_run(opened)
        if target is None:
            read = extract_from(opened)
            if read.agreement < LEAST_AGREEMENT:
                raise NetworkError(
                    f"the network is no machine that could be read out: {read.reason}; "
                    "train it further, or give --machine"
                )
            target, source = read.machine.replace(name=opened.source.name), f"read out of it: {read.reason}"
        else:
            target, source = aligned(opened, target), "as given"
        try:
            found = prototypes_of(opened, target)
            made = snap_exact(network, found) if mode == "exact" else snap_project(network, found)
        except NetworkError:
            if mode == "project":
                raise
            made = one_hot(minimise(target))
        verdict = decide(network_of(made.model), target, seconds=0.0)
    hidden = len(made.model.initial_state)
    where = None if directory is None else str(directory)
    summary = Snapped(
        Certification(verdict, target, where), where, mode, made.level, hidden, made.how, source, _task_machine(opened)
    )
    return made_run("snapped", made, target, summary, directory)


def extract_from(run: Run) -> "Extracted":
    """Read the machine out of a run's network, over the lengths that it was trained on."""
    from statewise.theory import extract as read_out

    names = (run.source.alphabet, run.source.output_names)
    return read_out(network_of_run(run), run.shortest, run.lengths.longest, 0, *names)


def prototypes_of(run: Run, machine: Machine) -> "Prototypes":
    """Find the hidden direction of each state of a machine, over the lengths that the network was trained on."""
    from statewise.theory import prototypes

    return prototypes(network_of_run(run), machine, run.shortest, run.lengths.longest)


def _task_machine(run: Run) -> Machine | None:
    """Return the machine that a run was to track, if there is one."""
    return run.source if isinstance(run.source, Machine) else None
