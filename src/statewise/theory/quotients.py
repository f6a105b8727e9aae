"""Machines as small blocks of whole numbers, through their quotients.

A congruence of a machine merges states such that every symbol still leads merged states to merged states; the quotient
is a smaller machine. Several quotients whose congruences together separate all states determine the machine's state,
and each fits into a block of its own:

    any quotient of k states            k x k    one-hot states, A[q', q] = 1 for q' = delta(q, a)
    symbols permute its k states        k - 1    weights on the corners of a simplex, which sum to 0
    2 k states, permuted in k pairs     k        a sign for each pair: signed permutations
    a cyclic group of k elements        phi(k)   powers of the companion matrix of the cyclotomic polynomial

Products of these matrices stay among finitely many small whole numbers, so that floats round nothing, at any length:
states are rescaled by powers of two only. Readouts: vectors of a block have one length in an inner product that its
matrices keep (for cyclic groups it is made of Ramanujan sums), so each is nearest to itself; the sum over blocks is
largest for the current state alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine, access_words
from statewise.theory.congruences import congruences

_MAX_COMPARED = 150
_MAX_READ = 12
_EPOCHS = 400


@dataclass(frozen=True, eq=False)
class Module:
    """A block: for each state of the machine a vector, for each symbol a matrix that moves these vectors.

    Args:
        matrices: whole numbers; matrices[a] v_p = v_q wherever symbol a leads state p to state q.
        vectors: v_q for each state q; states of one class of the congruence share theirs.
        duals: w_q for each state q, with w_q . v_p largest for v_p = v_q.
        kind: how it was made.
    """

    matrices: Int[np.ndarray, "symbol out in"]
    vectors: Int[np.ndarray, "state entry"]
    duals: Int[np.ndarray, "state entry"]
    kind: str

    @property
    def size(self) -> int:
        """The number of hidden entries that it takes."""
        return self.vectors.shape[1]

    @cached_property
    def labels(self) -> Int[np.ndarray, " state"]:
        """The class of each state."""
        return np.unique(self.vectors, axis=0, return_inverse=True)[1].ravel()


def modules(machine: Machine, most: int | None = None) -> list[Module]:
    """Return a block for each congruence that is found, smallest first; the machine itself is always among them.

    Args:
        machine: minimal.
        most: the most entries of a block; None for any number.
    """
    most = machine.states if most is None else most
    if machine.states == 1:
        # a single entry that stays
        one = np.ones((1, 1), dtype=np.int64)
        return [Module(np.ones((machine.symbols, 1, 1), dtype=np.int64), one, one, "one state")]
    found = {tuple(range(machine.states))} | congruences(machine)
    drawn = (_module(machine, np.array(labels), most) for labels in found if max(labels) > 0)
    made = [module for module in drawn if module is not None]
    made += _signed(machine, [np.array(labels) for labels in found])
    made = [module for module in made if module.size <= most]
    return sorted(made, key=lambda module: (module.size, -len(np.unique(module.labels)), module.labels.tolist()))


def separating(candidates: Sequence[Module]) -> list[Module] | None:
    """Choose few modules, of few entries in all, that together separate all states; None if none do."""
    if not _separate(candidates):
        return None
    best: list[Module] = []
    apart = 1
    # the coarsest ones, and the finest, which may be needed
    left = [*candidates[:_MAX_COMPARED], *candidates[-1:]]
    if not _separate(left):
        left = list(candidates)
    while not _separate(best):
        # the most classes separated per entry, in logarithms
        chosen = max(left, key=lambda m: (math.log(_cells([*best, m])) - math.log(apart)) / m.size)
        left = [module for module in left if module is not chosen]
        best.append(chosen)
        apart = _cells(best)
    for module in sorted(best, key=lambda m: -m.size):
        without = [other for other in best if other is not module]
        if without and _separate(without):
            best = without
    small = sum(module.size for module in best)
    if len(candidates) <= 40:
        for count in (1, 2, 3):
            for chosen in combinations(candidates, count):
                if sum(module.size for module in chosen) < small and _separate(chosen):
                    best, small = list(chosen), sum(module.size for module in chosen)
    return best


def readable(
    candidates: Sequence[Module], machine: Machine, most: int | None = None
) -> tuple[list[Module], Int[np.ndarray, "class entry"]] | None:
    """Choose modules that separate all states, and weights that read the outputs off them; None if none are found.

    Outputs that several states share may need more modules than separating the states does, and a constant.

    Args:
        candidates: smallest first.
        machine: whose outputs are read.
        most: how many entries they may take in all; None for any number.
    """
    few = separating(candidates)
    if few is None:
        return None
    constant = _constant(machine)
    for chosen in (few, [*few, constant], [*candidates[:_MAX_READ], constant]):
        if most is not None and sum(module.size for module in chosen) > most:
            continue
        weights = readout(chosen, machine)
        if weights is not None:
            return list(chosen), weights
    return None


def _constant(machine: Machine) -> Module:
    ones = np.ones((machine.states, 1), dtype=np.int64)
    return Module(np.ones((machine.symbols, 1, 1), dtype=np.int64), ones, ones, "constant")


def readout(chosen: Sequence[Module], machine: Machine) -> Int[np.ndarray, "class entry"] | None:
    """Return whole-number weights under which each state's output has the largest logit; None if none are found."""
    features = np.concatenate([module.vectors for module in chosen], axis=1)
    outputs = machine.outputs
    if len(np.unique(outputs)) == machine.states:
        weights = np.zeros((machine.classes, features.shape[1]), dtype=np.int64)
        duals = np.concatenate([module.duals for module in chosen], axis=1)
        weights[outputs] = duals
        # a class that no state shows must never have the largest logit
        unseen = np.setdiff1d(np.arange(machine.classes), outputs)
        weights[unseen] = -duals.sum(axis=0)
        return weights if _reads(weights, features, outputs) else _perceptron(features, machine)
    if len(chosen) == 1 and chosen[0].kind == "one-hot" and chosen[0].size == machine.states:
        weights = np.zeros((machine.classes, machine.states), dtype=np.int64)
        np.add.at(weights, outputs, chosen[0].vectors)
        return weights
    return _perceptron(features, machine)


def _perceptron(features: np.ndarray, machine: Machine) -> np.ndarray | None:
    """Find weights by Rosenblatt's rule for several classes, in whole numbers; it ends if such weights exist."""
    weights = np.zeros((machine.classes, features.shape[1]), dtype=np.int64)
    outputs = machine.outputs
    for _ in range(_EPOCHS):
        mistakes = 0
        for feature, output in zip(features, outputs.tolist(), strict=True):
            logits = weights @ feature
            others = np.delete(np.arange(machine.classes), output)
            worst = others[np.argmax(logits[others])] if len(others) else output
            if worst != output and logits[worst] >= logits[output]:
                weights[output] += feature
                weights[worst] -= feature
                mistakes += 1
        if not mistakes:
            return weights
    return None


def _reads(weights: np.ndarray, features: np.ndarray, outputs: np.ndarray) -> bool:
    logits = features @ weights.T
    own = logits[np.arange(len(outputs)), outputs]
    logits[np.arange(len(outputs)), outputs] = np.iinfo(np.int64).min
    return bool((logits.max(axis=1) < own).all())


def _separate(chosen: Sequence[Module]) -> bool:
    return bool(chosen) and _cells(chosen) == len(chosen[0].labels)


def _cells(chosen: Sequence[Module]) -> int:
    return len(np.unique(np.stack([module.labels for module in chosen]), axis=1).T)


def _module(machine: Machine, labels: Int[np.ndarray, " state"], most: int) -> Module | None:
    """Return the block of a congruence; None for one-hot classes of more than so many entries."""
    moves = _moves(machine, labels)
    if not (np.sort(moves, axis=1) == np.arange(moves.shape[1])).all():
        return _one_hot(labels, moves) if moves.shape[1] <= most else None
    turned = _cyclic(labels, moves)
    return turned if turned is not None else _simplex(labels, moves, machine)


def _one_hot(labels: np.ndarray, moves: np.ndarray) -> Module:
    symbols, count = moves.shape
    matrices = np.zeros((symbols, count, count), dtype=np.int64)
    matrices[np.arange(symbols)[:, None], moves, np.arange(count)] = 1
    vectors = np.eye(count, dtype=np.int64)[labels]
    return Module(matrices, vectors, vectors, "one-hot")


def _simplex(labels: np.ndarray, moves: np.ndarray, machine: Machine) -> Module:
    count = moves.shape[1]
    corners = np.vstack([np.eye(count - 1, dtype=np.int64), -np.ones((1, count - 1), dtype=np.int64)])
    # column i is where corner i goes; the last one follows, since all corners sum to 0
    matrices = corners[moves[:, :-1]].transpose(0, 2, 1)
    # corner i . corner j is count - 1 if i = j, and -1 if not: an inner product that no permutation changes
    gram = count * np.eye(count - 1, dtype=np.int64) - 1
    weights = _weights_of_elements(moves, machine)
    if weights is None:
        weights = np.eye(count, dtype=np.int64)[labels]
    vectors = weights @ corners
    return Module(matrices, vectors, vectors @ gram, "simplex")


def _signed(machine: Machine, found: list[np.ndarray]) -> list[Module]:
    """Return a block of k entries for each congruence of 2 k classes that another one merges in pairs."""
    n = machine.states
    if len(found) > _MAX_COMPARED or not (np.sort(machine.delta, axis=0) == np.arange(n)[:, None]).all():
        return []
    made = []
    for fine in found:
        for coarse in found:
            pairs, count = np.unique(np.stack([fine, coarse]), axis=1), int(coarse.max()) + 1
            if count < 2 or int(fine.max()) + 1 != 2 * count or pairs.shape[1] != 2 * count:
                continue
            halves = [pairs[0, pairs[1] == c] for c in range(count)]
            if any(len(half) != 2 for half in halves):
                continue
            first = np.array([half[0] for half in halves])
            sign = np.where(fine == first[coarse], 1, -1)
            moves = _moves(machine, coarse)
            # the sign that symbol a gives to class c: what it does to a state of sign 1
            signs = np.empty((machine.symbols, count), dtype=np.int64)
            plus = np.array([np.flatnonzero((coarse == c) & (sign == 1))[0] for c in range(count)])
            signs[:] = sign[machine.delta[plus].T]
            matrices = np.zeros((machine.symbols, count, count), dtype=np.int64)
            matrices[np.arange(machine.symbols)[:, None], moves, np.arange(count)] = signs
            vectors = _weights_of_elements(moves, machine, signs)
            if vectors is None:
                vectors = sign[:, None] * np.eye(count, dtype=np.int64)[coarse]
            made.append(Module(matrices, vectors, vectors, "signed"))
    return made


def _weights_of_elements(
    moves: np.ndarray, machine: Machine, signs: np.ndarray | None = None
) -> Int[np.ndarray, "state class"] | None:
    """Return, for a group that acts on its own elements, different weights on the classes, moved by each element.

    An element is then known by where it takes the weights, so that a block separates all elements that move classes in
    different ways, and not only those that move the first class to different places. Moved weights have one length, so
    that each is the one nearest to itself. None where a state is reached with two arrangements.
    """
    count = moves.shape[1]
    weights = np.zeros((machine.states, count), dtype=np.int64)
    weights[machine.start] = np.arange(count) if signs is None else np.arange(1, count + 1)
    signs = np.ones_like(moves) if signs is None else signs
    words = access_words(machine)
    states = {word: state for state, word in words.items()}
    for there, word in words.items():
        if word:
            weights[there, moves[word[-1]]] = signs[word[-1]] * weights[states[word[:-1]]]
    moved = np.empty((machine.states, machine.symbols, count), dtype=np.int64)
    moved[:, np.arange(machine.symbols)[:, None], moves] = signs * weights[:, None]
    return weights if np.array_equal(moved, weights[machine.delta]) else None


def _cyclic(labels: np.ndarray, moves: np.ndarray) -> Module | None:
    """Return powers of a companion matrix, if the symbols generate a cyclic group that acts freely on the classes."""
    exponent = _exponents(moves)
    if exponent is None:
        return None
    count = len(exponent)
    companion = _companion(count)
    size = len(companion)
    powers = [np.eye(size, dtype=np.int64)]
    for _ in range(count - 1):
        powers.append(companion @ powers[-1])
    stacked = np.stack(powers)
    sums = _ramanujan_sums(count)
    duals = sums[(np.arange(size) - exponent[:, None]) % count]
    vectors = stacked[exponent][:, :, 0]
    return Module(stacked[exponent[moves[:, 0]]], vectors[labels], duals[labels], "cyclotomic")


@dataclass(frozen=True, eq=False)
class CyclicQuotient:
    """A quotient that adds modulo `order`: each state holds a residue, each symbol adds one."""

    order: int
    residues: Int[np.ndarray, " state"]
    added: Int[np.ndarray, " symbol"]


def cyclic_quotients(machine: Machine) -> list[CyclicQuotient]:
    """Return the quotients of a minimal machine that are cyclic groups, largest first."""
    found = []
    for labels in {tuple(range(machine.states))} | congruences(machine):
        moves = _moves(machine, np.array(labels))
        exponent = _exponents(moves) if (np.sort(moves, axis=1) == np.arange(moves.shape[1])).all() else None
        if exponent is not None and len(exponent) > 1:
            residues = exponent[np.array(labels)]
            start = residues[machine.start]
            found.append(CyclicQuotient(len(exponent), (residues - start) % len(exponent), exponent[moves[:, 0]]))
    return sorted(found, key=lambda quotient: (-quotient.order, quotient.residues.tolist()))


def _moves(machine: Machine, labels: Int[np.ndarray, " state"]) -> Int[np.ndarray, "symbol class"]:
    moves = np.empty((machine.symbols, int(labels.max()) + 1), dtype=np.int64)
    moves[:, labels] = labels[machine.delta.T]
    return moves


def _exponents(moves: Int[np.ndarray, "symbol class"]) -> Int[np.ndarray, " class"] | None:
    """Return for each class the power of one element that leads class 0 there; None if the group is not cyclic."""
    count = moves.shape[1]
    element = np.full((count, count), -1, dtype=np.int64)
    element[0] = np.arange(count)
    waiting = [0]
    # the elements of a group that moves the classes freely are known by where they lead class 0
    while waiting:
        here = waiting.pop()
        for move in moves:
            there = move[element[here]]
            if element[there[0], 0] < 0:
                element[there[0]] = there
                waiting.append(int(there[0]))
            elif not np.array_equal(element[there[0]], there):
                return None
    orders = [_order(row) for row in element]
    if max(orders) != count:
        return None
    generator = element[orders.index(count)]
    power, exponent = 0, np.empty(count, dtype=np.int64)
    for e in range(count):
        exponent[power] = e
        power = int(generator[power])
    return exponent


def _order(permutation: np.ndarray) -> int:
    order, image = 1, permutation
    while (image != np.arange(len(image))).any():
        order, image = order + 1, permutation[image]
    return order


def _companion(count: int) -> Int[np.ndarray, "size size"]:
    """Return the companion matrix of the cyclotomic polynomial: multiplication by a primitive root of unity."""
    from sympy import Poly, cyclotomic_poly, symbols

    x = symbols("x")
    coefficients = [int(c) for c in Poly(cyclotomic_poly(count, x), x).all_coeffs()][::-1]
    size = len(coefficients) - 1
    matrix = np.zeros((size, size), dtype=np.int64)
    matrix[np.arange(1, size), np.arange(size - 1)] = 1
    matrix[:, -1] = [-c for c in coefficients[:-1]]
    return matrix


def _ramanujan_sums(count: int) -> Int[np.ndarray, " residue"]:
    """Return the sums of the n-th powers of all primitive roots of unity, for n = 0, ..., count - 1."""
    from sympy import mobius, totient

    def one(n: int) -> int:
        rest = count // math.gcd(count, n)
        return int(mobius(rest)) * int(totient(count)) // int(totient(rest))

    return np.array([one(n) for n in range(count)], dtype=np.int64)
