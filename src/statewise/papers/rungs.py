"""The rungs of the ladder: tasks ordered by the algebra of their transition monoids, each with what is known of it."""

from dataclasses import dataclass
from typing import Literal

Class = Literal["aperiodic", "Abelian group", "solvable group", "non-solvable group", "other monoid", "protocol"]


@dataclass(frozen=True)
class Rung:
    """A task of the ladder.

    Args:
        task: the machine.
        label: what tables and pictures call it.
        algebra: the class of its transition monoid.
        fact: the theorem or known result behind its place, in one phrase.
    """

    task: str
    label: str
    algebra: Class
    fact: str


RUNGS = (
    Rung(
        "flip_flop",
        "flip-flop",
        "aperiodic",
        "every aperiodic machine is a cascade of flip-flops (Krohn and Rhodes 1965)",
    ),
    Rung(
        "tomita(4)",
        "Tomita 4",
        "aperiodic",
        "star-free, so that decays without negative eigenvalues can do it (arXiv:2405.17394)",
    ),
    Rung("parity", "parity", "Abelian group", "needs an eigenvalue that is not positive (arXiv:2411.12537, Theorem 1)"),
    Rung(
        "modular_addition(3)",
        "Z3",
        "Abelian group",
        "needs complex eigenvalues in some product of transitions (arXiv:2411.12537, Theorem 2)",
    ),
    Rung("modular_addition(5)", "Z5", "Abelian group", "rotations by multiples of 2 pi / 5 do it (Theorem H)"),
    Rung("modular_addition(60)", "Z60", "Abelian group", "still one rotation, but 60 states to tell apart (Theorem H)"),
    Rung(
        "symmetric(3)",
        "S3",
        "solvable group",
        "does not commute: diagonals and rotations cannot; blocks of 2 suffice (Theorem G)",
    ),
    Rung(
        "symmetric(4)",
        "S4",
        "solvable group",
        "needs blocks of 3 (Theorem G, if products stay bounded and margins away from 0); solvable, hence inside TC0",
    ),
    Rung(
        "alternating(5)",
        "A5",
        "non-solvable group",
        "NC1-complete (Barrington 1989): not in fixed depth if TC0 is not NC1 (arXiv:2404.08819)",
    ),
    Rung("symmetric(5)", "S5", "non-solvable group", "NC1-complete (Barrington 1989); blocks of 4 suffice (Theorem G)"),
    Rung(
        "random_machine(10, seed=7, kind=map)",
        "random maps",
        "other monoid",
        "symbols merge states, so that no group represents it; one-hot states do (Proposition 1)",
    ),
    Rung(
        "modular_arithmetic(5)",
        "arithmetic mod 5",
        "other monoid",
        "resets (times 0) beside the affine group of Z5; solvable",
    ),
    Rung("tcp", "TCP", "protocol", "eleven states of a connection (RFC 9293), most of them hard to reach by chance"),
)
