"""The machine that a network computes, extracted without knowledge of its task.

Where outputs are states, each transition is a majority vote: over short words w that the network answers with c, which
answer does w a get? A vote tolerates the drift that ruins long words. Where outputs are coarser, states are rows of
answers to suffixes (Angluin's L*), with the network as the teacher; equivalence is tested on words of its training
lengths and, where `certify` can decide it exactly, on all words.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from statewise.errors import NetworkError
from statewise.machines import Machine, minimise
from statewise.randomness import stream
from statewise.theory.certify.verdict import certify
from statewise.theory.network import Network

_CONTEXTS, _TEST_WORDS = 4_000, 20_000
_MAX_STATES = 300
# above this agreement, classes are taken for states
_LEAST_AGREEMENT = 0.9


@dataclass(frozen=True)
class Extracted:
    """A machine extracted from a network.

    Args:
        machine: minimal.
        faithful: whether the network and the machine are proven equal, or agree on every test word.
        reason: what `faithful` rests on, or a word on which they differ.
        agreement: the share of test words on which they agree.
        method: "votes", or "rows of answers".
    """

    machine: Machine
    faithful: bool
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
        longest: the longest words on which the network is trusted.
        seed: of the random words that are queried where there are too many.
        alphabet: names of symbols.
        output_names: names of classes.
    """
    if not 0 <= shortest <= longest:
        raise NetworkError(f"lengths go from {shortest} to {longest}; expected 0 <= shortest <= longest; correct them")
    # the name of a stream decides what it draws, so it stays
    tests = _words(network.symbols, shortest, longest, _TEST_WORDS, stream(seed, "exam"))
    answers = [network.answers(words) for words in tests]
    names = {"alphabet": alphabet, "output_names": output_names}
    voted = _by_votes(network, shortest, longest, seed, names, tests, answers)
    share = _agreement(voted, tests, answers) if voted is not None else 0.0
    if voted is not None and share == 1 and certify(network, voted, shortest, seconds=0.0).status != "refuted":
        return _verify(network, shortest, voted, tests, answers, "votes")
    # a few wrong answers are drift, which only many more states would explain; more are states that outputs hide
    trusted = voted is not None and _LEAST_AGREEMENT <= share < 1
    most = 2 * minimise(voted).states + 8 if trusted and voted is not None else _MAX_STATES
    taught = _by_rows(network, shortest, most, names, tests, answers)
    if taught is not None and (voted is None or share == 1 or _agreement(taught, tests, answers) > share):
        return _verify(network, shortest, taught, tests, answers, "rows of answers")
    if voted is None:
        raise NetworkError(
            f"no machine of at most {_MAX_STATES} states answers as this network does on words of {shortest} to "
            f"{longest} symbols; train it further"
        )
    return _verify(network, shortest, voted, tests, answers, "votes")


def _verify(
    network: Network,
    shortest: int,
    machine: Machine,
    tests: list[np.ndarray],
    answers: list[np.ndarray],
    method: str,
) -> Extracted:
    """Compare a machine with its network: on the test words, then by exact decisions."""
    machine = minimise(machine)
    count = sum(len(words) for words in tests)
    lengths = f"{tests[0].shape[1]} to {tests[-1].shape[1]} symbols"
    for words, given in zip(tests, answers, strict=True):
        wrong = np.flatnonzero(machine.answer(words) != given)
        if len(wrong):
            share = _agreement(machine, tests, answers)
            word = " ".join(machine.decode(words[wrong[0]]))
            reason = f"they differ on {(1 - share) * count:.0f} of {count:,} words of {lengths}, first on {word}"
            return Extracted(machine, False, reason, share, method)
    reason = f"they agree on {count:,} words of {lengths}"
    verdict = certify(network, machine, shortest, seconds=0.0)
    if verdict.status == "proven":
        return Extracted(machine, True, f"proven equal on all words ({verdict.method}); {reason}", 1.0, method)
    if verdict.counterexample is not None:
        word = verdict.counterexample.word.written(machine)
        return Extracted(machine, False, f"{reason}, but differ on {word}", 1.0, method)
    table = machine.delta.size * math.log2(max(machine.states, 2))
    if method != "votes" and table > count * math.log2(max(machine.classes, 2)):
        # a table that takes more bits than the answers it explains is a list of them
        return Extracted(machine, False, f"{reason}, but {machine.states} states only list them", 1.0, method)
    return Extracted(machine, True, reason, 1.0, method)


def _by_votes(
    network: Network,
    shortest: int,
    longest: int,
    seed: int,
    names: dict,
    tests: list[np.ndarray],
    answers: list[np.ndarray],
) -> Machine | None:
    """Take the classes for states, and each transition by a majority vote; None where some class has no votes."""
    votes = np.zeros((network.classes, network.symbols, network.classes), dtype=np.int64)
    deepest = min(shortest + 2, max(shortest, longest - 1))
    for words in _words(network.symbols, shortest, deepest, _CONTEXTS, stream(seed, "contexts")):
        before = network.answers(words)
        for symbol in range(network.symbols):
            longer = np.column_stack([words, np.full(len(words), symbol)])
            np.add.at(votes[:, symbol], (before, network.answers(longer)), 1)
    seen = votes.sum(axis=2) > 0
    delta = votes.argmax(axis=2)
    states = np.flatnonzero(seen.all(axis=1))
    if not len(states) or not np.isin(delta[states], states).all():
        return None
    number = np.full(network.classes, -1)
    number[states] = np.arange(len(states))
    table = number[delta[states]]
    candidates = [Machine(table, start, states, **names) for start in range(len(states))]
    return max(candidates, key=lambda machine: _agreement(machine, tests, answers))


def _by_rows(
    network: Network, shortest: int, most: int, names: dict, tests: list[np.ndarray], answers: list[np.ndarray]
) -> Machine | None:
    """Learn from answers alone; words that are too short to be queried count as answered by a class of their own."""
    teacher = _Teacher(network, shortest)
    access: list[tuple[int, ...]] = [()]
    suffixes: list[tuple[int, ...]] = [()]
    while True:
        rows = {teacher.row(word, suffixes): index for index, word in enumerate(access)}
        for word in access:
            for symbol in range(network.symbols):
                longer = (*word, symbol)
                row = teacher.row(longer, suffixes)
                if row not in rows:
                    rows[row] = len(access)
                    access.append(longer)
            if len(access) > most + shortest:
                return None
        delta = [[rows[teacher.row((*word, a), suffixes)] for a in range(network.symbols)] for word in access]
        outputs = [teacher.answer(word) for word in access]
        learned = _without_short_words(Machine(delta, 0, outputs), network.classes, shortest, names)
        wrong = _first_wrong(learned, tests, answers)
        if wrong is None:
            # an exact decision covers words that no test contains
            found = certify(network, learned, shortest, seconds=0.0).counterexample
            wrong = None if found is None else found.word.symbols()
        new = [wrong[i:] for i in range(len(wrong) + 1)] if wrong is not None else []
        new = [suffix for suffix in new if suffix not in suffixes]
        if not new:
            return learned
        suffixes += new


class _Teacher:
    """The network's answers, cached."""

    def __init__(self, network: Network, shortest: int) -> None:
        self.network, self.shortest = network, shortest
        self.known: dict[tuple[int, ...], int] = {}

    def answer(self, word: tuple[int, ...]) -> int:
        """Return the class of a word; one more than all classes if it is too short to be queried."""
        if len(word) < self.shortest:
            return self.network.classes
        if word not in self.known:
            words = np.array([word], dtype=np.int64).reshape(1, -1)
            self.known[word] = int(self.network.answers(words)[0])
        return self.known[word]

    def row(self, word: tuple[int, ...], suffixes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Return the answers to a word followed by each suffix."""
        return tuple(self.answer(word + suffix) for suffix in suffixes)


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


def _first_wrong(machine: Machine, tests: list[np.ndarray], answers: list[np.ndarray]) -> tuple[int, ...] | None:
    for words, given in zip(tests, answers, strict=True):
        wrong = np.flatnonzero(machine.answer(words) != given)
        if len(wrong):
            return tuple(words[wrong[0]].tolist())
    return None


def _agreement(machine: Machine, tests: list[np.ndarray], answers: list[np.ndarray]) -> float:
    alike = sum(int((machine.answer(words) == given).sum()) for words, given in zip(tests, answers, strict=True))
    return alike / sum(len(words) for words in tests)


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
