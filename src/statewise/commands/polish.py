"""`statewise polish`: a trained network made exact to machine precision."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, check_least, path_of, torch_threads
from statewise.errors import NetworkError, shorten
from statewise.runs.directory import check_free, write_network
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.wording import Lines, Result, counted

if TYPE_CHECKING:
    from statewise.theory.certify import Verdict
    from statewise.theory.polish import LabelledSource, Outcome, Polished
    from statewise.theory.polish.exact import Exact, ExactOutcome


@dataclass(frozen=True, eq=False)
class PolishedNetwork(Result):
    """A polished network, and up to which length it is proven.

    Args:
        polished: the network, and how far the solver came.
        horizon: all sequences of up to so many symbols are right (proven); None if nothing is proven.
        seconds: how long polishing took.
        run: the directory of the network.
        exact: what it became in whole numbers, where that was asked for.
        task: the verdict on the exact network and the machine of its task, if there are both.
    """

    polished: "Polished"
    horizon: int | None
    seconds: float
    run: str | None
    exact: "Exact | None" = None
    task: "Verdict | None" = None

    @property
    def status(self) -> "Outcome | ExactOutcome":
        """How far the solver came; and, where whole numbers were asked for, what they are."""
        return self.polished.outcome if self.exact is None or self._unsolved else self.exact.outcome

    @property
    def failed(self) -> bool:
        """Whether the residual did not vanish, or what was asked for is not exact, or not the task."""
        if self.exact is None or self._unsolved:
            return self._unsolved
        return self.exact.outcome != "exact" or (self.task is not None and self.task.status != "proven")

    @property
    def _unsolved(self) -> bool:
        return self.polished.outcome != "converged"

    def to_dict(self) -> dict[str, Any]:
        """Return what was reached."""
        found, made = self.polished, self.exact
        reached = {
            "status": self.status,
            "objective": found.objective,
            "rank": found.rank,
            "reason": found.reason,
            "residual": found.residual,
            "horizon": self.horizon,
            "level": found.level,
            "rounds": found.rounds,
            "sequences": found.sequences,
            "seconds": self.seconds,
            "run": self.run,
        }
        if made is None:
            return reached
        written = {
            "status": made.outcome,
            "reason": made.reason,
            "level": made.level or None,
            "level_kept": made.kept,
            "hidden": None if made.model is None else len(made.model.initial_state),
            "largest": made.largest,
            "states": made.states,
            "method": made.method or None,
            "distance": made.distance,
            "task": None if self.task is None else self.task.status,
        }
        return reached | {"exact": written}

    def lines(self) -> Lines:
        """Return what was reached for a reader."""
        found = self.polished
        proven = (
            "nothing is proven"
            if self.horizon is None
            else f"all sequences of the task of up to {self.horizon:,} symbols"
        )
        solved = f"{counted(found.rounds, 'round')} over {found.sequences:,} short sequences, {self.seconds:.1f} s"
        lines = [
            ("polished", f"{found.outcome}: residual {found.residual:.1e} ({found.objective}; {solved})"),
            ("network", f"{found.level}, hidden size {found.rank}: {found.reason}"),
            *([("proven", proven)] if self.exact is None or self.exact.model is None else []),
            *self._exact_lines(),
        ]
        return lines if self.run is None else [*lines, ("run", self.run)]

    def _exact_lines(self) -> Lines:
        made = self.exact
        if made is None or self._unsolved:
            return []
        if made.model is None:
            return [("exact", f"{made.outcome}: {made.reason}")]
        instead = "" if made.kept else f" instead of {self.polished.level}"
        hidden, moves = len(made.model.initial_state), "all words" if made.complete else "all sequences that were drawn"
        lines = [
            ("exact", f"{made.level}{instead}, hidden size {hidden}, whole numbers of up to {made.largest:,}"),
            ("how" if made.kept else "why", made.reason),
            (
                "machine",
                f"{counted(made.states or 0, 'state')}, read out of it: equal on {moves} (proven, {made.method})",
            ),
        ]
        return lines if self.task is None else [*lines, ("task", _compared(self.task))]


def _compared(verdict: "Verdict") -> str:
    """Say whether the exact network is its task."""
    every = "all sequences of the task" if verdict.restricted else "all words"
    if verdict.status == "proven":
        return f"the same: equal on {every} (proven)"
    found = verdict.counterexample
    return "NOT proven equal" if found is None else f"NOT the same: they differ on {counted(len(found.word), 'symbol')}"


def polish(
    run: RunLike,
    rank: int | None = None,
    seconds: float = 120.0,
    seed: int = 0,
    data: PathLike | None = None,
    exact: bool = False,
    out: PathLike | None = None,
    model: str | type | None = None,
    show: Callable[[str], None] | None = None,
) -> Run:
    """Reduce a trained network to what it tracks, and solve for its answers to machine precision.

    Args:
        run: the directory of a trained network, or STORE#KEY
        rank: the hidden size to keep; else it is chosen (full and cp only)
        seconds: how long to solve
        seed: of the sequences that are solved for
        data: solve for these labelled sequences (.jsonl or .csv) instead of ones drawn from the task
        exact: write the result in whole numbers, and prove it equal to a machine at every length
        out: the directory of the polished network
        model: the class of a run of one's own, such as file.py:Class
        show: called with a line after each round
    """
    check_least("seconds", seconds, 0)
    check_least("seed", seed, 0)
    directory, file = path_of(out), path_of(data)
    if directory is not None:
        check_free(directory)
    opened = load(run, model)

    from statewise.theory.polish.recording import exact_network, polish_network, polished_manifest

    with torch_threads(1):
        source = None if file is None else _own_sequences(file, opened)
        began = time.perf_counter()

        def see(number: int, residual: float) -> None:
            if show is not None:
                show(f"round {number}: residual {residual:.1e}, {time.perf_counter() - began:.1f} s")

        found, horizon = polish_network(opened, source, seed, rank, seconds, see)
        made, task = exact_network(opened, found, source, seed) if exact else (None, None)
        took = round(time.perf_counter() - began, 2)
    where = None if directory is None else str(directory)
    summary = PolishedNetwork(found, horizon, took, where, made, task)
    manifest = polished_manifest(opened, found, summary.to_dict(), made)
    network = found.model if made is None or made.model is None else made.model
    if directory is not None:
        write_network(directory, network, opened.source, manifest)
    return Run(opened.source, directory, manifest=manifest, summary=summary, held=network)


def _own_sequences(file: Path, run: Run) -> "LabelledSource":
    """Read labelled sequences, in the symbols and outputs of a run."""
    from statewise.theory import read_words
    from statewise.theory.polish import OwnSequences

    read, source = read_words(file), run.source
    for kind, names, known in (
        ("symbol", read.alphabet, source.alphabet),
        ("label", read.output_names, source.output_names),
    ):
        strange = [name for name in names if name not in known]
        if strange:
            raise NetworkError(
                f'{shorten(file.name)} has the {kind} "{shorten(strange[0])}", which the network does not; '
                f"expected {shorten(', '.join(known), 80)}"
            )
    symbols = [source.alphabet.index(name) for name in read.alphabet]
    labels = [source.output_names.index(name) for name in read.output_names]
    words = [tuple(symbols[a] for a in word) for word in read.words]
    return OwnSequences(words, [labels[c] for c in read.counts.argmax(axis=1).tolist()], source.classes)
