"""Certificates: a verdict with all that a checker needs to verify it again, as one JSON object.

Nothing here has to be trusted: what is written counts because `statewise.theory.checker` accepts it, and nothing is
returned that it does not. Witnesses are computed from the checker's own whole numbers of the stored weights, so that
they are about these and not about rounded matrices.

Another method is one more generator of witnesses in `_ALL_LENGTHS` or `_HORIZONS`, under the name that verdicts give
it, and in the checker one more function that verifies what it yields, with a line in `METHODS` saying what it proves.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from statewise.errors import CertificateError
from statewise.machines import Machine
from statewise.theory import checker
from statewise.theory.certify.cone_witness import cone_witness
from statewise.theory.certify.cones import ConeProof
from statewise.theory.certify.growth_witness import growth_witness
from statewise.theory.certify.invariants import Subject, count_tables, orbit_table, series_table, whole_space
from statewise.theory.certify.verdict import Verdict

__all__ = ["Subject", "orbit_table", "write_certificate"]


# for readers; what counts is in the checker
READING = {
    "full": "A = sum_k x[k] transition.matrices[k]",
    "cp": "A = transition.left diag(sum_k x[k] transition.gate[k]) transition.right^T",
    "block": "A has the blocks sum_k x[k] transition.weight[n, :, :, k] along its diagonal",
    "rotation": "A has the blocks [[cos t, -sin t], [sin t, cos t]] along its diagonal, "
    "t = sum_k x[k] transition.weight[n, k]",
    "diagonal": "A has the numbers sum_k x[k] transition.weight[n, k] along its diagonal",
    "positive": "A has the numbers exp(sum_k x[k] transition.weight[n, k]) along its diagonal",
}


def write_certificate(weights: bytes, model: str, machine: Machine, verdict: Verdict, legal: Any = None) -> bytes:
    """Return the certificate of a verdict.

    Args:
        weights: the safetensors file.
        model: the level of the network, by name.
        machine: what it was compared with, minimal, as the network numbers symbols and outputs.
        verdict: what was decided.
        legal: which symbols may follow which states; None for all.

    Raises:
        CertificateError: where the verdict is unknown, or its proof is not one that the checker can verify.
    """
    if verdict.status == "unknown":
        raise CertificateError("the verdict is unknown, so that there is nothing to certify; give more seconds or work")
    level = model.partition("(")[0]
    allowed = np.ones(machine.delta.shape, dtype=int) if legal is None else legal.astype(int)
    held = {
        "format": checker.FORMAT,
        "weights": hashlib.sha256(weights).hexdigest(),
        "level": level,
        "matrices": READING.get(level),
        "machine": {
            "alphabet": list(machine.alphabet),
            "output_names": list(machine.output_names),
            "start": machine.start,
            "delta": machine.delta.tolist(),
            "outputs": machine.outputs.tolist(),
        },
        "language": {"shortest": verdict.shortest, "legal": allowed.tolist()},
    }
    try:
        network = checker.read_network(weights, level)
    except (checker.InvalidError, LookupError, TypeError, ValueError) as error:
        raise CertificateError(f"the checker cannot read these weights: {error}; give a run of a level") from None
    subject = Subject(network, machine, allowed.tolist(), verdict.shortest)
    config = json.dumps({"model": level}).encode()
    for length, witness in _witnesses(subject, verdict):
        made = held | {"length": length, "witness": witness}
        made["statement"] = checker.state(made)
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            if len(text) <= checker.MAX_BYTES:
                checker.check(text, weights, config)
                return text
        except checker.InvalidError:
            continue
    raise CertificateError(
        f"the verdict ({verdict.status}, by {verdict.method}) holds, but its proof is none that the checker can verify "
        "of the stored weights; nothing was written"
    )


def _witnesses(subject: Subject, verdict: Verdict) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield witnesses to try, each with the length that it is about; the verdict's own method comes first."""
    if verdict.status == "refuted":
        yield from _wrong_word(verdict)
    elif isinstance(verdict.witness, ConeProof):
        found = cone_witness(subject, verdict.witness)
        if found is not None:
            yield 0, found
    elif verdict.status == "proven":
        for method in sorted(_ALL_LENGTHS, key=lambda method: method != verdict.method):
            yield from ((0, witness) for witness in _ALL_LENGTHS[method](subject))
    elif verdict.horizon is not None:
        for method in sorted(_HORIZONS, key=lambda method: method != verdict.method):
            yield from _HORIZONS[method](subject, verdict.horizon)


def _wrong_word(verdict: Verdict) -> Iterator[tuple[int, dict[str, Any]]]:
    found = verdict.counterexample
    assert found is not None
    word = found.word
    parts = {"prefix": word.prefix, "loop": word.loop, "times": word.times, "suffix": word.suffix}
    yield len(word), {"method": "counterexample", **parts, "rival": found.replayed.given}


def _orbit(subject: Subject) -> Iterator[dict[str, Any]]:
    table = orbit_table(subject)
    if table is not None:
        yield table


def _series(subject: Subject) -> Iterator[dict[str, Any]]:
    table = series_table(subject)
    if table is not None:
        yield table


def _everything(subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield the table of a network with one class, whose answer is the same everywhere."""
    table = whole_space(subject) if len(subject.network[2]) == 1 else None
    if table is not None:
        yield table


def _growth(subject: Subject, horizon: int) -> Iterator[tuple[int, dict[str, Any]]]:
    found = growth_witness(subject)
    if found is not None and found[0] >= subject.shortest:
        yield min(horizon, found[0]), found[1]


def _words(subject: Subject, horizon: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the greatest length whose words are few enough to be tried one by one."""
    hidden, classes = len(subject.network[1]), len(subject.network[2])
    counts = np.zeros(subject.machine.states)
    counts[subject.machine.start] = work = 1.0
    length = 0
    while length < horizon:
        following = np.zeros_like(counts)
        np.add.at(following, subject.machine.delta, counts[:, None] * np.array(subject.legal))
        work += following.sum()
        if work * (hidden + 8) * (hidden + classes + 8) >= checker.MAX_WORK:
            break
        length, counts = length + 1, following
    if length >= subject.shortest:
        yield length, {"method": "all words"}


_ALL_LENGTHS: dict[str, Callable[[Subject], Iterator[dict[str, Any]]]] = {
    "orbit": _orbit,
    "series": _series,
    "counts": count_tables,
    "one class": _everything,
}
_HORIZONS: dict[str, Callable[[Subject, int], Iterator[tuple[int, dict[str, Any]]]]] = {
    "growth of errors": _growth,
    "all words": _words,
}
