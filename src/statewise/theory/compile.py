"""Machines as weights, at every level of the hierarchy, exact wherever the level's numbers allow it.

`write_full`, `write_cp`, ... write a minimal machine at one level each, with one signature: the machine, the size of
the level (a rank or a block size; None for the smallest that suffices, or where there is none), the dtype of the
weights.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from statewise.errors import CompileError, ExpressionError, shorten, unknown_name
from statewise.expressions import Call, parse
from statewise.machines import Algebra, Machine, analyse, minimise
from statewise.models.table import LEVELS
from statewise.stages import say
from statewise.theory.answer_space import answer_space
from statewise.theory.characters import characters
from statewise.theory.counting import Counters, counters
from statewise.theory.irreducible import separating_parts
from statewise.theory.quotients import Module, cyclic_quotients, modules, readable
from statewise.theory.writing import Compiled, block_network, diagonal_of, fill_bins, pack, tracker, weight_of
from statewise.transitions import CP, Full, LinearTransition, Positive, Rotation

# a decay whose multiples float32 holds exactly: exp(-11/16) is close to a half
_LOG_RATIO = -0.6875
_EXTRAS = range(6)


def compile_machine(machine: Machine, level: str = "auto", dtype: torch.dtype = torch.float32) -> Compiled:
    """Construct a network that tracks a machine.

    Args:
        machine: any; its minimal form is what the network tracks.
        level: `full`, `cp`, `block(size)`, `rotation`, `diagonal`, `positive`, or `auto` for the smallest hidden size
            at which a network was found that is exact at all lengths; of several, that with the fewest numbers.
        dtype: of the weights.
    """
    minimal = minimise(machine)
    if level == "auto":
        return _cheapest(minimal, dtype)
    spec = parse(level)
    if not isinstance(spec, Call) or spec.name not in LEVELS:
        raise unknown_name("level", level, ["auto", *LEVELS])
    size = spec.args[0] if spec.args else next(iter(spec.kwargs.values()), None)
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise ExpressionError(f"{spec.name} needs a whole number of at least 1, got {shorten(size)}; correct it")
    write = LEVELS[spec.name].write
    if write is None:
        raise CompileError(f"nothing writes machines at level {spec.name}; use --level auto")
    return write(minimal, size, dtype)


def one_hot(machine: Machine, dtype: torch.dtype = torch.float32) -> Compiled:
    """Construct a full network with one hidden entry per machine state (Proposition 1 of the paper).

    A(a)[q', q] = 1 exactly if delta(q, a) = q'. Then h_t is the one-hot vector of the state after t symbols, and every
    product is of zeros and ones: there is no rounding in any float type, at any length.
    """
    states, symbols = machine.delta.shape
    matrices = np.zeros((symbols, states, states))
    q, a = np.meshgrid(np.arange(states), np.arange(symbols), indexing="ij")
    matrices[a, machine.delta, q] = 1
    weights = np.zeros((machine.classes, states))
    weights[machine.outputs, np.arange(states)] = 1
    full = Full.from_dense(weight_of(matrices, dtype))
    return Compiled(tracker(full, np.eye(states)[machine.start], weights), "full", True, "one-hot states")


@dataclass(frozen=True, eq=False)
class _Plan:
    """A network that could be written: what it costs, and how it is.

    Args:
        hidden: its hidden size.
        numbers: the numbers of its matrices, for one symbol.
        write: builds it; None where the level turns out not to hold it.
    """

    hidden: int
    numbers: int
    write: Callable[[], Compiled | None]


def _cheapest(machine: Machine, dtype: torch.dtype) -> Compiled:
    """Write the exact network of the smallest hidden size; of several, that with the fewest numbers."""
    say("looking for the smallest network", detail=f"{machine.states:,} states")
    plans = sorted(_plans(machine, dtype), key=lambda plan: (plan.hidden, plan.numbers))
    return next(made for plan in plans if (made := plan.write()) is not None and made.exact)


def _plans(machine: Machine, dtype: torch.dtype) -> Iterator[_Plan]:
    """Yield the networks that could be written; of equal ones the plainest first."""
    states = machine.states
    # where each state has an output of its own, the answers are as many
    reduced = answer_space(machine) if 1 < len(np.unique(machine.outputs)) < states else None
    most = states if reduced is None else min(states, reduced[0].size)
    algebra = analyse(machine)
    if algebra.commutative and algebra.aperiodic:
        yield from _count_plans(machine, "positive", most, dtype)
    yield _Plan(states, states**2, lambda: one_hot(machine, dtype))
    if reduced is not None and most < states:
        yield _Plan(most, most**2, lambda: _of_modules([reduced[0]], reduced[1], machine, None, dtype))
    special = _order_eight(machine, None, dtype)
    if special is not None:
        yield _Plan(2, 4, lambda: special)
    parts = modules(machine, most)
    for largest in sorted({module.size for module in parts}):
        found = readable([module for module in parts if module.size <= largest], machine, most)
        if found is not None:
            yield _block_plan(*found, machine, dtype)
    if algebra.commutative and max(algebra.periods) <= 2:
        yield from _count_plans(machine, "diagonal", most, dtype)


def _count_plans(machine: Machine, level: str, most: int, dtype: torch.dtype) -> Iterator[_Plan]:
    for made in _countings(machine, level):
        if made.size <= most:
            yield _Plan(made.size, made.size, lambda made=made: _count(machine, level, made, dtype))


def _block_plan(chosen: Sequence[Module], weights: np.ndarray, machine: Machine, dtype: torch.dtype) -> _Plan:
    """Plan blocks side by side: in equal blocks where they fill them without a gap, else in a full network."""
    sizes = [module.size for module in chosen]
    hidden = sum(sizes)
    if max(sizes) == 1:
        return _Plan(hidden, hidden, lambda: _signs(chosen, weights, machine, dtype))
    even = [b for b in range(max(sizes), hidden) if hidden % b == 0 and len(fill_bins(sizes, b)) * b == hidden]
    size = even[0] if even else hidden if len(chosen) == 1 and chosen[0].kind != "one-hot" else None
    return _Plan(hidden, hidden * (size or hidden), lambda: _of_modules(chosen, weights, machine, size, dtype))


def write_full(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal machine as one-hot states; the level has no size."""
    _no_size("full", size)
    return one_hot(machine, dtype)


def write_cp(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal machine as one-hot states in rank-one terms; the size is the rank."""
    model = one_hot(machine, dtype).model
    assert isinstance(model.transition, Full)
    model.transition = CP.from_dense(model.transition.weight.detach())
    needed = model.transition.rank
    if size is not None and size < needed:
        raise CompileError(f"cp({size}) is too small for one-hot states, which need rank {needed}; use cp({needed})")
    if size is not None:
        wider = CP(machine.symbols, machine.states, size).to(dtype)
        with torch.no_grad():
            for name, part in wider.named_parameters():
                part.zero_()[:, :needed] = getattr(model.transition, name)
        model.transition = wider
    return Compiled(model, f"cp({size or needed})", True, "one-hot states, a rank-one term for each pair of states")


def write_block(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal machine in blocks: of whole numbers where these are found, else by real irreducible parts."""
    exact = _exact_blocks(machine, size, dtype)
    if exact is not None:
        return exact
    parts = separating_parts(machine, size)
    if parts is None or len(np.unique(machine.outputs)) < machine.states:
        limit = "" if size is None else f" of {size}"
        raise CompileError(
            f"no blocks{limit} were found for this machine of {machine.states} states; use a larger block, or full"
        )
    vectors = np.concatenate(parts.bases, axis=1)
    whole = np.zeros((machine.symbols, vectors.shape[1], vectors.shape[1]))
    end = 0
    for basis in parts.bases:
        inside = slice(end, end := end + basis.shape[1])
        # P e_q = e_delta(q), so P basis has row delta(q) of what basis has in row q
        moved = np.empty((machine.symbols, *basis.shape))
        for a in range(machine.symbols):
            moved[a, machine.delta[:, a]] = basis
        whole[:, inside, inside] = np.einsum("qi,aqj->aij", basis, moved)
    sizes = [basis.shape[1] for basis in parts.bases]
    weights = np.full((machine.classes, vectors.shape[1]), 0.0)
    weights[machine.outputs] = vectors
    packed = pack(whole, vectors[machine.start], weights, sizes, size or parts.block)
    return block_network(*packed, size or parts.block, dtype, False, "real irreducible parts, rounded")


def _exact_blocks(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled | None:
    """Write a machine in the smallest blocks of whole numbers that are found, or in those of a size."""
    made = modules(machine)
    special = _order_eight(machine, size, dtype)
    if special is not None:
        return special
    for largest in sorted({module.size for module in made}):
        if size is not None and largest > size:
            return None
        small = [module for module in made if module.size <= largest]
        found = readable(small, machine)
        if found is None:
            continue
        chosen, weights = found
        return _of_modules(chosen, weights, machine, size or largest, dtype)
    return None


def _of_modules(
    chosen: Sequence[Module], weights: np.ndarray, machine: Machine, size: int | None, dtype: torch.dtype
) -> Compiled:
    """Write modules in blocks of a size; None writes them side by side in a full network."""
    if size is None and len(chosen) == 1 and chosen[0].kind == "one-hot" and chosen[0].size == machine.states:
        return one_hot(machine, dtype)
    sizes = [module.size for module in chosen]
    hidden = sum(sizes)
    matrices = np.zeros((machine.symbols, hidden, hidden))
    end = 0
    for module in chosen:
        inside = slice(end, end := end + module.size)
        matrices[:, inside, inside] = module.matrices
    initial = np.concatenate([module.vectors[machine.start] for module in chosen])
    kinds = ", ".join(sorted({module.kind for module in chosen}))
    how = f"{len(chosen)} block{'s' if len(chosen) > 1 else ''} of whole numbers: {kinds}"
    if kinds == "answers":
        how = f"a basis of the answers to suffixes, in whole numbers: {hidden} entries for {machine.states} states"
    # sums of whole numbers are exact in floats while they stay below 1 / eps
    vectors = np.abs(np.concatenate([module.vectors for module in chosen], axis=1)).max(axis=0)
    largest = max((np.abs(part) @ vectors).max() for part in (matrices, weights))
    exact = bool(largest < 1 / torch.finfo(dtype).eps)
    if size is None:
        full = Full.from_dense(weight_of(matrices, dtype))
        return Compiled(tracker(full, initial, weights), "full", exact, how)
    return block_network(*pack(matrices, initial, weights, sizes, size), size, dtype, exact, how)


def _order_eight(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled | None:
    """Write the cyclic group of order 8 in blocks of two, as whole numbers.

    Rotations by multiples of pi / 4 are whole numbers times a power of sqrt(2), which changes no direction.
    """
    if machine.states != 8 or size not in (None, 2) or len(np.unique(machine.outputs)) < 8:
        return None
    found = [quotient for quotient in cyclic_quotients(machine) if quotient.order == 8]
    if not found:
        return None
    eighth = np.array([[1, -1], [1, 1]])
    powers = [np.linalg.matrix_power(eighth, e) for e in range(8)]
    # even powers are multiples of quarter turns: without the factor they are as small as they can be
    powers = [power // np.gcd.reduce(power.ravel()) for power in powers]
    points = np.stack([power[:, 0] for power in powers])
    # corners of a square are longer than its sides' middles: weigh them alike, near enough for any of the eight
    scaled = np.where(np.abs(points).sum(axis=1, keepdims=True) == 2, 5 * points, 7 * points)
    weights = np.zeros((machine.classes, 2))
    weights[machine.outputs] = scaled[found[0].residues]
    matrices = np.stack([powers[e] for e in found[0].added.tolist()]).astype(float)
    return block_network(matrices, points[0].astype(float), weights, 2, dtype, True, "eighths of a turn")


def write_rotation(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal machine that is an Abelian group by its characters; the level has no size."""
    _no_size("rotation", size)
    if not analyse(machine).abelian:
        raise CompileError("rotations track Abelian groups only, and this machine is none; use --level auto")
    used = characters(machine)
    each = used.coordinates()
    if len(np.unique(machine.outputs)) < machine.states:
        # the indicator of a state is the sum of all characters, each turned back by its own
        used = used.products()
        each = used.coordinates()
    weights = np.zeros((machine.classes, each.shape[1]))
    np.add.at(weights, machine.outputs, each)
    count = used.by_symbol.shape[1]
    transition = Rotation(machine.symbols, 2 * count).to(dtype)
    with torch.no_grad():
        transition.weight.copy_(torch.from_numpy(used.angles(used.by_symbol).T.copy()))
    how = f"{count} character{'s' if count > 1 else ''}, rounded"
    return Compiled(tracker(transition, np.tile([1.0, 0.0], count), weights), "rotation", False, how)


def write_diagonal(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal commutative machine with periods of at most 2 by signs and decays; the level has no size."""
    _no_size("diagonal", size)
    return _diagonal(machine, analyse(machine), dtype)


def write_positive(machine: Machine, size: int | None, dtype: torch.dtype) -> Compiled:
    """Write a minimal commutative and aperiodic machine by decays; the level has no size."""
    _no_size("positive", size)
    return _positive(machine, analyse(machine), dtype)


def _diagonal(machine: Machine, algebra: Algebra, dtype: torch.dtype) -> Compiled:
    if not algebra.commutative or max(algebra.periods) > 2:
        reason = f"a period of {max(algebra.periods)}" if algebra.commutative else "symbols whose order matters"
        raise CompileError(f"real diagonals cannot track this machine, which has {reason}; use --level auto")
    found = readable([module for module in modules(machine) if module.size == 1], machine)
    if found is not None:
        return _signs(*found, machine, dtype)
    return _counted(machine, "diagonal", dtype)


def _signs(chosen: Sequence[Module], weights: np.ndarray, machine: Machine, dtype: torch.dtype) -> Compiled:
    """Write modules of one entry each on a diagonal."""
    entries = np.stack([module.matrices[:, 0, 0] for module in chosen], axis=1).astype(float)
    initial = np.concatenate([module.vectors[machine.start] for module in chosen])
    return Compiled(tracker(diagonal_of(entries, dtype), initial, weights), "diagonal", True, "signs")


def _positive(machine: Machine, algebra: Algebra, dtype: torch.dtype) -> Compiled:
    if not (algebra.commutative and algebra.aperiodic):
        reason = f"a period of {max(algebra.periods)}" if algebra.commutative else "symbols whose order matters"
        raise CompileError(f"positive diagonals cannot track this machine, which has {reason}; use --level auto")
    return _counted(machine, "positive", dtype)


def _counted(machine: Machine, level: str, dtype: torch.dtype) -> Compiled:
    """Try ever sharper indicators until the weights, as stored, are proven correct."""
    tried = (_count(machine, level, made, dtype) for made in _countings(machine, level))
    found = next((made for made in tried if made is not None), None)
    if found is None:
        raise CompileError(
            f"{level} tracks this machine, but the weights found are too many or too large; use a higher level"
        )
    return found


def _countings(machine: Machine, level: str) -> Iterator[Counters]:
    """Yield indicators of counts, ever sharper and larger."""
    ratio = float(np.exp(_LOG_RATIO)) if level == "positive" else 0.5
    for extra in _EXTRAS:
        made = counters(machine, ratio, extra)
        if made is None:
            return
        yield made


def _count(machine: Machine, level: str, made: Counters, dtype: torch.dtype) -> Compiled | None:
    """Write indicators of counts; None where the weights, as stored, are not proven correct."""
    from statewise.theory.certify.counts import decide_by_counts
    from statewise.theory.network import network_of

    if level == "positive":
        transition: LinearTransition = Positive(machine.symbols, made.size).to(dtype)
        assert isinstance(transition, Positive)
        with torch.no_grad():
            transition.weight.copy_(torch.from_numpy(_LOG_RATIO * made.decays.T))
    else:
        transition = diagonal_of(made.signs * 0.5**made.decays, dtype)
    model = tracker(transition, np.ones(made.size), made.readout / (np.abs(made.readout).max() or 1.0))
    proof = decide_by_counts(network_of(model), machine)
    if proof is None or not proof.equal:
        return None
    return Compiled(model, level, True, "counts of symbols, by decays" + (" and signs" * (level == "diagonal")))


def _no_size(level: str, size: int | None) -> None:
    if size is not None:
        raise ExpressionError(f"{level} takes no size, got {size}; leave it out")
