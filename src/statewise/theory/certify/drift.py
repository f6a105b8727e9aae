"""Wrong words that are powers, of any length: found and proved by repeated squaring in ball arithmetic.

Along x u^n a network that is not exact drifts: its angles turn off by a little each time, or some directions outgrow
others. If u^d leads a machine state back to itself, the answer after x u^(dn) should never change. With B = A_u^d,
the powers B, B^2, B^4, ... cost one product each, so that the first n = 2^j with a wrong answer is found in j steps,
and a boundary between right and wrong below it, bit by bit, in j more. Words of 10^15 symbols take a second.

Matrices are balls that contain the true numbers, with far more bits than floats have, so that what is found is proved.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from statewise.machines import Machine, access_words
from statewise.theory.certify.exact_replay import Word, move_all, replay
from statewise.theory.certify.refute import Counterexample
from statewise.theory.dyadic import Dyadic
from statewise.theory.network import Network

_BITS = 256
# powers up to 2^56 times a loop, whose lengths a word can still tell; multiplications in all
_POWERS, _WORK = 56, 4e8
_MAX_LOOPS, _MAX_PREFIXES = 40, 12

_SKIPPED = "not powers of words by repeated squaring, which need python-flint (install statewise[certify])"


@dataclass(frozen=True)
class DriftSearch:
    """What a search for wrong powers found.

    Args:
        counterexample: the shortest wrong word that was found, replayed; None if none was.
        loops: how many words u were followed.
        times: up to which power.
        skipped: why nothing was searched.
    """

    counterexample: Counterexample | None
    loops: int
    times: int
    skipped: str = ""


def search_by_drift(
    network: Network,
    machine: Machine,
    shortest: int = 0,
    legal: Bool[np.ndarray, "state symbol"] | None = None,
    work: float = _WORK,
) -> DriftSearch:
    """Search for a wrong word x u^n, with n of any size; without python-flint nothing is searched.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        shortest: words of fewer symbols do not count.
        legal: which symbols may follow which states; None allows all.
        work: about how many multiplications to make.
    """
    try:
        import flint  # pyright: ignore[reportMissingImports]
    except ImportError:
        return DriftSearch(None, 0, 0, skipped=_SKIPPED)
    allowed = np.ones(machine.delta.shape, dtype=bool) if legal is None else legal
    each = 2 * _POWERS * network.hidden**2 * (network.hidden + _MAX_PREFIXES)
    loops = list(itertools.islice(_loops(machine, allowed), max(0, min(_MAX_LOOPS, int(work / each)))))
    before, best = flint.ctx.prec, None
    flint.ctx.prec = _BITS
    try:
        balls = _Balls(network, flint)
        for loop in loops:
            best = _along(balls, network, machine, allowed, loop, shortest, best)
    finally:
        flint.ctx.prec = before
    return DriftSearch(best, len(loops), 2**_POWERS)


def _loops(machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> Any:
    """Yield short words that some state may read for ever."""
    for length in (1, 2):
        for loop in itertools.product(range(machine.symbols), repeat=length):
            if length == 1 or loop[0] != loop[1]:
                yield loop


class _Balls:
    """The network's numbers as balls."""

    def __init__(self, network: Network, flint: Any) -> None:
        self._flint = flint
        self.readout, self.initial = self.matrix(network.readout), self.matrix(network.initial[:, None])
        self.classes = network.classes
        if network.integers is not None:
            self.matrices = [self.matrix(matrix) for matrix in network.integers[0]]
        elif network.angles is not None:
            self.matrices = [self._turned(angles) for angles in self._numbers(network.angles)]
        else:
            assert network.logs is not None
            self.matrices = [self._decayed(logs) for logs in self._numbers(network.logs)]

    def matrix(self, values: np.ndarray) -> Any:
        """Enclose floats or whole numbers."""
        return self._flint.arb_mat(*values.shape, [self._flint.arb(value) for value in values.ravel().tolist()])

    def _numbers(self, table: Dyadic) -> list[list[Any]]:
        unit = self._flint.arb(2) ** table.power
        return [[self._flint.arb(value) * unit for value in row] for row in table.whole.tolist()]

    def _turned(self, angles: list[Any]) -> Any:
        """Return rotations by these angles."""
        made = self.matrix(np.zeros((2 * len(angles), 2 * len(angles))))
        for plane, angle in enumerate(angles):
            i, j, cos, sin = 2 * plane, 2 * plane + 1, angle.cos(), angle.sin()
            made[i, i], made[i, j], made[j, i], made[j, j] = cos, -sin, sin, cos
        return made

    def _decayed(self, logs: list[Any]) -> Any:
        """Return the diagonal with these logarithms."""
        made = self.matrix(np.zeros((len(logs), len(logs))))
        for i, log in enumerate(logs):
            made[i, i] = log.exp()
        return made

    def after(self, word: tuple[int, ...], h: Any) -> Any:
        """Return the state, or the product, after a word."""
        for symbol in word:
            h = self.matrices[symbol] * h
        return h

    def wrong(self, h: Any, output: int) -> bool:
        """Return whether some other logit is certainly larger."""
        logits = self.readout * h
        return any((logits[c, 0] - logits[output, 0]).lower() > 0 for c in range(self.classes) if c != output)


def _along(
    balls: _Balls,
    network: Network,
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    loop: tuple[int, ...],
    shortest: int,
    best: Counterexample | None,
) -> Counterexample | None:
    """Follow the powers of one loop from every state that it leads back to itself; return the better counterexample."""
    moves = move_all(machine, loop)
    found = access_words(machine, legal)
    for state, prefix in list(found.items())[:_MAX_PREFIXES]:
        period = _period(moves, state)
        if period is None or not _readable(machine, legal, state, loop, period):
            continue
        whole = loop * period
        power = balls.after(whole, balls.matrix(np.eye(network.hidden)))
        first = balls.after(prefix, balls.initial)
        output = int(machine.outputs[state])
        powers = [power]
        while len(powers) <= _POWERS:
            length = len(prefix) + len(whole) * 2 ** (len(powers) - 1)
            if best is not None and length // 2 > len(best.word):
                break
            if balls.wrong(powers[-1] * first, output):
                times = _last_right(balls, powers, first, output) + 1
                # too short a word does not count; a longer power of the same drift does, if it is wrong too
                while len(prefix) + len(whole) * times < shortest:
                    times += 1
                best = _shorter(network, machine, Word(prefix, loop, period * times), best)
                break
            powers.append(powers[-1] * powers[-1])
    return best


def _last_right(balls: _Balls, powers: list[Any], first: Any, output: int) -> int:
    """Return an n such that the answer after n times is not certainly wrong and after n + 1 times it is.

    The last power is wrong and 0 times is taken to be right, so that the bits of n are found from the highest on.
    """
    times, h = 0, first
    for place in reversed(range(len(powers) - 1)):
        moved = powers[place] * h
        if not balls.wrong(moved, output):
            times, h = times + 2**place, moved
    return times


def _shorter(network: Network, machine: Machine, word: Word, best: Counterexample | None) -> Counterexample | None:
    if best is not None and len(word) >= len(best.word):
        return best
    replayed = replay(network, machine, word)
    if replayed is None or replayed.given == replayed.right:
        return best
    return Counterexample(word, replayed, "drift of powers")


def _period(moves: Int[np.ndarray, " state"], state: int) -> int | None:
    """Return after how many times a word leads a state back to itself; None if it never does."""
    there = state
    for times in range(1, len(moves) + 1):
        there = int(moves[there])
        if there == state:
            return times
    return None


def _readable(
    machine: Machine, legal: Bool[np.ndarray, "state symbol"], state: int, loop: tuple[int, ...], times: int
) -> bool:
    """Return whether a word may be read from a state again and again."""
    for symbol in loop * times:
        if not legal[state, symbol]:
            return False
        state = int(machine.delta[state, symbol])
    return True
