"""`statewise check`: verify a certificate again, with code that shares nothing with the search."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.commands.inputs import PathLike
from statewise.errors import CertificateError, StatewiseError, UnreadableError, shorten
from statewise.machines import Machine
from statewise.reading import read_bytes
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.tasks import legal_moves
from statewise.wording import Lines, Result


@dataclass(frozen=True)
class Check(Result):
    """Whether a certificate proves its statement of a run.

    Args:
        valid: whether it does.
        cert: the file.
        run: the directory of the run; None for one in memory.
        statement: what is proven, in words; None if nothing is.
        reason: why the certificate was rejected; None if it was not.
        judged: "all words", or the "sequences of the task", or "other sequences".
        task: whether the machine is the run's own; None if the run has none.
    """

    valid: bool
    cert: str
    run: str | None
    statement: str | None = None
    reason: str | None = None
    judged: str | None = None
    task: bool | None = None

    @property
    def failed(self) -> bool:
        """Whether the certificate was rejected."""
        return not self.valid

    def to_dict(self) -> dict[str, Any]:
        """Return whether it is valid, what it proves, and why not."""
        return {
            "valid": self.valid,
            "statement": self.statement,
            "reason": self.reason,
            "judged": self.judged,
            "task": self.task,
            "certificate": self.cert,
            "run": self.run,
        }

    def lines(self) -> Lines:
        """Return the same for a reader."""
        if not self.valid:
            return [("invalid", str(self.reason))]
        whose = {True: "that of the run", False: "another than that of the run", None: "the run has none"}[self.task]
        return [("valid", str(self.statement)), ("judged", str(self.judged)), ("machine", whose)]


def check(cert: PathLike, run: RunLike) -> Check:
    """Verify a certificate again, for the weights of a run, with code that shares nothing with the search.

    Args:
        cert: the file that certify wrote
        run: the directory of a network, or STORE#KEY
    """
    from statewise.theory import checker

    file = Path(cert)
    opened = load(run)
    try:
        text = read_bytes(file, checker.MAX_BYTES)
    except UnreadableError as error:
        raise CertificateError(
            f'cannot read "{shorten(file)}": {error}; give the path of a file that certify --out wrote'
        ) from None

    from statewise.runs.weights import weights_file

    where = opened.where
    try:
        statement = checker.check(text, weights_file(opened), json.dumps({"model": opened.name}).encode())
    except checker.InvalidError as error:
        return Check(False, str(file), where, reason=str(error))
    except StatewiseError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "it nests too deep" if isinstance(error, RecursionError) else shorten(error)
        raise CertificateError(
            f'"{shorten(file)}" is no certificate ({reason}); give a file that certify --out wrote'
        ) from None
    held = json.loads(text)
    reason = _misnamed(held, opened)
    if reason is not None:
        return Check(False, str(file), where, reason=reason)
    given, legal = held["machine"], held["language"]["legal"]
    machine = Machine(given["delta"], given["start"], given["outputs"], given["alphabet"], given["output_names"])
    drawn = legal_moves(machine).tolist()
    judged = "all words" if all(map(all, legal)) else "sequences of the task" if legal == drawn else "other sequences"
    own = machine == opened.source if isinstance(opened.source, Machine) else None
    return Check(True, str(file), where, statement, judged=judged, task=own)


def _misnamed(held: dict[str, Any], run: Run) -> str | None:
    """Return what a certificate calls otherwise than the run does: the checker goes by numbers, not by names."""
    from statewise.theory.certify.witness import READING

    for key, names in (("alphabet", run.source.alphabet), ("output_names", run.source.output_names)):
        if held["machine"].get(key) != list(names):
            return f"the {key} of its machine is not that of the run"
    return None if held.get("matrices") == READING[held["level"]] else "it says wrongly how matrices are read"
