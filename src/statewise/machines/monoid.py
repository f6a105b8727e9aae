"""The transition monoid: the maps of states that words induce, and the algebra of a machine.

A word w acts on the states by q -> delta(q, w). The maps of all words, with composition, form a finite monoid. For a
minimal machine it is the syntactic monoid, and its algebra decides which networks can track the machine.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from statewise.machines.behaviour import merging_pairs, minimise
from statewise.machines.machine import Machine

MAX_MONOID = 20_000
# bytes of products that an enumeration may write, a few seconds' worth
MAX_MONOID_WORK = 4_000_000_000
MAX_SUBGROUP_ENTRIES = 2_000_000
MAX_SYMPY_POINTS = 1_000
MAX_SYMPY_LETTERS = 50
MAX_STABILISER_POINTS = 30
MAX_PAIR_EDGES = 20_000_000
# every group of fewer elements than A5 is solvable
SMALLEST_UNSOLVABLE = 60


@dataclass(frozen=True, eq=False)
class Monoid:
    """All maps that words induce, the identity first, then in the order of a shortest word for each.

    Args:
        maps: a row per element: the image of each state.
        parents: for each element, the one before its last symbol (the identity is its own parent).
        last: the last symbol of a shortest word for each element (-1 for the identity).
    """

    maps: Int[np.ndarray, "element state"]
    parents: Int[np.ndarray, " element"]
    last: Int[np.ndarray, " element"]

    def __len__(self) -> int:
        return len(self.maps)

    def word(self, element: int) -> tuple[int, ...]:
        """Return a shortest word that acts as the element."""
        symbols: list[int] = []
        while element:
            symbols.append(int(self.last[element]))
            element = int(self.parents[element])
        return tuple(reversed(symbols))


@dataclass(frozen=True)
class MonoidTooLarge:
    """The outcome of an enumeration past its bound: there are more than `limit` maps."""

    limit: int


def transition_monoid(machine: Machine, limit: int = MAX_MONOID) -> Monoid | MonoidTooLarge:
    """Enumerate the maps that words induce, breadth first, up to `limit` elements."""
    dtype = np.min_scalar_type(machine.states - 1)
    letters = np.ascontiguousarray(machine.delta.T.astype(dtype))
    _, distinct = np.unique(letters, axis=0, return_index=True)
    distinct.sort()
    letters = letters[distinct]
    limit = min(limit, max(1, MAX_MONOID_WORK // letters.nbytes))
    identity = np.arange(machine.states, dtype=dtype)
    known = {identity.tobytes()}
    maps, parents, last = [identity], [0], [-1]
    index = 0
    while index < len(maps):
        for letter, product in zip(distinct.tolist(), letters[:, maps[index]], strict=True):
            key = product.tobytes()
            if key in known:
                continue
            if len(maps) >= limit:
                return MonoidTooLarge(limit)
            known.add(key)
            maps.append(product)
            parents.append(index)
            last.append(letter)
        index += 1
    return Monoid(np.stack(maps).astype(np.int64), np.array(parents), np.array(last))


@dataclass(frozen=True)
class Algebra:
    """Facts about the transition monoid of the minimal machine; None where the bounds left a fact undecided.

    Args:
        monoid: its size.
        group: every symbol permutes the states.
        commutative: the order of symbols never matters.
        abelian: a commutative group.
        solvable: every group inside the monoid is solvable.
        aperiodic: no group but the trivial one is inside the monoid (the language is star-free).
        synchronising: some word leads every state to one.
        periods: for each symbol a, the least p with a^(i + p) = a^i for some i.
    """

    minimal_states: int
    monoid: int | None
    group: bool
    commutative: bool
    abelian: bool
    solvable: bool | None
    aperiodic: bool | None
    synchronising: bool | None
    periods: tuple[int, ...]


def analyse(machine: Machine, limit: int = MAX_MONOID) -> Algebra:
    """Compute the algebra of a machine's minimal form.

    Group, commutativity, periods of symbols and synchronisation need no enumeration of the monoid; solvability and
    aperiodicity use it, or a shortcut where one exists.
    """
    minimal = minimise(machine)
    letters = np.unique(minimal.delta.T, axis=0)
    group = all(len(np.unique(letter)) == minimal.states for letter in letters)
    commutative = _is_commutative(letters, minimal.start)
    periods = tuple(_period(column) for column in minimal.delta.T)
    monoid = MonoidTooLarge(limit) if commutative else transition_monoid(minimal, limit)
    complete = isinstance(monoid, Monoid)
    size = len(monoid) if complete else None
    if commutative and minimal.states <= limit:
        # a map that commutes with all others is known by where it leads the start, and every state is led to
        size = minimal.states
    if commutative or max(periods) > 1:
        # in a commutative monoid the period of a product divides the product of the letters' periods
        aperiodic = max(periods) == 1
    else:
        aperiodic = _is_aperiodic(monoid.maps) if complete else None
    if commutative or aperiodic:
        solvable = True
    elif complete and monoid.maps.size <= MAX_SUBGROUP_ENTRIES:
        solvable = all(_is_solvable(elements) for elements in _large_groups(monoid.maps))
    else:
        solvable = _is_solvable_by_generators(letters) if group and not complete else None
    return Algebra(
        minimal_states=minimal.states,
        monoid=size,
        group=group,
        commutative=commutative,
        abelian=group and commutative,
        solvable=solvable,
        aperiodic=aperiodic,
        synchronising=_is_synchronising(minimal, group),
        periods=periods,
    )


def _is_commutative(letters: Int[np.ndarray, "letter state"], start: int) -> bool:
    """Return whether all letters of a machine whose states are all reached commute.

    Take letters c that commute with each other and reach every state from the start. If x and y commute with each c,
    they commute: write x(start) = u(start) and y(start) = v(start) with words u, v in c; then x y w(start) =
    w v u(start) = w u v(start) = y x w(start). So each letter is compared with few others.
    """
    reached = np.zeros(letters.shape[1], dtype=bool)
    reached[start] = True
    chosen: list[np.ndarray] = []
    while not reached.all():
        expanding = next(letter for letter in letters if not reached[letter[reached]].all())
        chosen.append(expanding)
        frontier = np.flatnonzero(reached)
        while len(frontier):
            following = np.unique(np.concatenate([letter[frontier] for letter in chosen]))
            frontier = following[~reached[following]]
            reached[frontier] = True
    return all(np.array_equal(letters[:, c], c[letters]) for c in chosen)


def _period(letter: Int[np.ndarray, " state"]) -> int:
    """Return the least common multiple of the lengths of a map's cycles."""
    image = letter
    for _ in range(len(letter).bit_length()):
        image = image[image]
    seen: set[int] = set()
    period = 1
    for q in np.unique(image).tolist():
        length = 0
        while q not in seen:
            seen.add(q)
            q = int(letter[q])
            length += 1
        # Python's integers: the product of many cycle lengths passes any machine word
        period = math.lcm(period, max(length, 1))
    return period


def _is_aperiodic(maps: Int[np.ndarray, "element state"]) -> bool:
    power = maps
    for _ in range(maps.shape[1].bit_length()):
        power = np.take_along_axis(power, power, axis=1)
    return bool((np.take_along_axis(maps, power, axis=1) == power).all())


def _is_synchronising(machine: Machine, group: bool) -> bool | None:
    if machine.states == 1:
        return True
    if group:
        return False
    if machine.states**2 * machine.symbols > MAX_PAIR_EDGES:
        return None
    return bool(merging_pairs(machine).all())


def _large_groups(maps: Int[np.ndarray, "element state"]) -> list[Int[np.ndarray, "member point"]]:
    """Return the maximal subgroups large enough to be unsolvable, each as permutations of its image.

    Elements with the kernel and the image of an idempotent e form the maximal subgroup around e (Green, 1951).
    """
    idempotent = (np.take_along_axis(maps, maps, axis=1) == maps).all(axis=1)
    images = np.sort(maps, axis=1)
    images[:, 1:][images[:, 1:] == images[:, :-1]] = -1
    images.sort(axis=1)
    # the kernel, as the first state with the same image
    kernels = np.array([np.unique(row, return_index=True)[1][np.unique(row, return_inverse=True)[1]] for row in maps])
    _, member_of = np.unique(np.column_stack([images, kernels]), axis=0, return_inverse=True)
    member_of = member_of.ravel()
    sizes = np.bincount(member_of)
    groups = []
    for e in np.flatnonzero(idempotent):
        if sizes[member_of[e]] >= SMALLEST_UNSOLVABLE:
            points = np.unique(maps[e])
            number = np.full(maps.shape[1], -1)
            number[points] = np.arange(len(points))
            groups.append(number[maps[member_of == member_of[e]][:, points]])
    return groups


def _is_solvable(elements: Int[np.ndarray, "element point"]) -> bool:
    """Return whether the derived series of a group, given by all its elements, ends in the trivial group."""
    while len(elements) > 1:
        if len(elements) < SMALLEST_UNSOLVABLE:
            return True
        generators = _few_generators(elements)
        commutators = [_inverse(y)[_inverse(x)[y[x]]] for x in generators for y in generators]
        derived = _generate(commutators, elements.shape[1])
        # the normal closure: add conjugates until none is new
        fresh = True
        while fresh:
            fresh = False
            for c in list(commutators):
                for g in generators:
                    conjugate = g[c[_inverse(g)]]
                    if conjugate.tobytes() not in derived:
                        commutators.append(conjugate)
                        derived = _generate(commutators, elements.shape[1])
                        fresh = True
        if len(derived) == len(elements):
            return False
        elements = np.stack(list(derived.values()))
    return True


def _inverse(permutation: np.ndarray) -> np.ndarray:
    return np.argsort(permutation)


def _few_generators(elements: np.ndarray) -> list[np.ndarray]:
    """Choose elements that generate a group, at most log2 of its size many."""
    chosen: list[np.ndarray] = []
    reached = _generate(chosen, elements.shape[1])
    for element in elements:
        if element.tobytes() not in reached:
            chosen.append(element)
            reached = _generate(chosen, elements.shape[1])
        if len(reached) == len(elements):
            break
    return chosen


def _generate(generators: list[np.ndarray], points: int) -> dict[bytes, np.ndarray]:
    """Return the group that permutations generate, keyed by their bytes."""
    identity = np.arange(points)
    found = {identity.tobytes(): identity}
    waiting = [identity]
    distinct = list({g.tobytes(): g for g in generators}.values())
    while waiting:
        element = waiting.pop()
        for generator in distinct:
            product = generator[element]
            key = product.tobytes()
            if key not in found:
                found[key] = product
                waiting.append(product)
    return found


def _is_solvable_by_generators(letters: Int[np.ndarray, "letter state"]) -> bool | None:
    """Decide solvability of a permutation group too large to enumerate, by sympy; None where that takes long."""
    from sympy import factorint
    from sympy.combinatorics import Permutation, PermutationGroup

    points = letters.shape[1]
    if points > MAX_SYMPY_POINTS:
        return None
    group = PermutationGroup([Permutation(letter.tolist()) for letter in letters[:MAX_SYMPY_LETTERS]])
    # a random search for elements that only A_n and S_n have: what it finds is certain, and it misses once in 10^12
    if points >= 8 and group.is_alt_sym(eps=1e-12):
        return False
    if points > MAX_STABILISER_POINTS or len(letters) > MAX_SYMPY_LETTERS:
        return None
    order = int(group.order())
    # A_n and S_n by their order, and Burnside's theorem on orders p^a q^b, spare most derived series
    if points >= 5 and 2 * order >= math.factorial(points):
        return False
    return len(factorint(order)) <= 2 or bool(group.is_solvable)
