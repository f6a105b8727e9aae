"""Vectors and a norm in which errors grow slowly, for certificates of horizons.

Give each machine state q a vector v_q, and measure an error e by the least of weight sum |c_q| + sum |d_j| over all
ways to write e = sum c_q v_q + d. The checker computes from these what a symbol adds to an error and by what it
multiplies it. Here vectors, coefficients that write any error in them, and the weight are found; none is trusted.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from statewise.machines import access_words
from statewise.theory.certify.atoms import rooms
from statewise.theory.certify.invariants import Subject
from statewise.theory.checker import BITS, Case, InvalidError, step

# bits of vectors, and of the coefficients that write an error in them
_VECTOR_BITS, _CUT_BITS = 96, 64
# how much less atoms count than what lies beside them
_WEIGHTS = (0.5, 2.0**-7, 2.0**-20)
# products that the checker takes; more would keep it busy for minutes
_MOST_WORK = 2_000_000_000
# directions in which vectors vary by less than this share are left to what lies beside them
_FLAT = 1e-8
# a gain so near to a power of two is one
_NEAR = 1e-9
_LONGEST = 1 << 100


def growth_witness(subject: Subject) -> tuple[int, dict[str, Any]] | None:
    """Return the witness of the longest horizon found, and that horizon; None where there is none."""
    best: tuple[int, dict[str, Any]] | None = None
    for witness in _candidates(subject):
        length = _horizon(subject, witness)
        if length is not None and (best is None or length > best[0]):
            best = length, witness
    return best


def _candidates(subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield witnesses to be measured."""
    machine, hidden = subject.machine, len(subject.network[1])
    legal = np.array(subject.legal, dtype=bool)
    if machine.states * machine.symbols * hidden * (machine.states + hidden) > _MOST_WORK:
        return
    exact = _vectors(subject, legal)
    if exact is None:
        return
    sorted_in = rooms(machine, legal)
    room_of = [int(sorted_in[q]) if q in exact else -1 for q in range(machine.states)]
    vectors = {q: np.array([float(x / 2**_VECTOR_BITS) for x in v]) for q, v in exact.items()}
    cuts = np.zeros((machine.states, hidden))
    for room in set(room_of) - {-1}:
        members = [q for q in exact if room_of[q] == room]
        cuts[members] = np.linalg.pinv(np.array([vectors[q] for q in members]).T, rcond=_FLAT)
    matrices = np.array([_floats(matrix, hidden) for matrix in subject.network[0]])
    largest = max(float(np.abs(cuts @ matrix).sum(axis=0).max()) for matrix in matrices)
    if not math.isfinite(largest) or not largest > 0:
        return
    whole = [[int(x) for x in row] for row in (cuts * 2.0**_CUT_BITS).round()]
    for share in _WEIGHTS:
        yield {
            "method": "growth of errors",
            "vectors": [exact.get(q, []) for q in range(machine.states)],
            "rooms": room_of,
            "cuts": whole,
            "over": 1 << _VECTOR_BITS + _CUT_BITS,
            "weight": max(1, int(Fraction(share / largest) * 2**_VECTOR_BITS)),
        }


def _vectors(subject: Subject, legal: np.ndarray) -> dict[int, list[int]] | None:
    """Return hidden states after shortest words to each state, times one factor for each symbol read.

    The factors are chosen so that each symbol stretches the vectors of all states alike, as nearly as it can be done.
    """
    (matrices, initial, _), delta = subject.network, subject.machine.delta
    words, zero = access_words(subject.machine, legal), [0] * len(initial)
    units: dict[int, np.ndarray] = {}
    raw: dict[int, list[int]] = {}
    for state, word in words.items():
        before = initial if not word else step(matrices[word[-1]], raw[_state(delta, subject, word[:-1])], zero)[0]
        excess = max(0, max(abs(x).bit_length() for x in before) - 4 * _VECTOR_BITS)
        raw[state] = [x >> excess for x in before]
        units[state] = _unit(raw[state])
        if not units[state].any():
            return None
    edges = [(q, a, int(delta[q, a])) for q in words for a in np.flatnonzero(legal[q]).tolist()]
    scale = [max(abs(value) for row in matrix for _, value, _ in row) for matrix in matrices]
    floats = [_floats(matrix, len(initial), largest) for matrix, largest in zip(matrices, scale, strict=True)]
    # log s + l_q - l_q' = c_a for each edge, where s is by what a symbol stretches
    system = np.zeros((len(edges), subject.machine.states + len(matrices)))
    stretch = np.zeros(len(edges))
    for row, (q, a, there) in enumerate(edges):
        stretched = float(units[there] @ floats[a] @ units[q])
        if not stretched > 0:
            return None
        stretch[row] = math.log(stretched)
        system[row, q] += 1
        system[row, there] -= 1
        system[row, subject.machine.states + a] -= 1
    solved = np.linalg.lstsq(system, -stretch, rcond=None)[0][subject.machine.states :]
    gains = [Fraction(math.exp(c)) * largest for c, largest in zip(solved.tolist(), scale, strict=True)]
    gains = [_rounded(gain) for gain in gains]
    largest = Fraction(max(abs(x) for x in initial))
    found = {subject.machine.start: [Fraction(x) / largest for x in initial]}
    for state, word in words.items():
        if word:
            before = found[_state(delta, subject, word[:-1])]
            common = 1 << 4 * _VECTOR_BITS
            moved, _ = step(matrices[word[-1]], [int(x * common) for x in before], zero)
            found[state] = [Fraction(x, common) / gains[word[-1]] for x in moved]
    return {q: [int(x * 2**_VECTOR_BITS) for x in v] for q, v in found.items()}


def _state(delta: np.ndarray, subject: Subject, word: tuple[int, ...]) -> int:
    state = subject.machine.start
    for a in word:
        state = int(delta[state, a])
    return state


def _rounded(gain: Fraction) -> Fraction:
    """Return the power of two that a gain is very near to, or the gain itself."""
    power = Fraction(2) ** round(math.log2(gain.numerator) - math.log2(gain.denominator))
    return power if abs(gain / power - 1) < _NEAR else gain


def _unit(vector: list[int]) -> np.ndarray:
    """Return a vector of whole numbers as floats, with length 1; 0 stays 0."""
    largest = max(abs(x) for x in vector) or 1
    made = np.array([x / largest for x in vector])
    return made / max(float(np.linalg.norm(made)), np.finfo(float).tiny)


def _floats(matrix: Any, hidden: int, largest: int = 0) -> np.ndarray:
    """Return a matrix as floats, over its largest entry or a number that is given."""
    made = np.zeros((hidden, hidden))
    largest = largest or max((abs(value) for row in matrix for _, value, _ in row), default=1) or 1
    for i, row in enumerate(matrix):
        for j, value, _ in row:
            made[i, j] = value / largest
    return made


def _horizon(subject: Subject, witness: dict[str, Any]) -> int | None:
    """Return the length up to which the checker will find answers to be right; None where not even at the start."""
    machine = subject.machine
    parts = {"delta": machine.delta.tolist(), "outputs": machine.outputs.tolist(), "start": machine.start}
    case = Case(subject.network, parts, {"shortest": subject.shortest, "legal": subject.legal}, 0)
    try:
        kappa, rho, first, radius = case.growth(witness)
    except (InvalidError, ArithmeticError, LookupError, ValueError):
        return None
    k, r, n = (math.ceil(x * 2**BITS) for x in (kappa, rho, first))
    limit = radius * 2**BITS
    if not n < limit:
        return None
    # as the checker does, for the powers of two first, and then the digits of the length from the largest on
    squares = [(k, r)]
    while len(squares) < _LONGEST.bit_length() and squares[-1][0] >> 2 * BITS == 0:
        k, r = squares[-1]
        squares.append(((k * k >> BITS) + 1, (k * r >> BITS) + 1 + r))
    length = 0
    for digit in range(len(squares) - 2, -1, -1):
        k, r = squares[digit]
        after = (k * n >> BITS) + 1 + r
        if after < limit:
            length, n = length + (1 << digit), after
    return length
