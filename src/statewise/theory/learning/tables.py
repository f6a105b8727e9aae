"""Least squares where outputs are states: tables of counts, which tolerate wrong labels.

With f(u) the one-hot vector of the label of u, A_a = argmin sum |f(ua) - A f(u)|^2 over all u of which both u and ua
are labelled has a closed form: column q of A_a is the distribution of the labels that follow label q on symbol a.
Rounded to its largest entry it is the column of a machine. Only pairs of words are used so far; a change of one arrow
at a time, kept where it explains more words, lets the other words speak too.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine
from statewise.theory.learning.arrows import passing, weigh_starts, weigh_targets
from statewise.theory.learning.words import LabelledWords, walk

SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Fitted:
    """A machine by least squares.

    Args:
        machine: a state for each label.
        coverage: the share of arrows for which there was a pair of words (u, ua).
    """

    machine: Machine
    coverage: float


def fit_tables(data: LabelledWords, sweeps: int = SWEEPS) -> Fitted:
    """Learns a machine whose states are the labels.

    Args:
        data: words; they may contradict each other.
        sweeps: how often all arrows are reconsidered at most; 0 leaves the tables as they are.
    """
    tables = _count_pairs(data)
    covered = tables.sum(axis=2) > 0
    delta = tables.argmax(axis=2)
    outputs = np.arange(len(data.output_names))
    start = _best_start(data, delta, outputs, None)
    for _ in range(sweeps):
        before = (delta.copy(), start)
        # arrows of which least is known are the first to be changed
        for place in np.argsort(tables.max(axis=2), axis=None, kind="stable").tolist():
            state, symbol = divmod(place, len(data.alphabet))
            rows = passing(data, walk(data.padded, delta, start), state, symbol)
            explained = weigh_targets(data, delta, start, outputs, (state, symbol), rows)
            if explained.max() > explained[delta[state, symbol]]:
                delta[state, symbol] = explained.argmax()
        start = _best_start(data, delta, outputs, start)
        if np.array_equal(before[0], delta) and before[1] == start:
            break
    machine = Machine(delta, start, outputs, data.alphabet, data.output_names)
    return Fitted(machine, float(covered.mean()))


def _count_pairs(data: LabelledWords) -> Int[np.ndarray, "state symbol following"]:
    place = {word: row for row, word in enumerate(data.words)}
    labels = len(data.output_names)
    tables = np.zeros((labels, len(data.alphabet), labels), dtype=np.int64)
    for word, row in place.items():
        before = place.get(word[:-1]) if word else None
        if before is not None:
            tables[:, word[-1]] += np.outer(data.counts[before], data.counts[row])
    return tables


def _best_start(data: LabelledWords, delta: np.ndarray, outputs: np.ndarray, now: int | None) -> int:
    explained = weigh_starts(data, delta, outputs)
    best = int(explained.argmax())
    return best if now is None or explained[best] > explained[now] else now
