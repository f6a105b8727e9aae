"""The congruences of a machine: partitions of its states that every symbol respects."""

import itertools
from itertools import combinations

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine

# congruences are generated from pairs of states; beyond this much work only the machine itself is taken
_MAX_WORK = 5_000_000
_MAX_JOINS = 10_000
_MAX_ELEMENTS = 5_000


def congruences(machine: Machine) -> set[tuple[int, ...]]:
    """Return congruences: those that merging two states generates, and their joins."""
    n = machine.states
    letters = np.unique(machine.delta.T, axis=0)
    permuting = bool((np.sort(letters, axis=1) == np.arange(n)).all())
    if permuting:
        letters = _generating(letters)
        # every congruence of a transitive group is known by the states merged with the first
        pairs = [(0, q) for q in range(1, n)]
    else:
        pairs = list(combinations(range(n), 2))
    if len(pairs) * n * len(letters) > _MAX_WORK:
        return set()
    moves = letters.tolist()
    principal: list[tuple[int, ...]] = sorted(
        {least_congruence(moves, list(range(n)), [pair]) for pair in pairs}, key=max
    )
    joins = [list(zip(range(n), _firsts(labels), strict=True)) for labels in principal]
    found, waiting = set(principal), list(principal)
    # coarse ones first: they make the smallest blocks
    for one in itertools.islice(waiting, _MAX_JOINS // len(joins)):
        for pairs_of_other in joins:
            joined = least_congruence(moves, list(one), pairs_of_other)
            if joined not in found:
                found.add(joined)
                waiting.append(joined)
    return found


def _generating(letters: Int[np.ndarray, "letter state"]) -> Int[np.ndarray, "generator state"]:
    """Drop permutations that others generate, as long as the group is small enough to enumerate."""
    chosen: list[np.ndarray] = []
    reached = {np.arange(letters.shape[1]).tobytes()}
    for letter in letters:
        if letter.tobytes() in reached:
            continue
        chosen.append(letter)
        waiting: list[np.ndarray] = [np.frombuffer(element, dtype=letter.dtype) for element in reached]
        while waiting:
            element = waiting.pop()
            for generator in chosen:
                product = generator[element]
                if product.tobytes() not in reached:
                    if len(reached) >= _MAX_ELEMENTS:
                        return letters
                    reached.add(product.tobytes())
                    waiting.append(product)
    return np.stack(chosen) if chosen else letters[:1]


def _firsts(labels: tuple[int, ...]) -> list[int]:
    """Return the first state of each state's class."""
    first: dict[int, int] = {}
    return [first.setdefault(label, state) for state, label in enumerate(labels)]


def least_congruence(moves: list[list[int]], labels: list[int], pairs: list[tuple[int, int]]) -> tuple[int, ...]:
    """Return the least congruence that contains a partition and some pairs, as a label for each state.

    Args:
        moves: for each symbol, where it leads from each state.
        labels: the partition, equal labels for equal states.
        pairs: states that are to be equal.
    """
    parent = _firsts(tuple(labels))
    classes = len(set(parent))
    waiting = list(pairs)
    while waiting:
        p, q = waiting.pop()
        while parent[p] != p:
            parent[p] = parent[parent[p]]
            p = parent[p]
        while parent[q] != q:
            parent[q] = parent[parent[q]]
            q = parent[q]
        if p != q:
            parent[max(p, q)] = min(p, q)
            classes -= 1
            if classes == 1:
                return (0,) * len(parent)
            waiting.extend([(move[p], move[q]) for move in moves if move[p] != move[q]])
    number: dict[int, int] = {}
    labelled = []
    for state in range(len(parent)):
        # the first of a class is its least state, and comes before
        parent[state] = parent[parent[state]]
        labelled.append(number.setdefault(parent[state], len(number)))
    return tuple(labelled)
