"""`statewise polish`: a trained network made exact to machine precision."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, check_least, path_of, torch_threads
from statewise.errors import NetworkError, shorten
from statewise.runs.directory import NetworkManifest, check_free, write_network
from statewise.runs.run import Run, RunLike, load
from statewise.wording import Lines, Result, counted

if TYPE_CHECKING:
    from statewise.theory.polish import LabelledSource, Polished


@dataclass(frozen=True, eq=False)
class PolishedNetwork(Result):
    """A polished network, and up to which length it is proven.

    Args:
        polished: the network, and how far the solver came.
        horizon: all sequences of up to so many symbols are right (proven); None if nothing is proven.
        seconds: how long polishing took.
        run: the directory of the network.
    """

    polished: "Polished"
    horizon: int | None
    seconds: float
    run: str | None

    @property
    def failed(self) -> bool:
        """Whether the residual did not vanish."""
        return self.polished.outcome != "converged"

    def to_dict(self) -> dict[str, Any]:
        """Return what was reached."""
        found = self.polished
        return {
            "status": found.outcome,
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
            ("proven", proven),
        ]
        return lines if self.run is None else [*lines, ("run", self.run)]


def polish(
    run: RunLike,
    rank: int | None = None,
    seconds: float = 120.0,
    seed: int = 0,
    data: PathLike | None = None,
    out: PathLike | None = None,
    show: Callable[[str], None] | None = None,
) -> Run:
    """Reduce a trained network to what it tracks, and solve for its answers to machine precision.

    Args:
        run: the directory of a trained network
        rank: the hidden size to keep; else it is chosen (full and cp only)
        seconds: how long to solve
        seed: of the sequences that are solved for
        data: solve for these labelled sequences (.jsonl or .csv) instead of ones drawn from the task
        out: the directory of the polished network
        show: called with a line after each round
    """
    check_least("seconds", seconds, 0)
    check_least("seed", seed, 0)
    directory, file = path_of(out), path_of(data)
    if directory is not None:
        check_free(directory)
    opened = load(run)

    from statewise.theory.polish.recording import polish_network

    with torch_threads(1):
        source = None if file is None else _own_sequences(file, opened)
        began = time.perf_counter()

        def see(number: int, residual: float) -> None:
            if show is not None:
                show(f"round {number}: residual {residual:.1e}, {time.perf_counter() - began:.1f} s")

        found, horizon = polish_network(opened, source, seed, rank, seconds, see)
        took = round(time.perf_counter() - began, 2)
    where = None if directory is None else str(directory)
    summary = PolishedNetwork(found, horizon, took, where)
    manifest = NetworkManifest(
        origin="polished", model=found.level, hidden=found.rank, how=found.reason, facts=summary.to_dict()
    )
    if directory is not None:
        write_network(directory, found.model, opened.source, manifest)
    return Run(opened.source, directory, manifest=manifest, summary=summary, held=found.model)


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
