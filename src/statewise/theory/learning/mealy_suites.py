"""Suites of words that test whether a system is a Mealy machine, the shortest first."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine, access_words, minimise
from statewise.theory.learning.labelled import Word

Suite = Literal["mixed", "w-method", "transition-cover", "random"]
SUITES = get_args(Suite)
# words of the random suite
RANDOM_WORDS = 2_000
# symbols at most between an access word and a separating word
_MIDDLE = 12


@dataclass(frozen=True, eq=False)
class Mealy:
    """A minimal Mealy machine that starts in state 0."""

    delta: Int[np.ndarray, "state symbol"]
    outputs: Int[np.ndarray, "state symbol"]

    @classmethod
    def reduced(cls, delta: Int[np.ndarray, "state symbol"], outputs: Int[np.ndarray, "state symbol"]) -> "Mealy":
        """Return the minimal machine of a table."""
        rows, kinds = np.unique(outputs, axis=0, return_inverse=True)
        least = minimise(Machine(delta, 0, kinds.ravel(), output_names=map(str, range(len(rows)))))
        return cls(least.delta, rows[least.outputs])

    @property
    def access(self) -> dict[int, Word]:
        """A shortest word to each state."""
        return access_words(Machine(self.delta, 0, np.arange(len(self.delta))))

    def answer(self, word: Word) -> list[int]:
        """Return the output after each symbol."""
        state, found = 0, []
        for symbol in word:
            found.append(int(self.outputs[state, symbol]))
            state = int(self.delta[state, symbol])
        return found

    def separating_words(self) -> list[Word]:
        """Return words, one at least, of which any two states answer some differently."""
        # one state has nothing to separate, and its tests would show little: each symbol is tried
        words: list[Word] = [(a,) for a in range(self.delta.shape[1] if len(self.delta) == 1 else 1)]
        while True:
            first: dict[tuple, int] = {}
            for state in range(len(self.delta)):
                signature = tuple(self._last(state, word) for word in words)
                twin = first.setdefault(signature, state)
                if twin != state:
                    words.append(self._separate(twin, state))
                    break
            else:
                return words

    def _last(self, state: int, word: Word) -> int:
        for symbol in word[:-1]:
            state = int(self.delta[state, symbol])
        return int(self.outputs[state, word[-1]])

    def _separate(self, one: int, other: int) -> Word:
        """Return a shortest word after which two states of a minimal machine have different outputs."""
        reached: dict[tuple[int, int], Word] = {(one, other): ()}
        for (here, there), word in reached_in_order(reached):
            for symbol in range(self.delta.shape[1]):
                if self.outputs[here, symbol] != self.outputs[there, symbol]:
                    return (*word, symbol)
                pair = (int(self.delta[here, symbol]), int(self.delta[there, symbol]))
                reached.setdefault(pair, (*word, symbol))
        raise AssertionError("the machine is minimal")


def reached_in_order(reached: dict[tuple[int, int], Word]) -> Iterator[tuple[tuple[int, int], Word]]:
    """Yield the entries of a dictionary that grows while it is read."""
    order = list(reached)
    place = 0
    while place < len(order):
        yield order[place], reached[order[place]]
        order.extend(itertools.islice(reached, len(order), None))
        place += 1


def suite_words(mealy: Mealy, suite: str, extra: int, seed: int) -> Iterator[tuple[int, Word]]:
    """Yield the words of a suite, each with how many states more it is for (W-method; 0 for the others).

    The W-method (Vasilevskii 1973; Chow 1978): a shortest word to each state, or to each transition; then all words of
    up to k symbols; then words that separate all states. A Mealy machine of at most k states more that answers all of
    them alike is the same. Random words take a word to a state, any further symbols, and one that separates states;
    they find states that are many symbols away, and "mixed" tries them before the W-method.

    The transition cover is the W-method for no state more.

    Args:
        mealy: what is tested.
        suite: its name.
        extra: the largest k.
        seed: of the random suite.
    """
    access, symbols = mealy.access, range(mealy.delta.shape[1])
    cover = [(*word, a) for word in access.values() for a in symbols]
    ends = mealy.separating_words()
    if suite in ("random", "mixed"):
        generator = np.random.default_rng(seed)
        states = list(access.values())
        for _ in range(RANDOM_WORDS):
            length = int(generator.integers(1, _MIDDLE + 1))
            middle = tuple(generator.integers(0, len(symbols), length).tolist())
            yield 0, (*states[generator.integers(len(states))], *middle, *ends[generator.integers(len(ends))])
    if suite == "random":
        return
    firsts = sorted([(), *cover], key=len)
    for k in range(1 if suite == "transition-cover" else extra + 1):
        for middle in itertools.product(symbols, repeat=k):
            yield from ((k, (*first, *middle, *last)) for first in firsts for last in ends)
