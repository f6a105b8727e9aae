"""The tables that Orbit.v checks: finitely many parts of hidden space, and where each symbol carries them.

For an orbit a part is a direction. For series it is a direction plus a linear space on which all logits agree: words
that lead to one state of the machine have hidden states h with

    (U_own - U_k) h = c (U_own - U_k) p    for all rival classes k, with one c > 0,

where p is the hidden state of the first such word, and the differences h - c p are collected, up to their span.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from statewise.theory.statement import Statement

MAX_ENTRIES = 20_000
# a direction that comes back has small entries
_LARGEST_ENTRY = 1 << 400
Vector = tuple[int, ...]
# machine state, state of the language, number of symbols up to the shortest that is judged
Place = tuple[int, int, int]


@dataclass(frozen=True)
class Step:
    """How a symbol carries a part: scale A p = gain p' + sum along_i f'_i, and s A f = sum k_i f'_i for each free f."""

    target: int
    scale: int
    gain: int
    along: Vector = ()
    turns: tuple[tuple[int, Vector], ...] = ()


@dataclass(frozen=True)
class Entry:
    """A part of hidden space, and a step for each symbol that may follow, in order."""

    state: int
    language: int
    length: int
    point: Vector
    free: tuple[Vector, ...]
    steps: tuple[Step, ...]


def orbit_table(statement: Statement, limit: int = MAX_ENTRIES) -> tuple[Entry, ...] | None:
    """Return the table of all directions that words lead to; None where there are too many, or one is wrong."""
    return _explore(statement, limit, merged=False)


def series_table(statement: Statement, limit: int = MAX_ENTRIES) -> tuple[Entry, ...] | None:
    """Return a table with one part for each state; None where logits are no function of the state, or one is wrong."""
    return _explore(statement, limit, merged=True)


@dataclass(eq=False)
class _Part:
    """A part while it grows: `rows` are its free vectors, each 0 at the pivots of those before it."""

    place: Place
    point: Vector
    rows: list[Vector] = field(default_factory=list)
    pivots: list[int] = field(default_factory=list)

    def reduced(self, vector: Vector) -> tuple[list[Fraction], list[Fraction]]:
        """Write a vector as a combination of free vectors and a rest that is 0 at all pivots."""
        rest, parts = [Fraction(entry) for entry in vector], []
        for row, pivot in zip(self.rows, self.pivots, strict=True):
            part = rest[pivot] / row[pivot]
            parts.append(part)
            if part:
                rest = [x - part * y for x, y in zip(rest, row, strict=True)]
        return parts, rest

    def coordinates(self, vector: Vector) -> tuple[Fraction, list[Fraction]]:
        """Write a vector of this part as a multiple of the point and a combination of free vectors."""
        if not self.rows:
            pivot = next((place for place, entry in enumerate(self.point) if entry), None)
            return (Fraction(1) if pivot is None else Fraction(vector[pivot], self.point[pivot])), []
        along, rest = self.reduced(vector)
        beside, bare = self.reduced(self.point)
        pivot = next((place for place, entry in enumerate(bare) if entry), None)
        gain = Fraction(1) if pivot is None else rest[pivot] / bare[pivot]
        return gain, [x - gain * y for x, y in zip(along, beside, strict=True)]

    def widen(self, vector: Vector) -> Vector | None:
        """Add a free vector; return what is new of it, None if nothing is."""
        _, rest = self.reduced(vector)
        pivot = next((place for place, entry in enumerate(rest) if entry), None)
        if pivot is None:
            return None
        made = _whole(rest)[1]
        self.rows.append(made)
        self.pivots.append(pivot)
        return made


def _explore(statement: Statement, limit: int, merged: bool) -> tuple[Entry, ...] | None:
    first = _Part((statement.machine.start, 0, 0), tuple(statement.initial.tolist()))
    if first.place[2] == statement.shortest and not _leads(statement, first.place[0], first.point):
        return None
    parts, numbers = [first], {_key(statement, first.place, first.point, merged): 0}
    # vectors that no symbol was applied to yet: the part, the vector, whether it is the point
    waiting: list[tuple[_Part, Vector, bool]] = [(first, first.point, True)]
    for part, vector, is_point in waiting:
        moved = statement.moved(vector)
        for symbol, place in _following(statement, part.place):
            direction = primitive(moved[symbol])
            if max(map(abs, direction)) > _LARGEST_ENTRY:
                return None
            key = _key(statement, place, direction, merged)
            if is_point and key not in numbers:
                if len(parts) >= limit or (
                    place[2] == statement.shortest and not _leads(statement, place[0], direction)
                ):
                    return None
                numbers[key] = len(parts)
                parts.append(_Part(place, direction))
                waiting.append((parts[-1], direction, True))
                continue
            there = parts[numbers[key]]
            if direction == there.point and is_point:
                continue
            # what is beside the point has to be free: no logit may lead on it
            beside = _beside(statement, there, direction) if is_point else direction
            if beside is None or not _flat(statement, place[0], beside):
                return None
            grown = there.widen(beside)
            if grown is not None:
                waiting.append((there, grown, False))
    return tuple(_entry(statement, part, parts, numbers, merged) for part in parts)


def _key(statement: Statement, place: Place, direction: Vector, merged: bool) -> tuple[Place, Vector]:
    """Return what tells parts apart: of words too short to be judged, always the direction."""
    return (place, () if merged and place[2] == statement.shortest else direction)


def _following(statement: Statement, place: Place) -> Iterator[tuple[int, Place]]:
    """Return the symbols that may follow, and where they lead."""
    state, language, length = place
    for symbol, there in enumerate(statement.language[language]):
        if there is not None:
            step = min(length + 1, statement.shortest)
            yield symbol, (int(statement.machine.delta[state, symbol]), there, step)


def _entry(statement: Statement, part: _Part, parts: list[_Part], numbers: dict, merged: bool) -> Entry:
    """Write down a part once all are known."""
    moved, steps = statement.moved(part.point), []
    turned = [statement.moved(row) for row in part.rows]
    for symbol, place in _following(statement, part.place):
        target = numbers[_key(statement, place, primitive(moved[symbol]), merged)]
        there = parts[target]
        gain, along = there.coordinates(moved[symbol])
        scale, whole = _whole([gain, *along])
        turns = tuple(_whole(there.reduced(each[symbol])[0]) for each in turned)
        steps.append(Step(target, scale, whole[0], whole[1:], turns))
    return Entry(*part.place, part.point, tuple(part.rows), tuple(steps))


def _margins(statement: Statement, state: int, vector: Vector) -> Vector:
    """Return by how much the logit of a state's output leads each other one."""
    own = int(statement.machine.outputs[state])
    logits = (statement.readout @ np.array(vector, dtype=object)).tolist()
    return tuple(logits[own] - logit for k, logit in enumerate(logits) if k != own)


def _leads(statement: Statement, state: int, vector: Vector) -> bool:
    return all(margin > 0 for margin in _margins(statement, state, vector))


def _flat(statement: Statement, state: int, vector: Vector) -> bool:
    return not any(_margins(statement, state, vector))


def _beside(statement: Statement, part: _Part, vector: Vector) -> Vector | None:
    """Return s h - c p, with c and s such that all margins of h are c/s times those of p; None where no c > 0 does."""
    here, there = (_margins(statement, part.place[0], each) for each in (vector, part.point))
    # margins of the point are positive; with a single class there are none
    gain = Fraction(here[0], there[0]) if here else Fraction(1)
    if gain <= 0:
        return None
    return tuple(gain.denominator * x - gain.numerator * y for x, y in zip(vector, part.point, strict=True))


def primitive(vector: Sequence[int]) -> Vector:
    """Return a vector without its common divisor: its direction."""
    divisor = math.gcd(*vector) or 1
    return tuple(entry // divisor for entry in vector)


def _whole(numbers: Sequence[Fraction]) -> tuple[int, Vector]:
    """Return a positive number, and the numbers times it as whole numbers."""
    scale = math.lcm(*(number.denominator for number in numbers))
    return scale, tuple(int(number * scale) for number in numbers)
