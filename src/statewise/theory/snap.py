"""Snapping: a trained network, moved to the machine that it nearly is."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from statewise.errors import NetworkError
from statewise.machines import Machine, access_words, minimise
from statewise.randomness import stream
from statewise.theory.compile import Compiled, one_hot, tracker
from statewise.theory.irreducible import parts_of
from statewise.theory.network import Network
from statewise.transitions import Full

_SEQUENCES = 4_000
# parts of a group's representation that a network uses hold more than this share of the largest
_USED = 0.05


@dataclass(frozen=True, eq=False)
class Prototypes:
    """For each state of a machine, the mean direction of the hidden states that lead there.

    Args:
        machine: minimal.
        vectors: of norm 1.
    """

    machine: Machine
    vectors: Float[np.ndarray, "state hidden"]


def prototypes(network: Network, machine: Machine, shortest: int = 0, longest: int = 10, seed: int = 0) -> Prototypes:
    """Average hidden directions over random sequences of the lengths on which a network is trusted.

    Where random sequences do not lead to a state, shortest ones do: words to its predecessors, and one more symbol.
    """
    minimal = minimise(machine)
    random = stream(seed, "prototypes")
    sums = np.zeros((minimal.states, network.hidden))
    each = max(1, _SEQUENCES // (longest - shortest + 1))
    reached = np.zeros(minimal.states, dtype=bool)
    for length in range(shortest, longest + 1):
        sequences = random.integers(0, network.symbols, (each, length))
        ends = minimal.final(sequences)
        reached[ends] = True
        np.add.at(sums, ends, network.states(sequences))
    for word in _words_to(minimal, np.flatnonzero(~reached), shortest):
        sums[minimal.final(list(word))] += network.states(np.array([word], dtype=np.int64).reshape(1, -1))[0]
    sizes = np.linalg.norm(sums, axis=1, keepdims=True)
    if not (sizes > 0).all():
        lost = int(np.argmin(sizes))
        raise NetworkError(
            f"the hidden states of words that lead to state {lost} of {minimal.states} average to 0, so the network "
            "has no direction for it; train it further, or give --machine"
        )
    return Prototypes(minimal, sums / sizes)


def _words_to(machine: Machine, states: Int[np.ndarray, " state"], shortest: int) -> list[tuple[int, ...]]:
    """Return, for each of some states, shortest words of at least so many symbols by each of its predecessors.

    A state that only shorter words lead to, as a start that is never entered again, has its shortest word.
    """
    least = max(0, shortest - 1)
    words: dict[tuple[int, int], tuple[int, ...]] = {(machine.start, 0): ()}
    order = list(words)
    for state, length in order:
        for symbol, there in enumerate(machine.delta[state].tolist()):
            following = (there, min(length + 1, least))
            if following not in words:
                words[following] = (*words[state, length], symbol)
                order.append(following)
    access = access_words(machine)
    found = []
    for state in states.tolist():
        entering = [
            (*words[p, least], a) for p, a in np.argwhere(machine.delta == state).tolist() if (p, least) in words
        ]
        found += entering or [access[state]]
    return found


def snap_exact(network: Network, given: Prototypes, dtype: torch.dtype = torch.float32) -> Compiled:
    """Replace the prototypes by one-hot states: A' moves them as the machine does, U' = U V^T reads them.

    The logits of a state are then those of the trained network at its prototype, with the trained margins; where these
    are wrong at a prototype, the plain one-hot readout is used.
    """
    made = one_hot(given.machine, dtype)
    logits = (network.readout @ given.vectors.T).astype(np.float32 if dtype == torch.float32 else np.float64)
    outputs = given.machine.outputs
    own = logits[outputs, np.arange(len(outputs))]
    rivals = logits.copy()
    rivals[outputs, np.arange(len(outputs))] = -np.inf
    if not (rivals.max(axis=0) < own).all():
        return Compiled(made.model, made.level, True, "one-hot states, one-hot readout")
    with torch.no_grad():
        made.model.readout = torch.nn.Parameter(torch.from_numpy(logits).to(dtype))
    return Compiled(made.model, made.level, True, "one-hot states, trained margins")


def snap_project(network: Network, given: Prototypes, dtype: torch.dtype = torch.float64) -> Compiled:
    """Keep the hidden space: A' = V P V^+ moves prototypes exactly as the machine does, and maps all else to 0.

    For permutation machines V is first restricted to the invariant parts that the network uses; otherwise V^+ would
    amplify noise.
    """
    machine, vectors = given.machine, given.vectors
    parts = parts_of(machine)
    if parts is not None:
        used = [basis @ (basis.T @ vectors) for basis in parts]
        shares = [float((part**2).sum()) / basis.shape[1] for part, basis in zip(used, parts, strict=True)]
        vectors = np.sum(
            [part for part, share in zip(used, shares, strict=True) if share > _USED * max(shares)], axis=0
        )
    inverse = np.linalg.pinv(vectors.T, rcond=1e-6)
    matrices = np.stack([vectors[machine.delta[:, a]].T @ inverse for a in range(machine.symbols)])
    weight = torch.from_numpy(matrices.transpose(1, 2, 0).copy()).to(dtype)
    model = tracker(Full.from_dense(weight), vectors[machine.start], network.readout)
    return Compiled(model, "full", False, "matrices projected on the prototypes, rounded")
