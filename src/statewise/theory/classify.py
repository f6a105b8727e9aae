"""Which level of the hierarchy can track a machine, from the algebra of its transition monoid."""

from dataclasses import dataclass

from statewise.machines import Algebra


@dataclass(frozen=True)
class Level:
    """A level that can track a machine at all lengths, in real arithmetic, where one logit is always the largest.

    Args:
        name: the transition's name.
        reason: the fact of algebra behind it.
        lowest: whether no lower level can; False where only that this level suffices is known.
    """

    name: str
    reason: str
    lowest: bool


def classify(algebra: Algebra) -> Level:
    """Gives the level of a machine from the algebra of its minimal form.

    Along powers of one word, the outputs of a positive diagonal become constant and those of a real diagonal have
    period at most 2, so periods of symbols are obstructions; diagonals commute, so order is one. Powers of a rotation
    come back arbitrarily close to the identity, so a state that is left for ever is another. Conversely, in a
    commutative monoid a state is known from counts of symbols, up to thresholds and periods, and products of decays
    and characters separate these; a group needs characters only. One-hot states and transition matrices make any
    machine a full network.
    """
    if algebra.commutative and algebra.aperiodic:
        return Level("positive", "commutative and aperiodic", lowest=True)
    if algebra.commutative and max(algebra.periods) <= 2:
        return Level("diagonal", "commutative with periods at most 2", lowest=True)
    if algebra.abelian:
        return Level("rotation", "an Abelian group", lowest=True)
    if algebra.commutative:
        return Level("block(2)", "commutative, and no group: turns and decays", lowest=True)
    return Level("full", "one-hot states track any machine", lowest=False)
