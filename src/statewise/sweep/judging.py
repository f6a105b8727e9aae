"""Verdicts on networks whose weights a store does not keep: they are judged before they are dropped."""

from typing import TYPE_CHECKING

from statewise.runs.record import Record

if TYPE_CHECKING:
    from statewise.runs.run import Run

# hidden-state updates that the search for a wrong word may take
WORK = 100_000


def judged(record: Record, run: "Run") -> Record:
    """Return the record with a verdict on its network; without one where there is no machine, or no such network."""
    if record.status == "diverged" or record.verdict is not None:
        return record

    from statewise.theory.certify.recording import recorded_verdict

    verdict = recorded_verdict(run, run.model, WORK)
    return record if verdict is None else record.model_copy(update={"verdict": verdict})
