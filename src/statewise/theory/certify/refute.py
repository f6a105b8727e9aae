"""Search for a word on which a network differs from its machine.

All words come first, while they are few enough; then a beam of the words with the smallest margins, separately for each
machine state; then powers x u^n z: along u^n a network that is not exact drifts, and the drift shows sooner or later. A
word found in floating point counts only after an exact replay.
"""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine, access_words
from statewise.stages import say
from statewise.theory.balls import TINY, UNIT
from statewise.theory.certify.exact_replay import Replayed, Word, replay
from statewise.theory.network import Network, Scaled

_MAX_NUMBERS = 2_000_000
_WIDTH, _SHALLOW, _DEEPEST = 1_500, 60, 300
_MAX_LOOPS, _MAX_TIMES = 64, 20_000
# what each phase leaves of the budget is there for the next: all words, a shallow beam, powers, a deep beam
_PHASES = (0.2, 0.4, 0.8, 1.0)
# a bound that is infinite, or no number, leaves nothing certain
_LOOSE = np.errstate(divide="ignore", invalid="ignore", over="ignore")


class Budget:
    """A limit on a search: a number of hidden-state updates or, where none is given, seconds on the clock.

    One update is one product of a matrix with a hidden state, in floating point or in an exact replay. With a number of
    updates the clock is never read: the search is a function of its arguments alone, however fast the computer is.

    Args:
        seconds: the limit on the clock, where `work` is None.
        work: the limit in hidden-state updates.
    """

    def __init__(self, seconds: float, work: int | None = None) -> None:
        self._limit = seconds if work is None else work
        self._began = time.perf_counter() if work is None else None
        self._spent = 0
        self._share = 1.0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to spend."""
        return self._limit <= 0

    @property
    def exhausted(self) -> bool:
        """Whether the share that may be spent so far is spent."""
        spent = self._spent if self._began is None else time.perf_counter() - self._began
        if self._limit > 0:
            say("searching for a wrong word", spent / self._limit)
        return spent >= self._share * self._limit

    def allow(self, share: float) -> None:
        """Permit spending up to a share of the whole, what is spent already included."""
        self._share = share

    def spend(self, updates: int) -> None:
        """Record hidden-state updates."""
        self._spent += updates


@dataclass(frozen=True)
class Counterexample:
    """A word, its exact replay, and the search that found it."""

    word: Word
    replayed: Replayed
    found_by: str


@dataclass(frozen=True)
class Search:
    """The result of a search.

    Args:
        counterexample: the shortest that was found and confirmed; None if none was.
        proven: the length up to which all words that count are answered correctly, with rounding errors bounded; None
            if not even the shortest are.
        tried: what was searched, in words.
    """

    counterexample: Counterexample | None
    proven: int | None
    tried: tuple[str, ...]


def search(
    network: Network,
    machine: Machine,
    shortest: int = 0,
    seconds: float = 20.0,
    *,
    work: int | None = None,
    legal: Bool[np.ndarray, "state symbol"] | None = None,
) -> Search:
    """Search for a counterexample, shortest words first.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        shortest: words of fewer symbols do not count.
        seconds: about how long to search on the clock; ignored where `work` is given.
        work: about how many hidden-state updates (products of a matrix with a hidden state) to make. The result is
            then the same on every computer; None leaves the clock as the only limit.
        legal: which symbols may follow which states: sequences of others are not judged; None judges all.
    """
    budget = Budget(seconds, work)
    legal = np.ones(machine.delta.shape, dtype=bool) if legal is None else legal
    all_words = _AllWords(network, machine, shortest, legal)
    budget.allow(_PHASES[0])
    found = all_words.run(budget)
    tried = [f"all words up to {all_words.depth} symbols"]
    if found is None:
        budget.allow(_PHASES[1])
        deepest, found = _beam(network, machine, shortest, budget, all_words, _SHALLOW)
        most = None if found is None else len(found.word) - 1
        budget.allow(_PHASES[2])
        loops, times, power = _powers(network, machine, shortest, budget, most, legal)
        found = power or found
        # a power is easy to read: a word that is no power must be a good deal shorter
        limit = _DEEPEST if found is None else min(_DEEPEST, round(0.9 * len(found.word)))
        if limit > _SHALLOW:
            budget.allow(_PHASES[3])
            deepest, other = _beam(network, machine, shortest, budget, all_words, limit)
            found = other or found
        tried.append(f"words of small margin up to {deepest} symbols")
        tried.append(f"powers of {loops} words, up to {times:,} times")
    return Search(found, all_words.proven, tuple(tried))


class _AllWords:
    """All words, one length after another, with bounds on what float64 rounds and the matrices are off.

    Let e bound, entry by entry, how far the computed state h is off. With a matrix A that is off by at most D,

        |A| e + D (|h| + e) + gamma |A| |h| + H TINY,    gamma = (H + 4) u,

    bounds how far A h as computed is off. Bounds are enlarged by what their own computation may round. States and
    bounds are multiplied by the same powers of two.
    """

    def __init__(
        self, network: Network, machine: Machine, shortest: int, legal: Bool[np.ndarray, "state symbol"]
    ) -> None:
        self.network, self.machine, self.shortest, self.legal = network, machine, shortest, legal
        self.scaled, hidden = network.scaled, network.hidden
        self.h, self.e = self.scaled.initial.mid[None], self.scaled.initial.off[None]
        self.q = np.array([machine.start])
        self.back: list[tuple[np.ndarray, np.ndarray]] = []
        self.depth = 0
        self.proven: int | None = None
        # what is off by e and as large as h is moved by |A| + D and by D + gamma |A|
        share = (hidden + 4) * UNIT
        parts = (self.scaled.matrices, self.scaled.readout)
        self._moving, self._reading = (
            (np.abs(part.mid) + part.off, part.off + share * np.abs(part.mid) + TINY) for part in parts
        )
        # more than what sums of so many numbers that are not negative may round
        self._enlarge = 1 + 8 * share

    def run(self, budget: Budget) -> Counterexample | None:
        """Search length by length, while all words of the next one fit into memory and into the budget."""
        certain = True
        while True:
            if self.depth >= self.shortest:
                margins = _margins(self.scaled, self.h, self.machine.outputs[self.q])
                for place in np.argsort(margins)[:20].tolist():
                    if margins[place] > 1e-9:
                        break
                    word = Word(_walk_back(self.back, place))
                    found = _confirm(self.network, self.machine, word, "all words", budget)
                    if found is not None:
                        return found
                certain = certain and self._certain()
                if certain:
                    self.proven = self.depth
            longer = len(self.q) * self.network.symbols
            if longer * self.network.hidden > _MAX_NUMBERS or budget.exhausted:
                return None
            budget.spend(longer)
            self._lengthen()

    @_LOOSE
    def _certain(self) -> bool:
        """Return whether every target logit exceeds every other by more than both may be off."""
        logits = self.h @ self.scaled.readout.mid.T
        off = self.e @ self._reading[0].T + np.abs(self.h) @ self._reading[1].T
        off = off * self._enlarge + 8 * self.network.hidden * TINY
        rows, outputs = np.arange(len(self.h)), self.machine.outputs[self.q]
        leads = logits[rows, outputs][:, None] - logits
        bounds = 1.01 * (off[rows, outputs][:, None] + off)
        leads[rows, outputs], bounds[rows, outputs] = 1.0, 0.0
        return bool((leads > bounds).all())

    @_LOOSE
    def _lengthen(self) -> None:
        """Append every symbol to every word."""
        words, symbols = len(self.q), self.network.symbols
        h = _after_each(self.scaled.matrices.mid, self.h)
        e = _after_each(self._moving[0], self.e) + _after_each(self._moving[1], np.abs(self.h))
        # a factor that is a power of two is exact, but for what vanishes
        power = -np.frexp(np.abs(h).max(axis=1, keepdims=True))[1]
        e = np.ldexp(e * self._enlarge + 8 * self.network.hidden * TINY, power) + TINY
        kept = self.legal[self.q].reshape(-1)
        self.h, self.e = np.ldexp(h, power)[kept], e[kept]
        parents, last = np.repeat(np.arange(words), symbols), np.tile(np.arange(symbols), words)
        self.back.append((parents[kept], last[kept]))
        self.q = self.machine.delta[self.q].reshape(-1)[kept]
        self.depth += 1


def _beam(
    network: Network, machine: Machine, shortest: int, budget: Budget, begun: _AllWords, limit: int
) -> tuple[int, Counterexample | None]:
    """Follow, for each machine state, the words with the smallest margins; nearly equal directions count once.

    Returns:
        the length reached, and a confirmed counterexample if there is one.
    """
    each = max(4, _WIDTH // machine.states)
    depth = begun.depth
    kept = _thin(begun.h, begun.q, _margins(begun.scaled, begun.h, machine.outputs[begun.q]), each)
    h, q = begun.h[kept], begun.q[kept]
    back = [*begun.back[:-1], tuple(part[kept] for part in begun.back[-1])] if begun.back else []
    while depth < limit and not budget.exhausted:
        words = len(q)
        budget.spend(words * network.symbols)
        allowed = begun.legal[q].reshape(-1)
        h = _after_each(begun.scaled.matrices.mid, h)[allowed]
        h = _normalised(h)
        parents = np.repeat(np.arange(words), network.symbols)[allowed]
        last = np.tile(np.arange(network.symbols), words)[allowed]
        q = machine.delta[q].reshape(-1)[allowed]
        depth += 1
        margins = _margins(begun.scaled, h, machine.outputs[q])
        if depth >= shortest:
            for place in np.argsort(margins)[:5].tolist():
                if margins[place] > 1e-9:
                    break
                word = (*_walk_back(back, int(parents[place])), int(last[place]))
                found = _confirm(network, machine, Word(word), "a beam of small margins", budget)
                if found is not None:
                    return depth, found
        kept = _thin(h, q, margins, each)
        h, q = h[kept], q[kept]
        back.append((parents[kept], last[kept]))
    return depth, None


def _thin(h: np.ndarray, q: np.ndarray, margins: np.ndarray, each: int) -> Int[np.ndarray, " kept"]:
    """Return the rows to keep: for each machine state the smallest margins, one of each rounded direction."""
    order = np.argsort(margins)
    # a random sum stands for the rounded direction: two that differ hardly ever share one
    mixed = np.random.default_rng(0).integers(1, 2**40, h.shape[1] + 1)
    keys = np.round(h[order] * 50).astype(np.int64) @ mixed[1:] + q[order] * mixed[0]
    _, first = np.unique(keys, return_index=True)
    candidates = order[np.sort(first)]
    kept = [candidates[q[candidates] == state][:each] for state in np.unique(q)]
    return np.concatenate(kept)


def _powers(
    network: Network,
    machine: Machine,
    shortest: int,
    budget: Budget,
    most: int | None,
    legal: Bool[np.ndarray, "state symbol"],
) -> tuple[int, int, Counterexample | None]:
    """Follow x u^n z for short u and z, and for an x that leads to each machine state.

    Returns:
        how many words u and how many powers were followed, and the shortest confirmed counterexample.
    """
    loops = list(itertools.islice(_short_words(network.symbols), _MAX_LOOPS))
    access = list(access_words(machine, legal).values())
    scaled = network.scaled
    prefixes = np.repeat(scaled.initial.mid[None], len(access), axis=0)
    for row, word in enumerate(access):
        for symbol in word:
            prefixes[row] = _normalised(scaled.matrices.mid[symbol] @ prefixes[row])
        budget.spend(len(word))
    matrices = np.stack([_product(scaled, loop) for loop in loops])
    moves = np.stack([_follow(machine, legal, loop) for loop in loops])
    starts = np.array([int(machine.final(np.array(word, dtype=np.int64))) for word in access])
    h = np.broadcast_to(prefixes, (len(loops), *prefixes.shape))
    q = np.broadcast_to(starts, (len(loops), len(access)))
    best: Counterexample | None = None
    lengths = np.array([len(loop) for loop in loops])
    times = 0
    while times < _MAX_TIMES and not budget.exhausted:
        times += 1
        limit = most if best is None else len(best.word) - 1
        if limit is not None and times * int(lengths.min()) > limit:
            break
        budget.spend(q.size)
        h = h @ matrices.transpose(0, 2, 1)
        h = _normalised(h)
        # -1 is where a word leads that is not judged, and stays so
        q = np.where(q >= 0, np.take_along_axis(moves, np.maximum(q, 0), axis=1), -1)
        # every suffix at first, later only now and then: the drift is slow by then
        suffixes: list[tuple[int, ...]] = [()]
        if times < 40 or times % 8 == 0:
            suffixes += [(a,) for a in range(min(network.symbols, 12))]
        for suffix in suffixes:
            hs, qs = h, q
            for a in suffix:
                budget.spend(q.size)
                inside = (qs >= 0) & legal[np.maximum(qs, 0), a]
                hs, qs = hs @ scaled.matrices.mid[a].T, np.where(inside, machine.delta[np.maximum(qs, 0), a], -1)
            ends = qs.reshape(-1)
            margins = _margins(scaled, hs.reshape(-1, network.hidden), machine.outputs[np.maximum(ends, 0)])
            for place in np.flatnonzero((margins < 1e-9) & (ends >= 0))[:200].tolist():
                loop, row = divmod(place, len(access))
                word = Word(access[row], loops[loop], times, suffix)
                if len(word) < shortest or (limit is not None and len(word) > limit):
                    continue
                if best is not None and len(word) >= len(best.word):
                    continue
                found = _confirm(network, machine, word, "powers of a word", budget)
                if found is not None:
                    best, limit = found, len(word) - 1
    return len(loops), times, best


def _follow(
    machine: Machine, legal: Bool[np.ndarray, "state symbol"], word: tuple[int, ...]
) -> Int[np.ndarray, " state"]:
    """Return where a word leads each state; -1 where it is not judged."""
    states = np.arange(machine.states)
    for symbol in word:
        inside = (states >= 0) & legal[np.maximum(states, 0), symbol]
        states = np.where(inside, machine.delta[np.maximum(states, 0), symbol], -1)
    return states


def _short_words(symbols: int) -> Iterator[tuple[int, ...]]:
    for length in (1, 2, 3):
        yield from itertools.product(range(symbols), repeat=length)


def _product(scaled: Scaled, word: tuple[int, ...]) -> Float[np.ndarray, "out in"]:
    """Return the matrix of a word, times a power of two."""
    made = np.eye(scaled.matrices.mid.shape[1])
    for symbol in word:
        made = scaled.matrices.mid[symbol] @ made
        made = np.ldexp(made, -np.frexp(np.abs(made).max())[1])
    return made


def _normalised(h: Float[np.ndarray, "*word hidden"]) -> Float[np.ndarray, "*word hidden"]:
    """Divide by the norm; by a power of two first, so that squares do not vanish. What is 0 stays."""
    h = np.ldexp(h, -np.frexp(np.abs(h).max(axis=-1, keepdims=True))[1])
    return h / np.maximum(np.linalg.norm(h, axis=-1, keepdims=True), np.finfo(float).tiny)


def _after_each(
    matrices: Float[np.ndarray, "symbol out in"], h: Float[np.ndarray, "word in"]
) -> Float[np.ndarray, "longer out"]:
    """Return the hidden states after each word and each symbol, symbols fastest."""
    symbols, hidden = matrices.shape[:2]
    return (h @ matrices.reshape(symbols * hidden, -1).T).reshape(len(h) * symbols, hidden)


def _margins(
    scaled: Scaled, h: Float[np.ndarray, "word hidden"], outputs: Int[np.ndarray, " word"]
) -> Float[np.ndarray, " word"]:
    """Return the margins: the target logit minus the largest other one, over the norm of the hidden state."""
    logits = h @ scaled.readout.mid.T
    rows = np.arange(len(h))
    own = logits[rows, outputs]
    logits[rows, outputs] = -np.inf
    rival = logits.max(axis=1) if logits.shape[1] > 1 else np.full(len(h), -np.inf)
    return (own - rival) / np.maximum(np.linalg.norm(h, axis=1), np.finfo(float).tiny)


def _walk_back(back: list[tuple[np.ndarray, np.ndarray]], place: int) -> tuple[int, ...]:
    """Return the word that leads to a place of the last layer, from the parents and last symbols of all layers."""
    symbols: list[int] = []
    for parents, last in reversed(back):
        symbols.append(int(last[place]))
        place = int(parents[place])
    return tuple(reversed(symbols))


def _confirm(network: Network, machine: Machine, word: Word, found_by: str, budget: Budget) -> Counterexample | None:
    """Replay a word exactly; None where it is answered correctly, or the replay cannot decide."""
    budget.spend(len(word))
    replayed = replay(network, machine, word)
    if replayed is None or replayed.given == replayed.right:
        return None
    return Counterexample(word, replayed, found_by)
