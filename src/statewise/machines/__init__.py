"""Finite-state machines as values: construction, behaviour, algebra, files and drawings."""

from statewise.machines.behaviour import (
    access_words,
    align,
    distinguish,
    equivalent,
    isomorphism,
    minimise,
    reachable,
)
from statewise.machines.catalogue import FAMILIES, machine
from statewise.machines.drawing import draw_svg
from statewise.machines.machine import Machine, identical
from statewise.machines.machine_files import read_machine, write_machine
from statewise.machines.monoid import Algebra, Monoid, MonoidTooLarge, analyse, transition_monoid
from statewise.machines.products import direct_product, shared_product
from statewise.rooms import make_callable

__all__ = [
    "FAMILIES",
    "Algebra",
    "Machine",
    "Monoid",
    "MonoidTooLarge",
    "access_words",
    "align",
    "analyse",
    "direct_product",
    "distinguish",
    "draw_svg",
    "equivalent",
    "identical",
    "isomorphism",
    "machine",
    "minimise",
    "reachable",
    "read_machine",
    "shared_product",
    "transition_monoid",
    "write_machine",
]

# `sw.machines()` lists the names of machines
make_callable(__name__)
