"""The machine that a network computes, extracted without knowledge of its task.

Where outputs are states, each transition is a majority vote: over short words w that the network answers with c, which
answer does w a get? A vote tolerates the drift that ruins long words. Where outputs are coarser, states are rows of
answers to suffixes (Angluin's L*), with the network as the teacher.

Whether machine and network are equal is asked of test words first, then of `certify`: a proof ends the search, and a
counterexample continues it. Where weights are small whole numbers `certify` decides exactly, and the search is not
bounded by a number of states. Where it decides nothing, words that lead to new hidden states are tried as well.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Int

from statewise.errors import NetworkError
from statewise.machines import Machine, identical, minimise
from statewise.randomness import stream
from statewise.stages import say
from statewise.theory.certify.verdict import Verdict, certify
from statewise.theory.network import Network
from statewise.theory.observation import ObservationTable, Word, answer_words, read_words

Faithful = Literal["proven", "tested", "no"]
_CONTEXTS, _TEST_WORDS = 4_000, 20_000
_MAX_STATES = 300
# of a network of whole numbers: entries up to which it is one, and transitions that may be judged, question by question
_LARGEST_WHOLE, _MAX_JUDGED = 1 << 20, 2_000_000
# above this agreement, classes are taken for states
_LEAST_AGREEMENT = 0.9
# words of each length that are kept because they lead to new hidden states, and products of numbers for them
_NEW_WORDS, _NEW_WORK = 2_000, 200_000_000


@dataclass(frozen=True)
class Extracted:
    """A machine extracted from a network.

    Args:
        machine: minimal.
        faithful: "proven" where network and machine are proven equal on all words that may be asked, "tested" where
            they agree on every test word and no proof was found, "no" where they differ on some word.
        reason: what `faithful` rests on, or a word on which they differ.
        agreement: the share of test words on which they agree.
        method: "votes", or "rows of answers".
    """

    machine: Machine
    faithful: Faithful
    reason: str
    agreement: float
    method: str


def extract(
    network: Network,
    shortest: int = 0,
    longest: int = 10,
    seed: int = 0,
    alphabet: Iterable[str] | None = None,
    output_names: Iterable[str] | None = None,
) -> Extracted:
    """Extract the machine of a network.

    Args:
        network: the network.
        shortest: words of fewer symbols were never trained on, and are not queried.
        longest: the longest words on which a network is trusted whose answers to all words are not decided exactly.
        seed: of the random words that are queried where there are too many.
        alphabet: names of symbols.
        output_names: names of classes.
    """
    if not 0 <= shortest <= longest:
        raise NetworkError(f"lengths go from {shortest} to {longest}; expected 0 <= shortest <= longest; correct them")
    names = {"alphabet": alphabet, "output_names": output_names}
    oracle = _Oracle(network, shortest, longest, seed)
    say("reading the machine out by votes")
    voted = _by_votes(oracle, seed, names)
    share = 0.0 if voted is None else oracle.agreement(voted)
    if voted is not None and share == 1:
        found = oracle.judge(voted, "votes")
        if found.faithful != "no":
            return found
    # a few wrong answers are drift, which only many more states would explain; more are states that outputs hide
    trusted = voted is not None and _LEAST_AGREEMENT <= share < 1
    bound = 2 * minimise(voted).states + 8 if trusted and voted is not None else _MAX_STATES
    say("reading the machine out by rows of answers")
    taught = _by_rows(oracle, None if oracle.whole_numbers else bound, names)
    if taught is not None and (voted is None or share == 1 or oracle.agreement(taught) > share):
        return oracle.judge(taught, "rows of answers")
    if trusted and oracle.diagonal:
        # what counts of symbols decide is decided exactly too, but of trained weights it may be no small machine
        larger = _by_rows(oracle, _MAX_STATES, names)
        found = None if larger is None else oracle.judge(larger, "rows of answers")
        if found is not None and found.faithful == "proven":
            return found
    if voted is None:
        raise NetworkError(
            f"no machine of few states (at most {_MAX_STATES}) answers as this network does on words of {shortest} to "
            f"{longest} symbols; train it further"
        )
    return oracle.judge(voted, "votes")


class _Oracle:
    """What says whether a machine is the network's: test words, proofs, and words that lead to new hidden states."""

    def __init__(self, network: Network, shortest: int, longest: int, seed: int) -> None:
        self.network, self.shortest, self.longest = network, shortest, longest
        # the name of a stream decides what it draws, so it stays
        self.tests = _words(network.symbols, shortest, longest, _TEST_WORDS, stream(seed, "exam"))
        self.answers = [answer_words(network, words) for words in self.tests]
        self.count = sum(len(words) for words in self.tests)
        self._last: tuple[Machine, Verdict] | None = None

    @cached_property
    def whole_numbers(self) -> bool:
        """Whether all matrices are small whole numbers, so that `certify` decides all words exactly, as a rule."""
        matrices = self.network.matrices
        return bool(np.abs(matrices).max() <= _LARGEST_WHOLE and (np.rint(matrices) == matrices).all())

    @cached_property
    def diagonal(self) -> bool:
        """Whether all matrices are diagonal, so that answers depend on counts of symbols alone."""
        return not self.network.matrices[:, ~np.eye(self.network.hidden, dtype=bool)].any()

    @cached_property
    def new_words(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Words of the trusted lengths that lead to hidden states unlike those before, and the answers to them."""
        words = _new_words(self.network, self.shortest, self.longest)
        return words, [answer_words(self.network, some) for some in words]

    def agreement(self, machine: Machine) -> float:
        """Return the share of test words on which a machine agrees with the network."""
        pairs = zip(self.tests, self.answers, strict=True)
        return sum(int((machine.answer(words) == given).sum()) for words, given in pairs) / self.count

    def wrong_test(self, machine: Machine) -> Word | None:
        """Return a first test word on which a machine differs from the network."""
        return _first_wrong(machine, self.tests, self.answers)

    def counterexample(self, machine: Machine) -> Word | None:
        """Return a word on which a machine that agrees on all test words differs from the network."""
        verdict = self._certify(minimise(machine))
        if verdict.counterexample is not None:
            return verdict.counterexample.word.symbols()
        return None if verdict.status == "proven" else _first_wrong(machine, *self.new_words)

    def _certify(self, machine: Machine) -> Verdict:
        """Return the verdict on a minimal machine; the last one is kept, since it is asked for twice."""
        if self._last is None or not identical(self._last[0], machine):
            self._last = (machine, certify(self.network, machine, self.shortest, seconds=0.0, all_words=True))
        return self._last[1]

    def judge(self, machine: Machine, method: str) -> Extracted:
        """Say whether a machine is the network's, and what that rests on."""
        machine = minimise(machine)
        lengths = f"{self.shortest} to {self.longest} symbols"
        wrong = self.wrong_test(machine)
        if wrong is not None:
            share = self.agreement(machine)
            differ = f"they differ on {(1 - share) * self.count:.0f} of {self.count:,} words of {lengths}"
            return Extracted(machine, "no", f"{differ}, first on {_shown(machine, wrong)}", share, method)
        reason = f"they agree on {self.count:,} words of {lengths}"
        verdict = self._certify(machine)
        if verdict.status == "proven":
            every = f"all words of at least {self.shortest} symbols" if self.shortest else "all words"
            return Extracted(machine, "proven", f"proven equal on {every} ({verdict.method}); {reason}", 1.0, method)
        if verdict.counterexample is not None:
            word = verdict.counterexample.word.written(machine)
            return Extracted(machine, "no", f"{reason}, but differ on {word or 'the empty word'}", 1.0, method)
        wrong = _first_wrong(machine, *self.new_words)
        if wrong is not None:
            return Extracted(machine, "no", f"{reason}, but differ on {_shown(machine, wrong)}", 1.0, method)
        table = machine.delta.size * math.log2(max(machine.states, 2))
        if method != "votes" and table > self.count * math.log2(max(machine.classes, 2)):
            # a table that takes more bits than the answers it explains is a list of them
            return Extracted(machine, "no", f"{reason}, but {machine.states} states only list them", 1.0, method)
        reason = f"{reason}, and on others that lead to new hidden states"
        return Extracted(machine, "tested", reason, 1.0, method)


def _by_votes(oracle: _Oracle, seed: int, names: dict) -> Machine | None:
    """Take the classes for states, and each transition by a majority vote; None where some class has no votes."""
    network, shortest = oracle.network, oracle.shortest
    votes = np.zeros((network.classes, network.symbols, network.classes), dtype=np.int64)
    deepest = min(shortest + 2, max(shortest, oracle.longest - 1))
    for words in _words(network.symbols, shortest, deepest, _CONTEXTS, stream(seed, "contexts")):
        hidden = read_words(network, words)
        before = (hidden @ network.readout.T).argmax(axis=1)
        for symbol in range(network.symbols):
            after = (hidden @ (network.readout @ network.matrices[symbol]).T).argmax(axis=1)
            np.add.at(votes[:, symbol], (before, after), 1)
    seen = votes.sum(axis=2) > 0
    delta = votes.argmax(axis=2)
    states = np.flatnonzero(seen.all(axis=1))
    if not len(states) or not np.isin(delta[states], states).all():
        return None
    number = np.full(network.classes, -1)
    number[states] = np.arange(len(states))
    table = number[delta[states]]
    candidates = [Machine(table, start, states, **names) for start in range(len(states))]
    return max(candidates, key=oracle.agreement)


def _by_rows(oracle: _Oracle, most: int | None, names: dict) -> Machine | None:
    """Learn from answers alone, until no word is found on which machine and network differ; None past the bound.

    Args:
        oracle: what finds such words.
        most: how many states there may be; None for as many as can be judged.
        names: of symbols and outputs.
    """
    network, shortest = oracle.network, oracle.shortest
    table = ObservationTable(network, shortest)
    bound = _MAX_JUDGED // network.symbols if most is None else most + shortest
    judged, wrong = 0, None
    while table.close(bound):
        asked = table.machine()
        # one word may show many states, one after the other
        if wrong is not None and table.split(wrong, asked):
            continue
        judged += asked.delta.size
        if most is None and judged > _MAX_JUDGED:
            return None
        learned = _without_short_words(asked, network.classes, shortest, names)
        wrong = oracle.wrong_test(asked)
        if wrong is None:
            wrong = oracle.counterexample(learned)
        if wrong is None or not table.split(wrong, asked):
            return learned
    return None


def _without_short_words(learned: Machine, classes: int, shortest: int, names: dict) -> Machine:
    """Start in a state from which all words that are long enough are answered alike, if there is one."""
    machine = minimise(learned)
    plain = np.minimum(machine.outputs, classes - 1)
    inside = np.flatnonzero(machine.outputs < classes).tolist()
    start = next((q for q in inside if _alike(machine, q, shortest)), machine.start)
    return minimise(Machine(machine.delta, start, plain, **names))


def _alike(machine: Machine, state: int, shortest: int) -> bool:
    """Return whether all words of at least so many symbols are answered from a state as from the start."""
    seen = {(machine.start, state, 0)}
    waiting = list(seen)
    while waiting:
        here, there, length = waiting.pop()
        if length >= shortest and machine.outputs[here] != machine.outputs[there]:
            return False
        for symbol in range(machine.symbols):
            pair = (int(machine.delta[here, symbol]), int(machine.delta[there, symbol]), min(length + 1, shortest))
            if pair not in seen:
                seen.add(pair)
                waiting.append(pair)
    return True


def _first_wrong(machine: Machine, tests: list[np.ndarray], answers: list[np.ndarray]) -> Word | None:
    for words, given in zip(tests, answers, strict=True):
        wrong = np.flatnonzero(machine.answer(words) != given)
        if len(wrong):
            return tuple(words[wrong[0]].tolist())
    return None


def _shown(machine: Machine, word: Word) -> str:
    return " ".join(machine.decode(word)) or "the empty word"


def _new_words(network: Network, shortest: int, longest: int) -> list[Int[np.ndarray, "word time"]]:
    """Return words of each length that lead to hidden directions which no shorter word, and none of these, leads to.

    Random words hardly ever open a combination lock; words that lead on from each new direction do.
    """
    width = max(1, min(_NEW_WORDS, _NEW_WORK // (network.symbols * network.hidden**2)))
    mixed = np.random.default_rng(0).integers(1, 2**40, network.hidden)
    words, hidden = np.zeros((1, 0), dtype=np.int64), network.initial[None]
    seen = _keys(hidden, mixed)
    found = [words] if shortest == 0 else []
    for length in range(1, longest + 1):
        hidden = np.einsum("aij,bj->bai", network.matrices, hidden, optimize=True).reshape(-1, network.hidden)
        symbols = np.tile(np.arange(network.symbols), len(words))
        words = np.column_stack([np.repeat(words, network.symbols, axis=0), symbols])
        keys, first = np.unique(_keys(hidden, mixed), return_index=True)
        new = ~np.isin(keys, seen)
        seen = np.concatenate([seen, keys[new]])
        kept = np.sort(first[new])[:width]
        words, hidden = words[kept], hidden[kept]
        hidden = hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        if not len(words):
            break
        if length >= shortest:
            found.append(words)
    return found


def _keys(hidden: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """Return a number for each hidden direction, rounded; two that differ hardly ever share one."""
    unit = hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.round(unit * 50).astype(np.int64) @ mixed


def _words(
    symbols: int, shortest: int, longest: int, count: int, random: np.random.Generator
) -> list[Int[np.ndarray, "word time"]]:
    """Return words of each length: all of them if they are few, random ones if not."""
    each = max(1, count // (longest - shortest + 1))
    return [_of_length(symbols, length, each, random) for length in range(shortest, longest + 1)]


def _of_length(symbols: int, length: int, count: int, random: np.random.Generator) -> Int[np.ndarray, "word time"]:
    if symbols**length <= count:
        return np.indices((symbols,) * length).reshape(length, -1).T if length else np.zeros((1, 0), dtype=np.int64)
    return random.integers(0, symbols, (count, length))
