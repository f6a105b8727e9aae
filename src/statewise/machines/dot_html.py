"""HTML-like texts of DOT, <...>, as the plain labels that they show.

A text has rows (<tr>, or all of it) of cells (<td>) of lines (<br/>). What tools write for machines:

    edge    <a | b<br/>x>                   the inputs a and b, each with the output x
            lines or rows "a / x"           one transition for each
    node    <q<br/>x>, or cells q and x     the state q with the output x
"""

import re
from html.parser import HTMLParser

from statewise.errors import MachineFileError, shorten

_BLANKS = re.compile(r"\s+")
_BRACKETS = re.compile(r"<!--.*?-->|[<>]", re.DOTALL)


class HtmlText(str):
    """The inside of an HTML-like text, not yet read."""

    __slots__ = ()


def html_end(text: str, start: int) -> int:
    """Return the place after the > that closes the < at a place; angle brackets nest."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        depth += {"<": 1, ">": -1}.get(match.group(), 0)
        if depth == 0:
            return match.end()
    raise MachineFileError(f"not DOT: {shorten(text[start : start + 20])!r} is never closed by >; close it")


def node_label(label: str | None) -> dict[str, str]:
    """Return the label of a node where it is HTML: cells and lines are its fields, "state|output"."""
    if not isinstance(label, HtmlText):
        return {}
    fields = [line for row in _rows(label) for cell in row for line in cell]
    return {"label": "|".join(fields)}


def edge_labels(label: str | None) -> list[dict[str, str]]:
    """Return the labels of an edge, one for each transition that it stands for; [{}] where it is not HTML."""
    if not isinstance(label, HtmlText):
        return [{}]
    made = []
    for row in _rows(label):
        first, *others = lines = [line for cell in row for line in cell]
        if len(row) > 1 or not others:
            made.append(" ".join(lines))
        elif "/" in first:
            made += lines
        else:
            inputs = [name for name in re.split(r"\s*\\\|\s*", first) if name]
            made += [f"{name}/{' '.join(others)}" for name in inputs]
    return [{"label": one} for one in made]


def _rows(text: str) -> list[list[list[str]]]:
    """Return rows of cells of lines, blank lines left out, with backslashes as in the labels of a record."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    rows = []
    for row in reader.rows:
        cells = [
            [_escape(line) for line in (_BLANKS.sub(" ", "".join(part)).strip() for part in cell) if line]
            for cell in row
        ]
        cells = [cell for cell in cells if cell]
        if cells:
            rows.append(cells)
    return rows or [[[""]]]


def _escape(text: str) -> str:
    return re.sub(r"([\\|{}<>])", r"\\\1", text)


class _Reader(HTMLParser):
    """Collects the text of rows, cells and lines; other tags (fonts, images) show nothing of a machine."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        # rows of cells of lines, each in the parts that come one by one
        self.rows: list[list[list[list[str]]]] = [[[[]]]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row, a cell or a line."""
        if tag == "tr":
            self.rows.append([[[]]])
        elif tag == "td":
            self.rows[-1].append([[]])
        elif tag == "br":
            self.rows[-1][-1].append([])

    def handle_endtag(self, tag: str) -> None:
        """End a table: what follows is a row of its own."""
        if tag == "table":
            self.rows.append([[[]]])

    def handle_data(self, data: str) -> None:
        """Add text to the line."""
        self.rows[-1][-1][-1].append(data)
