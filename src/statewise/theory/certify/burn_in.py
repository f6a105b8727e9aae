"""All words of a few symbols, with bounds on rounding errors: where bounds on the growth of errors begin.

After some symbols a trained network has forgotten its first state, which lies near no prototype, and the states of
words that lead to one machine state lie close together. Up to then every word is followed. A hidden state is a float
vector h and a radius: the true state lies within that Euclidean distance of h. One symbol moves h to fl(A h), and the
radius to |A| radius + |h' - A h|, which is bounded by gamma | |A| |h| |.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.theory.balls import TINY, UNIT
from statewise.theory.certify.enclosures import (
    QUIET,
    Enclosed,
    gamma,
    length_bound,
    lowered,
    powers_below,
    raised,
    vanishing,
)

# numbers that all hidden states of one length may have together
MAX_NUMBERS = 2_000_000
_MAX_WORDS = 40_000
# where words do not grow in number, as with one symbol, only this ends the burn-in
_MOST_SYMBOLS = 64
# last symbols that are remembered
REMEMBERED = 4


@dataclass(frozen=True, eq=False)
class Layer:
    """The states after all words of one length, each up to a positive factor.

    Args:
        length: how many symbols the words have.
        h: floats near the hidden states.
        off: the distance within which the true ones lie.
        states: the machine's states.
        pasts: the last symbols of each word, as a number in base K with the last one in the lowest digit.
    """

    length: int
    h: Float[np.ndarray, "word hidden"]
    off: Float[np.ndarray, " word"]
    states: Int[np.ndarray, " word"]
    pasts: Int[np.ndarray, " word"]


def layers(
    network: Enclosed,
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    first: tuple[Float[np.ndarray, "start hidden"], Int[np.ndarray, " start"]] | None = None,
    *,
    unit: float = 0.0,
    most: int = MAX_NUMBERS,
) -> Iterator[Layer]:
    """Yield the states after all words of 0, 1, 2, ... symbols, while they are few enough.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        legal: which symbols may follow which states.
        first: hidden states, and machine states, to begin with; None for those of the network and the machine.
        unit: the relative rounding error of a run, which is enclosed too; 0 judges exact arithmetic.
        most: how many numbers the hidden states of one length may have together.
    """
    symbols, hidden = machine.symbols, network.hidden
    if first is None:
        h, off = network.initial.mid[None], length_bound(network.initial.off)[None]
        states = np.array([machine.start])
    else:
        h, states = first
        off = np.zeros(len(h))
    pasts = np.zeros(len(h), dtype=np.int64)
    modes, length = symbols**REMEMBERED, 0
    sizes = np.abs(network.matrices.mid) + network.matrices.off + vanishing(hidden, unit)
    size_norms = length_bound(sizes, (-2, -1))
    while True:
        yield Layer(length, h, off, states, pasts)
        if length >= _MOST_SYMBOLS:
            return
        kept = legal[states].reshape(-1)
        if not kept.any() or len(states) * symbols * hidden > most or len(states) * symbols > _MAX_WORDS:
            return
        with np.errstate(all="ignore"):
            moved = _after_each(network.matrices.mid, h)
            reach = length_bound(_after_each(sizes, np.abs(h)))
            known = length_bound(_after_each(network.matrices.off, np.abs(h))) if network.matrices.off.any() else 0.0
            wide = np.repeat(off, symbols)
            lost = raised((gamma(hidden + 2, UNIT) + gamma(hidden + 2, unit)) * reach + known, hidden)
            # a run rounds what it has, which is off already
            spread = np.tile(raised(network.norms + gamma(hidden + 2, unit) * size_norms, 2), len(h))
            off = raised(wide * spread + lost, 2) + hidden * TINY
            scale = powers_below(moved)
            h, off = (moved * scale)[kept], raised(off * scale[:, 0] + hidden * TINY, 1)[kept]
        pasts = (pasts[:, None] * symbols + np.arange(symbols)).reshape(-1)[kept] % modes
        states = machine.delta[states].reshape(-1)[kept]
        length += 1


@QUIET
def answered_right(network: Enclosed, machine: Machine, layer: Layer, unit: float = 0.0) -> bool:
    """Return whether all words of a layer are certainly answered as the machine does."""
    for output in np.unique(machine.outputs[layer.states]).tolist():
        rows = machine.outputs[layer.states] == output
        weights, rivals = network.margins_of(output)
        h, off = layer.h[rows], layer.off[rows]
        leads = h @ weights.mid[rivals].T
        # what the difference of two rows, the products and the readout of a run may be off by
        sizes = network.readout.largest()[output] + network.readout.largest()[rivals]
        sizes = sizes + vanishing(network.hidden, unit)
        terms = network.hidden + 8
        lost = raised((gamma(terms, UNIT) + gamma(terms, unit)) * (np.abs(h) @ sizes.T), terms)
        lost = lost + raised(np.abs(h) @ weights.off[rivals].T, terms)
        wide = raised(off[:, None] * length_bound(sizes * gamma(terms, unit) + weights.largest()[rivals]), 2)
        if not (lowered(np.maximum(leads, 0.0), 1) > raised(lost + wide, 2)).all():
            return False
    return True


def _after_each(
    matrices: Float[np.ndarray, "symbol out in"], h: Float[np.ndarray, "word in"]
) -> Float[np.ndarray, "longer out"]:
    """Return the hidden states after each word and each symbol, symbols fastest."""
    symbols, hidden = matrices.shape[:2]
    return (h @ matrices.reshape(symbols * hidden, -1).T).reshape(len(h) * symbols, hidden)
