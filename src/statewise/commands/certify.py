"""`statewise certify`: does a network answer as a machine does, on every word?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from statewise.commands.inputs import MachineLike, PathLike, check_least, machine_of, path_of, torch_threads
from statewise.errors import CertificateError, NetworkError, shorten
from statewise.files import write_bytes_whole, write_whole
from statewise.machines import Machine, align, minimise
from statewise.runs.run import Run, RunLike
from statewise.store.stored_runs import load
from statewise.tasks import BEYOND_SYMBOLS, legal_moves
from statewise.wording import Lines, Result

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Float

    from statewise.theory import Network
    from statewise.theory.certify import Counterexample, Verdict

_LONGEST_SHOWN = 200


@dataclass(frozen=True, eq=False)
class Certification(Result):
    """A verdict on a network and a machine, in the machine's own names.

    Args:
        verdict: what was decided, and how.
        machine: what the network was compared with.
        run: the directory of the network; None for one in memory.
        out: the file that the certificate was written to.
        statement: what the certificate proves, in words.
        no_certificate: why none was written, where one was asked for.
        coq: the file that it was written to as a theorem.
        smt: the file of a short horizon in SMT-LIB.
    """

    verdict: "Verdict"
    machine: Machine
    run: str | None = None
    out: Path | None = None
    statement: str | None = None
    no_certificate: str | None = None
    coq: Path | None = None
    smt: Path | None = None

    @property
    def status(self) -> Literal["proven", "refuted", "horizon", "unknown"]:
        """Proven on all words, refuted by one, right up to a horizon, or unknown."""
        return self.verdict.status

    @property
    def horizon(self) -> int | None:
        """All words of up to so many symbols are right; None if that is not known, or if all are."""
        return self.verdict.horizon

    @property
    def counterexample(self) -> "Counterexample | None":
        """A word on which network and machine differ, replayed exactly."""
        return self.verdict.counterexample

    @property
    def failed(self) -> bool:
        """Whether the network is refuted, or a certificate was asked for and could not be written."""
        return self.status == "refuted" or self.no_certificate is not None

    def verdict_dict(self) -> dict[str, Any]:
        """Return the verdict alone, the counterexample in a form that can be replayed."""
        verdict, found = self.verdict, self.verdict.counterexample
        shown = None
        if found is not None:
            word = found.word
            shown = {
                "word": self._named(word.symbols()) if len(word) <= 100_000 else None,
                "prefix": self._named(word.prefix),
                "loop": self._named(word.loop),
                "times": word.times,
                "suffix": self._named(word.suffix),
                "length": len(word),
                "right": self._class_name(found.replayed.right),
                "given": self._class_name(found.replayed.given),
                "arithmetic": found.replayed.arithmetic,
            }
        return {
            "status": verdict.status,
            "method": verdict.method,
            "horizon": verdict.horizon,
            "counterexample": shown,
            "reason": verdict.reason,
            "shortest": verdict.shortest,
            "judged": "sequences of the task" if verdict.restricted else "all words",
            "numbers": verdict.numbers,
            "reembed": None if verdict.reembedding is None else verdict.reembedding.period,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, and what it is about."""
        whole = self.verdict_dict() | {"run": self.run, "machine": self.machine.name}
        if self.no_certificate is not None:
            whole |= {"out": None, "no_certificate": self.no_certificate}
        if self.out is not None:
            whole |= {"statement": self.statement}
        return whole | {name: str(file) for name, file in self._files()}

    def lines(self) -> Lines:
        """Return the verdict for a reader."""
        lines = self.verdict_lines()
        if self.no_certificate is not None:
            lines.append(("certificate", f"none: {self.no_certificate}"))
        if self.out is not None:
            lines.append(("certificate", f"{self.out}: {self.statement}"))
        return [*lines, *((name, str(file)) for name, file in self._files() if name != "out")]

    def _files(self) -> list[tuple[str, Path]]:
        written = (("out", self.out), ("coq", self.coq), ("smt", self.smt))
        return [(name, file) for name, file in written if file is not None]

    def verdict_lines(self) -> Lines:
        """Return the verdict alone for a reader."""
        verdict, found = self.verdict, self.verdict.counterexample
        every = "all sequences of the task" if verdict.restricted else "all words"
        where = f" in {verdict.numbers}" if verdict.of_run else ""
        from_length = f"{every} of at least {verdict.shortest} symbols" if verdict.shortest else every
        if verdict.status == "proven":
            return [("proven", f"equal on {from_length}{where} ({verdict.method}: {verdict.reason})")]
        lines: Lines = []
        if found is not None:
            word = shorten(found.word.written(self.machine), _LONGEST_SHOWN) or "the empty word"
            right, given = (self._class_name(c) for c in (found.replayed.right, found.replayed.given))
            lines = [
                ("refuted", f"{word} ({len(found.word):,} symbols)"),
                ("answers", f"machine {shorten(right)}, network {shorten(given)}; {verdict.reason}"),
            ]
        elif verdict.status == "unknown":
            lines = [("unknown", verdict.reason)]
        if verdict.horizon is not None:
            judged = f"{verdict.shortest} to {verdict.horizon:,} symbols"
            lines.append(("horizon", f"{every} of {judged} are right{where} (proven)"))
            if found is None:
                lines.append(("beyond", verdict.reason))
        if verdict.reembedding is not None:
            every_few = f"with re-embedding every {verdict.reembedding.period:,} symbols"
            lines.append(("reembed", f"{every_few}: all lengths, {from_length} (proven)"))
        return lines

    def _named(self, word: tuple[int, ...]) -> list[str]:
        return [self.machine.alphabet[a] for a in word]

    def _class_name(self, output: int) -> str:
        """Name a class; a readout may have more of them than the machine."""
        return self.machine.output_names[output] if output < self.machine.classes else f"class {output}"


def certify(
    run: RunLike,
    machine: MachineLike | None = None,
    model: str | type | None = None,
    shortest: int | None = None,
    seconds: float = 20.0,
    work: int | None = None,
    all_words: bool = False,
    out: PathLike | None = None,
    coq: PathLike | None = None,
    smt: PathLike | None = None,
    dtype: str | None = None,
) -> Certification:
    """Prove that a network equals a machine on all words, or find a word on which it does not.

    Args:
        run: the directory of a network, or STORE#KEY
        machine: what it should be; else its own task
        model: the class of a run of one's own, such as file.py:Class
        shortest: judge words of at least so many symbols
        seconds: how long to search for a wrong word
        work: search for so many hidden-state updates instead, whatever the clock says
        all_words: judge sequences too that the task never draws: those that lead to an output named "error"
        out: write a certificate to this file, which "check" verifies
        coq: write the verdict as a theorem with its proof to this file, which coqc compiles
        smt: write a short horizon to this file, in SMT-LIB
        dtype: judge the run in float32 or float64, which rounds at every symbol, instead of exact arithmetic
    """
    for name, value in (("seconds", seconds), ("shortest", shortest or 0), ("work", work or 0)):
        check_least(name, value, 0)
    if dtype is not None and (out or coq or smt):
        raise CertificateError("out, coq and smt write proofs about exact arithmetic; leave them or dtype out")
    target = None if machine is None else machine_of(machine)
    opened = load(run, model)

    from statewise.theory.certify import certify as decide
    from statewise.theory.certify import certify_run

    with torch_threads(1):
        network = network_of_run(opened)
        wanted = target is None and dtype is None and (seconds if work is None else work)
        vectors = _prototypes(opened) if wanted else None
        least = opened.shortest if shortest is None else shortest
        if target is not None and _silent_start(opened, target):
            least = max(least, 1)
        target = aligned(opened, target)
        # what was trained has seen sequences of its task only; what was written from a machine has them all
        origin = "trained" if opened.manifest is None else opened.manifest.origin
        every = all_words or origin not in ("trained", "polished")
        if dtype is None:
            verdict = decide(network, target, least, seconds, work=work, all_words=every, prototypes=vectors)
        else:
            verdict = certify_run(network, target, dtype, least, work=work, all_words=every)
    found = Certification(verdict, target, opened.where, coq=path_of(coq), smt=path_of(smt))
    if found.coq is not None:
        from statewise.theory.coq import coq_file

        write_whole(found.coq, coq_file(network, target, verdict, opened))
    if found.smt is not None:
        from statewise.theory.smt import smt_file

        write_whole(found.smt, smt_file(network, target, verdict, opened))
    file = path_of(out)
    return found if file is None else _with_certificate(found, opened, file)


def _with_certificate(found: Certification, run: Run, file: Path) -> Certification:
    """Write the certificate of a verdict, if there is one."""
    import json

    from statewise.runs.weights import weights_file
    from statewise.theory.certify.witness import write_certificate

    minimal = minimise(found.machine)
    legal = legal_moves(minimal) if found.verdict.restricted else None
    try:
        text = write_certificate(weights_file(run), run.name, minimal, found.verdict, legal)
    except CertificateError as error:
        return replace(found, no_certificate=str(error))
    write_bytes_whole(file, text)
    return replace(found, out=file, statement=json.loads(text)["statement"])


def _prototypes(run: Run) -> "Float[np.ndarray, 'state hidden'] | None":
    """Return the prototypes that `evaluate --reembed` puts in place, in the run's precision; None if it has none."""
    import torch

    from statewise.commands.extract import prototypes_of
    from statewise.models import StateTracker

    if not isinstance(run.model, StateTracker):
        return None
    try:
        vectors = prototypes_of(run, run.machine).vectors
    except NetworkError:
        # some state that short sequences do not reach
        return None
    return torch.from_numpy(vectors).to(run.model.readout.dtype).double().numpy()


def network_of_run(run: Run) -> "Network":
    """Return the network of a run as numbers, for proofs and repairs."""
    from statewise.theory import network_of

    if run.supervision in BEYOND_SYMBOLS:
        reads = {
            "chain": "was trained on chains of thought and reads its own outputs",
            "closed": "was trained with one more token that ends each sequence",
        }
        raise NetworkError(
            f"the network {reads[run.supervision]}, so its answer is no function of the machine's symbols alone; "
            "train it with supervision final or aligned"
        )
    return network_of(run.model)


def aligned(run: Run, target: Machine | None) -> Machine:
    """Return the machine to judge by, its symbols and outputs numbered as the network numbers them."""
    if target is None:
        return run.machine
    names = run.source.output_names
    if _silent_start(run, target):
        # the empty word is not judged, so that any output will do; the network's own keeps machines small
        own = names[int(run.source.outputs[run.source.start])] if isinstance(run.source, Machine) else names[0]
        outputs, classes = target.outputs.copy(), [*target.output_names]
        if own in classes:
            outputs[target.start] = classes.index(own)
        else:
            classes[int(outputs[target.start])] = own
        target = target.replace(outputs=outputs, output_names=classes)
    return align(target, run.source.alphabet, names)


def _silent_start(run: Run, target: Machine) -> bool:
    """Return whether the network lacks the output of the start, which no other word has: as Mealy machines have it."""
    own = target.outputs[target.start]
    alone = not (target.delta == target.start).any() and int((target.outputs == own).sum()) == 1
    return alone and target.output_names[own] not in run.source.output_names
