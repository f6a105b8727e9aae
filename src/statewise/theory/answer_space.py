"""The answers to all words as a linear space: the smallest exact network whose logits are one-hot answers.

For a suffix w and a class c let f(q) = 1 where the state q answers w with c, and 0 elsewhere. These functions of the
state span a space that every symbol maps into itself: f after a is the function of the suffix aw. Let the rows of B be
a basis of it. Then B P_a = M_a B for the one-hot matrices P_a, so the columns v_q of B move as the states do,
M_a v_q = v_delta(q, a), and the functions of the empty suffix read the outputs off them.

The functions are whole numbers, so their sums and differences are a lattice, which has a basis too, of as many rows: in
it all M_a are whole numbers. Mostly functions of short suffixes are such a basis themselves; otherwise one is found by
Hermite's elimination.

The dimension is the rank of the Hankel table of the answers (Carlyle and Paz 1971): no network whose logits are these
one-hot answers is smaller. A Mealy machine of n states and k outputs is split into up to n k Moore states, but has
dimension n + k at most.
"""

import bisect
import math

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine
from statewise.theory.quotients import Module

Functions = Int[np.ndarray, "function state"]
# below 2^20, so that sums of thousands of products stay below 2^53, where float64 adds whole numbers exactly
_PRIME = 1_048_573
# entries of rows that are changed, over all functions: modulo a prime, and in whole numbers
_MAX_WORK, _MAX_LATTICE_WORK = 400_000_000, 200_000_000
_LARGEST_ENTRY = 1 << 30


def answer_space(machine: Machine) -> tuple[Module, Int[np.ndarray, "class entry"]] | None:
    """Return the block of the answers, and the weights that read the outputs; None where that is too much work.

    Args:
        machine: minimal, with at least two states.
    """
    for found in (_prime_basis, _lattice_basis):
        made = found(machine)
        if made is not None:
            return _module(machine, *made)
    return None


def _module(
    machine: Machine,
    basis: Int[np.ndarray, "entry state"],
    matrices: Int[np.ndarray, "symbol entry entry"],
    reading: Int[np.ndarray, "shown entry"],
) -> tuple[Module, Int[np.ndarray, "class entry"]]:
    # a class that no state shows gets half of what all others have together, which is less than the largest
    weights = np.repeat(reading.sum(axis=0, keepdims=True), machine.classes, axis=0)
    weights[np.unique(machine.outputs)] = 2 * reading
    return Module(matrices, basis.T.copy(), basis.T.copy(), "answers"), weights


def _answers(machine: Machine) -> Functions:
    """Return the functions of the empty suffix."""
    return (machine.outputs == np.unique(machine.outputs)[:, None]).astype(np.int64)


class _PrimeSpan:
    """Functions modulo a prime: reduced rows, their pivots, and how they are made of the functions that were added."""

    def __init__(self, states: int) -> None:
        self.rows, self.made_of = np.zeros((0, states)), np.zeros((0, 0))
        self.pivots: list[int] = []
        self.left = _MAX_WORK

    def coordinates(self, functions: Functions) -> Int[np.ndarray, "function entry"]:
        """Return the coordinates of functions that lie in the span, as the whole numbers nearest to 0."""
        found = (functions[:, self.pivots] % _PRIME).astype(np.float64) @ self.made_of % _PRIME
        return np.where(found > _PRIME // 2, found - _PRIME, found).astype(np.int64)

    def extend(self, functions: Functions) -> list[int] | None:
        """Add functions; return the places of those that are independent of the ones before, None past the bound."""
        values = (functions % _PRIME).astype(np.float64)
        left = (values - values[:, self.pivots] @ self.rows) % _PRIME
        places = []
        for place in range(len(left)):
            pivot = int(np.argmax(left[place] != 0))
            if not left[place, pivot]:
                continue
            self.left -= self.rows.size + left[place:].size
            if self.left < 0:
                return None
            row = left[place] * pow(int(left[place, pivot]), -1, _PRIME) % _PRIME
            left[place + 1 :] = (left[place + 1 :] - left[place + 1 :, pivot : pivot + 1] * row) % _PRIME
            self._insert(functions[place], row, pivot)
            places.append(place)
        return places

    def _insert(self, function: Int[np.ndarray, " state"], row: np.ndarray, pivot: int) -> None:
        """Add a reduced row that is made of a new function and the ones before."""
        share = (function[self.pivots] % _PRIME).astype(np.float64)
        inverse = (function[pivot] - share @ self.rows[:, pivot]) % _PRIME
        made_of = np.append(-(share @ self.made_of) % _PRIME, 1.0) * pow(int(inverse), -1, _PRIME) % _PRIME
        column = self.rows[:, pivot : pivot + 1]
        made = np.pad(self.made_of, ((0, 0), (0, 1)))
        self.made_of = np.vstack([(made - column * made_of) % _PRIME, made_of])
        self.rows = np.vstack([(self.rows - column * row) % _PRIME, row])
        self.pivots.append(pivot)


def _prime_basis(machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return functions that are a basis, with matrices and readout in it; None unless these are whole numbers."""
    span, chosen = _PrimeSpan(machine.states), []
    fresh = _answers(machine)
    while len(fresh):
        places = span.extend(fresh)
        if places is None:
            return None
        chosen.append(fresh[places])
        # what follows a function that depends on others depends on what follows these
        fresh = np.concatenate([chosen[-1][:, machine.delta[:, a]] for a in range(machine.symbols)])
    basis = np.concatenate(chosen)
    wanted = [*(basis[:, machine.delta[:, a]] for a in range(machine.symbols)), _answers(machine)]
    found = [span.coordinates(functions) for functions in wanted]
    # numbers that are whole modulo the prime alone fail here, as does a basis that lacks a function
    if not all((made @ basis == functions).all() for made, functions in zip(found, wanted, strict=True)):
        return None
    return basis, np.stack(found[:-1]), found[-1]


class _Lattice:
    """Whole-number rows in Hermite's normal form: first entries positive, entries above them smaller than they are."""

    def __init__(self, machine: Machine) -> None:
        self.rows = np.zeros((0, machine.states), dtype=np.int64)
        self.pivots: list[int] = []
        self.left = _MAX_LATTICE_WORK

    def add(self, function: Int[np.ndarray, " state"]) -> bool | None:
        """Add a function; return whether the lattice grew, None when the work is spent or numbers grow too large."""
        left, grown = function.copy(), False
        while left.any():
            self.left -= left.size
            pivot = int(np.argmax(left != 0))
            place = bisect.bisect_left(self.pivots, pivot)
            if place == len(self.pivots) or self.pivots[place] != pivot:
                self.pivots.insert(place, pivot)
                self.rows = np.insert(self.rows, place, left * np.sign(left[pivot]), axis=0)
                left, changed = np.zeros_like(left), True
            else:
                row = self.rows[place]
                ours, theirs = int(row[pivot]), int(left[pivot])
                changed = theirs % ours != 0
                if changed:
                    # Euclid's algorithm on the two first entries: the row gets their greatest common divisor
                    divisor, x, y = _bezout(ours, theirs)
                    self.rows[place], left = x * row + y * left, (ours * left - theirs * row) // divisor
                else:
                    left = left - theirs // ours * row
            if changed:
                grown = True
                self._reduce()
            if self.left < 0 or max(np.abs(left).max(), np.abs(self.rows).max()) > _LARGEST_ENTRY:
                return None
        return grown

    def _reduce(self) -> None:
        """Make the entries above each first entry smaller than it."""
        for place in range(1, len(self.pivots)):
            self.left -= self.rows[:place].size
            share = self.rows[:place, self.pivots[place]] // self.rows[place, self.pivots[place]]
            self.rows[:place] -= share[:, None] * self.rows[place]

    def coordinates(self, functions: Functions) -> Int[np.ndarray, "function entry"]:
        """Return the coordinates of functions of the lattice in its rows."""
        left, found = functions.copy(), []
        for pivot, row in zip(self.pivots, self.rows, strict=True):
            found.append(left[:, pivot] // row[pivot])
            left = left - found[-1][:, None] * row
        assert not left.any(), "the lattice is closed"
        return np.stack(found, axis=1)


def _lattice_basis(machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return a basis of the lattice, with matrices and readout in it; None past the bounds."""
    lattice, waiting = _Lattice(machine), list(_answers(machine))
    for function in waiting:
        grown = lattice.add(function)
        if grown is None:
            return None
        if grown:
            waiting.extend(function[machine.delta[:, a]] for a in range(machine.symbols))
    basis = lattice.rows
    matrices = np.stack([lattice.coordinates(basis[:, machine.delta[:, a]]) for a in range(machine.symbols)])
    return basis, matrices, lattice.coordinates(_answers(machine))


def _bezout(a: int, b: int) -> tuple[int, int, int]:
    """Return the greatest common divisor of two numbers, and x and y with a x + b y equal to it."""
    divisor = math.gcd(a, b)
    if not b:
        return divisor, 1 if a > 0 else -1, 0
    x = pow(a // divisor, -1, abs(b) // divisor) if abs(b) // divisor > 1 else 0
    return divisor, x, (divisor - a * x) // b
