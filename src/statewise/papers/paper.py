"""A paper as a file of data: its numbers, its protocol, and the grids of runs that repeat it."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field

from statewise.errors import unknown_name
from statewise.models.table import kind_of, label_of
from statewise.papers.contents import Block, Citation, Grid, OptionValue, Preset, ProtocolItem, PublishedRow, Recipe
from statewise.training.options import RunOptions, resolve

PRESETS = ("quick", "paper")


@dataclass(frozen=True)
class Published:
    """A published score, and where in the paper it stands."""

    score: float
    where: str


@dataclass(frozen=True)
class PlannedCell:
    """The runs of one cell of a table.

    Args:
        column: its m, or whatever the table's columns are.
        runs: their options, one for each rate and seed.
    """

    column: int
    runs: tuple[RunOptions, ...]


@dataclass(frozen=True)
class PlannedRow:
    """One model under one recipe, with the runs of each column."""

    label: str
    model: str
    recipe: Recipe
    cells: tuple[PlannedCell, ...]


class Paper(BaseModel):
    """What a file of this directory holds.

    Args:
        length: at which published scores were measured.
        tolerance: how close scores are that are called equal.
        citation: where the paper is to be found.
        protocol: how its models were trained and tested.
        published_rows: its numbers.
        claims: what it claims besides numbers.
        grids: the tables and figures that take runs.
        facts: the titles of what is computed.
        presets: budgets for the grids.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    length: int
    tolerance: float
    citation: Citation
    protocol: Mapping[str, ProtocolItem]
    published_rows: tuple[PublishedRow, ...] = Field(alias="published")
    claims: Mapping[str, str]
    grids: Mapping[str, Grid]
    facts: Mapping[str, str]
    presets: Mapping[str, Preset]

    def names(self) -> list[str]:
        """Return what can be repeated: tables and figures that are trained for, and facts that are computed."""
        return [*self.grids, *self.facts]

    def title(self, name: str) -> str:
        """Return the title of something that can be repeated."""
        return self.grids[name].title if self.trained(name) else self.facts[name]

    def trained(self, name: str) -> bool:
        """Return whether it takes runs."""
        if name not in self.names():
            raise unknown_name("reproduction", name, self.names())
        return name in self.grids

    def columns(self, name: str, preset: str) -> tuple[int, ...]:
        """Return the columns of a table."""
        return self._grid(name, preset).columns_of(preset)

    def runs(self, name: str, preset: str) -> list[RunOptions]:
        """Return the options of all runs; there are none for what is computed."""
        if not self.trained(name):
            _check_preset(preset)
            return []
        return [run for row in self.plan(name, preset) for cell in row.cells for run in cell.runs]

    def plan(self, name: str, preset: str) -> list[PlannedRow]:
        """Return the rows of a table, with the runs of each cell."""
        grid = self._grid(name, preset)
        lists = self.presets[preset].models
        return [
            PlannedRow(
                label_of(model) + block.label,
                model,
                recipe,
                tuple(
                    PlannedCell(column, self._runs(name, preset, block, model, recipe, column))
                    for column in grid.columns_of(preset)
                ),
            )
            for block in grid.blocks
            for recipe in block.recipes
            for model in (lists[block.models] if isinstance(block.models, str) else block.models)
        ]

    def published(self, table: str, model: str, column: int) -> Published | None:
        """Return the published score of a cell; None where there is none."""
        return self._published.get((table, model, column))

    @cached_property
    def _published(self) -> dict[tuple[str, str, int], Published]:
        return {
            (row.table, model, column): Published(score, row.where)
            for row in self.published_rows
            for model in row.models
            for column, score in row.scores.items()
        }

    @property
    def hidden(self) -> int:
        """The hidden size of the paper's models."""
        return self._number("hidden")

    @property
    def steps(self) -> int:
        """The number of steps for which the paper trains."""
        return self._number("steps")

    def _number(self, item: str) -> int:
        value = self.protocol[item].value
        assert isinstance(value, int)
        return value

    def _grid(self, name: str, preset: str) -> Grid:
        _check_preset(preset)
        if name not in self.grids:
            raise unknown_name("reproduction with runs", name, self.grids)
        return self.grids[name]

    def _runs(
        self, name: str, preset: str, block: Block, model: str, recipe: Recipe, column: int
    ) -> tuple[RunOptions, ...]:
        grid, kind = self.grids[name], kind_of(model)
        assert kind is not None
        given: dict[str, OptionValue | None] = dict(self.presets[preset].options)
        rates: tuple[float | None, ...] = (None,)
        seeds: tuple[int, ...] = (0,)
        for rule in self.presets[preset].rules:
            if rule.fits(name, model, kind.name, recipe, column):
                given |= rule.options
                rates, seeds = rule.rates or rates, rule.seeds or seeds
        given |= block.options
        if grid.option is not None:
            given[grid.option] = column
            # a fixed set of sequences has one distribution of lengths
            given.pop("late", None)
        given |= {"model": model, "recipe": "stated" if recipe == "baseline" else recipe}
        task, first = block.task or grid.task, grid.first_seeds.get(column, 0)
        return tuple(
            resolve(given | {"task": task.format(m=column, seed=seed), "lr": rate, "seed": seed})
            for rate in rates
            for seed in (first + seed for seed in seeds)
        )


def read_paper(name: str = "ebrahimi2025") -> Paper:
    """Read a paper's file of data."""
    files = {file.name.removesuffix(".toml"): file for file in resources.files("statewise.papers").iterdir()}
    known = [stem for stem, file in files.items() if file.name.endswith(".toml")]
    if name not in known:
        raise unknown_name("paper", name, known)
    # in JSON, unlike TOML, lists may stand for tuples and texts for the numbers that keys are
    return Paper.model_validate_json(json.dumps(tomllib.loads(files[name].read_text(encoding="utf-8"))))


def _check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
