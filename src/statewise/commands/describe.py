"""`statewise machine`: a machine and its algebra."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.commands.inputs import MachineLike, PathLike, machine_of
from statewise.errors import MachineFileError, TooLargeError, shorten, shorten_apart
from statewise.files import write_whole
from statewise.machines import Algebra, Machine, analyse, draw_svg, write_machine
from statewise.theory.classification import Level, classify
from statewise.theory.robust_machines import Robustness, robustness
from statewise.wording import Lines, Result

# a table of at most so many rows and columns is shown, of names so long, and so many names in one line
_ROWS, _COLUMNS, _LONGEST_NAME, _LISTED = 12, 12, 12, 8
_HYPOTHESIS = "products stay bounded and margins away from 0"


@dataclass(frozen=True, eq=False)
class MachineFacts(Result):
    """A machine, its algebra, the level that tracks it, and whether trained weights can track it robustly.

    Args:
        machine: the machine.
        algebra: of its transition monoid.
        level: the lowest level that tracks it.
        robust: the dichotomy of robustness; None where there are too many states to decide.
        svg: the file of its drawing.
        out: the file that it was written to.
    """

    machine: Machine
    algebra: Algebra
    level: Level
    robust: Robustness | None
    svg: Path | None = None
    out: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        built, algebra, level, judged = self.machine, self.algebra, self.level, self.robust
        facts = {
            "name": built.name,
            "states": built.states,
            "mealy_states": built.mealy_states,
            "symbols": built.symbols,
            "outputs": len(set(built.outputs.tolist())),
            "minimal_states": algebra.minimal_states,
            "monoid": algebra.monoid,
            "group": algebra.group,
            "abelian": algebra.abelian,
            "commutative": algebra.commutative,
            "solvable": algebra.solvable,
            "aperiodic": algebra.aperiodic,
            "synchronising": algebra.synchronising,
            "level": level.name,
            "level_reason": level.reason,
            "level_lowest": level.lowest,
            "level_theorem": level.theorem,
            "level_at_least": f"block({level.at_least})" if not level.lowest else level.name,
            "level_hidden": level.dimension,
            "level_supposes": _HYPOTHESIS if level.supposed else None,
            "level_numerical": level.numerical,
            "robust": None if judged is None else judged.robust,
            "robust_reason": "too many states to judge" if judged is None else judged.reason,
            "fragile_word": None if judged is None or judged.robust else list(built.decode(judged.loop)),
        }
        return facts | {name: str(path) for name, path in (("svg", self.svg), ("out", self.out)) if path is not None}

    def lines(self) -> Lines:
        """Return the facts for a reader, with the table of a small machine."""
        built, algebra, facts = self.machine, self.algebra, self.to_dict()
        size = "past the bound" if algebra.monoid is None else f"{algebra.monoid:,} maps"
        hidden = "" if facts["level_hidden"] is None else f", hidden size {facts['level_hidden']}"
        shown = tuple(built.output_names[c] for c in sorted(set(built.outputs.tolist())))
        lines = [
            ("machine", shorten(built.name)),
            ("states", f"{built.states:,}, minimal {algebra.minimal_states:,}{_split(built)}"),
            ("symbols", f"{built.symbols:,}: {_some(built.alphabet)}"),
            ("outputs", f"{facts['outputs']:,}: {_some(shown)}"),
            ("monoid", size),
            ("group", _answer(algebra.group) + (", Abelian" if algebra.abelian else "")),
            ("commutative", _answer(algebra.commutative)),
            ("solvable", _answer(algebra.solvable)),
            ("aperiodic", _answer(algebra.aperiodic)),
            ("synchronising", _answer(algebra.synchronising)),
            ("level", f"{facts['level']}{hidden} ({_basis(self.level)}: {facts['level_reason']})"),
            ("lowest", _lowest(self.level)),
            ("robust", f"{_answer(facts['robust'])}: {facts['robust_reason']}{_witness(facts['fragile_word'])}"),
        ]
        if built.states <= _ROWS and built.symbols <= _COLUMNS:
            lines += [("", ""), *_table(built)]
        return lines + [(name, facts[name]) for name in ("svg", "out") if name in facts]


def describe(machine: MachineLike, svg: PathLike | None = None, out: PathLike | None = None) -> MachineFacts:
    """Show a finite-state machine and its algebra.

    Args:
        machine: such as "cyclic(4)*cyclic(6)", or a .json or .dot file
        svg: draw it into this file; needs graphviz
        out: write it to this .json or .dot file
    """
    drawing, file = (None if path is None else Path(path) for path in (svg, out))
    if drawing is not None and drawing == file:
        raise MachineFileError(f'--svg and --out both name "{shorten(drawing)}"; give each a file of its own')
    built = machine_of(machine)
    algebra = analyse(built)
    found = MachineFacts(built, algebra, classify(algebra, built), _robustness(built), drawing, file)
    if drawing is not None:
        write_whole(drawing, draw_svg(built))
    if file is not None:
        write_machine(built, file)
    return found


def _robustness(built: Machine) -> Robustness | None:
    try:
        return robustness(built)
    except TooLargeError:
        return None


def _answer(fact: bool | None) -> str:
    return "undecided within bounds" if fact is None else ("yes" if fact else "no")


def _basis(level: Level) -> str:
    """Name what a level rests on; parts that were found in floating point are no theorem."""
    if not level.numerical:
        return level.theorem
    if level.theorem == "Theorem G":
        return "numerical, after Theorem G"
    return f"{level.theorem}; hidden size numerical" if level.theorem == "Theorem H" else level.theorem


def _lowest(level: Level) -> str:
    """Return whether a lower level can track the machine, and what that supposes."""
    claim = "yes" if level.lowest else f"not known, at least block({level.at_least})"
    if not level.supposed:
        return claim
    return f"{claim}, numerically, for networks whose {_HYPOTHESIS} (hypothesis N)"


def _witness(word: list[str] | None) -> str:
    return f", along powers of {shorten(' '.join(word))}" if word else ""


def _split(built: Machine) -> str:
    return "" if built.mealy_states is None else f": Mealy, split into Moore states from {built.mealy_states:,}"


def _table(built: Machine) -> Lines:
    names, symbols, outputs = map(_short, (built.state_names, built.alphabet, built.output_names))
    width = max(map(len, names + symbols))
    header = "  ".join(symbol.rjust(width) for symbol in symbols)
    rows = [("state", f"{header}   output")]
    for q, name in enumerate(names):
        cells = "  ".join(names[target].rjust(width) for target in built.delta[q])
        mark = "*" if q == built.start else " "
        rows.append((f"{name}{mark}", f"{cells}   {outputs[built.outputs[q]]}"))
    return [*rows, ("", "* start")]


def _short(names: Sequence[str]) -> list[str]:
    return shorten_apart(names, _LONGEST_NAME)


def _some(names: Sequence[str]) -> str:
    return ", ".join(_short(names[:_LISTED])) + (", …" if len(names) > _LISTED else "")
