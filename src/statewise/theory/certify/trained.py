"""What is proved of networks as they were trained: horizons, all lengths, and periods of re-embedding.

Each proof has an untrusted search before it, bounded by work and not by the clock.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from statewise.errors import TooLargeError
from statewise.machines import Machine
from statewise.theory.certify.burn_in import MAX_NUMBERS, Layer, answered_right, layers
from statewise.theory.certify.cone_search import search_cones
from statewise.theory.certify.cones import ConeProof, prove_cones
from statewise.theory.certify.enclosures import QUIET, Enclosed, enclosed, raised
from statewise.theory.certify.frame_search import search_frames
from statewise.theory.certify.frames import Frames, Growth, first_bounds, growth
from statewise.theory.certify.meeting import affordable_words, longest_by_meeting
from statewise.theory.certify.planes import PlaneHorizon, planes_of, prove_by_planes
from statewise.theory.certify.reembedding import Reembedding, prove_reembedding
from statewise.theory.network import Network
from statewise.theory.robust_machines import robustness

Legal = Bool[np.ndarray, "state symbol"]
_Found = TypeVar("_Found")

# edges that are followed one symbol after another; beyond, one bound for all states is squared again and again
_WORK, _MOST_STEPS = 20_000_000, 2_000
_LAYERS = 2
# matrices of coordinates are found and bounded in about so many hidden-state updates for each hidden entry
_UPDATES = 20
_MAX_PAIRS = 700


@dataclass(frozen=True, eq=False)
class TrainedHorizon:
    """All words of `shortest` to `length` symbols are answered correctly.

    Args:
        length: the horizon.
        shortest: words of fewer symbols are not judged.
        burn_in: words of up to so many symbols were followed one by one; longer ones are bounded from there.
        frames: the vectors and coordinates of the bounds; None where all words were followed, or planes were.
        planes: the drift of planes, for rotations and diagonals.
        met: how many of the longest lengths were shown by all their words, met in the middle.
        unit: the relative rounding error of the runs that are judged; 0 for exact arithmetic.
    """

    length: int
    shortest: int
    burn_in: int
    frames: Frames | None
    unit: float = 0.0
    planes: PlaneHorizon | None = None
    met: int = 0


@QUIET
def prove_by_cones(
    network: Network, machine: Machine, shortest: int = 0, legal: Legal | None = None, work: int | None = None
) -> ConeProof | None:
    """Prove that a network of a robust machine is correct on all words; None where no cones are found.

    For machines that are not robust nothing is searched: weights with such cones form an open set, of which there is
    none.

    Args:
        network: the network under test.
        machine: a minimal machine.
        shortest: words of fewer symbols are not judged.
        legal: which symbols may follow which states; None allows all.
        work: about how many hidden-state updates the search may make; None for as many as it likes.
    """
    try:
        if not robustness(machine).robust:
            return None
    except TooLargeError:
        return None
    allowed = _allowed(machine, legal)
    within = enclosed(network)
    for cones in _within_range(search_cones(within, machine, allowed, pairs=_pairs(network, work))):
        proof = prove_cones(within, machine, allowed, shortest, cones)
        if proof is not None:
            return proof
    return None


@QUIET
def growths(
    network: Network, machine: Machine, legal: Legal | None = None, unit: float = 0.0, work: int | None = None
) -> list[Growth]:
    """Return how errors grow, proven, in all frames that a search finds; the arguments are those of the others."""
    allowed = _allowed(machine, legal)
    within = enclosed(network)
    found = _within_range(search_frames(within, machine, allowed, pairs=_pairs(network, work)))
    proven = (growth(within, machine, allowed, frames, unit) for frames in found)
    return [each for each in proven if each is not None]


def prove_trained_horizon(
    network: Network,
    machine: Machine,
    shortest: int = 0,
    legal: Legal | None = None,
    unit: float = 0.0,
    proven: Iterable[Growth] | None = None,
    most: int = MAX_NUMBERS,
    work: int | None = None,
) -> TrainedHorizon | None:
    """Prove up to which length a network is correct, from all short words on; None where a short word may be wrong.

    Args:
        network: the network under test.
        machine: a minimal machine.
        shortest: words of fewer symbols are not judged.
        legal: which symbols may follow which states; None allows all.
        unit: the relative rounding error of the runs that are judged; 0 judges exact arithmetic.
        proven: how errors grow; None searches.
        most: how many numbers the hidden states of all words of one length may have.
        work: about how many hidden-state updates the longest words may take; None for as many as they like.
    """
    allowed = _allowed(machine, legal)
    within = enclosed(network)
    followed = followed_right(within, machine, allowed, shortest, unit=unit, most=most)
    if not followed or followed[-1].length < shortest:
        return None
    best = TrainedHorizon(followed[-1].length, shortest, followed[-1].length, None, unit)
    if planes_of(network.matrices) is not None and not unit:
        by_planes = prove_by_planes(network, within, machine, shortest, allowed)
        if by_planes is not None and by_planes.length > best.length:
            best = TrainedHorizon(by_planes.length, shortest, 0, None, unit, by_planes)
    for each in growths(network, machine, legal, unit) if proven is None else proven:
        for layer in _begin_with(followed, each.frames.past):
            steps = longest(each, first_bounds(each, layer), shortest - layer.length)
            if steps is not None and layer.length + steps > max(best.length, shortest - 1):
                best = TrainedHorizon(layer.length + steps, shortest, layer.length, each.frames, unit)
    if not unit and most == MAX_NUMBERS:
        words = affordable_words(within, work)
        met = longest_by_meeting(within, machine, allowed, followed[-1], best.length, words)
        if met > best.length:
            # what was shown up to here is part of the proof: all words of more symbols were met in the middle
            best = replace(best, length=met, met=met - best.length)
    return best


def prove_period(
    network: Network,
    machine: Machine,
    vectors: Float[np.ndarray, "state hidden"],
    shortest: int = 0,
    legal: Legal | None = None,
    proven: Iterable[Growth] = (),
    most: int = MAX_NUMBERS,
) -> Reembedding | None:
    """Prove a period of re-embedding with which all words are answered correctly; None where none is proven."""
    return prove_reembedding(enclosed(network), machine, vectors, shortest, _allowed(machine, legal), proven, most)


def _allowed(machine: Machine, legal: Legal | None) -> Legal:
    return np.ones(machine.delta.shape, dtype=bool) if legal is None else legal


def _pairs(network: Network, work: int | None) -> int:
    return _MAX_PAIRS if work is None else min(_MAX_PAIRS, work // (_UPDATES * network.hidden))


def _within_range(candidates: Iterator[_Found]) -> Iterator[_Found]:
    """Yield what a search finds before its own numbers overflow or become singular."""
    try:
        yield from candidates
    except (np.linalg.LinAlgError, torch.linalg.LinAlgError):  # pyright: ignore[reportPrivateImportUsage]
        return


def _begin_with(followed: list[Layer], past: int) -> list[Layer]:
    """Return the layers to begin with: none at all, and the longest words, which have forgotten most."""
    chosen = [layer for layer in followed[-_LAYERS:] if layer.length >= past]
    return chosen if past or len(followed) <= _LAYERS else [followed[0], *chosen]


def followed_right(
    network: Enclosed,
    machine: Machine,
    legal: Bool[np.ndarray, "state symbol"],
    shortest: int,
    first: tuple[Float[np.ndarray, "start hidden"], Int[np.ndarray, " start"]] | None = None,
    unit: float = 0.0,
    most: int = MAX_NUMBERS,
) -> list[Layer]:
    """Return the layers of all words up to some length, while those of at least `shortest` symbols are correct."""
    kept: list[Layer] = []
    for layer in layers(network, machine, legal, first, unit=unit, most=most):
        if layer.length >= shortest and not answered_right(network, machine, layer, unit):
            break
        kept.append(layer)
    return kept


@QUIET
def longest(
    proven: Growth, bounds: Float[np.ndarray, "node block"], unjudged: int = 0, work: int = _WORK
) -> int | None:
    """Return for how many more symbols all answers are correct; None where not even the first that counts are.

    Args:
        proven: how errors grow.
        bounds: the errors to begin with.
        unjudged: the answers of so many first steps, the beginning included, do not count.
        work: how many products of constants may be made one symbol after another.
    """
    if unjudged <= 0 and not proven.safe(bounds):
        return None
    steps = 0
    for _ in range(max(unjudged, min(_MOST_STEPS, work // max(1, len(proven.source) * bounds.shape[1] ** 2)))):
        after = proven.step(bounds)
        if steps + 1 >= unjudged and not proven.safe(after):
            return steps if steps >= unjudged else None
        bounds, steps = after, steps + 1
    return steps + _by_squaring(proven, bounds)


def _by_squaring(proven: Growth, bounds: Float[np.ndarray, "node block"]) -> int:
    """Continue with one bound for all nodes: X -> M X + rho over 2^k symbols is one such map again."""
    blocks = bounds.shape[1]
    common = bounds.max(axis=0)
    # bounds that never fall hold for all lengths in between
    factor = np.maximum(proven.factors.max(axis=0), np.eye(blocks))
    added = proven.added.max(axis=0)
    maps = [(factor, added)]
    for _ in range(60):
        factor, added = raised(factor @ factor, blocks), raised(factor @ added + added, blocks + 1)
        if not (np.isfinite(factor).all() and np.isfinite(added).all()):
            break
        maps.append((factor, added))
    steps = 0
    if not proven.safe(np.broadcast_to(common, bounds.shape)):
        return 0
    for power in reversed(range(len(maps))):
        factor, added = maps[power]
        after = raised(factor @ common + added, blocks + 1)
        if proven.safe(np.broadcast_to(after, bounds.shape)):
            common, steps = after, steps + 2**power
    return steps
