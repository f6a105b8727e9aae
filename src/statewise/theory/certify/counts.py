"""Proofs for diagonal networks: the state of a commutative machine, and the logits, depend on counts of symbols only.

Count up to N exactly, and take everything beyond as one cell (or two, by parity): a factor of modulus 1 is then a sign,
and a smaller one lies between 0 and its N-th power. If in every cell the target logit is the largest for all values in
these intervals, the network is correct on every word. Matrices may first be multiplied by positive numbers, so that the
largest entry of each is 1 in modulus.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine, analyse, minimise
from statewise.theory.balls import TINY, UNIT, Balls, sum_above
from statewise.theory.counting import Generators, generators
from statewise.theory.network import Network

_MAX_ENTRIES = 20_000_000


@dataclass(frozen=True)
class CountProof:
    """A decision by counting: correct on all words, or wrong on one.

    Args:
        equal: whether all cells are correct.
        word: a word of a cell that is wrong, to be confirmed; None if all are correct.
        cells: how many cells there are.
    """

    equal: bool
    word: tuple[int, ...] | None
    cells: int


def decide_by_counts(network: Network, machine: Machine, shortest: int = 0) -> CountProof | None:
    """Prove a diagonal network correct or find a wrong word; None where neither succeeds within the bounds."""
    diagonal = _Diagonal.of(network)
    if diagonal is None:
        return None
    minimal = minimise(machine)
    if not analyse(minimal).commutative or machine.classes > network.classes:
        return None
    free = _free_symbols(diagonal, minimal)
    for bound in (2, 4, 8, 16, 32, 64):
        parts = [_Counted.of(minimal.delta[:, a], diagonal.values[a], diagonal.lasting[a], bound) for a in free]
        proof = _check_cells(network, minimal, free, parts, shortest)
        if proof is not None:
            return proof
    return None


@dataclass(frozen=True, eq=False)
class _Diagonal:
    """Diagonal matrices, each divided by its largest modulus.

    Args:
        exact: what the entries are computed from: logarithms that add up, or whole numbers that multiply.
        additive: whether `exact` are logarithms.
        values: the entries.
        lasting: which are 1 in modulus, or 0, and so keep their modulus for ever.
    """

    exact: np.ndarray
    additive: bool
    values: Balls
    lasting: Bool[np.ndarray, "symbol feature"]

    @staticmethod
    def of(network: Network) -> "_Diagonal | None":
        """Read a network; None where a matrix is not diagonal."""
        matrices = network.scaled.matrices
        across = ~np.eye(network.hidden, dtype=bool)
        if matrices.mid[:, across].any() or matrices.off[:, across].any():
            return None
        if network.logs is not None:
            exact = network.logs.whole - network.logs.whole.max(axis=1, keepdims=True)
            values = Balls(np.einsum("aii->ai", matrices.mid), np.einsum("aii->ai", matrices.off))
            return _Diagonal(exact, True, values, (exact == 0).astype(bool))
        if network.integers is None:
            return None
        exact = np.einsum("aii->ai", network.integers[0])
        largest = abs(exact).max(axis=1, keepdims=True)
        lasting = ((abs(exact) == largest) | (exact == 0)).astype(bool)
        # a quotient of two integers is the nearest float
        mid = np.array([[value / (most or 1) for value in row] for row, (most,) in zip(exact, largest, strict=True)])
        return _Diagonal(exact, False, Balls(mid, np.where(lasting, 0.0, UNIT * np.abs(mid) + TINY)), lasting)

    def is_product(self, found: Generators, symbol: int) -> bool:
        """Return whether a symbol's matrix is, exactly, a positive multiple of its product of generators."""
        powers = list(zip(found.symbols, found.exponents[symbol].tolist(), strict=True))
        if self.additive:
            made = sum((e * self.exact[a] for a, e in powers), np.zeros_like(self.exact[symbol]))
            return bool((made == self.exact[symbol]).all())
        made: Any = math.prod((self.exact[a] ** e for a, e in powers), start=np.ones_like(self.exact[symbol]))
        own, most = abs(self.exact[symbol]).max(), abs(made).max()
        return bool((made * own == self.exact[symbol] * most).all()) and bool(own) == bool(most)


def _free_symbols(diagonal: _Diagonal, machine: Machine) -> list[int]:
    """Return symbols of which all others are products, in the machine and, exactly, in the network."""
    found = generators(machine)
    free = list(found.symbols)
    for symbol in range(machine.symbols):
        if symbol not in free and not diagonal.is_product(found, symbol):
            free.append(symbol)
    return free


def _is_idle(machine: Machine, symbol: int) -> bool:
    return bool((machine.delta[:, symbol] == np.arange(machine.states)).all())


@dataclass(frozen=True, eq=False)
class _Counted:
    """One symbol, by its count: where that leads each state, and the bounds of each factor."""

    moves: Int[np.ndarray, "cell state"]
    low: Float[np.ndarray, "cell feature"]
    high: Float[np.ndarray, "cell feature"]
    # how many of the cells are one count each
    single: int

    @staticmethod
    def of(move: np.ndarray, values: Balls, lasting: np.ndarray, bound: int) -> "_Counted | None":
        """Count to `bound`; None where the machine distinguishes larger counts by more than their parity."""
        powers = [np.arange(len(move))]
        for _ in range(bound + 2):
            powers.append(move[powers[-1]])
        if not np.array_equal(powers[bound], powers[bound + 2]):
            return None
        residues = 2 if (values.mid[lasting] < 0).any() or not np.array_equal(powers[bound], powers[bound + 1]) else 1
        lows, highs = [], []
        factor = Balls.exactly(np.ones_like(values.mid))
        for count in range(bound + residues):
            if count:
                factor = factor * values
            low, high = factor.least(), -(-factor).least()
            if count >= bound:
                # past the bound a factor that shrinks lies anywhere between 0 and where it is now
                high = np.where(lasting, high, factor.largest())
                low = np.where(lasting, low, np.where(values.mid <= 0, -high, 0.0))
            # what lasts is 1, -1 or 0
            lows.append(np.where(lasting, values.mid**count, low))
            highs.append(np.where(lasting, values.mid**count, high))
        return _Counted(np.stack(powers[: bound + residues]), np.stack(lows), np.stack(highs), bound)


def _check_cells(
    network: Network, machine: Machine, free: list[int], parts: list[_Counted | None], shortest: int
) -> CountProof | None:
    """Check every combination of counts; None where some can neither be proven correct nor wrong."""
    counted = [part for part in parts if part is not None]
    sizes = [len(part.low) for part in counted]
    if len(counted) < len(parts) or np.prod(sizes, dtype=float) * network.hidden > _MAX_ENTRIES:
        return None
    initial = network.scaled.initial[None]
    low, high, states = initial.least(), -(-initial).least(), np.array([machine.start])
    for part in counted:
        states = part.moves[:, states].T.reshape(-1)
        corners = [
            (one[:, None] * other[None]).reshape(-1, network.hidden)
            for one in (low, high)
            for other in (part.low, part.high)
        ]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        # a product is rounded, and may vanish
        low, high = low - 2 * UNIT * np.abs(low) - TINY, high + 2 * UNIT * np.abs(high) + TINY
    counts = np.stack(np.unravel_index(np.arange(len(states)), sizes), axis=1) if sizes else np.zeros((1, 0), int)
    single = np.all([counts[:, i] < part.single for i, part in enumerate(counted)], axis=0) if counted else True
    # a symbol that changes nothing makes a word of any length of a short one
    idle = next((a for a in range(machine.symbols) if a not in free and _is_idle(machine, a)), None)
    judged = ~(single & (counts.sum(axis=1) < shortest)) | (idle is not None)
    correct = np.ones(len(states), dtype=bool)
    wrong = np.zeros(len(states), dtype=bool)
    outputs, readout = machine.outputs[states], network.scaled.readout
    for output in np.unique(outputs).tolist():
        rows = outputs == output
        for other in range(network.classes):
            if other != output:
                least, greatest = _bounds(readout[output] - readout[other], low[rows], high[rows])
                correct[rows] &= least > 0
                wrong[rows] |= greatest < 0
    wrong &= single & judged
    if wrong.any():
        place = int(np.flatnonzero(wrong)[np.argmin(counts[wrong].sum(axis=1))])
        word = tuple(a for a, count in zip(free, counts[place].tolist(), strict=True) for _ in range(count))
        if idle is not None:
            word += (idle,) * (shortest - len(word))
        return CountProof(False, word, len(states))
    return CountProof(True, None, len(states)) if (correct | ~judged).all() else None


def _bounds(
    weights: Balls, low: Float[np.ndarray, "cell feature"], high: Float[np.ndarray, "cell feature"]
) -> tuple[Float[np.ndarray, " cell"], Float[np.ndarray, " cell"]]:
    """Bound the sums of weights times numbers between low and high, from below and from above."""
    ends, sizes = (weights.mid * low, weights.mid * high), np.maximum(np.abs(low), np.abs(high))
    # what the weights are off, and what a sum of so many products rounds
    share = 2 * (len(weights) + 8) * UNIT
    slack = sum_above((weights.off + share * np.abs(weights.mid) + TINY) * sizes + TINY)
    return np.minimum(*ends).sum(axis=1) - slack, np.maximum(*ends).sum(axis=1) + slack
