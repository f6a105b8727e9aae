"""Exact decisions: equality of a network and a machine on all words, in whole numbers.

A positive factor of a hidden state changes no answer, so a state is kept as a direction: a vector of whole numbers
without a common divisor. If words lead to finitely many pairs (direction, machine state), checking each pair once
decides all words; breadth first, the first wrong pair gives a shortest counterexample.

Where directions are infinitely many, the logits may still be a function of the machine's state: U h_w = L[q_w] for all
words w. For each machine state q let B_q be the affine hull of the hidden states that lead there. The hulls grow along
symbols and are finite-dimensional, so they are known after finitely many steps, and U must be constant on each
(Schuetzenberger's equality of rational series, in the form of Tzeng).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from statewise.machines import Machine
from statewise.theory.dyadic import Dyadic, without_divisor
from statewise.theory.network import Network

MAX_PAIRS = 20_000
# whole-number weights beyond this come from training: their directions never repeat
_LARGEST_WEIGHT = 1 << 20
# which symbols may follow which states
Legal = Bool[np.ndarray, "state symbol"]
# float64 adds whole numbers below this without rounding
_EXACT = 1 << 53
# entries of directions that come back stay far below this
_LARGEST_ENTRY = 1 << 400
# products of integers of any size that may be spent: some ten seconds
_MAX_PRODUCTS = 100_000_000


@dataclass(frozen=True)
class Decided:
    """An exact decision.

    Args:
        equal: whether the two answer alike on every word that is long enough.
        word: a shortest word on which they differ; None if they do not.
        checked: how many pairs or vectors were checked.
    """

    equal: bool
    word: tuple[int, ...] | None
    checked: int


def decide_by_orbit(
    network: Network, machine: Machine, shortest: int = 0, limit: int = MAX_PAIRS, legal: Legal | None = None
) -> Decided | None:
    """Decide by all reachable directions; None where there are too many, or weights are not small whole numbers.

    Args:
        network: the network under test.
        machine: the machine that it should be; the same symbols in the same order.
        shortest: words of fewer symbols do not count.
        limit: how many pairs to check at most.
        legal: which symbols may follow which states: sequences of others are not judged; None judges all.
    """
    integers = network.integers
    if integers is None:
        return None
    matrices, initial, readout = integers
    if int(abs(matrices).max()) > _LARGEST_WEIGHT:
        return None
    move, read = _Product(matrices.reshape(-1, network.hidden)), _Product(readout)
    outputs, delta = machine.outputs.tolist(), machine.delta.tolist()
    allowed = np.ones(machine.delta.shape, dtype=bool).tolist() if legal is None else legal.tolist()
    first = (_directions(initial[None])[0], machine.start, 0)
    reached: dict[tuple[_Direction, int, int], tuple[int, int]] = {first: (-1, -1)}
    order: list[tuple[_Direction, int, int]] = [first]
    for here, (direction, state, length) in enumerate(order):
        vector = direction.vector()
        if length >= shortest and not _largest(read(vector).tolist(), outputs[state]):
            return Decided(False, _word(order, reached, here), len(order))
        for symbol, there in enumerate(_directions(move(vector).reshape(network.symbols, -1))):
            if not allowed[state][symbol]:
                continue
            following = (there, delta[state][symbol], min(length + 1, shortest))
            if following not in reached:
                if len(order) >= limit or move.spent > _MAX_PRODUCTS or there.size > _LARGEST_ENTRY:
                    return None
                reached[following] = (here, symbol)
                order.append(following)
    return Decided(True, None, len(order))


class _Direction(NamedTuple):
    """A vector of whole numbers without a common divisor, and its largest entry.

    Entries below 2^53 are kept as the bytes of 64-bit integers, others as integers of any size; so equal vectors are
    equal values.
    """

    key: bytes | tuple[int, ...]
    size: int

    def vector(self) -> np.ndarray:
        """Return the vector."""
        if isinstance(self.key, bytes):
            return np.frombuffer(self.key, dtype=np.int64)
        return np.array(self.key, dtype=object)


def _directions(vectors: np.ndarray) -> list[_Direction]:
    """Divide each row by its greatest common divisor."""
    if vectors.dtype == object and int(abs(vectors).max()) >= _EXACT:
        divided = (without_divisor(vector) for vector in vectors)
        return [
            _Direction(
                vector.astype(np.int64).tobytes() if (size := int(abs(vector).max())) < _EXACT else tuple(vector), size
            )
            for vector in divided
        ]
    small = vectors.astype(np.int64)
    small //= np.maximum(np.gcd.reduce(small, axis=1, keepdims=True), 1)
    sizes = np.abs(small).max(axis=1).tolist()
    return [_Direction(vector.tobytes(), size) for vector, size in zip(small, sizes, strict=True)]


class _Product:
    """A matrix of whole numbers that multiplies vectors without rounding; where most of it is 0, by what is not."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._rows, self._columns = np.nonzero(matrix)
        self._values = matrix[self._rows, self._columns]
        largest = int(abs(self._values).max()) if len(self._values) else 0
        self._floats = self._values.astype(np.float64) if largest < _EXACT else None
        # a sum of products is at most so many times the largest entry of a vector
        self._gain = largest * int(np.bincount(self._rows, minlength=1).max())
        self._count = len(matrix)
        self._dense = matrix if 4 * len(self._values) > matrix.size else None
        # how many products of integers of any size were formed
        self.spent = 0

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """Multiply: in float64 where every sum is below 2^53, so that nothing is rounded."""
        if vector.dtype != object and self._floats is not None and self._gain * int(np.abs(vector).max()) < _EXACT:
            products = self._floats * vector[self._columns]
            return np.bincount(self._rows, weights=products, minlength=self._count).astype(np.int64)
        self.spent += len(self._values)
        entries = vector.astype(object)
        if self._dense is not None:
            return self._dense @ entries
        made = np.zeros(self._count, dtype=object)
        np.add.at(made, self._rows, self._values * entries[self._columns])
        return made


def decide_by_series(
    network: Network, machine: Machine, shortest: int = 0, legal: Legal | None = None
) -> Decided | None:
    """Decide by affine hulls; None where logits are no function of the machine's state, or the search is too long.

    That is no refutation: the largest logit may still be the correct one.
    """
    if network.dyadics is None:
        return None
    move = _Product(np.concatenate([matrix.whole for matrix in network.dyadics]))
    read = _Product(Dyadic.of(network.readout).whole)
    # h stands for h * 2^power
    first = Dyadic.of(network.initial)
    waiting: deque[tuple[int, np.ndarray, int]] = deque([(machine.start, first.whole, first.power)])
    hulls: dict[int, _Hull] = {}
    checked = spent = 0
    while waiting:
        state, h, power = waiting.popleft()
        checked += 1
        if state in hulls:
            difference = hulls[state].difference(h, power)
            if any(read(difference).tolist()):
                return None
            spent += network.hidden * len(hulls[state].rows)
            grown = hulls[state].add(difference)
        else:
            hulls[state], grown = _Hull(h, power), True
        if spent + move.spent > _MAX_PRODUCTS:
            return None
        if grown:
            moved = move(h).reshape(network.symbols, -1)
            waiting.extend(
                (int(machine.delta[state, a]), moved[a], power + matrix.power)
                for a, matrix in enumerate(network.dyadics)
                if legal is None or legal[state, a]
            )
    wrong = [q for q, hull in hulls.items() if not _largest(read(hull.point).tolist(), int(machine.outputs[q]))]
    # a wrong state is wrong on every word that leads there
    words = [word for q in wrong if (word := _word_to(machine, q, shortest, legal)) is not None]
    return Decided(not words, min(words, key=len, default=None), checked)


class _Hull:
    """An affine space: a point, and an echelon basis of differences in whole numbers, each times some number."""

    def __init__(self, point: np.ndarray, power: int) -> None:
        self.point, self.power = point.astype(object), power
        self.rows: list[tuple[int, np.ndarray]] = []

    def difference(self, h: np.ndarray, power: int) -> np.ndarray:
        """Return h * 2^power minus the point, times a power of two."""
        least = min(power, self.power)
        return (h.astype(object) << (power - least)) - (self.point << (self.power - least))

    def add(self, difference: np.ndarray) -> bool:
        """Widen the space by a difference; return whether it was new."""
        for pivot, row in self.rows:
            if difference[pivot]:
                difference = without_divisor(difference * row[pivot] - difference[pivot] * row)
        pivot = next((i for i, entry in enumerate(difference.tolist()) if entry), None)
        if pivot is None:
            return False
        self.rows.append((pivot, difference))
        return True


def _largest(logits: Sequence[Any], output: int) -> bool:
    """Return whether an output's logit is larger than all others; an output beyond the readout has none."""
    if output >= len(logits):
        return False
    return all(logit < logits[output] for c, logit in enumerate(logits) if c != output)


def _word(order: list, reached: dict, place: int) -> tuple[int, ...]:
    """Return the word by which a pair was first reached."""
    symbols: list[int] = []
    while place >= 0:
        place, symbol = reached[order[place]]
        symbols.append(symbol)
    return tuple(reversed(symbols[:-1]))


def _word_to(machine: Machine, state: int, shortest: int, legal: Legal | None) -> tuple[int, ...] | None:
    """Return a shortest word of at least so many symbols that leads from the start to a state; None if none does."""
    first: tuple[int, int] = (machine.start, 0)
    words: dict[tuple[int, int], tuple[int, ...]] = {first: ()}
    waiting: deque[tuple[int, int]] = deque([first])
    while waiting:
        here = waiting.popleft()
        if here == (state, shortest):
            return words[here]
        for symbol in range(machine.symbols):
            there = (int(machine.delta[here[0], symbol]), min(here[1] + 1, shortest))
            if there not in words and (legal is None or legal[here[0], symbol]):
                words[there] = (*words[here], symbol)
                waiting.append(there)
    return None
