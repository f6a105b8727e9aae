"""Conformance suites: finite sets of words that try every transition of a machine, however rarely random words do.

- The transition cover: a shortest word to each state, followed by each symbol.
- The W-method (Vasilevskii, 1973; Chow, 1978): these words, then all words of up to k further symbols, then words that
  separate all states. A machine of at most k states more than the minimal one that answers all of them alike has the
  same behaviour.
"""

import itertools
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool

from statewise.errors import TooLargeError, unknown_name
from statewise.machines.behaviour import Word, access_words, distinguish, minimise
from statewise.machines.machine import Machine

SuiteName = Literal["transition-cover", "w-method"]
Legal = Bool[np.ndarray, "state symbol"]
# symbols of all words of a suite together
MAX_SYMBOLS = 20_000_000
# states that a network may have more than its machine, for the W-method
_EXTRA = 1


def conformance_suite(name: str, machine: Machine, legal: Legal) -> list[Word]:
    """Return the words of a suite by its name, the shortest first, without the empty one.

    Args:
        name: "transition-cover" or "w-method".
        machine: what is tested against.
        legal: which symbols may follow which states; words that are not legal are left out.
    """
    suites: dict[str, Callable[[Machine, Legal], list[Word]]] = {
        "transition-cover": transition_cover,
        "w-method": w_method,
    }
    if name not in suites:
        raise unknown_name("suite", name, get_args(SuiteName))
    return suites[name](machine, legal)


def transition_cover(machine: Machine, legal: Legal) -> list[Word]:
    """Return a shortest legal word to each reachable state, followed by each legal symbol.

    For parity: 0, 1 from the even state, 10, 11 from the odd one.
    """
    reached = access_words(machine, legal)
    return _in_order({(*word, a) for q, word in reached.items() for a in np.flatnonzero(legal[q]).tolist()})


def w_method(machine: Machine, legal: Legal, extra: int = _EXTRA) -> list[Word]:
    """Return the words of the W-method for machines of at most `extra` more states than the minimal one.

    Where not all words are legal, the legal ones among these are returned, and the theorem does not apply.
    """
    cover = [(), *transition_cover(machine, legal)]
    middles = [word for length in range(extra + 1) for word in itertools.product(range(machine.symbols), repeat=length)]
    ends = separating_words(minimise(machine))
    longest = max(map(len, cover)) + extra + max(map(len, ends))
    if len(cover) * len(middles) * len(ends) * longest > MAX_SYMBOLS:
        raise TooLargeError(
            f"the W-method has {len(cover) * len(middles) * len(ends):,} words of up to {longest} symbols for this "
            f"machine, more than {MAX_SYMBOLS:,} symbols; use the transition cover"
        )
    words = {(*first, *middle, *last) for first in cover for middle in middles for last in ends}
    return _in_order({word for word in words if word and _is_legal(machine, legal, word)})


def separating_words(machine: Machine) -> list[Word]:
    """Return words of which any two states of a minimal machine answer some differently."""
    words: list[Word] = [()]
    while True:
        ends = np.stack([_follow(machine, word) for word in words], axis=1)
        signatures = machine.outputs[ends]
        _, first, group = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
        alike = next((q for q in range(machine.states) if first[group.ravel()[q]] != q), None)
        if alike is None:
            return words
        twin = int(first[group.ravel()[alike]])
        found = distinguish(machine.replace(start=twin), machine.replace(start=alike))
        assert found is not None, "the machine is minimal"
        words.append(found)


def _follow(machine: Machine, word: Word) -> np.ndarray:
    """Return where a word leads from each state."""
    reached = np.arange(machine.states)
    for symbol in word:
        reached = machine.delta[reached, symbol]
    return reached


def _is_legal(machine: Machine, legal: Legal, word: Word) -> bool:
    state = machine.start
    for symbol in word:
        if not legal[state, symbol]:
            return False
        state = int(machine.delta[state, symbol])
    return True


def _in_order(words: set[Word]) -> list[Word]:
    return sorted(words, key=lambda word: (len(word), word))
