"""Networks of whole numbers: what a polished network becomes, at its own level where that is possible."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from jaxtyping import Float, Int

from statewise.theory.learning.hankel import Basis
from statewise.theory.polish.block_bases import BITS, BlockBasis, anchored_basis, directions, near_points, turned_basis
from statewise.theory.polish.closure import best_readout
from statewise.theory.polish.coincidence import Points
from statewise.theory.polish.outcome import Polished
from statewise.theory.polish.rational import Coordinates, whole_coordinates, whole_matrices
from statewise.transitions import CP, Block, Diagonal, Full, LinearTransition, Rotation
from statewise.wording import counted

Matrices = Int[np.ndarray, "symbol out in"]


@dataclass(frozen=True, eq=False)
class Whole:
    """Points and the transition that moves them, in whole numbers.

    Args:
        points: the coordinates of each point.
        transition: its matrices on one-hot tokens are whole, and move every point as it moves, up to a factor.
        level: the name of its level.
        kept: whether that is the level of the network that it came from.
        note: where it is not kept, why; where it is, what the numbers are.
        distance: the largest distance of a coordinate from a fraction, in a basis of hidden states.
        readout: before it is rounded; None where it follows from the logits at the points.
    """

    points: Int[np.ndarray, "point entry"]
    transition: LinearTransition
    level: str
    kept: bool
    note: str
    distance: float | None
    readout: Float[np.ndarray, "class entry"] | None = None


def written(polished: Polished, points: Points, answers: Int[np.ndarray, " point"], accuracy: float) -> Iterator[Whole]:
    """Write points in whole numbers: at the level of a network where that is possible, and then as full networks.

    Args:
        polished: the network.
        points: its hidden states.
        answers: the class of each.
        accuracy: to which entries of the points are known.
    """
    transition, level = polished.model.transition, polished.level
    if isinstance(transition, Full):
        for found, matrices in _joint(points, accuracy):
            yield Whole(found.points, _full(matrices), level, True, _own_basis(found), found.distance)
        return
    if isinstance(transition, CP):
        fewest = math.inf
        for found, matrices in _joint(points, accuracy):
            terms = cp_terms(matrices)
            fewest = min(fewest, terms[0].shape[1])
            if terms[0].shape[1] <= transition.rank:
                made = _cp(terms, transition.rank)
                yield Whole(found.points, made, level, True, _own_basis(found), found.distance)
        why = f"in whole numbers its matrices need {fewest} terms, and {level} has {transition.rank}"
    elif isinstance(transition, Rotation):
        needed = max((found[0].size for found in _each_block(points, 2, accuracy)), default=1)
        why = (
            "rotations store angles, and no stored angle but 0 is a rational part of a turn (Theorem X); "
            f"block({max(2, needed)}) can hold them"
        )
    else:
        assert isinstance(transition, Block | Diagonal)
        blocks = _Blocks(transition, level, points, accuracy)
        yield from blocks.written(answers)
        why = blocks.why
    for found, matrices in _joint(points, accuracy):
        yield Whole(found.points, _full(matrices), "full", False, why, found.distance)


def _joint(points: Points, accuracy: float) -> Iterator[tuple[Coordinates, Matrices]]:
    """Return coordinates of whole hidden states, and the matrices that move them."""
    for found in whole_coordinates(points.vectors, points.moves, accuracy):
        matrices = whole_matrices(found.points, points.moves)
        if matrices is not None:
            yield found, matrices


@dataclass(frozen=True, eq=False)
class _Part:
    """One block in whole numbers."""

    points: Int[np.ndarray, "point entry"]
    matrices: Matrices
    distance: float | None


@dataclass(frozen=True, eq=False)
class _Begun:
    """One block whose matrices are whole, and whose first state is still to be rounded."""

    basis: BlockBasis
    first: Float[np.ndarray, " entry"]
    distance: float | None

    def rounded(self, moves: Int[np.ndarray, "point symbol"], bits: int) -> _Part | None:
        """Round the first state to so many bits."""
        points = near_points(self.basis.matrices, self.first, moves, bits)
        return None if points is None else _Part(points, self.basis.matrices, self.distance)


class _Blocks:
    """The blocks of a network, each by itself.

    Args:
        transition: of the polished network.
        level: its name.
        points: its hidden states.
        accuracy: to which entries of the points are known.
    """

    def __init__(self, transition: Block | Diagonal, level: str, points: Points, accuracy: float) -> None:
        self.level, self.points, self.accuracy = level, points, accuracy
        self.diagonal = isinstance(transition, Diagonal)
        self.size = 1 if isinstance(transition, Diagonal) else transition.size
        with torch.no_grad():
            blocks = transition.blocks(transition.of_tokens()).detach()
        self.matrices: Float[np.ndarray, "symbol block out in"] = blocks.numpy()
        self.vectors = points.vectors.reshape(len(points.vectors), -1, self.size)
        self.why = f"no proof was found at level {level}"

    def written(self, answers: Int[np.ndarray, " point"]) -> Iterator[Whole]:
        """Write all blocks in whole numbers; or one, up to factors; `why` says what was in the way."""
        parts = self._parts()
        if parts is not None:
            for bits in BITS if any(isinstance(part, _Begun) for part in parts) else BITS[:1]:
                made = [part.rounded(self.points.moves, bits) if isinstance(part, _Begun) else part for part in parts]
                if all(part is not None for part in made):
                    yield self._of([part for part in made if part is not None])
        elif self.size == 2:
            yield from self._turned(answers)

    def _parts(self) -> list[_Part | _Begun] | None:
        """Write each block; return None where one needs more entries than a block has."""
        parts: list[_Part | _Begun] = []
        needed = 0
        for place, candidates in enumerate(_each_block(self.points, self.size, self.accuracy)):
            if candidates[0].size == 0:
                # what is 0 stays 0
                continue
            part, inside = self._fitting(candidates), self.vectors[:, place]
            if part is None:
                basis = anchored_basis(self.matrices[:, place], inside, self.accuracy)
                if basis is None:
                    needed = max(needed, candidates[0].size)
                    continue
                part = _Begun(basis, basis.into @ inside[0], candidates[0].distance)
            parts.append(part)
        if needed:
            barrier = " (Theorem X)" if self.size == 2 and _has_other_turns(self.points.moves) else ""
            self.why = (
                f"a block needs {needed} entries to be whole numbers, and {self.level} has {self.size}{barrier}; "
                f"block({needed}) can hold them"
            )
        return None if needed else parts

    def _fitting(self, candidates: list[Coordinates]) -> _Part | None:
        for found in candidates:
            matrices = whole_matrices(found.points, self.points.moves) if found.size <= self.size else None
            if matrices is not None:
                return _Part(found.points, matrices, found.distance)
        return None

    def _of(self, parts: list[_Part]) -> Whole:
        parts = _independent(parts)
        symbols, hidden = len(self.matrices), self.size * len(parts)
        matrices = np.zeros((symbols, hidden, hidden), dtype=np.int64)
        points = np.zeros((len(self.vectors), hidden), dtype=np.int64)
        for place, part in enumerate(parts):
            inside = slice(place * self.size, place * self.size + part.points.shape[1])
            matrices[:, inside, inside] = part.matrices
            points[:, inside] = part.points
        weight = _weight(matrices)
        transition = Diagonal.from_dense(weight) if self.diagonal else Block.from_dense(weight, self.size)
        note = f"{counted(len(parts), 'block')} of whole numbers"
        return Whole(
            points,
            transition,
            self.level,
            True,
            note,
            max((part.distance for part in parts if part.distance is not None), default=None),
        )

    def _turned(self, answers: Int[np.ndarray, " point"]) -> Iterator[Whole]:
        """Write one block up to a factor for each symbol, where it separates the answers by itself."""
        for place in range(self.vectors.shape[1]):
            inside = self.vectors[:, place]
            sizes = np.linalg.norm(inside, axis=1, keepdims=True)
            if not (sizes > 0).all():
                continue
            relative = self.accuracy / float(sizes.max())
            basis = turned_basis(self.matrices[:, place], inside[0], relative)
            points = None if basis is None else directions(basis.matrices, (1, 0), self.points.moves)
            if basis is None or points is None:
                continue
            unit = torch.from_numpy(inside / sizes)
            readout = best_readout(unit, torch.from_numpy(answers), int(answers.max()) + 1).numpy()
            transition = Block.from_dense(_weight(basis.matrices), 2)
            note = "a block of whole numbers, up to a factor for each symbol, which no answer depends on (Theorem X)"
            turned = readout @ np.linalg.inv(basis.into)
            yield Whole(points, transition, self.level, True, note, None, turned)


def _each_block(points: Points, size: int, accuracy: float) -> list[list[Coordinates]]:
    """Return whole-number coordinates of each block to try."""
    blocks = range(0, points.vectors.shape[1], size)
    return [whole_coordinates(points.vectors[:, b : b + size], points.moves, accuracy) for b in blocks]


def _has_other_turns(moves: Int[np.ndarray, "point symbol"]) -> bool:
    """Return whether some symbol has a cycle whose length does not divide 24: no rational 2 x 2 blocks turn so."""
    for following in moves.T:
        if (following < 0).any():
            continue
        here = np.arange(len(following))
        for _ in range(len(following)):
            # on cycles, and nowhere else, after as many steps as there are points
            here = following[here]
        after = here.copy()
        for _ in range(24):
            after = following[after]
        if (after != here).any():
            return True
    return False


def _independent(parts: list[_Part]) -> list[_Part]:
    """Leave out blocks that hold what others hold: conjugate blocks become one in whole numbers."""
    kept: list[_Part] = []
    basis = Basis()
    for part in sorted(parts, key=lambda part: -part.points.shape[1]):
        columns = [[Fraction(int(x)) for x in column] for column in part.points.T]
        if all(basis.express(column) is not None for column in columns):
            continue
        kept.append(part)
        for column in columns:
            if basis.express(column) is None:
                basis.add(column)
    return kept


def _own_basis(found: Coordinates) -> str:
    if found.size == found.rank:
        return "its matrices are whole numbers in a basis of hidden states"
    away = "are not known well enough"
    if found.distance is not None:
        away = f"are up to {found.distance:.1e} from every fraction of small denominator"
    return f"coordinates {away}, so {found.rank} functionals became {found.size} whole numbers"


def _full(matrices: Matrices) -> Full:
    return Full.from_dense(_weight(matrices))


def _weight(matrices: Matrices) -> torch.Tensor:
    return torch.from_numpy(matrices.transpose(1, 2, 0).astype(np.float64))


def _cp(terms: tuple[np.ndarray, np.ndarray, np.ndarray], rank: int) -> CP:
    """Build a CP-factored transition of a rank; terms that are not needed are 0."""
    left, gate, right = terms
    built = CP(len(gate), len(left), rank).double()
    with torch.no_grad():
        for name, values in (("left", left), ("gate", gate), ("right", right)):
            parameter = getattr(built, name)
            parameter.zero_()
            parameter[:, : values.shape[1]] = torch.from_numpy(values)
    return built


def cp_terms(
    matrices: Matrices,
) -> tuple[Float[np.ndarray, "out term"], Float[np.ndarray, "symbol term"], Float[np.ndarray, "in term"]]:
    """Write whole matrices as few rank-one terms of whole numbers, up to a factor for each symbol.

    The slices of each output, of each input or of each symbol are factored by themselves, whichever gives fewest terms.
    """
    found = [_terms_along(matrices, axis) for axis in range(3)]
    return min(found, key=lambda terms: terms[0].shape[1])


def _terms_along(matrices: Matrices, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factor the slices along an axis of [symbol, out, in] by themselves; return the factors left, gate and right."""
    symbols, size, _ = matrices.shape
    # in each term one factor is one-hot along the axis, one is a row of the slice, one its coefficients
    coefficient, row = (1, 2) if axis == 0 else (0, 3 - axis)
    factors: list[list[list[Fraction]]] = [[], [], []]
    for place in range(matrices.shape[axis]):
        rows, table = _factors(matrices.take(place, axis=axis))
        for term in range(len(rows)):
            factors[axis].append([Fraction(int(i == place)) for i in range(matrices.shape[axis])])
            factors[row].append([Fraction(x) for x in rows[term]])
            factors[coefficient].append([parts[term] for parts in table])
    # thirds are no floats: each symbol is multiplied by its common denominator
    scales = [1] * symbols
    for symbol in range(symbols):
        used = [
            x for gates, parts in zip(factors[0], factors[coefficient], strict=True) if gates[symbol] for x in parts
        ]
        scales[symbol] = math.lcm(*(x.denominator for x in (used if axis == 0 else [g[symbol] for g in factors[0]])))
    if axis == 0:
        of_term = [next(i for i, x in enumerate(gates) if x) for gates in factors[0]]
        factors[1] = [[x * scales[a] for x in parts] for a, parts in zip(of_term, factors[1], strict=True)]
    else:
        factors[0] = [[x * scale for x, scale in zip(gates, scales, strict=True)] for gates in factors[0]]
    gate, left, right = (
        np.array(factor, dtype=np.float64).reshape(-1, length).T
        for factor, length in zip(factors, (symbols, size, size), strict=True)
    )
    return left, gate, right


def _factors(slices: Int[np.ndarray, "row entry"]) -> tuple[list[list[int]], list[list[Fraction]]]:
    """Return rows of a matrix that are a basis, and each row's coefficients in them."""
    basis, chosen = Basis(), []
    rows = [[Fraction(int(x)) for x in row] for row in slices]
    for row in rows:
        if basis.express(row) is None:
            basis.add(row)
            chosen.append([int(x) for x in row])
    coefficients = [basis.express(row) or {} for row in rows]
    return chosen, [[parts.get(i, Fraction(0)) for i in range(len(chosen))] for parts in coefficients]
