"""Values as terms of Coq."""

from collections.abc import Iterable, Sequence

from statewise.machines import Machine
from statewise.theory.coq.growth import GrowthTable, Passage, Spot
from statewise.theory.coq.tables import Entry, Step
from statewise.theory.statement import Statement

# a row is written out in full if more than one in so many of its entries is not 0
_SPARSE = 3
# a list of so many items is read without deep recursion
_CHUNK = 1_000


def listed(items: Iterable[str], scope: str = "") -> str:
    """Write a list; a long one as several, joined."""
    items = list(items)
    pieces = [f"[{'; '.join(items[i : i + _CHUNK])}]{scope}" for i in range(0, len(items), _CHUNK)]
    return f"({' ++ '.join(pieces)})" if len(pieces) > 1 else pieces[0] if pieces else "[]"


def naturals(numbers: Iterable[int]) -> str:
    """Write a list of symbols, states or classes."""
    return listed(map(str, numbers), "%N")


def row(values: Sequence[int]) -> str:
    """Write a row of a matrix, or a sparse vector."""
    held = [(j, value) for j, value in enumerate(values) if value]
    if len(held) * _SPARSE > len(values):
        return f"dense {listed(map(_integer, values))}"
    return listed(f"weight {j} {_integer(value)}" for j, value in held)


def network_terms(statement: Statement) -> list[str]:
    """Write the definition of the network, one matrix after another."""
    names, lines = [], []
    for symbol, matrix in enumerate(statement.matrices.tolist()):
        names.append(f"A{symbol}")
        lines.append(f"Definition A{symbol} : matrix := {_rows(matrix)}.")
    readout, initial = _rows(statement.readout.tolist()), listed(map(_integer, statement.initial.tolist()))
    parts = f"matrices := {listed(names)};\n  initial := {initial};\n  readout := {readout}"
    return [*lines, f"Definition the_network : network := {{|\n  {parts} |}}."]


def machine_term(machine: Machine) -> str:
    """Write the definition of the machine."""
    rows = ";\n  ".join(naturals(moves) for moves in machine.delta.tolist())
    return (
        f"Definition the_machine : machine := {{|\n  moves := [\n  {rows}];\n"
        f"  start := {machine.start}%N;\n  outputs := {naturals(machine.outputs.tolist())} |}}."
    )


def language_term(language: tuple[tuple[int | None, ...], ...]) -> str:
    """Write the definition of the legal words."""
    rows = (listed(("None" if there is None else f"Some {there}" for there in moves), "%N") for moves in language)
    written = ";\n  ".join(rows)
    return f"Definition the_language : language := {{|\n  follows := [\n  {written}];\n  begins := 0%N |}}."


def table_terms(table: Sequence[Entry]) -> list[str]:
    """Write the definitions of the table's entries, and of the table."""
    lines = [f"Definition e{number} : entry := {_entry(entry)}." for number, entry in enumerate(table)]
    return [*lines, f"Definition the_table : list entry := {listed(f'e{number}' for number in range(len(table)))}."]


def growth_terms(table: GrowthTable) -> list[str]:
    """Write the definitions of rooms and places, and of the bound's constants."""
    lines = []
    for number, room in enumerate(table.rooms):
        passages = listed("None" if each is None else f"Some {_passage(each)}" for each in room.passages)
        atoms = ";\n  ".join(map(row, room.atoms))
        lines.append(f"Definition r{number} : room := {{| atoms := [\n  {atoms}];\n  passages := {passages} |}}.")
    lines += [f"Definition p{number} : place := {_spot(spot)}." for number, spot in enumerate(table.spots)]
    constants = ("unit", "whole", "begun", "added", "grown")
    written = "; ".join(f"{name} := {getattr(table, name)}" for name in constants)
    return [
        *lines,
        f"Definition the_rooms : list room := {listed(f'r{number}' for number in range(len(table.rooms)))}.",
        f"Definition the_places : list place := {listed(f'p{number}' for number in range(len(table.spots)))}.",
        f"Definition the_growth : growth := {{| {written} |}}.",
    ]


def _passage(passage: Passage) -> str:
    shares = ";\n  ".join(listed(map(_integer, each)) for each in passage.shares)
    return f"{{| next_room := {passage.next_room}; cost := {passage.cost}; shares := [\n  {shares}] |}}"


def _spot(spot: Spot) -> str:
    arcs = ";\n  ".join(
        f"{{| into := {arc.into}; ratio := {arc.ratio}; off := {listed(map(_integer, arc.off))} |}}"
        for arc in spot.arcs
    )
    return (
        f"{{| in_state := {spot.state}; in_language := {spot.language}; in_length := {spot.length}; "
        f"in_room := {spot.room};\n  prototype := {row(spot.prototype)};\n  arcs := [\n  {arcs}] |}}"
    )


def _entry(entry: Entry) -> str:
    if all(step == Step(step.target, 1, 1) for step in entry.steps):
        steps = f"plain {naturals(step.target for step in entry.steps)}"
    else:
        steps = listed(map(_step, entry.steps))
    return (
        f"{{| of_state := {entry.state}; of_language := {entry.language}; of_length := {entry.length};\n"
        f"  point := {row(entry.point)}; free := {listed(map(row, entry.free))};\n  steps := {steps} |}}"
    )


def _step(step: Step) -> str:
    if step == Step(step.target, 1, step.gain):
        return f"to {step.target} {step.gain}"
    along = listed(map(_integer, step.along))
    turns = listed(f"({s}, {listed(map(_integer, ks))})" for s, ks in step.turns)
    factors = f"target := {step.target}; scale := {step.scale}; gain := {step.gain}"
    return f"{{| {factors}; along := {along}; turns := {turns} |}}"


def _rows(matrix: Sequence[Sequence[int]]) -> str:
    return "[\n  " + ";\n  ".join(row(values) for values in matrix) + "]"


def _integer(value: int) -> str:
    """Write a whole number."""
    return str(value) if value >= 0 else f"({value})"
