"""How many bits Words.v needs to decide a word: its balls, computed here first."""

from dataclasses import dataclass

import numpy as np

from statewise.theory.certify import Word
from statewise.theory.statement import Statement

_FEWEST_BITS = 64
# a step of Coq's multiplication: products of so many pairs of bits take some minutes
_MOST_WORK = 30_000_000_000
# what a product costs beside its bits: two entries are looked up
_LOOKED_UP = 100


@dataclass(frozen=True)
class Balls:
    """How a word is decided: with so many bits kept of the largest entry, after so many products of two bits."""

    bits: int
    work: int


def balls_for(statement: Statement, word: Word, own: int, given: int) -> Balls | None:
    """Return the fewest bits, in powers of two, that show the logit of `given` not below that of `own`.

    None where that would take too long.
    """
    bits = _FEWEST_BITS
    while (read := _read(statement, word, bits)) is not None:
        h, radii, balls = read
        low, high = statement.readout[given], statement.readout[own]
        if high @ h + np.abs(high) @ radii <= low @ h - np.abs(low) @ radii:
            return balls
        bits *= 2
    return None


def _read(statement: Statement, word: Word, bits: int) -> tuple[np.ndarray, np.ndarray, Balls] | None:
    """Return centres and radii after a word, as `read` of Words.v computes them; None where it takes too long."""
    sizes = [np.abs(matrix) for matrix in statement.matrices]
    lengths = [[abs(w).bit_length() for w in matrix.ravel().tolist() if w] for matrix in statement.matrices]
    weights = [(sum(each), _LOOKED_UP * (len(each) + statement.hidden)) for each in lengths]
    if len(word) * min(overhead for _, overhead in weights) > _MOST_WORK:
        return None
    h, work = statement.initial, 0
    radii = h * 0
    for symbol in word.symbols():
        largest = max(1, *map(abs, h.tolist()))
        work += weights[symbol][0] * largest.bit_length() + weights[symbol][1]
        if work > _MOST_WORK:
            return None
        h, radii = statement.matrices[symbol] @ h, sizes[symbol] @ radii
        cut = max(0, *map(abs, h.tolist())).bit_length() - 1 - bits
        if cut > 0:
            h, radii = h >> cut, (radii >> cut) + 2
    return h, radii, Balls(bits, work)
