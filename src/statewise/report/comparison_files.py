"""A table of models and tasks as files: CSV for programs, LaTeX for papers."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from statewise.files import write_whole

_ESCAPES = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "<": r"$<$",
        ">": r"$>$",
        '"': "''",
    }
)


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with the same columns; None is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(file, text.getvalue())


def write_latex(file: Path, table: Sequence[Sequence[str]], caption: str) -> None:
    """Write a table of texts, its head first, for the package booktabs; a task is named once."""
    head, *rows = table
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_escape(caption)}}}"]
    lines += [rf"\begin{{tabular}}{{ll{'r' * (len(head) - 3)}l}}", r"\toprule", _line(head), r"\midrule"]
    before = None
    for row in rows:
        if before not in (None, row[0]):
            lines.append(r"\addlinespace")
        lines.append(_line(["" if row[0] == before else row[0], *row[1:]]))
        before = row[0]
    write_whole(file, "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]))


def _line(values: Sequence[str]) -> str:
    return " & ".join(map(_escape, values)) + r" \\"


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
