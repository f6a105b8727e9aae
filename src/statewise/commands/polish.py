"""`statewise polish`: a trained network made exact to machine precision."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, check_least, path_of, torch_threads
from statewise.errors import NetworkError
from statewise.runs.directory import NetworkManifest, check_free, write_network
from statewise.runs.run import Run, RunLike, load
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    from statewise.theory.polished import Polished


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
        proven = "nothing is proven" if self.horizon is None else f"all sequences of up to {self.horizon:,} symbols"
        solved = f"{found.rounds} rounds over {found.sequences:,} sequences of 2 to 8 symbols, {self.seconds:.1f} s"
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
    out: PathLike | None = None,
    show: Callable[[str], None] | None = None,
) -> Run:
    """Reduce a trained network to the subspace that it tracks, and solve for its answers to machine precision.

    Args:
        run: the directory of a trained network
        rank: the hidden size to keep; else it is chosen (full and cp only)
        seconds: how long to solve
        seed: of the sequences that are solved for
        out: the directory of the polished network
        show: called with a line after each round
    """
    check_least("seconds", seconds, 0)
    check_least("seed", seed, 0)
    directory = path_of(out)
    if directory is not None:
        check_free(directory)
    opened = load(run)

    from statewise.models import StateTracker
    from statewise.theory import network_of
    from statewise.theory.certify import certify
    from statewise.theory.polish import polish_tracker

    if opened.supervision == "chain":
        raise NetworkError("the network was trained on chains of thought; polish one with supervision final or aligned")
    with torch_threads(1):
        model = opened.model
        # what is no product of matrices is refused with its reason
        network_of(model)
        assert isinstance(model, StateTracker)
        began = time.perf_counter()

        def see(number: int, residual: float) -> None:
            if show is not None:
                show(f"round {number}: residual {residual:.1e}, {time.perf_counter() - began:.1f} s")

        found = polish_tracker(model, opened.task, seed, rank, seconds, see)
        took = round(time.perf_counter() - began, 2)
        verdict = certify(network_of(found.model), opened.machine, opened.shortest, seconds=0.0)
    where = None if directory is None else str(directory)
    summary = PolishedNetwork(found, verdict.horizon, took, where)
    manifest = NetworkManifest(
        origin="polished", model=found.level, hidden=found.rank, how=found.reason, facts=summary.to_dict()
    )
    if directory is not None:
        write_network(directory, found.model, opened.machine, manifest)
    return Run(opened.machine, directory, manifest=manifest, summary=summary, held=found.model)
