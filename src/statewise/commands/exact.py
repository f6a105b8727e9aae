"""`statewise certify`, `extract` and `snap`: what a network provably is, and how it is repaired."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of, path_of, torch_threads
from statewise.commands.made import made_run
from statewise.errors import NetworkError, RunError, shorten
from statewise.files import write_whole
from statewise.machines import Machine, align, minimise, write_machine
from statewise.runs.directory import check_free
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.tasks import BEYOND_SYMBOLS
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.theory import Extracted, Network, Prototypes
    from statewise.theory.certify import Counterexample, Verdict

_LONGEST_SHOWN = 200
# below this share of equal answers, what was read out is not what the network is
_LEAST_AGREEMENT = 0.9
_MODES = ("exact", "project")


@dataclass(frozen=True, eq=False)
class Certification(Result):
    """A verdict on a network and a machine, in the machine's own names.

    Args:
        verdict: what was decided, and how.
        machine: what the network was compared with.
        run: the directory of the network; None for one in memory.
        out: the file that the verdict was written to.
    """

    verdict: "Verdict"
    machine: Machine
    run: str | None = None
    out: Path | None = None

    @property
    def status(self) -> Literal["proven", "refuted", "horizon", "unknown"]:
        """Proven on all words, refuted by one, right up to a horizon, or unknown."""
        return self.verdict.status

    @property
    def horizon(self) -> int | None:
        """All words of up to so many symbols are right; None if that is not known, or if all are."""
        return self.verdict.horizon

    @property
    def counterexample(self) -> "Counterexample | None":
        """A word on which network and machine differ, replayed exactly."""
        return self.verdict.counterexample

    @property
    def failed(self) -> bool:
        """Whether the network is refuted."""
        return self.status == "refuted"

    def verdict_dict(self) -> dict[str, Any]:
        """Return the verdict alone, the counterexample in a form that can be replayed."""
        verdict, found = self.verdict, self.verdict.counterexample
        shown = None
        if found is not None:
            word = found.word
            shown = {
                "word": self._named(word.symbols()) if len(word) <= 100_000 else None,
                "prefix": self._named(word.prefix),
                "loop": self._named(word.loop),
                "times": word.times,
                "suffix": self._named(word.suffix),
                "length": len(word),
                "right": self._class_name(found.replayed.right),
                "given": self._class_name(found.replayed.given),
                "arithmetic": found.replayed.arithmetic,
            }
        return {
            "status": verdict.status,
            "method": verdict.method,
            "horizon": verdict.horizon,
            "counterexample": shown,
            "reason": verdict.reason,
            "shortest": verdict.shortest,
            "judged": "sequences of the task" if verdict.restricted else "all words",
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, and what it is about."""
        whole = self.verdict_dict() | {"run": self.run, "machine": self.machine.name}
        return whole if self.out is None else whole | {"out": str(self.out)}

    def lines(self) -> Lines:
        """Return the verdict for a reader."""
        lines = self.verdict_lines()
        return lines if self.out is None else [*lines, ("out", str(self.out))]

    def verdict_lines(self) -> Lines:
        """Return the verdict alone for a reader."""
        verdict, found = self.verdict, self.verdict.counterexample
        every = "all sequences of the task" if verdict.restricted else "all words"
        from_length = f"{every} of at least {verdict.shortest} symbols" if verdict.shortest else every
        if verdict.status == "proven":
            return [("proven", f"equal on {from_length} ({verdict.method}: {verdict.reason})")]
        lines: Lines = []
        if found is not None:
            word = shorten(found.word.written(self.machine), _LONGEST_SHOWN) or "the empty word"
            right, given = (self._class_name(c) for c in (found.replayed.right, found.replayed.given))
            lines = [
                ("refuted", f"{word} ({len(found.word):,} symbols)"),
                ("answers", f"machine {shorten(right)}, network {shorten(given)}; {verdict.reason}"),
            ]
        elif verdict.status == "unknown":
            lines = [("unknown", verdict.reason)]
        if verdict.horizon is not None:
            judged = f"{verdict.shortest} to {verdict.horizon:,} symbols"
            lines.append(("horizon", f"{every} of {judged} are right (proven)"))
            if found is None:
                lines.append(("beyond", verdict.reason))
        return lines

    def _named(self, word: tuple[int, ...]) -> list[str]:
        return [self.machine.alphabet[a] for a in word]

    def _class_name(self, output: int) -> str:
        """Name a class; a readout may have more of them than the machine."""
        return self.machine.output_names[output] if output < self.machine.classes else f"class {output}"


def certify(
    run: RunLike,
    machine: MachineLike | None = None,
    model: str | type | None = None,
    shortest: int | None = None,
    seconds: float = 20.0,
    work: int | None = None,
    all_words: bool = False,
    out: PathLike | None = None,
) -> Certification:
    """Prove that a network equals a machine on all words, or find a word on which it does not.

    Args:
        run: the directory of a network, or STORE#KEY
        machine: what it should be; else its own task
        model: the class of a run of one's own, such as file.py:Class
        shortest: judge words of at least so many symbols
        seconds: how long to search for a wrong word
        work: search for so many hidden-state updates instead, whatever the clock says
        all_words: judge sequences too that the task never draws: those that lead to an output named "error"
        out: write the verdict to this file
    """
    for name, value in (("seconds", seconds), ("shortest", shortest or 0), ("work", work or 0)):
        check_least(name, value, 0)
    target = None if machine is None else machine_of(machine)
    opened = load(run, model)

    from statewise.theory.certify import certify as decide

    with torch_threads(1):
        network = network_of_run(opened)
        target = _aligned(opened, target)
        least = opened.shortest if shortest is None else shortest
        # what was trained has seen sequences of its task only; what was written from a machine has them all
        origin = "trained" if opened.manifest is None else opened.manifest.origin
        every = all_words or origin not in ("trained", "polished")
        verdict = decide(network, target, least, seconds, work=work, all_words=every)
    found = Certification(verdict, target, opened.where)
    file = path_of(out)
    if file is None:
        return found

    import json

    write_whole(file, json.dumps(found.to_dict(), indent=1) + "\n")
    return replace(found, out=file)


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
    def faithful(self) -> bool:
        """Whether network and machine are proven equal, or agree on every word that was asked."""
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
            ("faithful", f"{'yes' if found.faithful else 'no'}: {found.reason}"),
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
            if read.agreement < _LEAST_AGREEMENT:
                raise NetworkError(
                    f"the network is no machine that could be read out: {read.reason}; "
                    "train it further, or give --machine"
                )
            target, source = read.machine.replace(name=opened.source.name), f"read out of it: {read.reason}"
        else:
            target, source = _aligned(opened, target), "as given"
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


def network_of_run(run: Run) -> "Network":
    """Return the network of a run as numbers, for proofs and repairs."""
    from statewise.theory import network_of

    if run.supervision in BEYOND_SYMBOLS:
        reads = {
            "chain": "was trained on chains of thought and reads its own outputs",
            "closed": "was trained with one more token that ends each sequence",
        }
        raise NetworkError(
            f"the network {reads[run.supervision]}, so its answer is no function of the machine's symbols alone; "
            "train it with supervision final or aligned"
        )
    return network_of(run.model)


def extract_from(run: Run) -> "Extracted":
    """Read the machine out of a run's network, over the lengths that it was trained on."""
    from statewise.theory import extract as read_out

    names = (run.source.alphabet, run.source.output_names)
    return read_out(network_of_run(run), run.shortest, run.lengths.longest, 0, *names)


def prototypes_of(run: Run, machine: Machine) -> "Prototypes":
    """Find the hidden direction of each state of a machine, over the lengths that the network was trained on."""
    from statewise.theory import prototypes

    return prototypes(network_of_run(run), machine, run.shortest, run.lengths.longest)


def _aligned(run: Run, target: Machine | None) -> Machine:
    """Return the machine to judge by, its symbols and outputs numbered as the network numbers them."""
    return run.machine if target is None else align(target, run.source.alphabet, run.source.output_names)


def _task_machine(run: Run) -> Machine | None:
    """Return the machine that a run was to track, if there is one."""
    return run.source if isinstance(run.source, Machine) else None
