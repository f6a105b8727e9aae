"""Which machines can be tracked robustly: by an open set of weights, or only by a set of measure zero?

Take the pairs and triples of states, with an edge from S to delta(S, a) wherever the size is kept; a set on a cycle is
called recurrent. A machine is robust (plus-minus-definite) if there is no recurrent triple, and if from every recurrent
pair {p, q} no word leads to equal outputs. Then, and only then, the weights that are correct at all lengths have an
interior: along powers of a word a generic linear map keeps one direction and its sign, so at most two states stay
distinguishable, and these two as v and -v, which give the largest and the smallest logits in turn.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Int

from statewise.errors import TooLargeError
from statewise.machines import Machine, minimise

MAX_SETS = 400_000
_THREE = "three states stay distinguishable for ever"

States = tuple[int, ...]


@dataclass(frozen=True)
class Robustness:
    """Whether a machine is robust, with a witness if it is not.

    Args:
        robust: whether the weights that are correct at all lengths have an interior.
        reason: why, in words.
        states: of a fragile machine, the two or three states of its minimal form that are never forgotten.
        loop: a word that leads these states back to themselves, in some order.
        merge: for two states, a word after which they give the same output; empty if they do so at once.
    """

    robust: bool
    reason: str
    states: States = ()
    loop: tuple[int, ...] = ()
    merge: tuple[int, ...] = ()


def robustness(machine: Machine) -> Robustness:
    """Decide whether a machine is robust, with a witness if it is not; O(n^3 K) time and memory."""
    minimal = minimise(machine)
    quick = _triple_of_one_symbol(minimal)
    if quick is not None:
        return Robustness(False, _THREE, *quick)
    if minimal.states**3 // 6 > MAX_SETS:
        most = round((6 * MAX_SETS) ** (1 / 3))
        raise TooLargeError(f"the machine has {minimal.states:,} minimal states; at most {most} are judged")
    triples = _recurrent(minimal, 3)
    if triples:
        shown, loop = min(((s, _loop(minimal, s)) for s in sorted(triples)[:50]), key=lambda found: len(found[1]))
        return Robustness(False, _THREE, shown, loop)
    pairs = _recurrent(minimal, 2)
    for pair in sorted(pairs):
        merge = _word_to_equal_outputs(minimal, pair)
        if merge is not None:
            reason = "two states stay distinguishable for ever, yet some word gives them the same output"
            return Robustness(False, reason, pair, _loop(minimal, pair), merge)
    if pairs:
        return Robustness(True, "at most two states stay distinguishable for ever, and they always differ in output")
    return Robustness(True, "every state is forgotten: the last few symbols decide")


def _triple_of_one_symbol(machine: Machine) -> tuple[States, tuple[int, ...]] | None:
    """Find three states that powers of one symbol lead back to themselves; most fragile machines have such."""
    best: tuple[States, tuple[int, ...]] | None = None
    for symbol in range(machine.symbols):
        cycles = sorted(_cycles(machine.delta[:, symbol]), key=lambda cycle: (len(cycle), min(cycle)))
        if sum(map(len, cycles)) < 3:
            continue
        # states of the shortest cycles, or of one cycle: periods of several may have a large common multiple
        shortest = [(len(cycle), q) for cycle in cycles[:3] for q in sorted(cycle)[:3]]
        choices = [sorted(shortest)[:3]]
        choices += [[(len(cycle), q) for q in sorted(cycle)[:3]] for cycle in cycles if len(cycle) >= 3][:1]
        chosen = min(choices, key=lambda choice: math.lcm(*(period for period, _ in choice)))
        length = math.lcm(*(period for period, _ in chosen))
        if best is None or length < len(best[1]):
            best = tuple(sorted(q for _, q in chosen)), (symbol,) * length
    return best


def _cycles(move: Int[np.ndarray, " state"]) -> list[list[int]]:
    """Return the cycles of a map of states."""
    image = move
    for _ in range(len(move).bit_length()):
        image = image[image]
    following, seen, found = move.tolist(), set[int](), []
    for q in np.unique(image).tolist():
        cycle = []
        while q not in seen:
            seen.add(q)
            cycle.append(q)
            q = following[q]
        if cycle:
            found.append(cycle)
    return found


def _moves(machine: Machine, states: States) -> list[States]:
    """Return where each symbol leads a set of states."""
    return [tuple(sorted({int(machine.delta[q, a]) for q in states})) for a in range(machine.symbols)]


def _recurrent(machine: Machine, size: int) -> set[States]:
    """Return the sets of a size that lie on a cycle of sets of that size."""
    sets = list(combinations(range(machine.states), size))
    following = {s: {t for t in _moves(machine, s) if len(t) == size} for s in sets}
    # sets without a way in or a way on are on no cycle; what is left when these are gone may still lie between two
    # cycles only, so cycles are found as strongly connected components
    shrinking = True
    while shrinking:
        entered = set().union(*following.values()) if following else set()
        kept = {s: {t for t in on if t in following} for s, on in following.items() if s in entered}
        kept = {s: on for s, on in kept.items() if on}
        shrinking = len(kept) < len(following)
        following = kept
    return {s for component in _components(following) for s in component}


def _components(following: dict[States, set[States]]) -> list[list[States]]:
    """Return the strongly connected components that contain a cycle (Tarjan, without recursion)."""
    index: dict[States, int] = {}
    low: dict[States, int] = {}
    stack: list[States] = []
    on_stack: set[States] = set()
    found: list[list[States]] = []
    for root in following:
        if root in index:
            continue
        work = [(root, iter(following[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in following:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(following[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1 or node in following[node]:
                        found.append(component)
    return found


def _loop(machine: Machine, states: States) -> tuple[int, ...]:
    """Return a shortest word that leads a recurrent set back to itself."""
    word = _search(machine, states, lambda reached: reached == states, at_least=1)
    assert word is not None
    return word


def _word_to_equal_outputs(machine: Machine, pair: States) -> tuple[int, ...] | None:
    """Return a shortest word after which two states have the same output; None if there is none."""
    return _search(machine, pair, lambda reached: len({int(machine.outputs[q]) for q in reached}) == 1)


def _search(
    machine: Machine, states: States, wanted: Callable[[States], bool], at_least: int = 0
) -> tuple[int, ...] | None:
    """Return a shortest word that leads a set of states to one that is wanted; None if there is none."""
    if not at_least and wanted(states):
        return ()
    seen = {states}
    waiting: deque[tuple[States, tuple[int, ...]]] = deque([(states, ())])
    while waiting:
        here, word = waiting.popleft()
        for symbol, there in enumerate(_moves(machine, here)):
            if wanted(there):
                return (*word, symbol)
            if there not in seen:
                seen.add(there)
                waiting.append((there, (*word, symbol)))
    return None
