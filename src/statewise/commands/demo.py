"""`statewise demo`: from training on ten symbols to a proof for all lengths."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.commands.certify import Certification, certify
from statewise.commands.extract import Extraction, Snapped, extract, snap
from statewise.commands.inputs import PathLike, device_of, path_of, torch_threads
from statewise.commands.polish import PolishedNetwork, polish
from statewise.commands.train import ShowMetrics
from statewise.files import temporary_folder
from statewise.interruption import Interrupted
from statewise.runs.run import Run
from statewise.wording import Lines, Result

_TASK, _MODEL, _STEPS, _SEED = "modular_addition(5)", "full", 2_000, 0
_WORDS, _LENGTHS = 200, (10, 500, 10_000)
# hidden-state updates of the search for a wrong word: the audit is the same on any machine
_AUDIT_WORK = 20_000_000
# polish takes a fraction of a second; its rounds bound the work
_MOST_SECONDS = 600.0


@dataclass(frozen=True, eq=False)
class Demonstration(Result):
    """A network trained, refuted, polished, read out, repaired and proven.

    Args:
        run: the trained network.
        audit: the verdict on the trained weights.
        polished: the same network, solved to machine precision.
        extraction: the machine that was read out of them.
        snapped: the repaired network, and the proof of it.
        kept: whether the networks were kept.
        report: the page about them.
        seconds: how long all of it took.
    """

    run: Run
    audit: Certification
    polished: PolishedNetwork
    extraction: Extraction
    snapped: Snapped
    kept: bool
    report: Path | None
    seconds: float

    @property
    def scores(self) -> dict[int, float]:
        """The trained network's score by length."""
        assert self.run.record is not None
        return {score.length: score.score for score in self.run.record.scores}

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, the audit and the certificate."""
        assert self.run.options is not None
        return {
            "task": _TASK,
            "model": _MODEL,
            "hidden": self.run.options.hidden,
            "scores": {str(length): score for length, score in self.scores.items()},
            "score_ood": self.scores[500],
            "audit": self.audit.verdict_dict(),
            "polished": self.polished.to_dict() | {"run": None},
            "extracted_states": self.extraction.machine.states,
            "extracted_is_task": self.extraction.equals_task,
            "certificate": self.snapped.certification.verdict_dict(),
            "report": None if self.report is None else str(self.report),
            "run": str(self.run.path) if self.kept else None,
            "snapped": str(self.run.path.with_name("snapped")) if self.kept and self.run.path is not None else None,
            "seconds": self.seconds,
        }

    def lines(self) -> Lines:
        """Return all steps for a reader."""
        assert self.run.options is not None
        by_length = ", ".join(f"{score:.2f} at {length:,}" for length, score in self.scores.items())
        found, same = self.extraction, "the task itself" if self.extraction.equals_task else "not the task"
        lines = [
            ("machine", f"{_TASK}: the sum of symbols mod 5, answered after the last symbol"),
            ("network", f"h_t = A(x_t) h_(t-1), full bilinear, hidden size {self.run.options.hidden}"),
            ("trained", f"{_STEPS:,} steps on sequences of 2 to 10 symbols"),
            ("scores", f"{by_length} symbols (0 is chance, 1 is perfect)"),
            ("", "is it the machine, then? the audit of the trained weights:"),
            *self.audit.verdict_lines(),
            ("", "the same network, reduced to what it tracks and solved to machine precision, without its machine:"),
            *self.polished.lines()[:3],
            ("", "its machine, read out without knowing the task, and put back into the weights:"),
            ("extracted", f"{found.machine.states} states, {same}: {found.extracted.reason}"),
            ("snapped", f"hidden size {self.snapped.hidden}: {self.snapped.how}"),
            *self.snapped.certification.verdict_lines(),
        ]
        lines += [] if self.report is None else [("report", str(self.report))]
        return [*lines, ("seconds", f"{self.seconds}")]


def demo(out: PathLike | None = None, device: str = "cpu", show: ShowMetrics | None = None) -> Demonstration:
    """Train a network on ten symbols, find where it fails, polish it, read its machine out, repair it, and prove it.

    Args:
        out: keep the networks, and a page about them, here
        device: where to train: cpu, cuda, mps or auto
        show: called after each evaluation with what was measured, the number of steps, and the lengths of the scores
    """
    folder, where = path_of(out), device_of(device)
    if folder is not None:
        from statewise.report.figure import pyplot_for_files

        # for the page
        pyplot_for_files()
        return _demonstrate(folder, True, where, show)
    with temporary_folder() as aside:
        try:
            return _demonstrate(aside, False, where, show)
        except KeyboardInterrupt as stop:
            raise Interrupted.of(stop, "nothing is kept without --out; the same command begins anew") from None


def _demonstrate(folder: Path, kept: bool, device: str, show: ShowMetrics | None) -> Demonstration:
    from statewise.runs.execution import PlannedRun, execute_one
    from statewise.training.options import resolve

    began = time.perf_counter()
    given = {"task": _TASK, "model": _MODEL, "steps": _STEPS, "seed": _SEED}
    options = resolve(given | {"test_lengths": _LENGTHS, "words": _WORDS})
    with torch_threads(1):
        plan = PlannedRun(options, folder / "run", device=device)
        see = show or (lambda *_: None)
        run = execute_one(plan, lambda member, metrics, steps: see(metrics, steps, options.probe))
    audit = certify(run, work=_AUDIT_WORK)
    fine = polish(run, seconds=_MOST_SECONDS, out=None if (folder / "polished").exists() else folder / "polished")
    assert isinstance(fine.summary, PolishedNetwork)
    extraction = extract(run)
    # a demonstration that is shown again keeps the network that it has
    there = (folder / "snapped").exists()
    exact = snap(run, out=None if there else folder / "snapped")
    assert isinstance(exact.summary, Snapped)
    report = _report(folder) if kept else None
    seconds = round(time.perf_counter() - began, 1)
    return Demonstration(run, audit, fine.summary, extraction, exact.summary, kept, report, seconds)


def _report(folder: Path) -> Path:
    """Write the page of a store that holds the trained run alone."""
    from statewise.report.page import write_page
    from statewise.store import Store, read_run, small_weights

    record, weights = read_run(folder / "run"), small_weights(folder / "run")
    assert record.key is not None
    with Store.open(folder / "store", write=True) as store:
        store.add([record], {} if weights is None else {record.key: weights})
        write_page(store, folder / "report.html", "quick")
    return folder / "report.html"
