"""Drawings of machines, laid out by graphviz's `dot` program."""

import html
import shutil
import subprocess

from statewise.errors import TooLargeError, ToolMissingError
from statewise.machines.machine import Machine

MAX_EDGES = 300
_LONGEST_LABEL = 40
# a layout of so few edges takes seconds: only a program that hangs reaches this
_SECONDS = 600


def to_drawing(machine: Machine) -> str:
    """Return a machine as DOT for drawing: one edge per pair of states, with its symbols listed."""
    edges: dict[tuple[int, int], list[str]] = {}
    for q, row in enumerate(machine.delta.tolist()):
        for symbol, target in zip(machine.alphabet, row, strict=True):
            edges.setdefault((q, target), []).append(symbol)
    if len(edges) > MAX_EDGES:
        raise TooLargeError(
            f"the drawing would have {len(edges):,} edges; at most {MAX_EDGES} stay readable; "
            "draw a smaller machine, or one with generators=standard"
        )
    own_output = all(machine.output_names[c] == machine.state_names[q] for q, c in enumerate(machine.outputs))
    yes_no = machine.output_names == ("0", "1") and not own_output
    lines = [
        "digraph {",
        'bgcolor="transparent"; rankdir=LR; nodesep=0.35; ranksep=0.55; pad=0.2;',
        'node [fontname="Helvetica", fontsize=12, shape=circle, style=filled, fillcolor="#eef3f8", color="#33506b"];',
        'edge [fontname="Helvetica", fontsize=11, color="#5b6f82", fontcolor="#1f2d3a", arrowsize=0.7];',
        'start [shape=point, width=0.1, color="#33506b", fillcolor="#33506b"];',
        f"start -> {machine.start};",
    ]
    for q, name in enumerate(machine.state_names):
        shape = "doublecircle" if yes_no and machine.outputs[q] == 1 else "circle"
        output = machine.output_names[machine.outputs[q]]
        label = _text(name) if own_output or yes_no else f"{_text(name)}<br/><b>{_text(output)}</b>"
        shape = "box" if len(name) > 8 or len(output) > 8 else shape
        rounded = ', style="filled,rounded"' if shape == "box" else ""
        peripheries = ", peripheries=2" if shape == "box" and yes_no and machine.outputs[q] == 1 else ""
        lines.append(f"{q} [label=<{label}>, shape={shape}{rounded}{peripheries}];")
    for (q, target), symbols in edges.items():
        lines.append(f"{q} -> {target} [label=<{_symbol_list(symbols)}>];")
    return "\n".join([*lines, "}"]) + "\n"


def _symbol_list(symbols: list[str]) -> str:
    shown, length = [], 0
    for symbol in symbols:
        length += min(len(symbol), _LONGEST_LABEL) + 2
        if shown and length > _LONGEST_LABEL:
            return _text(", ".join(shown)) + f", … ({len(symbols)})"
        shown.append(symbol)
    return _text(", ".join(shown))


def _text(text: str) -> str:
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    printable = "".join(character if character.isprintable() else "?" for character in short)
    return html.escape(printable) or " "


def draw_svg(machine: Machine) -> str:
    """Draw a machine as SVG; needs the graphviz program `dot`."""
    program = shutil.which("dot")
    if program is None:
        raise ToolMissingError(
            'the graphviz program "dot" is not installed; install the package graphviz to draw machines'
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=to_drawing(machine),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TooLargeError(f"graphviz took over {_SECONDS} s to lay this machine out; draw a smaller one") from None
    if done.returncode:
        raise ToolMissingError(f"graphviz failed: {done.stderr.strip().splitlines()[0]}; check its installation")
    return done.stdout
