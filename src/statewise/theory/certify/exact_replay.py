"""The answer of a network to one word, without rounding: in whole numbers, or in balls that contain the true value.

Rotations and positive diagonals commute, so a word counts by how often each symbol is in it: angles, or logarithms, add
up without rounding, and one cosine, sine or exponential for each hidden entry is enclosed at the end, however long the
word is.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine
from statewise.theory.dyadic import Dyadic, exponential
from statewise.theory.network import Network

# whole numbers grow by some sixty bits a symbol; beyond this, balls are used where python-flint is installed
_LONGEST_EXACT = 600
_LONGEST_WITHOUT_BALLS = 4_000
_PRECISIONS = (128, 512, 2_048, 8_192)


@dataclass(frozen=True)
class Word:
    """The word x u^n z: `prefix`, then `loop` so many `times`, then `suffix`."""

    prefix: tuple[int, ...]
    loop: tuple[int, ...] = ()
    times: int = 0
    suffix: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.prefix) + len(self.loop) * self.times + len(self.suffix)

    def symbols(self) -> tuple[int, ...]:
        """Return the whole word."""
        return self.prefix + self.loop * self.times + self.suffix

    def written(self, machine: Machine) -> str:
        """Return the word in the machine's symbols, with powers for what is repeated."""
        parts = [_shortened(machine, self.prefix), "", _shortened(machine, self.suffix)]
        if self.times:
            parts[1] = _power(machine, self.loop, self.times)
        return " ".join(part for part in parts if part)


def _shortened(machine: Machine, word: tuple[int, ...]) -> str:
    """Return a word as text, with powers for one, two or three symbols that repeat at least three times."""
    parts, place = [], 0
    while place < len(word):
        for size in (1, 2, 3):
            loop, times = word[place : place + size], 1
            while word[place + times * size : place + (times + 1) * size] == loop:
                times += 1
            if times >= 3 and len(loop) == size:
                parts.append(_power(machine, loop, times))
                place += times * size
                break
        else:
            parts.append(machine.alphabet[word[place]])
            place += 1
    return " ".join(parts)


def _power(machine: Machine, loop: tuple[int, ...], times: int) -> str:
    shown = " ".join(machine.alphabet[a] for a in loop)
    return f"{shown}^{times}" if len(loop) == 1 and " " not in shown else f"({shown})^{times}"


@dataclass(frozen=True)
class Replayed:
    """The exact answer to one word.

    Args:
        right: the machine's output.
        given: a class whose logit is not below that of `right`; `right` itself if its logit is the largest.
        arithmetic: "whole numbers", or how many bits the balls had.
    """

    right: int
    given: int
    arithmetic: str


def replay(network: Network, machine: Machine, word: Word) -> Replayed | None:
    """Compute the answer to a word exactly; None where the available arithmetic cannot decide it."""
    right = int(machine.outputs[_final(machine, word)])
    if network.integers is None:
        return _by_counts(network, word, right)
    if len(word) <= _LONGEST_EXACT:
        return _in_integers(network, word, right)
    try:
        import flint  # pyright: ignore[reportMissingImports]
    except ImportError:
        return _in_integers(network, word, right) if len(word) <= _LONGEST_WITHOUT_BALLS else None
    before = flint.ctx.prec
    try:
        for bits in _PRECISIONS:
            flint.ctx.prec = bits
            found = _in_balls(network, word, right, flint)
            if found is not None:
                return Replayed(right, found, f"balls of {bits} bits")
    finally:
        flint.ctx.prec = before
    return None


def _final(machine: Machine, word: Word) -> int:
    state = int(move_all(machine, word.prefix)[machine.start])
    power, times = move_all(machine, word.loop), word.times
    while times:
        if times & 1:
            state = int(power[state])
        power, times = power[power], times >> 1
    return int(move_all(machine, word.suffix)[state])


def move_all(machine: Machine, word: tuple[int, ...]) -> Int[np.ndarray, " state"]:
    """Return where a word leads each state."""
    states = np.arange(machine.states)
    for symbol in word:
        states = machine.delta[states, symbol]
    return states


def _in_integers(network: Network, word: Word, right: int) -> Replayed:
    assert network.integers is not None
    matrices, h, readout = network.integers
    for symbol in word.symbols():
        h = matrices[symbol] @ h
    logits = (readout @ h).tolist()
    given = _given(logits, [0] * len(logits), right)
    assert given is not None
    return Replayed(right, given, "whole numbers")


def _given(logits: Sequence[int], off: Sequence[int], right: int) -> int | None:
    """Return a class whose logit is certainly not below that of `right`; else `right`, if its is certainly the largest.

    Args:
        logits: whole numbers.
        off: how far each may be off.
        right: the machine's output; beyond the readout it has no logit, and any class will do.
    """
    classes = range(len(logits))
    if right >= len(logits):
        return max(classes, key=lambda c: logits[c])
    wrong = [c for c in classes if c != right and logits[c] - off[c] >= logits[right] + off[right]]
    if wrong:
        return max(wrong, key=lambda c: logits[c])
    certain = all(logits[c] + off[c] < logits[right] - off[right] for c in classes if c != right)
    return right if certain else None


def _by_counts(network: Network, word: Word, right: int) -> Replayed | None:
    """Replay a word of rotations or positive diagonals; None where the largest logits cannot be told apart."""
    counts = Counter(word.prefix) + Counter(word.suffix)
    for symbol, count in Counter(word.loop).items():
        counts[symbol] += count * word.times
    table = network.logs if network.angles is None else network.angles
    assert table is not None
    totals = sum((count * table.whole[a] for a, count in counts.items()), np.zeros(table.shape[1], dtype=object))
    initial, readout = Dyadic.of(network.initial).whole, Dyadic.of(network.readout).whole
    if right < len(readout):
        # the correct logit is then 0, and equal rows of the readout tie for certain
        readout = readout - readout[right]
    used = (initial != 0) & (readout != 0).any(axis=0)
    if network.angles is None and used.any():
        totals = totals - totals[used].max()
    for bits in _PRECISIONS:
        h, off = np.zeros((2, network.hidden), dtype=object)
        for place, total in enumerate(totals.tolist()):
            exponent = total * Fraction(2) ** table.power
            if network.angles is not None:
                i, j = 2 * place, 2 * place + 1
                cos, sin, units = exponential(exponent, bits, turn=True)
                h[i], h[j] = cos * initial[i] - sin * initial[j], sin * initial[i] + cos * initial[j]
                off[i] = off[j] = units * (abs(initial[i]) + abs(initial[j]))
            elif used[place]:
                value, _, units = exponential(exponent, bits)
                h[place], off[place] = value * initial[place], units * abs(initial[place])
        given = _given((readout @ h).tolist(), (abs(readout) @ off).tolist(), right)
        if given is not None:
            return Replayed(right, given, f"balls of {bits} bits")
    return None


def _in_balls(network: Network, word: Word, right: int, flint: Any) -> int | None:
    def ball(values: np.ndarray) -> Any:
        return flint.arb_mat(*values.shape, [flint.arb(value) for value in values.ravel().tolist()])

    assert network.integers is not None
    integers, initial, readout = network.integers
    matrices = {a: ball(integers[a]) for a in set(word.prefix + word.loop + word.suffix)}
    h = ball(initial[:, None])
    for symbol in word.prefix:
        h = matrices[symbol] * h
    if word.times:
        power = ball(np.eye(network.hidden, dtype=np.int64))
        for symbol in word.loop:
            power = matrices[symbol] * power
        times = word.times
        while times:
            if times & 1:
                h = power * h
            times >>= 1
            if times:
                power = power * power
    for symbol in word.suffix:
        h = matrices[symbol] * h
    read = ball(readout) * h
    logits = [read[c, 0] for c in range(network.classes)]
    wrong = [c for c in range(network.classes) if c != right and (logits[c] - logits[right]).lower() > 0]
    if wrong:
        return wrong[0]
    if all((logits[right] - logits[c]).lower() > 0 for c in range(network.classes) if c != right):
        return right
    return None
