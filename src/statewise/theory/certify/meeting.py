"""All words of a length, met in the middle: states after their first symbols, times functionals of their last ones.

The logits of a word u w are U A_w h_u. With all states h_u of one length and all rows U A_w of another, every word of
the two lengths together costs one row of H products for each class, and no matrix: words become a few symbols longer
than where each of them is followed.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from statewise.machines import Machine
from statewise.theory.balls import TINY, UNIT
from statewise.theory.certify.burn_in import Layer
from statewise.theory.certify.enclosures import QUIET, Enclosed, gamma, length_bound, powers_below, raised

# numbers that are held at once
_NUMBERS = 4_000_000
# products of numbers for one length; to compare a logit with others takes as long as so many of them
_PRODUCTS, _COMPARED = 6e9, 16
# symbols of an end: with one symbol in the alphabet a length has one word, and nothing else bounds the search
_MOST_SYMBOLS = 64


def affordable_words(network: Enclosed, work: int | None = None) -> float:
    """Return how many words of one length may be judged in so many hidden-state updates; None is the most we allow."""
    products = _PRODUCTS if work is None else min(_PRODUCTS, float(work) * network.hidden**2)
    return products / (len(network.readout) * (network.hidden + _COMPARED))


@QUIET
def longest_by_meeting(
    network: Enclosed,
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    layer: Layer,
    known: int,
    words: float,
) -> int:
    """Return up to which length all words are answered correctly, if those of up to `known` symbols are.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        legal: which symbols may follow which states.
        layer: the states after all words of some length.
        known: all words of the layer's to so many symbols are answered correctly.
        words: how many words of one length may be judged.
    """
    ends = _Ends(network, machine, legal)
    # what is known may be a trillion symbols already
    while (end := known + 1 - layer.length) <= _MOST_SYMBOLS and len(layer.states) * machine.symbols**end <= words:
        while ends.length < end:
            if ends.rows.size * machine.symbols > 4 * _NUMBERS:
                return known
            ends.lengthen()
        if not ends.right(layer):
            return known
        known += 1
    return known


class _Ends:
    """The rows U A_w of all words w of one length, each word's times a power of two, and how far they are off."""

    def __init__(self, network: Enclosed, machine: Machine, legal: Bool[np.ndarray, "state symbol"]) -> None:
        self.network, self.machine, self.legal = network, machine, legal
        self.length = 0
        self.rows: Float[np.ndarray, "word class hidden"] = network.readout.mid[None]
        self.off: Float[np.ndarray, " word"] = np.array([float(length_bound(network.readout.off).max())])
        self.states: Int[np.ndarray, "state word"] = np.arange(machine.states)[:, None]
        self.allowed: Bool[np.ndarray, "state word"] = np.ones((machine.states, 1), dtype=bool)

    def lengthen(self) -> None:
        """Put every symbol before every word."""
        network, hidden = self.network, self.network.hidden
        made, off = [], []
        for symbol in range(self.machine.symbols):
            matrix, blur = network.matrices.mid[symbol], network.matrices.off[symbol]
            rows = self.rows @ matrix
            reach = np.abs(self.rows) @ (gamma(hidden + 2) * np.abs(matrix) + (1 + 8 * UNIT) * blur)
            lost = raised(length_bound(reach).max(axis=1), hidden)
            wide = raised(self.off * network.norms[symbol] + lost, 2) + hidden * TINY
            scale = powers_below(rows.reshape(len(rows), -1))
            made.append(rows * scale[:, :, None])
            off.append(raised(wide * scale[:, 0] + hidden * TINY, 1))
        self.rows, self.off = np.concatenate(made), np.concatenate(off)
        # the state after the first symbol goes on through the rest
        after = self.machine.delta
        self.states = np.concatenate([self.states[after[:, a]] for a in range(self.machine.symbols)], axis=1)
        self.allowed = np.concatenate(
            [self.legal[:, a : a + 1] & self.allowed[after[:, a]] for a in range(self.machine.symbols)], axis=1
        )
        self.length += 1

    def right(self, layer: Layer) -> bool:
        """Return whether all words that begin in a layer and end here are certainly answered correctly."""
        classes, hidden = self.rows.shape[1:]
        sizes = length_bound(self.rows).max(axis=1)
        for state in np.unique(layer.states).tolist():
            words = np.flatnonzero(self.allowed[state])
            begun = layer.states == state
            h, off = layer.h[begun], layer.off[begun]
            lengths = length_bound(h)
            some = max(1, _NUMBERS // max(1, len(h) * classes))
            for place in range(0, len(words), some):
                chosen = words[place : place + some]
                logits = (h @ self.rows[chosen].reshape(-1, hidden).T).reshape(len(h), len(chosen), classes)
                own = self.machine.outputs[self.states[state, chosen]]
                mine = np.take_along_axis(logits, np.broadcast_to(own[None, :, None], (len(h), len(own), 1)), axis=2)
                np.put_along_axis(logits, np.broadcast_to(own[None, :, None], mine.shape), -np.inf, axis=2)
                margins = mine[..., 0] - logits.max(axis=2)
                # either logit is off by the error of its row, of the state, and of the sum of products
                share = raised(self.off[chosen] + gamma(hidden + 2) * sizes[chosen], 2)
                error = raised(lengths + off, 1)[:, None] * share + off[:, None] * sizes[chosen]
                if not (margins > raised(2 * error + 4 * UNIT * np.abs(mine[..., 0]), 4)).all():
                    return False
        return True
