"""The behaviour of machines: reachable part, minimal form, distinguishing words, isomorphism."""

from collections import deque

import numpy as np
from jaxtyping import Bool, Int

from statewise.errors import MachineError, shorten
from statewise.machines.machine import Machine

Word = tuple[int, ...]


def reachable_order(machine: Machine) -> Int[np.ndarray, " reached"]:
    """Return the states that words lead to, breadth first from the start, symbols in alphabet order.

    The order depends on behaviour alone, so it is canonical: equal minimal machines have equal orders.
    """
    seen = np.zeros(machine.states, dtype=bool)
    seen[machine.start] = True
    order = [np.array([machine.start])]
    while len(order[-1]):
        following = machine.delta[order[-1]].ravel()
        following = following[~seen[following]]
        _, first = np.unique(following, return_index=True)
        order.append(following[np.sort(first)])
        seen[order[-1]] = True
    return np.concatenate(order)


def access_words(machine: Machine, legal: Bool[np.ndarray, "state symbol"] | None = None) -> dict[int, Word]:
    """Return a shortest word to each reachable state, the start first; their prefixes are among them.

    Args:
        machine: whose states are reached.
        legal: which symbols may follow which states; None allows all.
    """
    words: dict[int, Word] = {machine.start: ()}
    order = [machine.start]
    for here in order:
        for symbol, there in enumerate(machine.delta[here].tolist()):
            if there not in words and (legal is None or legal[here, symbol]):
                words[there] = (*words[here], symbol)
                order.append(there)
    return words


def align(machine: Machine, alphabet: tuple[str, ...], output_names: tuple[str, ...]) -> Machine:
    """Return the same machine with symbols and outputs numbered as in these names; other names are an error."""
    if len(alphabet) != machine.symbols:
        raise MachineError(
            f"the network reads {len(alphabet)} symbols and the machine {machine.symbols}; give the machine it tracks"
        )
    strange = sorted(set(machine.alphabet) - set(alphabet))
    if strange:
        raise MachineError(f'the machine reads "{shorten(strange[0])}", which the network does not; rename its symbols')
    shown = sorted({machine.output_names[c] for c in machine.outputs.tolist()} - set(output_names))
    if shown:
        raise MachineError(
            f'the machine has the output "{shorten(shown[0])}", which the network does not; rename its outputs'
        )
    number = {name: index for index, name in enumerate(output_names)}
    return Machine(
        machine.delta[:, [machine.alphabet.index(name) for name in alphabet]],
        machine.start,
        [number.get(machine.output_names[c], 0) for c in machine.outputs.tolist()],
        alphabet,
        output_names,
        machine.state_names,
        machine.name,
    )


def keep(machine: Machine, states: Int[np.ndarray, " kept"]) -> Machine:
    """Restrict a machine to states that are closed under its table and contain the start, in the given order."""
    number = np.full(machine.states, -1)
    number[states] = np.arange(len(states))
    return machine.replace(
        delta=number[machine.delta[states]],
        start=int(number[machine.start]),
        outputs=machine.outputs[states],
        state_names=tuple(machine.state_names[q] for q in states),
    )


def reachable(machine: Machine) -> Machine:
    """Drop the states that no word leads to, and number the others breadth first."""
    return keep(machine, reachable_order(machine))


def minimise(machine: Machine) -> Machine:
    """Return the minimal machine with the same behaviour, in canonical order, by Hopcroft's algorithm (1971).

    A block of states is split when a symbol leads some of its states, but not all, into another block. Of the two
    halves only the smaller one needs to be a splitter again, hence O(n k log n).
    """
    machine = reachable(machine)
    block_of = _hopcroft(machine)
    # the first state of each block, in breadth-first order, stands for it
    _, first = np.unique(block_of, return_index=True)
    if len(first) == machine.states:
        return machine
    merged = machine.replace(delta=first[block_of[machine.delta]], start=int(first[block_of[machine.start]]))
    return reachable(merged)


def _hopcroft(machine: Machine) -> Int[np.ndarray, " state"]:
    """Return the block of each state in the coarsest congruence that respects the outputs."""
    _, block_of = np.unique(machine.outputs, return_inverse=True)
    members = [np.flatnonzero(block_of == block) for block in range(block_of.max() + 1)]
    # predecessors of q on symbol a: source[a][bounds[a][q] : bounds[a][q + 1]]
    source = np.argsort(machine.delta, axis=0, kind="stable").T
    bounds = np.stack([np.searchsorted(np.sort(column), np.arange(machine.states + 1)) for column in machine.delta.T])
    waiting, is_waiting = deque(range(len(members))), [True] * len(members)
    while waiting and len(members) < machine.states:
        splitter = waiting.popleft()
        is_waiting[splitter] = False
        targets = members[splitter]
        for a in range(machine.symbols):
            starts, ends = bounds[a][targets], bounds[a][targets + 1]
            leading = source[a][_ranges(starts, ends)]
            blocks, counts = np.unique(block_of[leading], return_counts=True)
            for block, count in zip(blocks.tolist(), counts.tolist(), strict=True):
                if count == len(members[block]):
                    continue
                inside = leading[block_of[leading] == block]
                fresh = len(members)
                block_of[inside] = fresh
                members.append(inside)
                members[block] = members[block][block_of[members[block]] == block]
                is_waiting.append(False)
                chosen = fresh if is_waiting[block] or len(inside) <= len(members[block]) else block
                waiting.append(chosen)
                is_waiting[chosen] = True
    return block_of


def _ranges(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Concatenate the integer ranges starts[i]..ends[i]-1."""
    lengths = ends - starts
    offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(lengths.sum()) + offsets


def distinguish(a: Machine, b: Machine) -> Word | None:
    """Return a shortest word, in symbol numbers of `a`, on which two machines answer differently; None if equivalent.

    Layer l of the refinement separates exactly the states that some word of at most l symbols separates (Moore, 1956),
    so the first layer that separates the two starts is the length of a shortest word.
    """
    if set(a.alphabet) != set(b.alphabet):
        only = sorted(set(a.alphabet) ^ set(b.alphabet))[0]
        raise MachineError(f'the machines read different symbols: only one knows "{only}"; give them one alphabet')
    order = [b.alphabet.index(name) for name in a.alphabet]
    names = {name: c for c, name in enumerate(dict.fromkeys(a.output_names + b.output_names))}
    a_part, b_part = reachable_order(a), reachable_order(b)
    a, b = keep(a, a_part), keep(b.replace(delta=b.delta[:, order], alphabet=a.alphabet), b_part)
    delta = np.concatenate([a.delta, b.delta + a.states])
    labels = [names[a.output_names[c]] for c in a.outputs] + [names[b.output_names[c]] for c in b.outputs]
    p, q = a.start, b.start + a.states
    layers = [np.unique(labels, return_inverse=True)[1]]
    while layers[-1][p] == layers[-1][q]:
        rows = np.column_stack([layers[-1], layers[-1][delta]])
        finer = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        if finer.max() == layers[-1].max():
            return None
        layers.append(finer)
    word = []
    for layer in reversed(layers[:-1]):
        symbol = int(np.flatnonzero(layer[delta[p]] != layer[delta[q]])[0])
        word.append(symbol)
        p, q = delta[p, symbol], delta[q, symbol]
    return tuple(word)


def equivalent(a: Machine, b: Machine) -> bool:
    """Return whether two machines over the same symbols give the same named output for every word."""
    return distinguish(a, b) is None


def isomorphism(a: Machine, b: Machine) -> dict[int, int] | None:
    """Return the map of reachable states of `a` to those of `b` that keeps start, table and outputs; None if none.

    The map is forced: the state that a word reaches in `a` must go to the state that it reaches in `b`.
    """
    if set(a.alphabet) != set(b.alphabet):
        return None
    b = b.replace(delta=b.delta[:, [b.alphabet.index(name) for name in a.alphabet]], alphabet=a.alphabet)
    a_order, b_order = reachable_order(a), reachable_order(b)
    a_part, b_part = keep(a, a_order), keep(b, b_order)
    same_table = np.array_equal(a_part.delta, b_part.delta)
    a_names, b_names = ([m.output_names[c] for c in m.outputs] for m in (a_part, b_part))
    if not same_table or a_names != b_names:
        return None
    return dict(zip(a_order.tolist(), b_order.tolist(), strict=True))


def merging_pairs(machine: Machine) -> Bool[np.ndarray, "state state"]:
    """Mark the pairs of states that some word leads to one common state."""
    n, k = machine.states, machine.symbols
    p, q = np.divmod(np.arange(n * n), n)
    target = machine.delta[p] * n + machine.delta[q]
    # predecessors of every pair, over all symbols: a sort of the edges by their targets
    by_target = np.argsort(target, axis=None, kind="stable")
    bounds = np.searchsorted(target.ravel()[by_target], np.arange(n * n + 1))
    merges = p == q
    frontier = np.flatnonzero(merges)
    while len(frontier):
        before = np.unique(by_target[_ranges(bounds[frontier], bounds[frontier + 1])] // k)
        frontier = before[~merges[before]]
        merges[frontier] = True
    return merges.reshape(n, n)
