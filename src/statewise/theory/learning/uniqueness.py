"""Whether labelled words determine a machine: does another one, no larger, answer them all alike?"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from statewise.machines import Machine, access_words, distinguish
from statewise.machines.conformance import separating_words
from statewise.theory.learning.edges import passing, used_edges, weigh_starts, weigh_targets
from statewise.theory.learning.labelled import LabelledWords, Word, walk
from statewise.theory.learning.search import search_other

# the most other machines to compare, and to try
MAX_COMPARED, MAX_TRIED = 300, 20_000
# words that most wrong targets fail on
_FEW = 32


@dataclass(frozen=True)
class Uniqueness:
    """What is known of other machines of at most as many states that answer all words as they are labelled.

    Args:
        determined: whether none was found.
        proven: whether there is none.
        helpful: a word on which the machine and another differ: its label would rule one of them out.
        unused: edges (state, symbol) that no word uses.
    """

    determined: bool
    proven: bool
    helpful: Word | None
    unused: tuple[tuple[int, int], ...]


def check_uniqueness(data: LabelledWords, machine: Machine) -> Uniqueness:
    """Search for another machine: first with one edge, one output or the start changed, then among all, up to a bound.

    Where the words contain the test words of Chow (1978), no other machine of at most as many states fits them, and no
    search is needed.

    Args:
        data: the words.
        machine: minimal; words that it answers wrongly count as noise, and then only unused edges are considered.
    """
    passed = walk(data.padded, machine.delta, machine.start)
    used = used_edges(data, passed, machine.states)
    unused = tuple((q, a) for q, a in np.argwhere(~used).tolist())
    fits = data.explained(machine) == data.total
    if fits and not unused and _has_test_words(data, machine):
        return Uniqueness(True, True, None, ())
    helpful: Word | None = None
    for compared, other in enumerate(_others(data, machine, passed, unused, fits)):
        if other is None or compared >= MAX_COMPARED:
            return Uniqueness(False, False, helpful, unused)
        word = distinguish(machine, other)
        if word is not None and (helpful is None or len(word) < len(helpful)):
            helpful = word
    if not fits or helpful is not None:
        return Uniqueness(False, False, helpful, unused)
    searched = search_other(data, machine)
    if searched.other is not None:
        return Uniqueness(False, False, distinguish(machine, searched.other), unused)
    return Uniqueness(True, searched.complete, None, unused)


def _others(
    data: LabelledWords, machine: Machine, passed: np.ndarray, unused: tuple[tuple[int, int], ...], fits: bool
) -> Iterator[Machine | None]:
    """Yield machines that answer all words alike, changes near the start first; None when there are too many to try."""
    states = range(machine.states)
    # the canonical order of a minimal machine is breadth first: short words come early
    for q, a in unused:
        yield from (_redirect(machine, q, a, target) for target in states if target != machine.delta[q, a])
    if not fits:
        return
    for q in sorted(set(states) - set(passed[:, -1].tolist())):
        outputs = machine.outputs.copy()
        outputs[q] = next(c for c in range(machine.classes) if c != outputs[q])
        yield machine.replace(outputs=outputs)
    starts = np.flatnonzero(weigh_starts(data, machine.delta, machine.outputs) == data.total)
    yield from (machine.replace(start=q) for q in starts.tolist() if q != machine.start)
    tried = 0
    known = set(unused)
    for q, a in np.ndindex(machine.states, machine.symbols):
        if (q, a) in known:
            continue
        rows = passing(data, passed, q, a)
        # most targets fail on a few words; the others are tried on all
        for some in (rows[:_FEW], rows):
            explained = weigh_targets(data, machine.delta, machine.start, machine.outputs, (q, a), some)
            fitting = np.flatnonzero(explained == data.counts[some].sum())
            if len(fitting) == 1:
                break
        tried += machine.states
        yield from (_redirect(machine, q, a, int(target)) for target in fitting if target != machine.delta[q, a])
        if tried > MAX_TRIED:
            yield None


def _redirect(machine: Machine, state: int, symbol: int, target: int) -> Machine:
    delta = machine.delta.copy()
    delta[state, symbol] = target
    return machine.replace(delta=delta)


def _has_test_words(data: LabelledWords, machine: Machine) -> bool:
    """Return whether the words contain p, pa and both followed by w, for p to all states and w that separate them.

    A machine that agrees on them has as many states as the words w separate, its edges are determined, and there is no
    room for more: so it is the same machine, if it has at most as many states.
    """
    words = access_words(machine).values()
    prefixes = {(*word, *step) for word in words for step in ((), *((a,) for a in range(machine.symbols)))}
    # the cheapest test first: each of these is needed whatever the separating words are
    if not all(prefix in data.label_of for prefix in prefixes):
        return False
    return all((*prefix, *word) in data.label_of for word in separating_words(machine) for prefix in prefixes)
