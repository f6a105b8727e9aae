"""A search of all machines of at most so many states that answer labelled words: is there another?

Tables are filled in arrow by arrow. Words are followed as far as arrows are known; one that ends in a state of another
label refutes what was filled in. States are numbered as they are met, so no machine is visited under two namings.
"""

from dataclasses import dataclass

import numpy as np

from statewise.machines import Machine, distinguish
from statewise.theory.learning.labelled import LabelledWords

MAX_VISITED = 3_000
MAX_ARROWS = 400


@dataclass(frozen=True)
class Searched:
    """What a search found.

    Args:
        other: a machine that answers all words as labelled, and another word differently.
        complete: whether all machines were looked at.
    """

    other: Machine | None
    complete: bool


def search_other(data: LabelledWords, machine: Machine, visited: int = MAX_VISITED) -> Searched:
    """Searches for a machine of at most as many states that answers all words alike, but is not this one.

    Args:
        data: words without contradictions.
        machine: minimal; answers all words as they are labelled.
        visited: how many partly filled tables are looked at, at most.
    """
    if machine.delta.size > MAX_ARROWS:
        return Searched(None, False)
    search = _Search(data, machine, visited)
    try:
        return Searched(search.descend(search.first()), True)
    except _TooManyError:
        return Searched(None, False)


class _TooManyError(Exception):
    """The search is over before all machines were looked at."""


@dataclass(frozen=True, eq=False)
class _Partial:
    """A partly filled table, -1 where nothing is known, and how far each word was followed."""

    delta: np.ndarray
    outputs: np.ndarray
    states: int
    state: np.ndarray
    place: np.ndarray


class _Search:
    def __init__(self, data: LabelledWords, machine: Machine, visited: int) -> None:
        self.machine, self.left = machine, visited
        self.padded = np.column_stack([data.padded, np.full(len(data.words), machine.symbols)])
        self.lengths = np.array([len(word) for word in data.words])
        self.labels = np.array([data.label_of[word] for word in data.words])

    def first(self) -> _Partial:
        """Gives the table of which nothing is known but that there is a start."""
        nothing = np.full(self.machine.delta.shape, -1)
        outputs = np.full(self.machine.states, -1)
        at_start = np.zeros(len(self.labels), dtype=np.int64)
        empty = np.flatnonzero(self.lengths == 0)
        outputs[at_start[empty]] = self.labels[empty]
        return _Partial(nothing, outputs, 1, at_start, at_start)

    def descend(self, partial: _Partial) -> Machine | None:
        """Fills in one more arrow in all ways; gives the first other machine that is found."""
        self.left -= 1
        if self.left < 0:
            raise _TooManyError
        waiting = np.flatnonzero(partial.place < self.lengths)
        if not len(waiting):
            return self._other(partial)
        arrow = self._most_telling(partial, waiting)
        for target in range(min(partial.states + 1, self.machine.states)):
            filled = self._fill(partial, arrow, target)
            found = None if filled is None else self.descend(filled)
            if found is not None:
                return found
        return None

    def _most_telling(self, partial: _Partial, waiting: np.ndarray) -> tuple[int, int]:
        """Gives the arrow at which most words wait for their last symbol, then at which most wait at all."""
        arrows = partial.state[waiting] * self.machine.symbols + self.padded[waiting, partial.place[waiting]]
        last = partial.place[waiting] == self.lengths[waiting] - 1
        weights = np.bincount(arrows, np.where(last, len(waiting) + 1.0, 1.0))
        return divmod(int(weights.argmax()), self.machine.symbols)

    def _fill(self, partial: _Partial, arrow: tuple[int, int], target: int) -> _Partial | None:
        """Leads an arrow to a state and follows the words on; None if one ends with another label."""
        delta, outputs = partial.delta.copy(), partial.outputs.copy()
        state, place = partial.state.copy(), partial.place.copy()
        delta[arrow] = target
        moving = np.flatnonzero((state == arrow[0]) & (self.padded[np.arange(len(state)), place] == arrow[1]))
        while len(moving):
            state[moving] = delta[state[moving], self.padded[moving, place[moving]]]
            place[moving] += 1
            ended = moving[place[moving] == self.lengths[moving]]
            unknown = ended[outputs[state[ended]] < 0]
            outputs[state[unknown]] = self.labels[unknown]
            if (outputs[state[ended]] != self.labels[ended]).any():
                return None
            moving = moving[place[moving] < self.lengths[moving]]
            moving = moving[delta[state[moving], self.padded[moving, place[moving]]] >= 0]
        return _Partial(delta, outputs, max(partial.states, target + 1), state, place)

    def _other(self, partial: _Partial) -> Machine | None:
        """Completes a table that answers all words; None if it is the machine that is known."""
        states = partial.states
        own = np.arange(states)[:, None]
        delta = np.where(partial.delta[:states] < 0, own, partial.delta[:states])
        made = self.machine.replace(
            delta=delta, start=0, outputs=np.maximum(partial.outputs[:states], 0), state_names=None
        )
        return made if distinguish(self.machine, made) is not None else None
