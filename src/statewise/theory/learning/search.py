"""Exhaustive search of the machines of at most so many states that fit labelled words: is there another?

Tables are filled in edge by edge. Words are followed as far as edges are known; one that ends in a state of another
label rules the partial table out. States are numbered in order of discovery, so no machine is visited under two
numberings.
"""

from dataclasses import dataclass

import numpy as np

from statewise.machines import Machine, distinguish
from statewise.theory.learning.labelled import LabelledWords

MAX_VISITED = 3_000
MAX_EDGES = 400


@dataclass(frozen=True)
class Searched:
    """The result of a search.

    Args:
        other: a machine that answers all words as labelled, and another word differently.
        complete: whether the search was exhaustive.
    """

    other: Machine | None
    complete: bool


def search_other(data: LabelledWords, machine: Machine, visited: int = MAX_VISITED) -> Searched:
    """Search for a machine of at most as many states that answers all words alike, but is not this one.

    Args:
        data: words without contradictions.
        machine: minimal; answers all words as they are labelled.
        visited: how many partial tables to visit at most.
    """
    if machine.delta.size > MAX_EDGES:
        return Searched(None, False)
    search = _Search(data, machine, visited)
    try:
        return Searched(search.descend(search.first()), True)
    except _TooManyError:
        return Searched(None, False)


class _TooManyError(Exception):
    """The search ended before all machines were visited."""


@dataclass(frozen=True, eq=False)
class _Partial:
    """A partial table, -1 where an entry is open, and how far each word was followed."""

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
        """Return the empty table, which has a start and nothing else."""
        nothing = np.full(self.machine.delta.shape, -1)
        outputs = np.full(self.machine.states, -1)
        at_start = np.zeros(len(self.labels), dtype=np.int64)
        empty = np.flatnonzero(self.lengths == 0)
        outputs[at_start[empty]] = self.labels[empty]
        return _Partial(nothing, outputs, 1, at_start, at_start)

    def descend(self, partial: _Partial) -> Machine | None:
        """Fill in one more edge in all ways; return the first other machine that is found."""
        self.left -= 1
        if self.left < 0:
            raise _TooManyError
        waiting = np.flatnonzero(partial.place < self.lengths)
        if not len(waiting):
            return self._other(partial)
        edge = self._next_edge(partial, waiting)
        for target in range(min(partial.states + 1, self.machine.states)):
            filled = self._fill(partial, edge, target)
            found = None if filled is None else self.descend(filled)
            if found is not None:
                return found
        return None

    def _next_edge(self, partial: _Partial, waiting: np.ndarray) -> tuple[int, int]:
        """Return the edge at which most words wait for their last symbol, then at which most wait at all."""
        edges = partial.state[waiting] * self.machine.symbols + self.padded[waiting, partial.place[waiting]]
        last = partial.place[waiting] == self.lengths[waiting] - 1
        weights = np.bincount(edges, np.where(last, len(waiting) + 1.0, 1.0))
        return divmod(int(weights.argmax()), self.machine.symbols)

    def _fill(self, partial: _Partial, edge: tuple[int, int], target: int) -> _Partial | None:
        """Lead an edge to a state and follow the words further; None if one ends with another label."""
        delta, outputs = partial.delta.copy(), partial.outputs.copy()
        state, place = partial.state.copy(), partial.place.copy()
        delta[edge] = target
        moving = np.flatnonzero((state == edge[0]) & (self.padded[np.arange(len(state)), place] == edge[1]))
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
        """Complete a table that answers all words; None if it is the known machine."""
        states = partial.states
        own = np.arange(states)[:, None]
        delta = np.where(partial.delta[:states] < 0, own, partial.delta[:states])
        made = self.machine.replace(
            delta=delta, start=0, outputs=np.maximum(partial.outputs[:states], 0), state_names=None
        )
        return made if distinguish(self.machine, made) is not None else None
