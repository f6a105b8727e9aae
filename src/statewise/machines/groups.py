"""Word problems of finite groups: the symbols are elements, the state is their product.

A symbol s leads from g to s g: the newest element acts last and so stands on the left, as a matrix does. By default
every element is a symbol; `generators="standard"` keeps the usual few.
"""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from statewise.errors import ExpressionError, TooLargeError, shorten
from statewise.expressions import Call
from statewise.machines.machine import Machine, check_at_least, check_entries

Generators = Literal["all", "standard"]
Acting = Literal["elements", "points"]
Permutation = tuple[int, ...]

MAX_ELEMENTS = 50_000
MAX_POINTS = 500
_FEWER = "use generators=standard, or a smaller size"


def cyclic(order: int, generators: Generators = "all") -> Machine:
    """Return the word problem of the cyclic group Z_n: symbols add mod n; the standard generator is 1."""
    check_at_least(1, "cyclic", "order", order)
    check_entries("cyclic", order, order if generators == "all" else 1, _FEWER)
    added = range(order) if generators == "all" else [1 % order]
    delta = (np.arange(order)[:, None] + np.array(added)) % order
    return Machine(delta, alphabet=[str(a) for a in added], name=_written("cyclic", order, generators))


def dihedral(sides: int, generators: Generators = "all") -> Machine:
    """Return the word problem of the 2n symmetries of a regular polygon; the standard generators are r and s.

    An element is s^f r^k with a turn r and a flip s, and r s = s r^-1.
    """
    check_at_least(1, "dihedral", "sides", sides)
    check_entries("dihedral", 2 * sides, 2 * sides if generators == "all" else 2, _FEWER)
    turn, flip = np.tile(np.arange(sides), 2), np.repeat([0, 1], sides)
    chosen = np.arange(2 * sides) if generators == "all" else np.array([1 % sides, sides])
    names = [_power_name("s" * int(f), int(k)) for f, k in zip(flip, turn, strict=True)]
    # s^f r^k . s^g r^j = s^(f+g) r^(j + (-1)^g k)
    k, f = turn[chosen][None, :], flip[chosen][None, :]
    j, g = turn[:, None], flip[:, None]
    delta = ((f + g) % 2) * sides + (j + np.where(g == 1, -k, k)) % sides
    alphabet = [names[a] for a in chosen] if sides > 1 or generators == "all" else ["r", "s"]
    return Machine(delta, alphabet=alphabet, state_names=names, name=_written("dihedral", sides, generators))


def quaternion(generators: Generators = "all") -> Machine:
    """Return the word problem of the quaternion group of 8 elements; the standard generators are i and j."""
    units = "1ijk"
    # the product of two units, as sign and unit: i j = k, j i = -k, i i = -1
    table = {("1", u): (1, u) for u in units} | {(u, "1"): (1, u) for u in units} | {(u, u): (-1, "1") for u in "ijk"}
    for a, b, c in ("ijk", "jki", "kij"):
        table |= {(a, b): (1, c), (b, a): (-1, c)}
    table[("1", "1")] = (1, "1")
    elements = [(sign, unit) for unit in units for sign in (1, -1)]
    names = [("-" if sign < 0 else "") + unit for sign, unit in elements]

    def multiply(x: tuple[int, str], y: tuple[int, str]) -> int:
        sign, unit = table[x[1], y[1]]
        return elements.index((x[0] * y[0] * sign, unit))

    chosen = elements if generators == "all" else [(1, "i"), (1, "j")]
    delta = [[multiply(s, g) for s in chosen] for g in elements]
    alphabet = [names[elements.index(s)] for s in chosen]
    return Machine(delta, alphabet=alphabet, state_names=names, name=_written("quaternion", None, generators))


def symmetric(points: int, generators: Generators = "all", states: Acting = "elements") -> Machine:
    """Return the word problem of all permutations of some points; the standard generators are (0 1) and a full cycle.

    Args:
        points: how many points are permuted.
        generators: which permutations are symbols.
        states: "elements" tracks the whole permutation, "points" only where point 0 went.
    """
    check_at_least(1, "symmetric", "points", points)
    check_entries("symmetric", points, 1)
    if points == 1:
        standard: list[Permutation] = [(0,)]
    else:
        # for two points the swap is the cycle
        standard = list(dict.fromkeys([(1, 0, *range(2, points)), (*range(1, points), 0)]))
    return _permutations("symmetric", points, _factorial(points), standard, generators, states)


def alternating(points: int, generators: Generators = "all", states: Acting = "elements") -> Machine:
    """Return the word problem of the even permutations; the standard generators are the 3-cycles (0 1 p).

    Args:
        points: how many points are permuted.
        generators: which permutations are symbols.
        states: "elements" tracks the whole permutation, "points" only where point 0 went.
    """
    check_at_least(1, "alternating", "points", points)
    check_entries("alternating", points, max(1, points - 2))
    standard: list[Permutation] = []
    for p in range(2, points):
        cycle = list(range(points))
        cycle[0], cycle[1], cycle[p] = 1, p, 0
        standard.append(tuple(cycle))
    standard = standard or [tuple(range(points))]
    return _permutations("alternating", points, max(1, _factorial(points) // 2), standard, generators, states)


def permutation_group(*generators: str, states: Acting = "elements") -> Machine:
    """Return the word problem of the group that permutations in cycle notation generate, with these as symbols.

    For example `permutation_group("(0 1 2)", "(0 1)")` is the symmetric group of 3 points on two generators.
    """
    if not generators:
        raise ExpressionError('permutation_group needs at least one permutation; write it as "(0 1 2)(3 4)"')
    parsed = [_parse_cycles(text) for text in generators]
    points = 1 + max((p for cycles in parsed for cycle in cycles for p in cycle), default=0)
    if points > MAX_POINTS:
        raise TooLargeError(
            f"permutation_group moves point {points - 1}; points below {MAX_POINTS} are handled; renumber"
        )
    chosen = [_from_cycles(cycles, points) for cycles in parsed]
    if len(set(chosen)) != len(chosen):
        raise ExpressionError("permutation_group got one permutation twice; give each once")
    options = {} if states == "elements" else {"states": states}
    name = str(Call("permutation_group", generators, options))
    return _word_problem(_closure(chosen, name) if states == "elements" else [], chosen, states, name)


def _permutations(
    family: str, points: int, order: int, standard: list[Permutation], generators: Generators, states: Acting
) -> Machine:
    check_entries(
        family, order if states == "elements" else points, order if generators == "all" else len(standard), _FEWER
    )
    name = _written(family, points, generators)
    if states == "points":
        name = name[:-1] + ", states=points)"
        chosen = standard if generators == "standard" else _elements(family, points)
        return _word_problem([], chosen, states, name)
    elements = _elements(family, points)
    return _word_problem(elements, elements if generators == "all" else standard, states, name)


def _factorial(points: int) -> int:
    """Return the number of permutations, or a number past every bound."""
    return math.factorial(min(points, 20))


def _elements(family: str, points: int) -> list[Permutation]:
    everything = itertools.permutations(range(points))
    return [p for p in everything if family == "symmetric" or _is_even(p)]


def _is_even(permutation: Permutation) -> bool:
    return (len(permutation) - len(_cycles(permutation, with_fixed=True))) % 2 == 0


def _word_problem(
    elements: Sequence[Permutation], symbols: Sequence[Permutation], acting: Acting, name: str
) -> Machine:
    acts = np.array(symbols)
    alphabet = [_cycle_name(s) for s in symbols]
    if acting == "points":
        return Machine(acts.T, alphabet=alphabet, name=name)
    table = np.array(elements)
    # elements as numbers in base n, sorted, so that products are found by search
    base = table.shape[1] ** np.arange(table.shape[1] - 1, -1, -1, dtype=object)
    keys = (table * base).sum(axis=1)
    order = np.argsort(keys)
    delta = np.empty((len(table), len(acts)), dtype=np.int64)
    for a, act in enumerate(acts):
        delta[:, a] = order[np.searchsorted(keys[order], (act[table] * base).sum(axis=1))]
    identity = tuple(range(table.shape[1]))
    names = [_cycle_name(g) for g in elements]
    return Machine(delta, start=list(elements).index(identity), alphabet=alphabet, state_names=names, name=name)


def _closure(generators: Sequence[Permutation], name: str) -> list[Permutation]:
    identity = tuple(range(len(generators[0])))
    found = {identity: None}
    waiting = [identity]
    for element in waiting:
        for g in generators:
            product = tuple(g[p] for p in element)
            if product not in found:
                if len(found) == MAX_ELEMENTS:
                    raise TooLargeError(
                        f"{shorten(name)} has over {MAX_ELEMENTS:,} elements; give smaller permutations"
                    )
                found[product] = None
                waiting.append(product)
    return list(found)


def _cycles(permutation: Permutation, with_fixed: bool = False) -> list[list[int]]:
    seen: set[int] = set()
    cycles = []
    for p in range(len(permutation)):
        cycle = []
        while p not in seen:
            seen.add(p)
            cycle.append(p)
            p = permutation[p]
        if len(cycle) > 1 or (cycle and with_fixed):
            cycles.append(cycle)
    return cycles


def _cycle_name(permutation: Permutation) -> str:
    cycles = _cycles(permutation)
    return "".join(f"({' '.join(map(str, cycle))})" for cycle in cycles) or "e"


def _parse_cycles(text: str) -> list[list[int]]:
    if text.strip() == "e":
        return []
    if not re.fullmatch(r"\s*(\(\s*\d{1,4}(\s*[\s,]\s*\d{1,4})*\s*\)\s*)+", text):
        raise ExpressionError(f'"{shorten(text)}" is not a permutation in cycle notation; write it as "(0 1 2)(3 4)"')
    cycles = [[int(p) for p in re.findall(r"\d+", cycle)] for cycle in re.findall(r"\(([^)]*)\)", text)]
    points = [p for cycle in cycles for p in cycle]
    if len(set(points)) != len(points):
        raise ExpressionError(f'"{shorten(text)}" moves a point twice; write disjoint cycles such as "(0 1 2)(3 4)"')
    return cycles


def _from_cycles(cycles: list[list[int]], points: int) -> Permutation:
    image = list(range(points))
    for cycle in cycles:
        for p, q in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            image[p] = q
    return tuple(image)


def _power_name(prefix: str, power: int) -> str:
    name = prefix + {0: "", 1: "r"}.get(power, f"r{power}")
    return name or "e"


def _written(family: str, size: int | None, generators: Generators) -> str:
    arguments = ([str(size)] if size is not None else []) + (["generators=standard"] if generators != "all" else [])
    return f"{family}({', '.join(arguments)})" if arguments else family
