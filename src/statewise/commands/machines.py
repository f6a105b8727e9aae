"""`statewise machines`: the names that stand for machines."""

import inspect
from dataclasses import dataclass
from typing import Any

from statewise.machines import FAMILIES
from statewise.wording import Lines, Result, columns


@dataclass(frozen=True)
class Family:
    """A name of the catalogue of machines.

    Args:
        name: what an expression begins with.
        arguments: its arguments, with their defaults.
        summary: the first sentence of its documentation.
    """

    name: str
    arguments: str
    summary: str

    @property
    def written(self) -> str:
        """The name and its arguments, as an expression has them."""
        return f"{self.name}{self.arguments}" if self.arguments else self.name


@dataclass(frozen=True)
class MachineList(Result):
    """All names of the catalogue of machines."""

    families: tuple[Family, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the names, their arguments and what they are."""
        shown = [{"name": f.name, "arguments": f.arguments, "summary": f.summary} for f in self.families]
        return {"machines": shown}

    def lines(self) -> Lines:
        """Return a line for each name, then what else names a machine."""
        rows = columns([[family.written, family.summary] for family in self.families])
        others = (
            "A * between two machines is their direct product; a path to a .json, .dot or .gv file is a machine too. "
            "statewise machine NAME shows one."
        )
        return [("", line) for line in (*rows, "", others)]


def machines() -> MachineList:
    """List the machines that have a name, with their arguments."""
    return MachineList(tuple(_family(name, FAMILIES[name]) for name in FAMILIES))


def _family(name: str, function: Any) -> Family:
    parameters = inspect.signature(function).parameters.values()
    shown = [p.name if p.default is p.empty else f"{p.name}={_literal(p.default)}" for p in parameters]
    # a docstring is an order to a function; a list says what there is
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ").removeprefix("Return ")
    return Family(name, f"({', '.join(shown)})" if shown else "", summary)


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
