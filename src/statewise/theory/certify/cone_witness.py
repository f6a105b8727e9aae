"""Cones in whole numbers, for certificates. Nothing here has to be trusted: the checker verifies what is written.

Rows, points, factors and shares of a proof in floats are rounded to whole numbers. All conditions are strict, and have
more room than that takes.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from statewise.theory.certify.cones import ConeProof, edges, live
from statewise.theory.certify.invariants import Subject

# bits of the largest number of a cone
_BITS = 64


def cone_witness(subject: Subject, proof: ConeProof) -> dict[str, Any] | None:
    """Return the witness of a proof by cones; None where matrices are not known exactly."""
    if not subject.exact:
        return None
    cones, machine = proof.cones, subject.machine
    matrices, _, readout = subject.network
    # the proof is about the same numbers without their power of two
    powers = [max(abs(x) for row in matrix for _, x, _ in row).bit_length() for matrix in matrices]
    gain = max(abs(x) for row in readout for x in row).bit_length()
    nodes = [(int(q), int(p)) for q, p in np.argwhere(live(cones))]
    place = {node: number for number, node in enumerate(nodes)}
    scales = {node: _scale(cones.rows[node]) for node in nodes}
    written: list[list[Any]] = []
    for q, p in nodes:
        scale = Fraction(2) ** scales[q, p]
        rivals = [c for c in range(len(readout)) if c != machine.outputs[q]]
        shares = [_ratio(Fraction(float(cones.shares[q, p, c])) * 4**gain / scale**2) for c in rivals]
        written.append([q, _whole(cones.rows[q, p]), _whole(cones.points[q, p]), shares])
    arrows: list[list[list[int]]] = [[[0, 1, 1] for _ in matrices] for _ in nodes]
    for here, a, there in edges(machine, np.array(subject.legal, dtype=bool), cones):
        ratio = Fraction(2) ** (2 * (powers[a] + scales[there] - scales[here]))
        arrows[place[here]][a] = [place[there], *_ratio(Fraction(float(cones.factors[(*here, a)])) * ratio)]
    return {"method": "cones", "cones": written, "arrows": arrows, "burn_in": proof.burn_in}


def _scale(values: np.ndarray) -> int:
    """Return the power of two that gives the largest number its bits."""
    return _BITS - int(np.frexp(np.abs(values).max())[1])


def _whole(values: np.ndarray) -> Any:
    """Return numbers times a power of two, rounded, in the shape that they have."""
    scale = Fraction(2) ** _scale(values)
    return np.vectorize(lambda x: round(Fraction(x) * scale), otypes=[object])(values).tolist()


def _ratio(value: Fraction) -> list[int]:
    """Return a number as two whole ones of few bits."""
    excess = max(0, value.numerator.bit_length() - _BITS)
    return [value.numerator >> excess << excess, value.denominator]
