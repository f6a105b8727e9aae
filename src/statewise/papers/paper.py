"""A paper as a file of data: its numbers, its protocol, and the grids of runs that repeat it."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from statewise.errors import unknown_name
from statewise.expressions import Call, parse
from statewise.training.options import resolve

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class PlannedCell:
    """The runs of one cell of a table.

    Args:
        column: its m, or whatever the table's columns are.
        configs: resolved, one per rate and seed.
    """

    column: int
    configs: list[dict[str, Any]]


@dataclass(frozen=True)
class PlannedRow:
    """One model under one recipe, with what it is to run in each column."""

    label: str
    model: str
    recipe: str
    cells: list[PlannedCell]


@dataclass(frozen=True)
class Paper:
    """What a file of `papers` says.

    Args:
        name: of the file.
        data: its content.
    """

    name: str
    data: dict[str, Any]

    def names(self) -> list[str]:
        """Gives what can be repeated: tables and figures that are trained for, and facts that are computed."""
        return [*self.data["grids"], *self.data["facts"]]

    def title(self, name: str) -> str:
        """Gives the title of something that can be repeated."""
        self._check_name(name)
        return self.data["facts"].get(name) or self.data["grids"][name]["title"]

    def trained(self, name: str) -> bool:
        """Whether it takes runs."""
        self._check_name(name)
        return name in self.data["grids"]

    def columns(self, name: str, preset: str) -> list[int]:
        """Gives the columns of a table."""
        columns = self._grid(name, preset)["columns"]
        return columns[preset] if isinstance(columns, dict) else columns

    def runs(self, name: str, preset: str) -> list[dict[str, Any]]:
        """Gives the resolved configs of all runs; there are none for what is computed."""
        if not self.trained(name):
            _check_preset(preset)
            return []
        return [config for row in self.plan(name, preset) for cell in row.cells for config in cell.configs]

    def plan(self, name: str, preset: str) -> list[PlannedRow]:
        """Gives the rows of a table, with the runs of each cell."""
        grid = self._grid(name, preset)
        columns = self.columns(name, preset)
        return [
            PlannedRow(
                self._label(model) + block.get("label", ""),
                model,
                recipe,
                [PlannedCell(column, self._configs(name, preset, block, model, recipe, column)) for column in columns],
            )
            for block in grid["blocks"]
            for recipe in block["recipes"]
            for model in self._models(block["models"], preset)
        ]

    def published(self, table: str, model: str, column: int) -> tuple[float, str] | None:
        """Gives the published score of a cell and where it stands; None where there is none."""
        return self._published.get((table, model, column))

    @cached_property
    def _published(self) -> dict[tuple[str, str, int], tuple[float, str]]:
        return {
            (row["table"], model, int(column)): (float(score), row["where"])
            for row in self.data["published"]
            for model in row["models"]
            for column, score in row["scores"].items()
        }

    def protocol(self, item: str) -> Any:
        """Gives the value of an item of the protocol."""
        return self.data["protocol"][item]["value"]

    def _check_name(self, name: str) -> None:
        if name not in self.names():
            raise unknown_name("reproduction", name, self.names())

    def _grid(self, name: str, preset: str) -> dict[str, Any]:
        _check_preset(preset)
        if name not in self.data["grids"]:
            raise unknown_name("reproduction with runs", name, self.data["grids"])
        return self.data["grids"][name]

    def _models(self, models: str | list[str], preset: str) -> list[str]:
        return self.data["presets"][preset][models] if isinstance(models, str) else models

    def _label(self, model: str) -> str:
        name, argument = _parts(model)
        return self.data["labels"][name].format(argument)

    def _configs(
        self, name: str, preset: str, block: dict[str, Any], model: str, recipe: str, column: int
    ) -> list[dict[str, Any]]:
        grid, options = self.data["grids"][name], self.data["presets"][preset]
        given = dict(options["set"])
        rates, seeds = [None], [0]
        for rule in self._rules(name, preset, model, recipe, column):
            given |= rule.get("set", {})
            rates, seeds = rule.get("rates", rates), rule.get("seeds", seeds)
        given |= block.get("set", {})
        if "option" in grid:
            given[grid["option"]] = column
            # a fixed set of words has one distribution of lengths
            given.pop("late", None)
        given |= {"model": model, "recipe": "stated" if recipe == "baseline" else recipe}
        task = block.get("task", grid["task"])
        first = grid.get("first_seeds", {}).get(str(column), 0)
        return [
            resolve(None, given | {"task": task.format(m=column, seed=seed), "lr": rate, "seed": seed}).model_dump(
                mode="json"
            )
            for rate in rates
            for seed in (first + seed for seed in seeds)
        ]

    def _rules(self, name: str, preset: str, model: str, recipe: str, column: int) -> Iterator[dict[str, Any]]:
        """Gives the rules that a run fits; a rule that says nothing of something fits all of it."""
        short = _parts(model)[0]
        for rule in self.data["presets"][preset]["rules"]:
            fits = (
                recipe in rule.get("recipes", [recipe]),
                {model, short} & set(rule.get("models", [model])),
                column in rule.get("columns", [column]),
                name in rule.get("grids", [name]),
            )
            if all(fits):
                yield rule


def read_paper(name: str = "ebrahimi2025") -> Paper:
    """Reads a paper's file of data."""
    files = {file.name.removesuffix(".toml"): file for file in resources.files("statewise.papers").iterdir()}
    known = [stem for stem, file in files.items() if file.name.endswith(".toml")]
    if name not in known:
        raise unknown_name("paper", name, known)
    return Paper(name, tomllib.loads(files[name].read_text(encoding="utf-8")))


def _check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)


def _parts(model: str) -> tuple[str, str]:
    """Splits a model into its name and its argument."""
    parsed = parse(model)
    assert isinstance(parsed, Call)
    return parsed.name, str(parsed.args[0]) if parsed.args else ""
