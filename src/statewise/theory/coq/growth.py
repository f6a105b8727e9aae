"""The tables that Horizon.v checks: prototypes, atoms to measure errors by, and how each symbol carries both.

The atoms of a room (a state of the language) are its prototypes v_q, directions beside them where they do not span the
hidden space, and unit vectors, which are short, for what rounding leaves over. All is chosen in floating point and then
written in whole numbers: equations hold exactly, since unit vectors take the rest, and their cost is counted.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from statewise.machines import access_words
from statewise.theory.coq.tables import Vector, primitive
from statewise.theory.network import Network
from statewise.theory.statement import Statement

# prototypes have entries of up to 2^60, coefficients are written in parts of 2^-130: far below the rounding of float64
_ENTRIES = 60
_UNIT, _WHOLE = 1 << 130, 1 << 200
# directions in which prototypes vary by less than this share are beside them
_FLAT = 1e-6
_REFINED = 6
_MAX_SHORT, _MAX_AVERAGED = 300, 2_000
# products of two numbers that Coq computes in some minutes
_MOST_PRODUCTS = 1_000_000
# a horizon beyond this is not searched for
_LONGEST = 10**18


@dataclass(frozen=True)
class Arc:
    """How a symbol carries a prototype: unit A v = ratio v' + sum off_i atom'_i."""

    into: int
    ratio: int
    off: Vector = ()


@dataclass(frozen=True)
class Spot:
    """A prototype, or the exact hidden state of a short word, and an arc for each symbol that may follow."""

    state: int
    language: int
    length: int
    room: int
    prototype: Vector
    arcs: tuple[Arc, ...]


@dataclass(frozen=True)
class Passage:
    """How a symbol carries the atoms of a room: unit A atom = sum shares_i atom'_i, which add up to at most `cost`."""

    next_room: int
    cost: int
    shares: tuple[Vector, ...]


@dataclass(frozen=True)
class Room:
    """Vectors to measure errors by, and a passage for each symbol; None where it may not follow."""

    atoms: tuple[Vector, ...] = ()
    passages: tuple[Passage | None, ...] = ()


@dataclass(frozen=True)
class GrowthTable:
    """What Horizon.v checks: rooms, places, the constants of the bound; words of up to `upto` symbols are right."""

    rooms: tuple[Room, ...]
    spots: tuple[Spot, ...]
    begun: int
    added: int
    grown: int
    upto: int
    unit: int = _UNIT
    whole: int = _WHOLE


def growth_table(statement: Statement, network: Network) -> GrowthTable | None:
    """Return a table that proves a horizon, the longest of those tried; None where none is proved.

    Args:
        statement: what is to be proved.
        network: the same network in floating point, to choose prototypes by.
    """
    tables = []
    for vectors in _prototypes(statement, network):
        for least in itertools.count(max(1, statement.shortest)):
            frames = _frames(statement, vectors, least)
            if least > statement.shortest + 3 or _too_large(statement, frames, least):
                break
            tables.append(_table(statement, frames, least))
    shown = [table for table in tables if table is not None and table.upto >= statement.shortest]
    return max(shown, key=lambda table: table.upto, default=None)


def _prototypes(statement: Statement, network: Network) -> Iterator[np.ndarray]:
    """Give prototypes of all states to try: after a shortest word, also with one length; a mean over many words."""
    machine = statement.machine
    legal = np.zeros(machine.delta.shape, dtype=bool)
    for state, language in _reached(statement, 0):
        legal[state] = [there is not None for there in statement.language[language]]
    single = np.zeros((machine.states, network.hidden))
    for state, word in access_words(machine, legal).items():
        single[state] = network.initial
        for symbol in word:
            single[state] = network.matrices[symbol] @ single[state]
    yield single
    yield (short := _of_one_length(single))
    length = int(math.log(_MAX_AVERAGED) / math.log(max(2, statement.symbols)))
    means = np.zeros_like(single)
    words = np.array(list(itertools.product(range(statement.symbols), repeat=max(1, length))))
    for state, h in zip(machine.final(words).tolist(), network.states(words), strict=True):
        means[state] += h
    # a state that only shorter words lead to has no mean
    yield np.where(np.any(means != 0, axis=1, keepdims=True), _of_one_length(means), short)


def _of_one_length(vectors: np.ndarray) -> np.ndarray:
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(sizes > 0, sizes, 1.0)


def _reached(statement: Statement, least: int) -> list[tuple[int, int]]:
    """Return the pairs (state, state of the language) that legal words of at least so many symbols lead to."""
    order = [(statement.machine.start, 0, 0)]
    seen = set(order)
    for state, language, length in order:
        for symbol, there in enumerate(statement.language[language]):
            if there is not None:
                place = (int(statement.machine.delta[state, symbol]), there, min(length + 1, least))
                if place not in seen:
                    seen.add(place)
                    order.append(place)
    return sorted({place[:2] for place in order if place[2] == least})


class _Frame:
    """The atoms of a room in whole numbers: a prototype for each state, directions beside them, unit vectors."""

    def __init__(self, number: int, states: list[int], vectors: np.ndarray) -> None:
        self.number, self.states = number, states
        hidden = vectors.shape[1]
        left, sizes, _ = np.linalg.svd(vectors.T, full_matrices=True)
        rank = int((sizes > _FLAT * sizes[0]).sum()) if sizes[0] > 0 else 0
        # beside the prototypes, half as long as they are, so that what leaks into them costs little
        beside = left[:, rank:].T * 0.5 * float(np.linalg.norm(vectors, axis=1).max())
        wide = np.vstack([vectors, beside])
        self.wide = np.array([[int(x) for x in row] for row in np.rint(wide * 2.0**_ENTRIES).tolist()], dtype=object)
        units = np.array([[int(i == j) for j in range(hidden)] for i in range(hidden)], dtype=object)
        self.atoms = np.vstack([self.wide, units])
        self._solve = np.linalg.pinv(self.wide.astype(np.float64).T * 2.0**-_ENTRIES, rcond=_FLAT)

    def prototype(self, state: int) -> np.ndarray:
        """Return the prototype of a state."""
        return self.wide[self.states.index(state)]

    def written(self, vector: np.ndarray) -> np.ndarray:
        """Write a vector as a sum of atoms, exactly: in floating point as far as it goes, the rest in unit vectors."""
        shares, rest = np.array([0] * len(self.wide), dtype=object), vector
        for _ in range(_REFINED):
            shift = max(0, max(abs(x) for x in rest.tolist()).bit_length() - 60)
            parts = self._solve @ (rest >> shift).astype(np.float64)
            step = np.array([round(math.ldexp(part, shift - _ENTRIES)) for part in parts.tolist()], dtype=object)
            shares, rest = shares + step, rest - step @ self.wide
        return np.concatenate([shares, rest])


def _frames(statement: Statement, vectors: np.ndarray, least: int) -> dict[int, _Frame]:
    """Return the atoms of each room that words of at least so many symbols lead to."""
    largest = float(np.abs(vectors).max())
    scaled = vectors / largest if largest > 0 else vectors
    rooms: dict[int, list[int]] = {}
    for state, language in _reached(statement, least):
        rooms.setdefault(language, []).append(state)
    # the first room is that of words without an error
    return {r: _Frame(n + 1, states, scaled[states]) for n, (r, states) in enumerate(sorted(rooms.items()))}


def _too_large(statement: Statement, frames: dict[int, _Frame], least: int) -> bool:
    hidden, symbols, words = statement.hidden, statement.symbols, statement.symbols ** (least - 1)
    carried = sum(len(frame.atoms) * hidden * (hidden + len(frame.wide)) for frame in frames.values())
    return words > _MAX_SHORT or (carried + words * hidden * hidden) * symbols > _MOST_PRODUCTS


@dataclass
class _Constants:
    """The most that errors begin with, that a symbol adds, and by which it makes them grow, in parts of the whole."""

    begun: int = 0
    added: int = 0
    grown: int = 0


def _table(statement: Statement, frames: dict[int, _Frame], least: int) -> GrowthTable | None:
    """Write prototypes and atoms down, with the constants; None where no length is proved."""
    short, constants = _short_words(statement, least), _Constants()
    places = [(state, language) for language, frame in frames.items() for state in frame.states]
    numbers = {place: len(short) + n for n, place in enumerate(places)}
    spots: list[Spot] = []
    for state, language, length, point, following in short:
        arcs = []
        for symbol, there in following:
            moved = _UNIT * (statement.matrices[symbol] @ np.array(point, dtype=object))
            if isinstance(there, int):
                arcs.append(Arc(there, math.gcd(*moved.tolist()) or _UNIT))
                continue
            arc = _arc(moved, frames[there[1]], there[0], numbers[there])
            if arc is None:
                return None
            constants.begun = max(constants.begun, _share(arc.off, arc.ratio))
            arcs.append(arc)
        spots.append(Spot(state, language, min(length, statement.shortest), 0, point, tuple(arcs)))
    rooms = [Room()]
    for language in frames:
        written = _room(statement, frames, language, numbers, constants)
        if written is None:
            return None
        rooms.append(written[0])
        spots.extend(written[1])
    upto = _upto(statement, rooms, spots, constants)
    if upto is None:
        return None
    return GrowthTable(tuple(rooms), tuple(spots), constants.begun, constants.added, constants.grown, upto)


def _room(
    statement: Statement, frames: dict[int, _Frame], language: int, numbers: dict, constants: _Constants
) -> tuple[Room, list[Spot]] | None:
    """Write a room and its prototypes down, and count what they cost; None where a prototype is turned around."""
    frame = frames[language]
    passages: list[Passage | None] = []
    arcs: list[list[Arc]] = [[] for _ in frame.states]
    for symbol, there in enumerate(statement.language[language]):
        if there is None:
            passages.append(None)
            continue
        target = frames[there]
        moved = (_UNIT * (statement.matrices[symbol] @ frame.atoms.T)).T
        for place, state in enumerate(frame.states):
            following = int(statement.machine.delta[state, symbol])
            arc = _arc(moved[place], target, following, numbers[following, there])
            if arc is None:
                return None
            constants.added = max(constants.added, _share(arc.off, arc.ratio))
            arcs[place].append(arc)
        shares = [
            _carried(arcs[place][-1], target, int(statement.machine.delta[state, symbol]))
            for place, state in enumerate(frame.states)
        ]
        shares += [tuple(target.written(vector).tolist()) for vector in moved[len(frame.states) :]]
        cost = max(sum(map(abs, each)) for each in shares)
        ratio = min(each[-1].ratio for each in arcs)
        constants.grown = max(constants.grown, -(-_WHOLE * cost // ratio) - _WHOLE)
        passages.append(Passage(target.number, cost, tuple(shares)))
    room = Room(tuple(tuple(atom) for atom in frame.atoms.tolist()), tuple(passages))
    return room, [
        Spot(state, language, statement.shortest, frame.number, tuple(frame.prototype(state).tolist()), tuple(each))
        for state, each in zip(frame.states, arcs, strict=True)
    ]


def _arc(moved: np.ndarray, frame: _Frame, state: int, number: int) -> Arc | None:
    """Write a vector as a positive multiple of a prototype and a sum of atoms; None where there is no such multiple."""
    there = frame.prototype(state)
    length = int(there @ there)
    ratio = int(moved @ there) // length if length else 0
    return Arc(number, ratio, tuple(frame.written(moved - ratio * there).tolist())) if ratio > 0 else None


def _carried(arc: Arc, frame: _Frame, state: int) -> Vector:
    """Return where a prototype goes as a sum of atoms, the next prototype among them."""
    place = frame.states.index(state)
    return tuple(share + arc.ratio * (n == place) for n, share in enumerate(arc.off))


def _share(off: Vector, ratio: int) -> int:
    """Return the size of an error, relative to the prototype, in parts of the whole; rounded up."""
    return -(-_WHOLE * sum(map(abs, off)) // ratio)


def _short_words(statement: Statement, least: int) -> list:
    """Return the words of fewer than `least` symbols by their exact hidden states, and where each symbol leads.

    That is the number of another such word, or else a pair (state, state of the language).
    """
    first = (statement.machine.start, 0, 0, tuple(statement.initial.tolist()))
    order: list[tuple[int, int, int, Vector]] = [first]
    numbers: dict[tuple[int, int, int, Vector], int] = {first: 0}
    found = []
    for state, language, length, point in order:
        moved, following = statement.moved(point), []
        for symbol, room in enumerate(statement.language[language]):
            if room is None:
                continue
            there = int(statement.machine.delta[state, symbol])
            if length + 1 >= least:
                following.append((symbol, (there, room)))
                continue
            word = (there, room, length + 1, primitive(moved[symbol]))
            if word not in numbers:
                numbers[word] = len(order)
                order.append(word)
            following.append((symbol, numbers[word]))
        found.append((state, language, length, point, following))
    return found


def _upto(statement: Statement, rooms: list[Room], spots: list[Spot], constants: _Constants) -> int | None:
    """Return the longest length at which no error turns an answer; None where an answer is wrong already."""
    upto = _LONGEST if not constants.grown else min(_LONGEST, (_WHOLE - 1) // constants.grown)
    atoms = [np.array(room.atoms, dtype=object).reshape(-1, statement.hidden) for room in rooms]
    readings = [statement.readout @ each.T for each in atoms]
    for spot in spots:
        if spot.length < statement.shortest:
            continue
        own = int(statement.machine.outputs[spot.state])
        logits = statement.readout @ np.array(spot.prototype, dtype=object)
        for k in range(statement.classes):
            if k == own:
                continue
            lead = int(logits[own] - logits[k])
            widest = max((abs(x) for x in (readings[spot.room][own] - readings[spot.room][k]).tolist()), default=0)
            left = lead * _WHOLE - widest * constants.begun
            if left <= 0:
                return None
            rate = widest * constants.added + lead * constants.grown
            upto = min(upto, (left - 1) // rate) if rate else upto
    return upto
