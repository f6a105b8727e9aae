"""`statewise machine`: shows a machine and its algebra."""

from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import MachineFileError, TooLargeError, shorten
from statewise.files import write_whole
from statewise.machines import Algebra, Machine, analyse, draw_svg, write_machine
from statewise.machines import machine as build
from statewise.theory.classification import classify
from statewise.theory.robust_machines import Robustness, robustness

_ROWS, _COLUMNS = 12, 12


def machine(
    expression: Annotated[
        str, typer.Argument(metavar="MACHINE", help='Such as "cyclic(4)*cyclic(6)", or a .json or .dot file.')
    ],
    svg: Annotated[Path | None, typer.Option(help="Draw it into this file; needs graphviz.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this .json or .dot file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show a finite-state machine and its algebra."""
    if svg is not None and svg == out:
        raise MachineFileError(f'--svg and --out both name "{shorten(svg)}"; give each a file of its own')
    built = build(expression)
    algebra = analyse(built)
    level = classify(algebra, built)
    judged = _judge(built)
    result: dict[str, Any] = {
        "name": built.name,
        "states": built.states,
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
        "robust": None if judged is None else judged.robust,
        "robust_reason": "too many states to judge" if judged is None else judged.reason,
        "fragile_word": None if judged is None or judged.robust else list(built.decode(judged.loop)),
    }
    for key, path in (("svg", svg), ("out", out)):
        if path is not None:
            result[key] = str(path)
    if svg is not None:
        write_whole(svg, draw_svg(built))
    if out is not None:
        write_machine(built, out)
    show(result, json, _lines(built, algebra, result))


def _lines(built: Machine, algebra: Algebra, result: dict[str, Any]) -> list[tuple[str, str]]:
    def word(fact: bool | None) -> str:
        return "undecided within bounds" if fact is None else ("yes" if fact else "no")

    size = "past the bound" if algebra.monoid is None else f"{algebra.monoid:,} maps"
    bound = "" if result["level_lowest"] else f", at least {result['level_at_least']}"
    hidden = "" if result["level_hidden"] is None else f", hidden size {result['level_hidden']}"
    shown = tuple(built.output_names[c] for c in sorted(set(built.outputs.tolist())))
    lines = [
        ("machine", shorten(built.name)),
        ("states", f"{built.states:,}, minimal {algebra.minimal_states:,}"),
        ("symbols", f"{built.symbols:,}: {_some(built.alphabet)}"),
        ("outputs", f"{result['outputs']:,}: {_some(shown)}"),
        ("monoid", size),
        ("group", word(algebra.group) + (", Abelian" if algebra.abelian else "")),
        ("commutative", word(algebra.commutative)),
        ("solvable", word(algebra.solvable)),
        ("aperiodic", word(algebra.aperiodic)),
        ("synchronising", word(algebra.synchronising)),
        ("level", f"{result['level']}{bound}{hidden} ({result['level_theorem']}: {result['level_reason']})"),
        ("robust", f"{word(result['robust'])}: {result['robust_reason']}{_witness(result['fragile_word'])}"),
    ]
    if built.states <= _ROWS and built.symbols <= _COLUMNS:
        lines += [("", ""), *_table(built)]
    lines += [(key, result[key]) for key in ("svg", "out") if key in result]
    return lines


def _judge(built: Machine) -> Robustness | None:
    try:
        return robustness(built)
    except TooLargeError:
        return None


def _witness(word: list[str] | None) -> str:
    return f", along powers of {shorten(' '.join(word))}" if word else ""


def _table(built: Machine) -> list[tuple[str, str]]:
    names = [_short(name) for name in built.state_names]
    symbols = [_short(symbol) for symbol in built.alphabet]
    width = max(map(len, names + symbols))
    header = "  ".join(symbol.rjust(width) for symbol in symbols)
    rows = [("state", f"{header}   output")]
    for q, name in enumerate(names):
        cells = "  ".join(names[target].rjust(width) for target in built.delta[q])
        mark = "*" if q == built.start else " "
        rows.append((f"{name}{mark}", f"{cells}   {_short(built.output_names[built.outputs[q]])}"))
    return [*rows, ("", "* start")]


def _short(name: str) -> str:
    return shorten(name, 12)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(_short(name) for name in names[:8])
    return shown + (", …" if len(names) > 8 else "")
