"""The hierarchy of bilinear state transitions, one file per level."""

from statewise.transitions.additive import Additive
from statewise.transitions.block import Block
from statewise.transitions.cp import CP
from statewise.transitions.diagonal import Diagonal
from statewise.transitions.full import Full
from statewise.transitions.positive import Positive
from statewise.transitions.rotation import Rotation
from statewise.transitions.transition import LinearTransition, Transition, tabulate

__all__ = [
    "CP",
    "Additive",
    "Block",
    "Diagonal",
    "Full",
    "LinearTransition",
    "Positive",
    "Rotation",
    "Transition",
    "tabulate",
]
