"""Verdicts as records have them: of finished runs whose options ask for one, and of networks about to be dropped."""

import time
from dataclasses import replace

from statewise.errors import NetworkError
from statewise.machines import Machine
from statewise.models import SequenceModel
from statewise.runs.directory import write_record
from statewise.runs.record import LARGEST, RecordedVerdict
from statewise.runs.run import Run
from statewise.tasks import BEYOND_SYMBOLS
from statewise.theory.certify.verdict import Verdict, certify
from statewise.theory.network import network_of


def recorded_verdict(run: Run, model: SequenceModel, work: int) -> RecordedVerdict | None:
    """Decide of a network whether it is the machine of a run; None without a machine, or of no product of matrices.

    Args:
        run: whose machine it should be.
        model: the network: that of the run, or one made from it.
        work: hidden-state updates that the search for a wrong sequence may take.
    """
    if run.supervision in BEYOND_SYMBOLS or not isinstance(run.source, Machine):
        return None
    began = time.perf_counter()
    try:
        found = certify(network_of(model), run.source, run.shortest, work=work)
    except NetworkError:
        # no product of matrices, or weights that are not finite
        return None
    return written_verdict(found, time.perf_counter() - began)


def written_verdict(found: Verdict, seconds: float = 0.0) -> RecordedVerdict:
    """Return what a record keeps of a verdict."""
    counter = found.counterexample
    length = found.horizon if counter is None else len(counter.word)
    return RecordedVerdict(
        status=found.status,
        length=_kept(length),
        horizon=_kept(found.horizon),
        method=found.method,
        seconds=round(seconds, 2),
    )


def certify_recorded(run: Run) -> Run:
    """Decide of a finished run whose options ask for it whether its network is its machine, and record the verdict.

    A run that has a verdict already is returned as it is.
    """
    options, record = run.options, run.record
    if options is None or record is None or not options.certify or record.verdict is not None:
        return run
    if record.status in ("diverged", "failed"):
        return run
    verdict = recorded_verdict(run, run.model, options.certify)
    if verdict is None:
        return run
    written = record.model_copy(update={"verdict": verdict})
    if run.path is not None:
        write_record(run.path, written)
    return replace(run, record=written)


def _kept(length: int | None) -> int | None:
    """Return a length; None beyond the whole numbers that records have."""
    return length if length is not None and length <= LARGEST else None
