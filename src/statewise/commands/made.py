"""Networks that were made, not trained: the run that a command returns for them, kept in a directory or in memory."""

from pathlib import Path
from typing import TYPE_CHECKING

from statewise.machines import Machine
from statewise.runs.directory import NetworkManifest, Origin, write_network
from statewise.runs.run import Run
from statewise.wording import Result

if TYPE_CHECKING:
    from statewise.theory import Compiled


def made_run(origin: Origin, network: "Compiled", machine: Machine, summary: Result, directory: Path | None) -> Run:
    """Return the run of a network that was made, written to its directory if there is one.

    Args:
        origin: what made it.
        network: the network and its construction.
        machine: what it tracks.
        summary: what the command reports.
        directory: where it is kept; None keeps it in memory.
    """
    manifest = NetworkManifest(
        origin=origin,
        model=network.level,
        hidden=len(network.model.initial_state),
        readout=network.model.readout_kind,
        how=network.how,
        facts=summary.to_dict(),
    )
    if directory is not None:
        write_network(directory, network.model, machine, manifest)
    return Run(machine, directory, manifest=manifest, summary=summary, held=network.model)
