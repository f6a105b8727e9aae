"""Tables of sets that cover all words, for certificates: directions, affine spaces, or cells of counts.

An entry of a table is a set of hidden states up to positive factors, a machine state and a number of symbols. Every
legal symbol leads an entry into another one. What is built here is not trusted: `statewise.theory.checker` verifies it.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from statewise.machines import Machine
from statewise.theory.checker import step
from statewise.theory.counting import generators

# larger tables would make certificates that nobody wants to check
_MOST_ENTRIES, _MOST_NUMBERS = 50_000, 1_000_000
# cells of counts: bits of their bounds, and what each symbol adds to them so that rounding stays inside
_BITS, _SLACK = 128, 1 << 48

# (column, value, by how much it may be off) for the entries of each row
Matrix = list[list[tuple[int, int, int]]]
# A, h_0 and U, as the checker reads them
Numbers = tuple[list[Matrix], list[int], list[list[int]]]


@dataclass(frozen=True, eq=False)
class Subject:
    """What a certificate is about.

    Args:
        network: A, h_0 and U in whole numbers.
        machine: what it should be.
        legal: which symbols may follow which states.
        shortest: the length of the shortest words that are judged.
    """

    network: Numbers
    machine: Machine
    legal: list[list[int]]
    shortest: int

    @property
    def exact(self) -> bool:
        """Whether all matrices are known exactly."""
        return not any(off for matrix in self.network[0] for row in matrix for _, _, off in row)

    def leads(self, h: list[int], state: int) -> list[int]:
        """Return by how much the logit of a state's output exceeds each other one."""
        logits = [sum(w * x for w, x in zip(row, h, strict=True)) for row in self.network[2]]
        output = int(self.machine.outputs[state])
        return [logits[output] - logit for c, logit in enumerate(logits) if c != output]


def orbit_table(subject: Subject) -> dict[str, Any] | None:
    """Follow all words to the directions that they lead to; None where there are too many, or some are not exact.

    The set of a direction d is [d, [], []]. The arrow of an entry and a symbol a is [entry, 1, g] where A(a) d = g d'
    for the direction d' of that entry, with g > 0.
    """
    if not subject.exact:
        return None
    matrices, initial, _ = subject.network
    zero = [0] * len(initial)

    def reduced(vector: list[int]) -> tuple[tuple[int, ...], int]:
        divisor = math.gcd(*vector) or 1
        return tuple(x // divisor for x in vector), divisor

    def move(direction: tuple[int, ...], a: int) -> tuple[tuple[int, ...], int, int]:
        there, divisor = reduced(step(matrices[a], direction, zero)[0])
        return there, 1, divisor

    first, divisor = reduced(initial)
    return _table("orbit", subject, first, (1, divisor), move, lambda direction: [list(direction), [], []])


def _table(
    method: str,
    subject: Subject,
    first: Hashable,
    start: tuple[int, int],
    move: Callable[[Any, int], tuple[Hashable, int, int]],
    written: Callable[[Any], list[Any]],
) -> dict[str, Any] | None:
    """Build a table breadth first; None where it would be too large.

    Args:
        method: of the witness.
        subject: what it is about.
        first: the key of the set that holds h_0.
        start: p and q with p h_0 in q times that set.
        move: the key of the set that a symbol leads a set into, with p and q.
        written: the set of a key, as the certificate has it.
    """
    delta, sets, places, moved = subject.machine.delta.tolist(), {first: 0}, {}, {}
    entries: list[tuple[Any, int, int]] = []

    def place(key: Hashable, state: int, length: int) -> int:
        entry = (key, state, min(length, subject.shortest))
        if places.setdefault(entry, len(entries)) == len(entries):
            entries.append(entry)
            sets.setdefault(key, len(sets))
        return places[entry]

    place(first, subject.machine.start, 0)
    arrows: list[list[list[int] | None]] = []
    for key, state, length in entries:
        row: list[list[int] | None] = []
        for a, legal in enumerate(subject.legal[state]):
            if legal and (key, a) not in moved:
                moved[key, a] = move(key, a)
            row.append([place(moved[key, a][0], delta[state][a], length + 1), *moved[key, a][1:]] if legal else None)
        arrows.append(row)
        if len(entries) > _MOST_ENTRIES or len(sets) * len(subject.network[1]) > _MOST_NUMBERS:
            return None
    return {
        "method": method,
        "sets": [written(key) for key in sets],
        "start": list(start),
        "entries": [[sets[key], state, length] for key, state, length in entries],
        "arrows": arrows,
    }


def whole_space(subject: Subject) -> dict[str, Any] | None:
    """Build the table of one set that is everything, for a network of one class, whose answer is always the same."""
    matrices, initial, _ = subject.network
    bounds = [max(sum(abs(value) + off for _, value, off in row) for row in matrix) or 1 for matrix in matrices]
    start = (1, max(map(abs, initial)) or 1)
    box = [[0] * len(initial), [1] * len(initial), []]
    return _table("counts", subject, 0, start, lambda _, a: (0, 1, bounds[a]), lambda _: box)


def series_table(subject: Subject) -> dict[str, Any] | None:
    """Find for each state an affine space, up to positive factors, that holds all hidden states; None where none does.

    A state that is reached a second time, by u instead of x, widens the space by u - f x, with the factor f that makes
    the leads of the two alike; if no factor does, leads are no function of the state.
    """
    if not subject.exact:
        return None
    (matrices, initial, _), machine = subject.network, subject.machine
    zero, points, bases = [0] * len(initial), {}, {}
    waiting: deque[tuple[int, list[int], bool]] = deque([(machine.start, initial, True)])
    while waiting:
        state, vector, is_point = waiting.popleft()
        if is_point and state not in points:
            points[state], bases[state] = _reduced(vector), []
            if not all(lead > 0 for lead in subject.leads(vector, state)):
                return None
            grown = points[state]
        else:
            if is_point:
                p, q = _ratio(subject, vector, points[state], state)
                vector = [p * x - q * y for x, y in zip(vector, points[state], strict=True)]
            if any(subject.leads(vector, state)):
                return None
            grown = _residue(vector, bases[state])
            if not any(grown):
                continue
            bases[state].append(grown)
            is_point = False
        for a, legal in enumerate(subject.legal[state]):
            if legal:
                waiting.append((int(machine.delta[state, a]), step(matrices[a], grown, zero)[0], is_point))

    def move(state: int, a: int) -> tuple[int, int, int]:
        there = int(machine.delta[state, a])
        return there, *_ratio(subject, step(matrices[a], points[state], zero)[0], points[there], there)

    start = _ratio(subject, initial, points[machine.start], machine.start)
    return _table("series", subject, machine.start, start, move, lambda state: [points[state], [], bases[state]])


def _ratio(subject: Subject, u: list[int], x: list[int], state: int) -> tuple[int, int]:
    """Return p and q, positive, with which the leads of p u and q x are alike, if there are any."""
    pairs = zip(subject.leads(u, state), subject.leads(x, state), strict=True)
    p, q = next(((lead, other) for other, lead in pairs if other > 0), (1, 1))
    divisor = math.gcd(p, q)
    return p // divisor, q // divisor


def _residue(vector: list[int], basis: list[list[int]]) -> list[int]:
    """Eliminate the pivots of a basis, each the first entry of a vector that is not 0."""
    for other in basis:
        pivot = next(j for j, x in enumerate(other) if x)
        if vector[pivot]:
            vector = [other[pivot] * x - vector[pivot] * y for x, y in zip(vector, other, strict=True)]
    return _reduced(vector)


def _reduced(vector: list[int]) -> list[int]:
    divisor = math.gcd(*vector) or 1
    return [x // divisor for x in vector]


def count_tables(subject: Subject) -> Iterator[dict[str, Any]]:
    """Count symbols of a diagonal network up to ever larger bounds, and yield the tables of cells.

    Counts below a bound are cells of their own; beyond it, all or all of one parity are one. Each entry of a hidden
    state is a product of powers: one number as long as counts are below the bound or its factor is a sign, and
    otherwise somewhere between 0 and the power of the bound.
    """
    matrices, delta = subject.network[0], subject.machine.delta
    if any(j != i for matrix in matrices for i, row in enumerate(matrix) for j, _, _ in row):
        return
    # symbols commute
    if (delta[delta] != delta[delta].swapaxes(1, 2)).any():
        return
    factors = [_Factor.of(matrix) for matrix in matrices]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        return
    found = generators(subject.machine)
    exponents = [dict(zip(found.symbols, row, strict=True)) for row in found.exponents.tolist()]
    free = [a for a in range(len(known)) if a in found.symbols or not _is_product(known, a, exponents[a])]
    steps = [[int(a == b) if a in free else exponents[a].get(b, 0) for b in free] for a in range(len(known))]
    for bound in (1, 2, 4, 8, 16, 32, 64):
        if (bound + 1) ** len(free) > _MOST_ENTRIES:
            return
        table = _cells(subject, known, free, steps, bound)
        if table is not None:
            yield table


@dataclass(frozen=True)
class _Factor:
    """The diagonal of a symbol over its largest entry, as bounds in units of 2^-_BITS, and which entries are signs."""

    largest: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    signs: tuple[int, ...]

    @staticmethod
    def of(matrix: Matrix) -> "_Factor | None":
        """Read a diagonal; None where its largest entry is not known exactly."""
        entries = [row[0][1:] if row else (0, 0) for row in matrix]
        largest = max(abs(value) + off for value, off in entries)
        if not largest or not any(abs(value) == largest for value, _ in entries):
            return None
        unit = 1 << _BITS
        low = tuple((value - off) * unit // largest for value, off in entries)
        high = tuple(-((-value - off) * unit // largest) for value, off in entries)
        signs = tuple((value == largest) - (value == -largest) for value, _ in entries)
        return _Factor(largest, low, high, signs)

    def power(self, f: int, count: int, late: bool = False) -> tuple[int, int]:
        """Bound the power of an entry; a late count is the least of many."""
        if self.signs[f]:
            return (self.signs[f] ** count << _BITS,) * 2
        made = (1 << _BITS, 1 << _BITS)
        for _ in range(count):
            made = _product(made, (self.low[f], self.high[f]))
        size = max(map(abs, made))
        return made if not late else (-size, size) if self.low[f] < 0 else (0, size)


def _product(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    corners = [x * y for x, y in itertools.product(one, other)]
    return min(corners) >> _BITS, -(-max(corners) >> _BITS)


def _is_product(factors: list[_Factor], symbol: int, exponents: dict[int, int]) -> bool:
    """Return whether a symbol acts, up to a positive factor and rounding, as a product of others."""
    for f, low in enumerate(factors[symbol].low):
        made = (1 << _BITS, 1 << _BITS)
        for a, exponent in exponents.items():
            made = _product(made, factors[a].power(f, exponent))
        if abs(made[0] - low) > _SLACK >> 8:
            return False
    return True


def _cells(
    subject: Subject, factors: list[_Factor], free: list[int], steps: list[list[int]], bound: int
) -> dict[str, Any] | None:
    """Build the table of cells of counts up to a bound; None where it would be too large.

    Args:
        subject: what it is about.
        factors: of each symbol.
        free: the symbols that are counted.
        steps: by how much each symbol advances each count.
        bound: from which on counts are one cell.
    """
    initial, powers = subject.network[1], {}
    parities = []
    for a in free:
        move = subject.machine.delta[:, a].tolist()
        states = list(range(len(move)))
        for _ in range(bound):
            states = [move[q] for q in states]
        alternates = [move[q] for q in states] != states or min(factors[a].signs) < 0
        parities.append(2 if alternates else 1)

    def power(g: int, count: int, f: int) -> tuple[int, int]:
        if (g, count, f) not in powers:
            factor = factors[free[g]]
            exponent = count if factor.signs[f] else min(count, bound)
            powers[g, count, f] = factor.power(f, exponent, count >= bound)
        return powers[g, count, f]

    def written(cell: tuple[int, ...]) -> list[Any]:
        slack = sum(min(count, bound) for count in cell) * _SLACK
        points, widths = [], []
        for f, h in enumerate(initial):
            made = (1 << _BITS, 1 << _BITS)
            for g, count in enumerate(cell):
                made = _product(made, power(g, count, f))
            points.append(h * sum(made))
            widths.append(abs(h) * (made[1] - made[0] + 2 * slack))
        return [points, widths, []]

    def moved(cell: tuple[int, ...], a: int) -> tuple[tuple[int, ...], int, int]:
        counts = [count + more for count, more in zip(cell, steps[a], strict=True)]
        capped = (min(count, bound + (count - bound) % parity) for count, parity in zip(counts, parities, strict=True))
        return tuple(capped), 1, factors[a].largest

    return _table("counts", subject, (0,) * len(free), (2 << _BITS, 1), moved, written)
