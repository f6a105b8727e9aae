"""Single edges (state, symbol) of a machine: which words use one, and how many words fit if it leads elsewhere."""

import numpy as np
from jaxtyping import Bool, Int

from statewise.theory.learning.labelled import LabelledWords, walk

# entries of one table of (target, word)
_ENTRIES = 2_000_000


def passing(
    data: LabelledWords, passed: Int[np.ndarray, "word time"], state: int, symbol: int
) -> Int[np.ndarray, " passing"]:
    """Return the rows of the words that use an edge, given the states that words pass."""
    return np.flatnonzero(((passed[:, :-1] == state) & (data.padded == symbol)).any(axis=1))


def used_edges(
    data: LabelledWords, passed: Int[np.ndarray, "word time"], states: int
) -> Bool[np.ndarray, "state symbol"]:
    """Mark the edges that some word uses."""
    used = np.zeros((states, len(data.alphabet) + 1), dtype=bool)
    used[passed[:, :-1], data.padded] = True
    return used[:, :-1]


def weigh_targets(
    data: LabelledWords,
    delta: Int[np.ndarray, "state symbol"],
    start: int,
    outputs: Int[np.ndarray, " state"],
    edge: tuple[int, int],
    rows: Int[np.ndarray, " row"],
) -> Int[np.ndarray, " target"]:
    """Count, for each state that an edge could lead to, the labelled words among some rows that are then explained."""
    symbols = data.padded[rows]
    resting = np.column_stack([delta, np.arange(len(delta))])
    explained = np.zeros(len(delta), dtype=np.int64)
    chunk = max(1, _ENTRIES // max(1, len(rows)))
    for first in range(0, len(delta), chunk):
        targets = np.arange(first, min(first + chunk, len(delta)))[:, None]
        state = np.full((len(targets), len(rows)), start)
        for t in range(symbols.shape[1]):
            changed = (state == edge[0]) & (symbols[:, t] == edge[1])
            state = np.where(changed, targets, resting[state, symbols[:, t]])
        explained[targets[:, 0]] = data.counts[rows, outputs[state]].sum(axis=1)
    return explained


def weigh_starts(
    data: LabelledWords, delta: Int[np.ndarray, "state symbol"], outputs: Int[np.ndarray, " state"]
) -> Int[np.ndarray, " state"]:
    """Count, for each state that could be the start, the labelled words that are then explained."""
    rows = np.arange(len(data.words))
    ends = [walk(data.padded, delta, start)[:, -1] for start in range(len(delta))]
    return np.array([data.counts[rows, outputs[end]].sum() for end in ends])
