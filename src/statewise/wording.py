"""How results and numbers are written: aligned lines for a reader, plain values for a program."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

Lines = list[tuple[str, str]]


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


def aligned(lines: Lines) -> str:
    """Write pairs of a name and a value below each other."""
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in lines)


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
