"""A paper as a file of data: its numbers, its protocol, and the grids of runs that repeat it."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, model_validator

from statewise.errors import UnknownNameError, shorten, unknown_name
from statewise.models.table import kind_of, label_of
from statewise.papers.contents import (
    Block,
    ByColumn,
    Citation,
    Column,
    Contrast,
    Grid,
    OptionValue,
    Preset,
    ProtocolItem,
    PublishedRow,
    Reading,
)
from statewise.papers.scores import OverSeeds, ScoreRule
from statewise.training.options import RunOptions, resolve

PRESETS = ("quick", "paper")
# the paper that the project is about
FIRST = "ebrahimi2025"


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

    column: Column
    runs: tuple[RunOptions, ...]


@dataclass(frozen=True)
class PlannedRow:
    """One model under one reading, with the runs of each column that the row has."""

    label: str
    model: str
    reading: str
    cells: tuple[PlannedCell, ...]


class Paper(BaseModel):
    """What a file of this directory holds.

    Args:
        score: of which lengths published scores are.
        over_seeds: how the scores of several seeds become the one that is published.
        random: where published numbers are accuracies in percent, those of random guesses, by column; they are scores
            of 0.
        tolerance: how close scores are that are called equal.
        citation: where the paper is to be found.
        protocol: how its models were trained and tested.
        published_rows: its numbers.
        claims: what it claims besides numbers.
        contrasts: what it reports of two models, to be tested on equal terms.
        readings: how its training can be read, and ours.
        grids: the tables and figures that take runs.
        facts: the titles of what is computed.
        presets: budgets for the grids.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    score: ScoreRule
    over_seeds: OverSeeds = "median"
    random: ByColumn = Field(default_factory=dict)
    tolerance: float
    citation: Citation
    protocol: Mapping[str, ProtocolItem]
    published_rows: tuple[PublishedRow, ...] = Field(alias="published")
    claims: Mapping[str, str] = Field(default_factory=dict)
    contrasts: tuple[Contrast, ...] = ()
    readings: Mapping[str, Reading]
    grids: Mapping[str, Grid]
    facts: Mapping[str, str] = Field(default_factory=dict)
    presets: Mapping[str, Preset]

    @model_validator(mode="after")
    def _check_names(self) -> "Paper":
        for grid in self.grids.values():
            for block in grid.blocks:
                _check_known("reading", block.readings, self.readings)
                for name, preset in self.presets.items():
                    if isinstance(block.models, str):
                        _check_known("list of models", (block.models,), preset.models)
                    _check_known("column", grid.columns_of(name, block), grid.columns_of(name))
        for preset in self.presets.values():
            for rule in preset.rules:
                _check_known("reading", rule.readings or (), self.readings)
                _check_known("grid", rule.grids or (), self.grids)
        return self

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

    def columns(self, name: str, preset: str) -> tuple[Column, ...]:
        """Return the columns of a table."""
        return self._grid(name, preset).columns_of(preset)

    def runs(self, name: str, preset: str, slow: bool = True) -> list[RunOptions]:
        """Return the options of all runs, or of all that are not slow; there are none for what is computed."""
        if not self.trained(name):
            _check_preset(preset)
            return []
        rows = [row for row in self.plan(name, preset) if slow or not self._is_slow(row.model, preset)]
        return [run for row in rows for cell in row.cells for run in cell.runs]

    def plan(self, name: str, preset: str) -> list[PlannedRow]:
        """Return the rows of a table, with the runs of each cell."""
        grid = self._grid(name, preset)
        lists = self.presets[preset].models
        return [
            PlannedRow(
                label_of(model) + block.label,
                model,
                reading,
                tuple(
                    PlannedCell(column, self._runs(name, preset, block, model, reading, column))
                    for column in grid.columns_of(preset, block)
                ),
            )
            for block in grid.blocks
            for model in (lists[block.models] if isinstance(block.models, str) else block.models)
            for reading in block.readings
        ]

    def published(self, table: str, model: str, column: Column) -> Published | None:
        """Return the published score of a cell; None where there is none."""
        return self._published.get((table, model, column))

    def published_scores(self, table: str) -> dict[tuple[str, Column], float]:
        """Return the published scores of a table, by model and column."""
        return {(model, column): known.score for (of, model, column), known in self._published.items() if of == table}

    def _is_slow(self, model: str, preset: str) -> bool:
        kind = kind_of(model)
        return kind is not None and kind.name in self.presets[preset].slow

    @cached_property
    def _published(self) -> dict[tuple[str, str, Column], Published]:
        return {
            (row.table, model, column): Published(self._scaled(column, score), row.where)
            for row in self.published_rows
            for model in row.models
            for column, score in row.scores.items()
        }

    def _scaled(self, column: Column, number: float) -> float:
        """Return a published number as a score: 0 is chance, 1 is perfect."""
        return (number - self.random[column]) / (100 - self.random[column]) if self.random else number

    @property
    def length(self) -> int:
        """The longest of the lengths of which scores are."""
        return self.score.longest

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
        self, name: str, preset: str, block: Block, model: str, reading: str, column: Column
    ) -> tuple[RunOptions, ...]:
        grid, kind, read = self.grids[name], kind_of(model), self.readings[reading]
        assert kind is not None
        given: dict[str, OptionValue | None] = {**self.presets[preset].options, **read.options}
        rates: tuple[float | None, ...] = (None,)
        seeds: tuple[int, ...] = (0,)
        for rule in self.presets[preset].rules:
            if rule.fits(name, model, kind.name, reading, column):
                given |= rule.sets
                rates, seeds = rule.rates or rates, rule.seeds or seeds
        given |= block.options
        if grid.option is not None:
            given[grid.option] = column
            # a fixed set of sequences has one distribution of lengths
            given.pop("late", None)
        given |= {"model": model, "recipe": read.recipe}
        task = grid.task_of(block, column)
        return tuple(
            resolve(given | {"task": task.replace("{seed}", str(seed)), "lr": rate, "seed": seed})
            for rate in rates
            for seed in seeds
        )


def read_paper(name: str = FIRST) -> Paper:
    """Read a paper's file of data."""
    if name not in paper_names():
        raise unknown_name("paper", name, paper_names())
    text = (resources.files("statewise.papers") / f"{name}.toml").read_text(encoding="utf-8")
    # in JSON, unlike TOML, lists may stand for tuples and texts for the numbers that keys are
    return Paper.model_validate_json(json.dumps(tomllib.loads(text)))


@cache
def paper_names() -> tuple[str, ...]:
    """Return the names of all papers, the one that the project is about first."""
    files = (file.name for file in resources.files("statewise.papers").iterdir())
    found = (name.removesuffix(".toml") for name in files if name.endswith(".toml"))
    return tuple(sorted(found, key=lambda name: (name != FIRST, name)))


def find_paper(name: str) -> Paper:
    """Return the paper of which a table, figure or fact is; an unknown name is refused with all of each paper."""
    papers = {paper: read_paper(paper) for paper in paper_names()}
    for paper in papers.values():
        if name in paper.names():
            return paper
    near = unknown_name("reproduction", name, [known for paper in papers.values() for known in paper.names()])
    if "did you mean" in str(near):
        raise near
    listed = "; ".join(f"of {title}: {', '.join(paper.names())}" for title, paper in papers.items())
    raise UnknownNameError(f'unknown reproduction "{shorten(name)}"; there are, {listed}')


def _check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)


def _check_known(what: str, names: Iterable[Column], known: Iterable[Column]) -> None:
    allowed = [str(name) for name in known]
    for name in map(str, names):
        if name not in allowed:
            raise unknown_name(what, name, allowed)
