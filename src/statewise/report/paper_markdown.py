"""Tables of a paper as Markdown: every reading beside the published numbers."""

import re
from collections.abc import Iterable, Sequence

from statewise.models.table import kind_of
from statewise.papers import Cell, Line, Table, headings_of, lines_of
from statewise.papers.lines import NOTHING, length_text
from statewise.wording import fixed

# what README shows: a table, its title, and the kinds of models in it
README_ROWS = (
    (
        "table-addition",
        "modular addition",
        ("full", "cp", "block(2)", "rotation", "lstm", "mamba", "transformer"),
    ),
    ("table-machine", "random machine", ("full", "cp", "lstm")),
    ("table-arithmetic", "modular arithmetic", ("full", "lstm")),
)
README_COLUMNS = (5, 25)
# headings of README, by what they show
_README = {
    "paper": "paper",
    "stated": "its protocol, to the letter",
    "normalised": "state normalised in training",
    "squared": "squared error",
    "statewise": "ours, at 500",
    "polished": "ours polished, at 10,000",
    "proven": "proven length",
}
_BETWEEN = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(part.replace("|", "\\|") for part in line) + " |" for line in lines)


def folded(title: str, text: str) -> str:
    """Return a part that opens when its title is chosen."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def lines_markdown(table: Table, lines: Sequence[Line]) -> str:
    """Write lines of a table, with the mark of its verdict beside each score that it is on."""
    headings = headings_of(table)
    rows = [
        # the space before a mark does not break
        [_column(line.column), *(f"{line.text(h)}\u00a0{line.mark(h)}".strip() for h in headings)]
        for line in lines
        if line.has_run
    ]
    return markdown([table.column, *(heading.title for heading in headings)], rows)


def lines_by_model(table: Table) -> dict[str, list[Line]]:
    """Return the lines of every model that was run."""
    found: dict[str, list[Line]] = {}
    for line in lines_of(table):
        found.setdefault(line.label, []).append(line)
    return {label: lines for label, lines in found.items() if any(line.has_run for line in lines)}


def readme_table(tables: Iterable[Table]) -> str:
    """Write the table of README: a row for each model, two values of m in each cell; empty where nothing was run."""
    by_name = {table.name: table for table in tables}
    rows: list[list[str]] = []
    ran = False
    for name, task, models in README_ROWS:
        if name not in by_name:
            continue
        lines = [line for line in lines_of(by_name[name]) if line.column in README_COLUMNS]
        for model in models:
            pair = [_of_kind(lines, model, column) for column in README_COLUMNS]
            ran = ran or any(line is not None and line.has_run for line in pair)
            # ranks and depths differ between columns
            label = next((re.sub(", (rank|layers).*", "", line.label) for line in pair if line is not None), model)
            known = [_published(by_name[name], pair, column) for column in README_COLUMNS]
            numbers = [" / ".join(_number(line, what) for line in pair) for what in _README if what != "paper"]
            rows.append([task, label, " / ".join(map(_score, known)), *numbers])
    both = " / ".join(map(str, README_COLUMNS))
    header = ["task", "model", *_README.values()]
    return f"{markdown(header, rows)}\n\nEach cell has m = {both}." if ran else ""


def insert_table(text: str, table: str) -> str:
    """Return a text with the table between its marks `<!-- table -->` and `<!-- end -->`; as it is without them."""
    return _BETWEEN.sub(lambda found: f"{found[1]}{table}\n{found[2]}", text) if table else text


def _of_kind(lines: Iterable[Line], model: str, column: int) -> Line | None:
    """Return the line of a model; of several ranks or depths, the last that was planned for permutations."""
    found = [line for line in lines if line.column == column and _fits(line, model)]
    return found[-1] if found else None


def _fits(line: Line, model: str) -> bool:
    kind = kind_of(line.model)
    # a label with an addition is of another task, such as maps
    return (line.model == model or (kind is not None and kind.name == model)) and not line.label.endswith("maps")


def _published(table: Table, lines: Iterable[Line | None], column: int) -> float | None:
    """Return the paper's score of a model, which may not have been run in this column."""
    found = (table.published.get((line.model, column)) for line in lines if line is not None)
    return next((score for score in found if score is not None), None)


def _column(column: int | str) -> str:
    return f"{column:,}" if isinstance(column, int) else column


def _number(line: Line | None, what: str) -> str:
    if line is None:
        return NOTHING
    if what in line.cells:
        return _score(line.cells[what].best)
    ours = line.cells.get("statewise")
    if ours is None or what not in ("polished", "proven"):
        return NOTHING
    return _score(ours.score_polished) if what == "polished" else _proven(ours)


def _score(value: float | None) -> str:
    return NOTHING if value is None else fixed(value)


def _proven(cell: Cell) -> str:
    """Write the least proven length; where not all seeds are proven, how many are."""
    if cell.horizon is None:
        return NOTHING
    every = len(cell.proven) == len(cell.polished)
    return length_text(cell.horizon) + ("" if every else f" ({len(cell.proven)} of {len(cell.polished)} seeds)")
