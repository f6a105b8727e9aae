"""Machines by name: `modular_addition(5)`, `cyclic(4)*cyclic(6)`, `regex("(ab)*")`, or a file."""

import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path

from statewise.errors import unknown_name
from statewise.expressions import Call, Product, call, parse
from statewise.machines import families, groups, languages, protocols
from statewise.machines.machine import Machine
from statewise.machines.machine_files import SUFFIXES, read_machine
from statewise.machines.products import direct_product

FAMILIES: dict[str, Callable[..., Machine]] = {
    "parity": families.parity,
    "modular_addition": families.modular_addition,
    "modular_arithmetic": families.modular_arithmetic,
    "random_machine": families.random_machine,
    "flip_flop": families.flip_flop,
    "cycle_navigation": families.cycle_navigation,
    "cyclic": groups.cyclic,
    "dihedral": groups.dihedral,
    "quaternion": groups.quaternion,
    "symmetric": groups.symmetric,
    "alternating": groups.alternating,
    "permutation_group": groups.permutation_group,
    "even_pairs": languages.even_pairs,
    "tomita": languages.tomita,
    "dyck": languages.dyck,
    "regex": languages.regex,
    "tcp": protocols.tcp,
    "read": read_machine,
}


def machine(text: str | os.PathLike[str]) -> Machine:
    """Build the machine that a catalogue expression or a path to a .json, .dot or .gv file names.

    A `*` between two machines is their direct product, which reads pairs of symbols.
    """
    text = os.fspath(text)
    stripped = text.strip()
    if Path(stripped).suffix.lower() in SUFFIXES:
        return read_machine(stripped)
    return _build(parse(text))


def from_file(text: str) -> bool:
    """Return whether a machine comes from a file, so that its name alone does not determine it."""
    stripped = text.strip()
    return Path(stripped).suffix.lower() in SUFFIXES or _reads(parse(text))


def _reads(spec: Call | Product) -> bool:
    if isinstance(spec, Product):
        return any(_reads(factor) for factor in spec.factors)
    return FAMILIES.get(spec.name) is read_machine


def _build(spec: Call | Product) -> Machine:
    if isinstance(spec, Product):
        return reduce(direct_product, (_build(factor) for factor in spec.factors))
    if spec.name not in FAMILIES:
        raise unknown_name("machine", spec.name, FAMILIES)
    return call(FAMILIES[spec.name], spec)
