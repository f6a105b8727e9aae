"""Tables as files: CSV for programs, LaTeX for papers."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from statewise.files import write_whole
from statewise.wording import defused, visible

_ESCAPES = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        "−": "$-$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        '"': "''",
    }
)


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows of plain values with the same columns; None is an empty field, and no rows are an empty file."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(defused, rows))
    write_whole(file, text.getvalue())
    return file


def write_latex(file: Path, table: Sequence[Sequence[str]], caption: str) -> None:
    """Write a table of texts, its head first, for the package booktabs; a task is named once."""
    head, *rows = table
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}"]
    lines += [rf"\begin{{tabular}}{{ll{'r' * (len(head) - 3)}l}}", r"\toprule", latex_line(head), r"\midrule"]
    before = None
    for row in rows:
        if before not in (None, row[0]):
            lines.append(r"\addlinespace")
        lines.append(latex_line(["" if row[0] == before else row[0], *row[1:]]))
        before = row[0]
    write_whole(file, "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]))


def latex_line(values: Sequence[str]) -> str:
    """Return a row of texts for a LaTeX table."""
    return written_line(map(latex_text, values))


def written_line(cells: Iterable[str]) -> str:
    """Return a row of cells that are LaTeX already."""
    return " & ".join(cells) + r" \\"


def latex_text(text: str) -> str:
    """Return a text for LaTeX, with the letters escaped that mean something there."""
    return visible(text).translate(_ESCAPES)
