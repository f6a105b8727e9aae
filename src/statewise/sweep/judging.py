"""Verdicts on networks whose weights a store does not keep: they are judged before they are dropped."""

from typing import TYPE_CHECKING

from statewise.errors import NetworkError
from statewise.machines import Machine
from statewise.runs.record import Record, RecordedVerdict
from statewise.tasks import BEYOND_SYMBOLS

if TYPE_CHECKING:
    from statewise.runs.run import Run

# hidden-state updates that the search for a wrong word may take
WORK = 100_000


def judged(record: Record, run: "Run") -> Record:
    """Return the record with a verdict on its network; without one where there is no machine, or no such network."""
    options, machine = record.config, run.source
    if record.status == "diverged" or options.supervision in BEYOND_SYMBOLS or not isinstance(machine, Machine):
        return record

    from statewise.theory import network_of
    from statewise.theory.certify import certify

    try:
        found = certify(network_of(run.model), machine, options.shortest, work=WORK)
    except NetworkError:
        # no product of matrices, or weights that are not finite
        return record
    counter = found.counterexample
    length = found.horizon if counter is None else len(counter.word)
    return record.model_copy(update={"verdict": RecordedVerdict(status=found.status, length=length)})
