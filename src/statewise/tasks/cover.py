"""Sequences that walk every transition: the words of the transition cover, and symbols that follow them."""

import numpy as np
from jaxtyping import Bool, Int

from statewise.errors import TaskError
from statewise.machines import Machine
from statewise.machines.conformance import transition_cover
from statewise.tasks.task import legal_moves


def draw_cover(
    machine: Machine, generator: np.random.Generator, lengths: Int[np.ndarray, " batch"]
) -> Int[np.ndarray, "batch time"]:
    """Draw sequences that begin with the words of the cover, in turn, and go on symbol by symbol.

    Args:
        machine: what they are of.
        generator: of what follows the words of the cover.
        lengths: how long each is; at least as long as its word.
    """
    legal = legal_moves(machine)
    cover = transition_cover(machine, legal)
    if not cover:
        raise TaskError("every symbol leads to an error from the start, so there is no sequence; use another machine")
    if len(lengths) < len(cover):
        raise TaskError(
            f"the transition cover has {len(cover):,} sequences, {len(lengths):,} are asked for; ask for as many"
        )
    needed = np.array([len(cover[turn % len(cover)]) for turn in range(len(lengths))])
    if (needed > lengths).any():
        raise TaskError(
            f"the transition cover has sequences of {needed.max()} symbols, a length of {lengths.min()} is asked for; "
            "ask for longer ones"
        )
    tokens = _go_on(machine, legal, generator, cover, len(lengths), int(lengths.max()))
    tokens[np.arange(tokens.shape[1]) >= lengths[:, None]] = 0
    return tokens


def _go_on(
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    generator: np.random.Generator,
    cover: list[tuple[int, ...]],
    count: int,
    longest: int,
) -> Int[np.ndarray, "batch time"]:
    """Walk the words of a cover in turn, and after them symbols drawn uniformly among those that may follow."""
    choices, open_choices = np.argsort(~legal, axis=1, kind="stable"), legal.sum(axis=1)
    width = max(map(len, cover))
    begun = np.full((count, max(width, longest)), -1)
    for row in range(count):
        word = cover[row % len(cover)]
        begun[row, : len(word)] = word
    state = np.full(count, machine.start)
    for t in range(longest):
        drawn = choices[state, (generator.random(count) * open_choices[state]).astype(np.int64)]
        begun[:, t] = np.where(begun[:, t] >= 0, begun[:, t], drawn)
        state = machine.delta[state, begun[:, t]]
    return begun[:, :longest]
