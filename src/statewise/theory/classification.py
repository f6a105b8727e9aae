"""Which level of the hierarchy can track a machine, with the theorem or the bound behind the claim."""

from dataclasses import dataclass

import numpy as np

from statewise.machines import Algebra, Machine, Monoid, minimise, transition_monoid
from statewise.theory.irreducible import separating_parts
from statewise.theory.quotients import modules, readable

_MAX_MONOID = 2_000
_MAX_GROUPS = 40
_MAX_STATES = 120


@dataclass(frozen=True)
class Level:
    """A level that can track a machine at all lengths, in real arithmetic, where one logit is always the largest.

    Args:
        name: the transition's name.
        reason: the fact of algebra behind it.
        lowest: whether no lower level can; False where only that this level suffices is known.
        theorem: what it rests on: "Theorem H" for commutative machines, "Theorem G" for permutations, "bound" else.
        block: the block size of that level; 1 for diagonals.
        at_least: a block size below which no network can track the machine.
        dimension: a hidden size that suffices at that level, where it is known.
        supposed: whether `lowest` and `at_least` hold only for networks that meet hypothesis (N): products stay
            bounded, and so does the margin from below.
        numerical: whether block or hidden size come from irreducible parts that were found in floating point, with a
            tolerance; the theorem is then about parts that may differ from those.
    """

    name: str
    reason: str
    lowest: bool
    theorem: str
    block: int
    at_least: int
    dimension: int | None = None
    supposed: bool = False
    numerical: bool = False


def classify(algebra: Algebra, machine: Machine) -> Level:
    """Return the level of a machine, from its algebra.

    Along powers of one word, the outputs of a positive diagonal become constant and those of a real diagonal have
    period at most 2, so periods of symbols are obstructions; diagonals commute, so order is one. Powers of a rotation
    come back arbitrarily close to the identity, so a state that is left for ever is another. Conversely, in a
    commutative monoid a state is known from counts of symbols, up to thresholds and periods, and products of decays
    and characters separate these; a group needs characters only (Theorem H). A group that does not commute needs
    blocks as large as the real irreducible parts that distinguish its states (Theorem G). For all others there is an
    upper bound, by one-hot states or quotients, and a lower one, by the groups inside the monoid.
    """
    if algebra.commutative and algebra.aperiodic:
        return Level("positive", "commutative and aperiodic", True, "Theorem H", 1, 1)
    if algebra.commutative and max(algebra.periods) <= 2:
        return Level("diagonal", "commutative with periods at most 2", True, "Theorem H", 1, 1)
    minimal = minimise(machine)
    if algebra.abelian:
        own = len(np.unique(minimal.outputs)) == minimal.states
        parts = separating_parts(minimal) if own else None
        size = None if parts is None else 2 * sum(-(-basis.shape[1] // 2) for basis in parts.bases)
        return Level("rotation", "an Abelian group", True, "Theorem H", 2, 2, size, numerical=size is not None)
    if algebra.commutative:
        return Level("block(2)", "commutative, and no group: turns and decays", True, "Theorem H", 2, 2)
    if algebra.group:
        parts = separating_parts(minimal)
        if parts is not None and len(np.unique(minimal.outputs)) == minimal.states:
            reason = "permutations, whose real irreducible parts of this size separate all states"
            certain, size = parts.block > 1, parts.block
            # matrices of 1 x 1 commute, whatever their products do
            supposed = size > 2
            return Level(
                f"block({size})", reason, certain, "Theorem G", size, size, parts.dimension, supposed, numerical=True
            )
    return _bounded(minimal)


def _bounded(machine: Machine) -> Level:
    """Return an upper bound by quotients or one-hot states, and a lower one by the groups inside the monoid."""
    least = max(2, _largest_group(machine))
    # what is known of groups inside the monoid is numerical, and supposes (N)
    by_group = least > 2
    if machine.states <= _MAX_STATES:
        made = modules(machine)
        for size in sorted({module.size for module in made}):
            if size >= machine.states:
                break
            found = readable([module for module in made if module.size <= size], machine)
            if found is not None:
                hidden = sum(module.size for module in found[0])
                reason = "quotients of the machine that together separate all states"
                lowest = size <= least
                return Level(f"block({size})", reason, lowest, "bound", size, least, hidden, by_group, by_group)
    reason = "one-hot states track any machine"
    lowest, states = machine.states <= least, machine.states
    return Level("full", reason, lowest, "bound", states, least, states, by_group, by_group)


def _largest_group(machine: Machine) -> int:
    """Return the largest block that a group inside the monoid needs; 1 where the monoid is too large to enumerate.

    Words of such a group permute the image of an idempotent; a network that tracks the machine tracks these states
    under these words, so Theorem G holds for them.
    """
    monoid = transition_monoid(machine, _MAX_MONOID)
    if not isinstance(monoid, Monoid):
        return 1
    maps = monoid.maps
    idempotent = np.flatnonzero((np.take_along_axis(maps, maps, axis=1) == maps).all(axis=1))
    largest, seen = 1, set()
    for e in idempotent.tolist():
        points = np.unique(maps[e])
        if len(points) < 3 or points.tobytes() in seen or len(seen) >= _MAX_GROUPS:
            continue
        seen.add(points.tobytes())
        number = np.full(machine.states, -1)
        number[points] = np.arange(len(points))
        inside = number[maps[:, points]]
        permuting = inside[(np.sort(inside, axis=1) == np.arange(len(points))).all(axis=1)]
        largest = max(largest, _block_of_group(np.unique(permuting, axis=0)))
    return largest


def _block_of_group(elements: np.ndarray) -> int:
    """Return the block size that a permutation group needs for its points to be distinguished, orbit by orbit."""
    largest = 1
    left = set(range(elements.shape[1]))
    while left:
        orbit = np.unique(elements[:, min(left)])
        left -= set(orbit.tolist())
        number = np.full(elements.shape[1], -1)
        number[orbit] = np.arange(len(orbit))
        parts = separating_parts(Machine(np.unique(number[elements[:, orbit]], axis=0).T))
        if parts is not None:
            largest = max(largest, parts.block)
    return largest
