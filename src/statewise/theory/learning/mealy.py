"""Mealy machines, whose transitions have the outputs: as Moore machines, and as a measure of size."""

import math

import numpy as np
from jaxtyping import Int

from statewise.machines import Machine, minimise


def from_mealy(
    delta: Int[np.ndarray, "state symbol"],
    answers: Int[np.ndarray, "state symbol"],
    alphabet: tuple[str, ...],
    output_names: tuple[str, ...],
    first: int | None = None,
) -> Machine:
    """Return the Moore machine of a Mealy machine: it has a state for each state and output that leads to it.

    Args:
        delta: the states; 0 is the start.
        answers: the outputs; -1 where none is known.
        alphabet: names of symbols.
        output_names: names of outputs.
        first: the output before the first symbol; None where there is none, and one that needs no state is chosen.
    """
    known = answers >= 0
    into = np.zeros((len(delta), len(output_names)), dtype=np.int64)
    np.add.at(into, (delta[known], answers[known]), 1)
    # an unknown output is the one with which its state is entered most often: that needs no state of its own
    usual = np.where(into.any(axis=1), into.argmax(axis=1), into.sum(axis=0).argmax())
    filled = np.where(known, answers, usual[delta])
    pairs = [(0, int(usual[0]) if first is None else first)]
    number = {pairs[0]: 0}
    moves: list[list[int]] = []
    for state, _ in pairs:
        row = list(zip(delta[state].tolist(), filled[state].tolist(), strict=True))
        for pair in row:
            if pair not in number:
                number[pair] = len(pairs)
                pairs.append(pair)
        moves.append([number[pair] for pair in row])
    return Machine(moves, 0, [output for _, output in pairs], alphabet, output_names)


def mealy_states(machine: Machine) -> int:
    """Return how many states a machine has as a minimal Mealy machine.

    For example, 2 for parity, and 1 for a machine whose output is the last symbol.
    """
    rows = machine.outputs[machine.delta]
    kinds = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return minimise(Machine(machine.delta, machine.start, kinds)).states


def table_bits(machine: Machine) -> float:
    """Return the bits of a minimal machine's table, with outputs at states or at transitions, whichever are fewer."""
    states = mealy_states(machine)
    moore = moore_bits(machine.states, machine.symbols, machine.classes)
    return min(moore, mealy_bits(states, machine.symbols, machine.classes))


def moore_bits(states: int, symbols: int, outputs: int) -> float:
    """Return the bits of a table with outputs at its states."""
    return states * (symbols * math.log2(states) + math.log2(outputs))


def mealy_bits(states: int, symbols: int, outputs: int) -> float:
    """Return the bits of a table with outputs at its transitions."""
    return states * symbols * (math.log2(states) + math.log2(outputs))
