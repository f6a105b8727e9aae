"""The highest score on long sequences that the algebra of a machine allows a level.

Sequences of one length are drawn uniformly, and the symbols of a group's machine permute its states. What a level can
see of a long word is a homomorphic image: rotations commute, so they see counts of symbols; real diagonals see whether
counts are even or odd; positive diagonals see no count modulo anything. Words of one length that a level cannot
distinguish lead to states that are equal in the finest congruence with

    q ab ~ q ba                     (rotations)
    q ab ~ q ba  and  q aa ~ q bb   (real diagonals)
    q a ~ q b                       (positive diagonals)

for all states q and symbols a, b. Its classes are the orbits of a normal subgroup, so all are of one size k, and long
words that a level cannot distinguish end in each state of their class equally often: the accuracy of the best guess is
1/k.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from statewise.expressions import Call, parse
from statewise.machines import Machine, analyse, minimise
from statewise.machines import machine as build
from statewise.models.table import LEVELS
from statewise.tasks import ERROR, has_machine
from statewise.theory.characters import characters
from statewise.theory.classification import Level, classify
from statewise.theory.congruences import least_congruence
from statewise.wording import counted

# a level is classified without the whole monoid
_FEW = 100
# quotients of larger machines that are no groups take long to list
_MAX_STATES = 30


@dataclass(frozen=True)
class Ceiling:
    """The highest score that a level can reach on long sequences, or None where that is not known, and why."""

    value: float | None
    reason: str


@lru_cache(maxsize=4096)
def ceiling(model: str, task: str, hidden: int, additive: str = "none") -> Ceiling:
    """Return the ceiling of a model of some width on a machine.

    Args:
        model: a level such as `block(2)`; of baselines nothing is known.
        task: the machine, as an expression.
        hidden: H.
        additive: with an additive term nothing is known.
    """
    spec = parse(model)
    if not isinstance(spec, Call) or spec.name not in LEVELS:
        return Ceiling(None, "no algebraic bound is known for this model")
    if additive != "none":
        return Ceiling(None, "no algebraic bound is known with additive terms")
    if not has_machine(task):
        return Ceiling(None, "no finite-state machine answers this task at every length")
    machine = minimise(build(task))
    legal = ERROR not in machine.output_names
    if spec.name in ("full", "cp", "block"):
        size = spec.args[0] if spec.args else None
        assert size is None or isinstance(size, int)
        return _of_blocks(spec.name, size, machine, task, hidden)
    if not legal:
        return Ceiling(
            None, "only legal sequences are drawn, and what commuting levels see of them has not been computed"
        )
    if not _permutes(machine):
        return _of_maps(spec.name, machine)
    if len(np.unique(machine.outputs)) < machine.states:
        return Ceiling(None, "several states share an output, for which no number was computed")
    return _of_permutations(spec.name, machine)


def _of_permutations(level: str, machine: Machine) -> Ceiling:
    """Count the states that a commuting level cannot distinguish; see the top of this file."""
    delta, n = machine.delta, machine.states
    # after[q, a, b] is the state after a, then b
    after = delta[delta]
    twice = after[:, np.arange(machine.symbols), np.arange(machine.symbols)]
    alike = {
        "rotation": [(after, after.swapaxes(1, 2))],
        "diagonal": [(after, after.swapaxes(1, 2)), (twice, np.broadcast_to(twice[:, :1], twice.shape))],
        "positive": [(delta, np.broadcast_to(delta[:, :1], delta.shape))],
    }[level]
    pairs = np.unique(np.concatenate([np.stack([p.ravel(), q.ravel()], axis=1) for p, q in alike]), axis=0)
    moves = np.unique(delta, axis=1).T.tolist()
    labels = least_congruence(moves, list(range(n)), [(p, q) for p, q in pairs.tolist()])
    together = labels.count(labels[machine.start])
    sees = {
        "rotation": "counts of symbols, not their order",
        "diagonal": "whether counts of symbols are even",
        "positive": "no count of symbols modulo anything",
    }[level]
    score = (1 / together - 1 / n) / (1 - 1 / n) if n > 1 else 1.0
    if together == 1:
        known = "which, with the length of a sequence, determines the state"
    elif together == n:
        known = "which distinguishes no states after long sequences"
    else:
        known = f"which distinguishes {n // together} classes of {together} states after long sequences"
    return Ceiling(score, f"it sees {sees}, {known}")


def _permutes(machine: Machine) -> bool:
    return bool((np.sort(machine.delta, axis=0) == np.arange(machine.states)[:, None]).all())


def _of_maps(level: str, machine: Machine) -> Ceiling:
    """Return the ceiling on a machine that is no group: a level tracks it, or nothing is known."""
    algebra = analyse(machine, _FEW)
    if algebra.commutative:
        found = classify(algebra, machine)
        if found.name in {"positive": ["positive"], "diagonal": ["positive", "diagonal"]}.get(level, []):
            return Ceiling(1.0, f"{found.reason} ({found.theorem})")
    return Ceiling(
        None, "some symbol merges states: the level cannot track it, and how well it can guess has not been computed"
    )


def _of_blocks(level: str, size: int | None, machine: Machine, task: str, hidden: int) -> Ceiling:
    legal = ERROR not in machine.output_names
    # sequences never lead to the error state, so one-hot states need no entry for it
    error = -1 if legal else machine.output_names.index(ERROR)
    kept = machine.outputs != error
    needed = int(kept.sum())
    fits = hidden >= needed
    if level == "full":
        if fits:
            return Ceiling(1.0, "one-hot states track any machine (Proposition 1)")
        return Ceiling(None, f"one-hot states need {needed} entries, {hidden} are there; whether fewer do is not known")
    assert size is not None
    if level == "block":
        return _of_small_blocks(size, task, legal, hidden, needed)
    follow = kept[:, None] & kept[machine.delta]
    pairs = np.unique((np.arange(machine.states)[:, None] * machine.states + machine.delta)[follow])
    if fits and size >= len(pairs):
        return Ceiling(1.0, f"one-hot states need rank {len(pairs)}")
    if legal and analyse(machine, _FEW).abelian and len(np.unique(machine.outputs)) == machine.states:
        planes = characters(machine).by_symbol.shape[1]
        if size >= 3 * planes and hidden >= 2 * planes:
            return Ceiling(1.0, f"an Abelian group: turns of {counted(planes, 'plane')}, of rank 3 each")
    return Ceiling(None, f"one-hot states need rank {len(pairs)}; whether rank {size} is enough is not known")


def _of_small_blocks(size: int, task: str, legal: bool, hidden: int, needed: int) -> Ceiling:
    if min(size, hidden) >= needed:
        return Ceiling(1.0, f"one-hot states fit into one block of {size}")
    if not legal:
        return Ceiling(None, "only legal sequences are drawn, and what blocks of this size see of them is not known")
    if needed > _MAX_STATES and not _permutes(minimise(build(task))):
        return Ceiling(None, f"whether blocks of {size} are enough for {needed} states was not computed")
    level = _level_of(task)
    if level.block <= size and (level.dimension is None or level.dimension <= hidden):
        return Ceiling(1.0, f"{level.reason} ({level.theorem})")
    if size < level.at_least:
        return Ceiling(
            None,
            f"tracking it with bounded products and a margin needs blocks of {level.at_least} ({level.theorem}); "
            "how well less can do is not known",
        )
    return Ceiling(None, f"whether blocks of {size} are enough is not known")


@lru_cache(maxsize=1024)
def _level_of(task: str) -> Level:
    """Classify a machine, which takes a while for large ones."""
    machine = build(task)
    return classify(analyse(machine, _FEW), machine)
