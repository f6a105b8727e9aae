"""All lengths for unmodified weights: a period T after which the hidden state is replaced by the nearest prototype.

Every T symbols h becomes v_p, where p maximises v_p h over the prototypes: `evaluate --reembed T`. Suppose that, from
the network's first state and from every prototype v_q, all words of up to T symbols are answered correctly, and that
after exactly T symbols v_p h is largest for the machine's state p. Then every word is answered correctly: by induction
over its pieces of T symbols, each of which begins at the prototype of the machine's state, or at the beginning.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from statewise.machines import Machine
from statewise.theory.balls import Balls
from statewise.theory.certify.burn_in import MAX_NUMBERS, Layer, answered_right, layers
from statewise.theory.certify.enclosures import QUIET, Enclosed
from statewise.theory.certify.frames import Frames, Growth, first_bounds, read_by

_MOST = 2_000


@dataclass(frozen=True, eq=False)
class Reembedding:
    """With re-embedding every `period` symbols, all words of at least `shortest` symbols are answered correctly.

    Args:
        period: T.
        shortest: words of fewer symbols are not judged.
        vectors: the prototypes, of the machine's states in order.
        burn_in: from each beginning, words of up to so many symbols were followed one by one.
        frames: the vectors and coordinates of the bounds beyond; None where all words were followed.
    """

    period: int
    shortest: int
    vectors: Float[np.ndarray, "state hidden"]
    burn_in: int
    frames: Frames | None


@QUIET
def prove_reembedding(
    network: Enclosed,
    machine: Machine,
    vectors: Float[np.ndarray, "state hidden"],
    shortest: int,
    legal: Bool[np.ndarray, "state symbol"],
    proven: Iterable[Growth] = (),
    most: int = MAX_NUMBERS,
) -> Reembedding | None:
    """Prove the longest period with which all words are answered correctly; None where none is proven.

    Args:
        network: the network under test.
        machine: a minimal machine, whose states the prototypes stand for.
        vectors: the prototypes, as the run has them.
        shortest: words of fewer symbols are not judged.
        legal: which symbols may follow which states.
        proven: how errors grow, in several frames.
        most: how many numbers the hidden states of all words of one length may have.
    """
    if not np.isfinite(vectors).all() or len(vectors) != machine.states:
        return None
    decoder = replace(network, readout=Balls.exactly(vectors))
    by_state = Machine(machine.delta, machine.start)
    starts = (vectors, np.arange(machine.states))
    begun: list[tuple[Layer, Layer]] = []
    best: Reembedding | None = None
    for own, other in zip(
        layers(network, machine, legal, most=most), layers(network, machine, legal, starts, most=most), strict=False
    ):
        if own.length >= shortest and not answered_right(network, machine, own):
            break
        # the answer after no symbol at all is that of the piece before
        if other.length and not answered_right(network, machine, other):
            break
        begun.append((own, other))
        if own.length and all(answered_right(decoder, by_state, layer) for layer in (own, other)):
            best = Reembedding(own.length, shortest, vectors, own.length, None)
    if len(begun) < 2:
        return None
    for growth in proven:
        reader = read_by(growth, decoder, by_state)
        if reader is None:
            continue
        for pair in begun[-2:]:
            length = pair[0].length
            if length < growth.frames.past:
                continue
            # -1 marks a node that no word leads to
            bounds = np.maximum(*(first_bounds(growth, layer) for layer in pair))
            # the first of these were followed one by one; the others must be safe from either beginning
            while length < _MOST and (length == pair[0].length or growth.safe(bounds)):
                if length > (best.period if best else 0) and reader.safe(bounds):
                    best = Reembedding(length, shortest, vectors, pair[0].length, growth.frames)
                bounds, length = growth.step(bounds), length + 1
    return best
