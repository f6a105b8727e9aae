"""Commutative machines as diagonals: counts of symbols, read through decays and signs.

In a commutative machine the state depends on how often each symbol came, and on that only up to a threshold T and a
period p: symbols generate a monoid in which a^(T + p) = a^T. Let y = r^n with 0 < r < 1, where n counts symbol a. The
polynomial in y that is 1 at y = r^j and 0 at y = 0 and at r^i for all other i up to M is the indicator of n = j, up to
errors that only the counts beyond M make, and that shrink with M. What these leave of 1 is the indicator of n >= T;
signs (-1)^n split it by parity where p = 2. Products over symbols are indicators of cells, and their sum over the cells
of a class is its logit. Every such product is a diagonal entry: r^(k n) or (-1)^n r^(k n).

So a positive diagonal tracks every commutative machine without periods, and a real diagonal every one with periods of
at most 2 (the "if" of Theorem H); the weights found here are proven by `certify.counts`, which relies on none of this.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from statewise.machines import Machine

_MAX_CELLS = 200_000
_MAX_FEATURES = 4_096


@dataclass(frozen=True, eq=False)
class Generators:
    """A few symbols of a commutative machine of which all others are products.

    Args:
        symbols: which ones.
        exponents: symbol b acts as the product of generators a to the power exponents[b, a].
        thresholds: the least T with a^(T + p) = a^T, for each generator.
        periods: the least p with that, for each generator.
    """

    symbols: tuple[int, ...]
    exponents: Int[np.ndarray, "symbol generator"]
    thresholds: tuple[int, ...]
    periods: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counters:
    """Diagonal weights: entry f of the hidden state is multiplied by signs[a, f] r^decays[a, f] on symbol a.

    The first state is all ones.
    """

    decays: Int[np.ndarray, "symbol feature"]
    signs: Int[np.ndarray, "symbol feature"]
    readout: Float[np.ndarray, "class feature"]

    @property
    def size(self) -> int:
        """The number of hidden entries that they take."""
        return self.decays.shape[1]


def generators(machine: Machine) -> Generators:
    """Find generators of a minimal commutative machine.

    A map that commutes with all others is known by where it leads the start, so symbol b is a product of others if
    they lead the start to where b does.
    """
    landing = machine.delta[machine.start].tolist()
    chosen: list[int] = []
    for symbol in sorted(range(machine.symbols), key=lambda a: -_reach(machine, [a])):
        if _word(machine, chosen, landing[symbol]) is None:
            chosen.append(symbol)
    for symbol in list(chosen):
        others = [a for a in chosen if a != symbol]
        if _word(machine, others, landing[symbol]) is not None:
            chosen = others
    chosen.sort()
    exponents = np.zeros((machine.symbols, len(chosen)), dtype=np.int64)
    for symbol in range(machine.symbols):
        word = [symbol] if symbol in chosen else _word(machine, chosen, landing[symbol])
        assert word is not None
        for a in word:
            exponents[symbol, chosen.index(a)] += 1
    cycles = [_cycle(machine.delta[:, a]) for a in chosen]
    return Generators(tuple(chosen), exponents, tuple(t for t, _ in cycles), tuple(p for _, p in cycles))


def counters(machine: Machine, ratio: float, extra: int) -> Counters | None:
    """Build diagonal weights for a minimal commutative machine with periods of at most 2; None past the bounds.

    Args:
        machine: minimal and commutative.
        ratio: r, between 0 and 1.
        extra: how far past the threshold indicators are exact.
    """
    found = generators(machine)
    cells = [t + p for t, p in zip(found.thresholds, found.periods, strict=True)]
    if np.prod(cells, dtype=float) > _MAX_CELLS:
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tables = [_indicators(t, p, ratio, extra) for t, p in zip(found.thresholds, found.periods, strict=True)]
    if not all(np.isfinite(table).all() for table in tables):
        # a count this long takes coefficients that no float holds
        return None
    powers = [np.arange(table.shape[1]) // period for table, period in zip(tables, found.periods, strict=True)]
    odd = [np.arange(table.shape[1]) % period for table, period in zip(tables, found.periods, strict=True)]
    if np.prod([table.shape[1] for table in tables], dtype=float) > _MAX_FEATURES:
        return None
    logits = np.eye(machine.classes)[:, machine.outputs[_cell_states(machine, found.symbols, cells)]]
    for axis, table in enumerate(tables):
        logits = np.moveaxis(np.tensordot(logits, table, axes=(axis + 1, 0)), -1, axis + 1)
    # what all classes share decides nothing
    logits = logits.reshape(machine.classes, -1)
    logits = logits - logits.mean(axis=0)
    used = np.abs(logits).max(axis=0) > 1e-12 * max(np.abs(logits).max(), 1.0)
    if not used.any():
        used[0] = True
    grid = [axis.reshape(-1)[used] for axis in np.meshgrid(*powers, indexing="ij")] if tables else []
    flips = [axis.reshape(-1)[used] for axis in np.meshgrid(*odd, indexing="ij")] if tables else []
    decays = np.zeros((machine.symbols, int(used.sum())), dtype=np.int64)
    parities = np.zeros_like(decays)
    for generator, (power, flip) in enumerate(zip(grid, flips, strict=True)):
        decays += found.exponents[:, generator, None] * power
        parities += found.exponents[:, generator, None] * flip
    return Counters(decays, 1 - 2 * (parities % 2), logits[:, used])


def _indicators(threshold: int, period: int, ratio: float, extra: int) -> Float[np.ndarray, "cell feature"]:
    """Return, for each cell of one count, its indicator as coefficients of r^(k n) (-1)^(s n), s fastest."""
    degree = threshold + extra if threshold else 0
    points = [ratio**i for i in range(degree)]
    rows = []
    for j in range(threshold):
        # 1 at its own point, 0 at the others and at 0
        roots = [0.0, *(point for i, point in enumerate(points) if i != j)]
        polynomial = np.poly(roots)[::-1]
        rows.append(polynomial / np.polyval(polynomial[::-1], points[j]))
    early = np.array(rows).reshape(threshold, degree + 1) if rows else np.zeros((0, degree + 1))
    late = -early.sum(axis=0)
    late[0] += 1
    table = np.zeros((threshold + period, degree + 1, period))
    table[:threshold, :, 0] = early
    for residue in range(period):
        # counts of at least the threshold, by their remainder
        for s in range(period):
            table[threshold + residue, :, s] = late / period * (-1.0) ** (s * (threshold + residue))
    return table.reshape(threshold + period, -1)


def _cell_states(machine: Machine, symbols: tuple[int, ...], cells: list[int]) -> Int[np.ndarray, "*cell"]:
    """Return the state that each combination of counts leads to."""
    states = np.array(machine.start)
    for symbol, count in zip(symbols, cells, strict=True):
        layers = [states]
        for _ in range(count - 1):
            layers.append(machine.delta[layers[-1], symbol])
        states = np.stack(layers, axis=-1)
    return states


def _word(machine: Machine, symbols: list[int], state: int) -> list[int] | None:
    """Return a shortest word in some symbols that leads from the start to a state; None if there is none."""
    words: dict[int, list[int]] = {machine.start: []}
    waiting = deque([machine.start])
    while waiting:
        here = waiting.popleft()
        if here == state:
            return words[here]
        for symbol in symbols:
            there = int(machine.delta[here, symbol])
            if there not in words:
                words[there] = [*words[here], symbol]
                waiting.append(there)
    return None


def _reach(machine: Machine, symbols: list[int]) -> int:
    seen, state = {machine.start}, machine.start
    while (state := int(machine.delta[state, symbols[0]])) not in seen:
        seen.add(state)
    return len(seen)


def _cycle(move: Int[np.ndarray, " state"]) -> tuple[int, int]:
    """Return the threshold and the period of a map."""
    seen: dict[bytes, int] = {}
    power, exponent = np.arange(len(move)), 0
    while power.tobytes() not in seen:
        seen[power.tobytes()] = exponent
        power, exponent = move[power], exponent + 1
    return seen[power.tobytes()], exponent - seen[power.tobytes()]
