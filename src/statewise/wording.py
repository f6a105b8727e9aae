"""How results and numbers are written: aligned lines for a reader, plain values for a program."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

Lines = list[tuple[str, str]]
# all control characters but tabs and ends of lines, and those that turn the direction of writing
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
# what a spreadsheet takes for a formula
_FORMULA = re.compile(r"[=+\-@\t\r]")


class Result(ABC):
    """What a command returns: it prints as the command's table, and `to_dict()` is the command's `--json`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, as JSON has them."""

    @abstractmethod
    def lines(self) -> Lines:
        """Return the result for a reader, as pairs of a name and a value."""

    @property
    def failed(self) -> bool:
        """Whether the command ends with exit code 1."""
        return False

    def __str__(self) -> str:
        """Write the lines, aligned."""
        return aligned(self.lines())


def visible(text: str) -> str:
    r"""Write control characters as escapes of JSON, such as \\u001b, so that a terminal or a page shows them.

    Names of machines, symbols and models come from files of others, and a terminal obeys what it is sent.
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def defused(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a CSV file in which no text is taken for a formula: an apostrophe stands before it."""
    return {name: _defuse(value) if isinstance(value, str) else value for name, value in row.items()}


def _defuse(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def aligned(lines: Lines) -> str:
    """Write pairs of a name and a value below each other."""
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(visible(f"{name.ljust(width)}  {value}".rstrip()) for name, value in lines)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Write rows of texts as lines with aligned columns."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def counted(number: int, what: str) -> str:
    """Write a number of things, in the singular where it is one."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def fixed(value: int | float, digits: int = 2) -> str:
    """Write a number with so many digits after the point; what rounds to 0 has no sign."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.lstrip("-")


def duration(seconds: float) -> str:
    """Write a time in the units that a reader would choose."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 72:
        return f"{hours / 24:,.0f} days"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
