"""Machines that count and remember: the paper's tasks, and small machines of which others are built."""

from typing import Literal

import numpy as np

from statewise.errors import MachineError
from statewise.machines.behaviour import reachable_order
from statewise.machines.groups import cyclic
from statewise.machines.machine import Machine, check_at_least, check_entries

# how often a random table is drawn again until every state is reached
MAX_DRAWS = 1_000


def parity() -> Machine:
    """Return the machine for whether a word has an odd number of ones: 1 1 0 1 -> 1."""
    return cyclic(2).replace(name="parity")


def modular_addition(modulus: int) -> Machine:
    """Return the machine for the sum of the symbols mod m: for m = 5, the word 3 4 1 -> 3."""
    check_at_least(2, "modular_addition", "modulus", modulus)
    check_entries("modular_addition", modulus, modulus)
    return cyclic(modulus).replace(name=f"modular_addition({modulus})")


def modular_arithmetic(modulus: int, precedence: bool = False) -> Machine:
    """Return the machine for the value mod m of numbers alternating with +, - and x: for m = 5, 3 + 4 x 2 -> 4.

    After an operator the output is the value of the part before it. A word that does not alternate leads to a state
    that is never left, with the output "error".

    Args:
        modulus: m.
        precedence: False evaluates from left to right; True lets x bind before + and -, so that 3 + 4 x 2 -> 1.
    """
    check_at_least(2, "modular_arithmetic", "modulus", modulus)
    return _with_precedence(modulus) if precedence else _left_to_right(modulus)


def _left_to_right(m: int) -> Machine:
    check_entries("modular_arithmetic", 4 * m + 1, m + 3)
    # states: v (a value; an operator must follow), then (v, op) for +, -, x (a number must follow), then error
    values = np.arange(m)
    error = 4 * m
    delta = np.full((error + 1, m + 3), error)
    for op in range(3):
        delta[values, m + op] = m + op * m + values
    old, new = values[:, None], values[None, :]
    for op, result in enumerate([old + new, old - new, old * new]):
        delta[m + op * m : m + (op + 1) * m, :m] = result % m
    names = [str(v) for v in values] + [f"{v} {op}" for op in "+-x" for v in values] + ["error"]
    outputs = np.append(np.tile(values, 4), m)
    return _arithmetic(delta, m, outputs, names, f"modular_arithmetic({m})")


def _with_precedence(m: int) -> Machine:
    # a word is a sum s and an open product p, so far worth s + p:
    # (s, p) after a number, (s, sign) after + or -, (s, p) x after x, then error
    check_entries("modular_arithmetic", 2 * m * m + 2 * m + 1, m + 3)
    s, p = np.divmod(np.arange(m * m), m)
    values = np.arange(m)
    after_sum, after_times, error = m * m, m * m + 2 * m, 2 * m * m + 2 * m
    delta = np.full((error + 1, m + 3), error)
    for op in range(2):
        delta[: m * m, m + op] = after_sum + op * m + (s + p) % m
    delta[: m * m, m + 2] = after_times + np.arange(m * m)
    for op, sign in enumerate((1, -1)):
        delta[after_sum + op * m : after_sum + (op + 1) * m, :m] = values[:, None] * m + sign * values[None, :] % m
    delta[after_times:error, :m] = s[:, None] * m + p[:, None] * values[None, :] % m
    pairs = [f"{x}+{y}" for x, y in zip(s, p, strict=True)]
    names = pairs + [f"{v} {op}" for op in "+-" for v in values] + [f"{pair} x" for pair in pairs] + ["error"]
    outputs = np.concatenate([(s + p) % m, values, values, (s + p) % m, [m]])
    return _arithmetic(delta, m, outputs, names, f"modular_arithmetic({m}, precedence=true)", after_sum)


def _arithmetic(
    delta: np.ndarray, m: int, outputs: np.ndarray, names: list[str], name: str, start: int | None = None
) -> Machine:
    """Name symbols and outputs; the start is "0 +", from which any number leads to itself."""
    numbers = [str(v) for v in range(m)]
    return Machine(
        delta,
        start=m if start is None else start,
        outputs=outputs,
        alphabet=[*numbers, "+", "-", "x"],
        output_names=[*numbers, "error"],
        state_names=names,
        name=name,
    )


def random_machine(
    states: int, symbols: int = 0, seed: int = 0, kind: Literal["permutation", "map"] = "permutation"
) -> Machine:
    """Draw a machine uniformly among those of its kind whose states are all reached; each state is its own output.

    Args:
        states: m.
        symbols: how many; 0 means as many as states.
        seed: equal seeds give equal machines.
        kind: whether a symbol acts as a permutation of the states, or as an arbitrary map.
    """
    check_at_least(1, "random_machine", "states", states)
    check_at_least(0, "random_machine", "symbols", symbols)
    check_at_least(0, "random_machine", "seed", seed)
    symbols = symbols or states
    check_entries("random_machine", states, symbols)
    generator = np.random.Generator(np.random.PCG64([states, symbols, seed, ["permutation", "map"].index(kind)]))
    for _ in range(MAX_DRAWS if states * symbols < 10_000 else 10):
        if kind == "map":
            delta = generator.integers(0, states, size=(states, symbols))
        else:
            delta = np.stack([generator.permutation(states) for _ in range(symbols)], axis=1)
        name = f"random_machine({states}, symbols={symbols}, seed={seed}, kind={kind})"
        machine = Machine(delta, name=name)
        if len(reachable_order(machine)) == states:
            return machine
    raise MachineError(
        f"no random {kind} machine with {states} states and {symbols} symbols reached all its states; use more symbols"
    )


def flip_flop(values: int = 2) -> Machine:
    """Return the machine of a memory cell: "hold" keeps the value, "set v" replaces it: set 1, hold, hold -> 1."""
    check_at_least(2, "flip_flop", "values", values)
    check_entries("flip_flop", values, values + 1)
    delta = np.column_stack([np.arange(values), np.tile(np.arange(values), (values, 1))])
    return Machine(delta, alphabet=["hold", *(f"set {v}" for v in range(values))], name=f"flip_flop({values})")


def cycle_navigation(length: int = 5) -> Machine:
    """Return the machine for the position on a ring after moves 0 (stay), 1 (forward), 2 (back): 1 1 0 2 -> 1."""
    check_at_least(2, "cycle_navigation", "length", length)
    check_entries("cycle_navigation", length, 3)
    delta = (np.arange(length)[:, None] + np.array([0, 1, -1])) % length
    return Machine(delta, name=f"cycle_navigation({length})")
