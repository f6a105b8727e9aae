"""Least squares where outputs are states: tables of counts, which tolerate label noise.

With f(u) the one-hot vector of the label of u, A_a = argmin sum |f(ua) - A f(u)|^2 over all u of which both u and ua
are labelled has a closed form: column q of A_a is the distribution of the labels that follow label q on symbol a.
Rounded to its largest entry it is the column of a machine. So far only pairs of words are used; then edges are changed
one at a time, and a change is kept where it explains more of all words.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine
from statewise.theory.learning.edges import passing, weigh_starts, weigh_targets
from statewise.theory.learning.labelled import LabelledWords, walk

SWEEPS = 20
_STARTS = 5


@dataclass(frozen=True, eq=False)
class Fitted:
    """A machine by least squares.

    Args:
        machine: a state for each label.
        coverage: the share of edges (state, symbol) for which there was a pair of words (u, ua).
    """

    machine: Machine
    coverage: float


def fit_tables(data: LabelledWords, sweeps: int = SWEEPS) -> Fitted:
    """Learn a machine whose states are the labels.

    Args:
        data: words; they may contradict each other.
        sweeps: how often all edges are revised at most; 0 leaves the tables as they are.
    """
    tables = _count_pairs(data)
    rounded = tables.argmax(axis=2)
    outputs = np.arange(len(data.output_names))
    # a wrong start misleads all edges, so the likeliest few are tried
    likely = np.argsort(-weigh_starts(data, rounded, outputs), kind="stable")[: _STARTS if sweeps else 1]
    # edges with the fewest counts are the first to be changed
    order = np.argsort(tables.max(axis=2), axis=None, kind="stable")
    made = [_revise(data, rounded.copy(), start, order, sweeps) for start in likely.tolist()]
    best = max(made, key=data.explained)
    return Fitted(best, float((tables.sum(axis=2) > 0).mean()))


def labels_can_be_states(data: LabelledWords) -> bool:
    """Return whether words of one label may all lead to one state: whether that contradicts no other label.

    Words of equal labels are merged, then what follows them, until nothing is left to merge. Where a label meets a
    different one, no machine with a state for each label fits.
    """
    after: list[dict[int, int]] = [{}]
    labels: list[int] = [-1]
    parent: list[int] = [0]

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for word, label in data.label_of.items():
        node = 0
        for symbol in word:
            node = after[node].setdefault(symbol, len(after))
            if node == len(after):
                after.append({})
                labels.append(-1)
                parent.append(node)
        labels[node] = label
    first: dict[int, int] = {}
    waiting = [(first.setdefault(label, node), node) for node, label in enumerate(labels) if label >= 0]
    while waiting:
        one, other = map(root, waiting.pop())
        if one == other:
            continue
        if labels[one] >= 0 and labels[other] >= 0 and labels[one] != labels[other]:
            return False
        parent[other] = one
        labels[one] = max(labels[one], labels[other])
        for symbol, target in after[other].items():
            waiting.append((after[one].setdefault(symbol, target), target))
    return True


def _revise(
    data: LabelledWords,
    delta: Int[np.ndarray, "state symbol"],
    start: int,
    order: Int[np.ndarray, " edge"],
    sweeps: int,
) -> Machine:
    """Change one edge at a time, or the start, as long as more words are explained."""
    outputs = np.arange(len(data.output_names))
    for _ in range(sweeps):
        before = (delta.copy(), start)
        for place in order.tolist():
            state, symbol = divmod(place, len(data.alphabet))
            rows = passing(data, walk(data.padded, delta, start), state, symbol)
            explained = weigh_targets(data, delta, start, outputs, (state, symbol), rows)
            if explained.max() > explained[delta[state, symbol]]:
                delta[state, symbol] = explained.argmax()
        explained = weigh_starts(data, delta, outputs)
        if explained.max() > explained[start]:
            start = int(explained.argmax())
        if np.array_equal(before[0], delta) and before[1] == start:
            break
    return Machine(delta, start, outputs, data.alphabet, data.output_names)


def _count_pairs(data: LabelledWords) -> Int[np.ndarray, "state symbol following"]:
    """Count how often each label follows each label and symbol, over pairs of words (u, ua)."""
    place = {word: row for row, word in enumerate(data.words)}
    labels = len(data.output_names)
    tables = np.zeros((labels, len(data.alphabet), labels), dtype=np.int64)
    for word, row in place.items():
        before = place.get(word[:-1]) if word else None
        if before is not None:
            tables[:, word[-1]] += np.outer(data.counts[before], data.counts[row])
    return tables
