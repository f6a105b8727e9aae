"""`statewise models`: the levels, baselines and rivals, by name."""

from dataclasses import dataclass
from typing import Any

from statewise.models.table import TABLE, Kind
from statewise.wording import Lines, Result, columns


@dataclass(frozen=True)
class ModelList(Result):
    """All names of models: levels of the hierarchy, from the highest to the lowest, then baselines and rivals."""

    kinds: tuple[Kind, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the names, and what each is."""
        shown = [
            {
                "name": kind.name,
                "example": kind.examples[-1],
                "label": _label(kind),
                "level": kind.is_level,
                "parameters": kind.parameters or None,
                "tracks": kind.tracks or None,
            }
            for kind in self.kinds
        ]
        return {"models": shown}

    def lines(self) -> Lines:
        """Return a table of the levels, and one of the others."""
        levels = [["level", "A(x)", "recurrent parameters", "tracks, of finite-state machines"]]
        levels += [[k.examples[-1], k.matrix, k.parameters, k.tracks] for k in self.kinds if k.is_level]
        others = [["baseline or rival", ""]]
        others += [[k.examples[-1], _label(k)] for k in self.kinds if not k.is_level]
        own = "A class of your own is path/to/file.py:Class or package.module:Class; statewise check-model tries it."
        return [("", line) for line in (*columns(levels), "", *columns(others), "", own)]


def models() -> ModelList:
    """List the models that have a name: levels of the hierarchy, baselines and rivals."""
    return ModelList(TABLE)


def _label(kind: Kind) -> str:
    """Return a kind's label without its argument."""
    return kind.label.split(", ")[0] if "{}" in kind.label else kind.label
