"""A table as lines: one model in one column, with the paper's score, every reading, and what the algebra allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from statewise.papers.comparison import Cell, Table
from statewise.papers.contents import Column
from statewise.papers.verdicts import MARKS
from statewise.wording import fixed

Number = float | int | None
# what is unknown, was not run, or does not apply
NOTHING = "–"
_BESIDE = {"paper": "the paper", "constant": "constant answer", "ceiling": "ceiling of algebra"}
_SHORT_BESIDE = {"paper": "paper", "constant": "constant", "ceiling": "ceiling"}
_OF_A_CELL: dict[str, Callable[[Cell], Number]] = {
    "training": attrgetter("score_id"),
    "test": attrgetter("best"),
    "longest": attrgetter("score_longest"),
    "polished": attrgetter("score_polished"),
    "proven": attrgetter("horizon"),
}


@dataclass(frozen=True)
class Heading:
    """A column of lines.

    Args:
        title: for a reader.
        short: the same in a word or two.
        key: its name in files.
        shown: what of a reading's cell it shows; of what stands beside the readings, its name.
        reading: whose cell that is; empty beside the readings.
    """

    title: str
    short: str
    key: str
    shown: str
    reading: str = ""


@dataclass(frozen=True)
class Line:
    """One model in one column, under every reading.

    Args:
        label: of the model.
        model: its spec.
        column: of the table.
        cells: by reading.
    """

    label: str
    model: str
    column: Column
    cells: Mapping[str, Cell]

    @property
    def published(self) -> float | None:
        """The paper's score."""
        return next((cell.published for cell in self.cells.values() if cell.published is not None), None)

    @property
    def ceiling(self) -> float | None:
        """The highest of the readings' ceilings, which differ where their widths do."""
        return max((cell.ceiling for cell in self.cells.values() if cell.ceiling is not None), default=None)

    @property
    def constant(self) -> float | None:
        """The score of the best constant answer; None where nothing was run."""
        return max((cell.guess for cell in self.cells.values() if cell.scores), default=None)

    @property
    def has_run(self) -> bool:
        """Whether any reading has a score, or a note on why it has none."""
        return any(cell.best is not None or cell.note for cell in self.cells.values())

    def value(self, heading: Heading) -> Number:
        """Return the number under a heading."""
        if not heading.reading:
            return {"paper": self.published, "constant": self.constant, "ceiling": self.ceiling}[heading.shown]
        cell = self.cells.get(heading.reading)
        return None if cell is None else _OF_A_CELL[heading.shown](cell)

    def text(self, heading: Heading) -> str:
        """Write the number under a heading; a proven length with how many of the seeds are proven."""
        value = self.value(heading)
        if heading.shown != "proven":
            return NOTHING if value is None else fixed(value)
        cell = self.cells.get(heading.reading)
        if cell is None or not cell.polished:
            return NOTHING
        least = NOTHING if value is None else length_text(int(value))
        return f"{least} ({len(cell.proven)}/{len(cell.polished)})"

    def mark(self, heading: Heading) -> str:
        """Return the mark of the verdict on a score; empty beside other numbers."""
        cell = self.cells.get(heading.reading) if heading.shown == "test" else None
        return "" if cell is None else MARKS.get(cell.verdict, "")


def headings_of(table: Table) -> list[Heading]:
    """Return the columns of a table's lines: the paper, the readings, then the constant answer and the ceiling."""
    words = {
        "training": "training lengths",
        "test": table.score.short,
        "longest": f"{table.longest:,}",
        "polished": f"polished {table.longest:,}",
        "proven": "proven length",
    }
    short = words | {"training": "training", "polished": "polished", "proven": "proven"}
    found = []
    for name, reading in table.readings.items():
        # a single number is that at the paper's length
        several = len(reading.shows) > 1
        for shown in reading.shows:
            title = f"{reading.title}, {words[shown]}" if several else reading.title
            brief = f"{reading.short} {short[shown]}" if several else reading.short
            found.append(Heading(title, brief, f"{name}_{shown}", shown, name))
    beside = [Heading(_BESIDE[name], _SHORT_BESIDE[name], name, name) for name in table.beside]
    return [*(h for h in beside if h.shown == "paper"), *found, *(h for h in beside if h.shown != "paper")]


def lines_of(table: Table) -> list[Line]:
    """Return the lines of a table: models in their order, each in its columns."""
    cells: dict[tuple[str, str], dict[Column, dict[str, Cell]]] = {}
    for row in table.rows:
        of_model = cells.setdefault((row.label, row.model), {})
        for cell in row.cells:
            of_model.setdefault(cell.column, {})[row.reading] = cell
    return [
        Line(label, model, column, of_model[column])
        for (label, model), of_model in cells.items()
        for column in table.columns
        if column in of_model
    ]


def column_text(table: Table, column: Column) -> str:
    """Write a column for a reader: "m = 5", or the name of its task."""
    return f"{table.column} = {column:,}" if isinstance(column, int) else column


def length_text(length: int) -> str:
    """Write a length: short ones whole, long ones as a power of ten."""
    return f"{length:,}" if length < 1_000_000 else f"{length:.1e}".replace("e+", "e")
