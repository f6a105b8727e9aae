"""The machine that stands for a network: proven equal to it, read out of it, or that of its task."""

from dataclasses import dataclass

from statewise.commands.certify import certify
from statewise.commands.extract import LEAST_AGREEMENT, extract_from
from statewise.errors import NetworkError
from statewise.machines import Machine
from statewise.runs.run import Run


@dataclass(frozen=True, eq=False)
class TrackedMachine:
    """A machine in place of a network.

    Args:
        machine: its symbols and outputs are numbered as the network numbers them.
        proven: whether it is proven equal to the network.
        says: on what it rests, in words.
    """

    machine: Machine
    proven: bool
    says: str


def tracked_machine(run: Run) -> TrackedMachine:
    """Return the machine that stands for a network.

    That of its task, where the two are proven equal; else what is read out of it. Of a network whose state is no
    product of matrices nothing is read out, and its task stands for it.
    """
    from statewise.models import StateTracker
    from statewise.transitions import LinearTransition

    known = run.source if isinstance(run.source, Machine) else None
    model = run.model
    if not (isinstance(model, StateTracker) and isinstance(model.transition, LinearTransition)):
        if known is None:
            raise NetworkError(
                f"{run.name} is no product of matrices, so nothing can be read out of it, and its task has no machine; "
                'learn one from its sequences with "statewise learn"'
            )
        return TrackedMachine(known, False, f"the machine of its task; nothing can be read out of {run.name} itself")
    if known is not None:
        found = certify(run, seconds=0.0)
        if found.status == "proven":
            ((_, equal),) = found.verdict_lines()
            return TrackedMachine(known, True, f"the machine of its task, proven {equal}")
    read = extract_from(run)
    if read.agreement < LEAST_AGREEMENT:
        raise NetworkError(f"the network is no machine that could be read out: {read.reason}; train it further")
    if known is not None and read.machine == known:
        return TrackedMachine(
            known, False, f"the machine of its task, as it was read out of the network: {read.reason}"
        )
    named = read.machine.replace(name=f"read out of {run.name} on {run.source.name}")
    return TrackedMachine(named, False, f"read out of the network: {read.reason}")
