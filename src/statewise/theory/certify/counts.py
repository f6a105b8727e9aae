"""Proofs for diagonal networks: the state of a commutative machine, and the logits, depend on counts of symbols only.

Count up to N exactly, and take everything beyond as one cell (or two, by parity): a factor of modulus 1 is then a sign,
and a smaller one lies between 0 and its N-th power. If in every cell the target logit is the largest for all values in
these intervals, the network is correct on every word. Matrices may first be multiplied by positive numbers, so that the
largest entry of each is 1 in modulus.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from statewise.machines import Machine, analyse, minimise
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
    diagonal = np.einsum("aii->ai", network.matrices)
    if (network.matrices != diagonal[:, :, None] * np.eye(network.hidden)).any():
        return None
    minimal = minimise(machine)
    if not analyse(minimal).commutative or machine.classes > network.classes:
        return None
    # equal moduli are compared as stored, where nothing is rounded
    stored = np.abs(diagonal) if network.logs is None else network.logs
    lasting = stored == stored.max(axis=1, keepdims=True)
    values = diagonal / np.maximum(np.abs(diagonal).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    free = _free_symbols(network, minimal, diagonal)
    for bound in (2, 4, 8, 16, 32, 64):
        parts = [_Counted.of(minimal.delta[:, a], values[a], lasting[a], bound) for a in free]
        proof = _check_cells(network, minimal, free, parts, shortest)
        if proof is not None:
            return proof
    return None


def _free_symbols(network: Network, machine: Machine, diagonal: np.ndarray) -> list[int]:
    """Return symbols of which all others are products, in the machine and, exactly, in the network."""
    found = generators(machine)
    free = list(found.symbols)
    for symbol in range(machine.symbols):
        if symbol not in free and not _is_product(network, diagonal, found, symbol):
            free.append(symbol)
    return free


def _is_idle(machine: Machine, symbol: int) -> bool:
    return bool((machine.delta[:, symbol] == np.arange(machine.states)).all())


def _is_product(network: Network, diagonal: np.ndarray, found: Generators, symbol: int) -> bool:
    powers = list(zip(found.symbols, found.exponents[symbol].tolist(), strict=True))
    if network.logs is not None:
        return all(
            sum((e * Fraction(network.logs[a, f]) for a, e in powers), Fraction(0)) == Fraction(network.logs[symbol, f])
            for f in range(network.hidden)
        )
    return all(
        math.prod((Fraction(diagonal[a, f]) ** e for a, e in powers), start=Fraction(1))
        == Fraction(diagonal[symbol, f])
        for f in range(network.hidden)
    )


@dataclass(frozen=True, eq=False)
class _Counted:
    """One symbol, by its count: where that leads each state, and the bounds of each factor."""

    moves: Int[np.ndarray, "cell state"]
    low: Float[np.ndarray, "cell feature"]
    high: Float[np.ndarray, "cell feature"]
    # how many of the cells are one count each
    single: int

    @staticmethod
    def of(move: np.ndarray, values: np.ndarray, lasting: np.ndarray, bound: int) -> "_Counted | None":
        """Count to `bound`; None where the machine distinguishes larger counts by more than their parity."""
        powers = [np.arange(len(move))]
        for _ in range(bound + 2):
            powers.append(move[powers[-1]])
        if not np.array_equal(powers[bound], powers[bound + 2]):
            return None
        residues = 2 if (values[lasting] < 0).any() or not np.array_equal(powers[bound], powers[bound + 1]) else 1
        counts = np.arange(bound + residues)[:, None]
        exact = values**counts
        limit = np.abs(values) ** counts
        # past the bound a factor that shrinks lies anywhere between 0 and where it is now
        late, shrinks = counts >= bound, ~lasting
        low = np.where(late & shrinks, np.where(values < 0, -limit, 0.0), exact)
        high = np.where(late & shrinks, limit, exact)
        return _Counted(np.stack(powers[: bound + residues]), low, high, bound)


def _check_cells(
    network: Network, machine: Machine, free: list[int], parts: list[_Counted | None], shortest: int
) -> CountProof | None:
    """Check every combination of counts; None where some can neither be proven correct nor wrong."""
    counted = [part for part in parts if part is not None]
    sizes = [len(part.low) for part in counted]
    if len(counted) < len(parts) or np.prod(sizes, dtype=float) * network.hidden > _MAX_ENTRIES:
        return None
    low = np.broadcast_to(network.initial, (1, network.hidden))
    high, states = low, np.array([machine.start])
    for part in counted:
        states = part.moves[:, states].T.reshape(-1)
        corners = [
            (one[:, None] * other[None]).reshape(-1, network.hidden)
            for one in (low, high)
            for other in (part.low, part.high)
        ]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    counts = np.stack(np.unravel_index(np.arange(len(states)), sizes), axis=1) if sizes else np.zeros((1, 0), int)
    single = np.all([counts[:, i] < part.single for i, part in enumerate(counted)], axis=0) if counted else True
    # a symbol that changes nothing makes a word of any length of a short one
    idle = next((a for a in range(machine.symbols) if a not in free and _is_idle(machine, a)), None)
    judged = ~(single & (counts.sum(axis=1) < shortest)) | (idle is not None)
    correct = np.ones(len(states), dtype=bool)
    wrong = np.zeros(len(states), dtype=bool)
    outputs = machine.outputs[states]
    # factors are powers of at most the bound and two more, one for each symbol, and then summed
    longest = sum(part.single + 2 for part in counted)
    rounding = 4 * (4 * longest + network.hidden + 4) * 2.0**-53
    for output in np.unique(outputs).tolist():
        rows = outputs == output
        for other in range(network.classes):
            if other != output:
                weight = network.readout[output] - network.readout[other]
                slack = rounding * float(np.abs(weight * network.initial).sum())
                least = np.minimum(weight * low[rows], weight * high[rows]).sum(axis=1)
                correct[rows] &= least > slack
                wrong[rows] |= least < -slack
    wrong &= single & judged
    if wrong.any():
        place = int(np.flatnonzero(wrong)[np.argmin(counts[wrong].sum(axis=1))])
        word = tuple(a for a, count in zip(free, counts[place].tolist(), strict=True) for _ in range(count))
        if idle is not None:
            word += (idle,) * (shortest - len(word))
        return CountProof(False, word, len(states))
    return CountProof(True, None, len(states)) if (correct | ~judged).all() else None
