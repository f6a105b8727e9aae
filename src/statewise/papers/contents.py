"""What a paper's file holds, as typed values: citation, protocol, published scores, grids and presets."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Recipe = Literal["stated", "statewise", "baseline"]
# of an option of a run, as TOML has it
OptionValue = str | int | float | tuple[int, ...]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Citation(_Data):
    """Where a paper is to be found."""

    title: str
    authors: tuple[str, ...]
    venue: str
    arxiv: str


class ProtocolItem(_Data):
    """One item of how the paper's models were trained and tested.

    Args:
        value: a number, several, or a description.
        mark: whether the paper states it, it follows, a later paper of the same authors says it, or it is our choice.
        note: what else is known.
    """

    value: int | str | tuple[int | float, ...]
    mark: Literal["stated", "derived", "follow-up", "unknown"]
    note: str = ""


class PublishedRow(_Data):
    """A row of a published table, which stands for every one of its models; scores are by column."""

    table: str
    where: str
    models: tuple[str, ...]
    scores: Mapping[int, float]


class Block(_Data):
    """Rows of a grid: models under recipes.

    Args:
        recipes: each makes a row for each model.
        models: their specs, or the name of a list of the preset.
        label: what is added to the models' labels.
        task: where it is not the grid's.
        options: of every run.
    """

    recipes: tuple[Recipe, ...]
    models: str | tuple[str, ...]
    label: str = ""
    task: str | None = None
    options: Mapping[str, OptionValue] = Field(default_factory=dict, alias="set")


class Grid(_Data):
    """The runs behind a table or a figure.

    Args:
        title: for a reader.
        task: a machine; {m} stands for the column and {seed} for the run's seed.
        columns: of both presets, or of each.
        option: the option of a run that columns are values of, where they are not those of m.
        first_seeds: by column, from where seeds are counted.
        blocks: the rows.
    """

    title: str
    task: str
    columns: tuple[int, ...] | Mapping[str, tuple[int, ...]]
    blocks: tuple[Block, ...]
    option: str | None = None
    first_seeds: Mapping[int, int] = Field(default_factory=dict)

    def columns_of(self, preset: str) -> tuple[int, ...]:
        """Return the columns under a preset."""
        return self.columns[preset] if isinstance(self.columns, Mapping) else self.columns


class Rule(_Data):
    """What a preset sets for the runs that fit all that the rule names; what it does not name fits."""

    recipes: tuple[Recipe, ...] | None = None
    models: tuple[str, ...] | None = None
    columns: tuple[int, ...] | None = None
    grids: tuple[str, ...] | None = None
    rates: tuple[float, ...] | None = None
    seeds: tuple[int, ...] | None = None
    options: Mapping[str, OptionValue] = Field(default_factory=dict, alias="set")

    def fits(self, grid: str, model: str, kind: str, recipe: Recipe, column: int) -> bool:
        """Return whether a run fits; models are named with or without their arguments."""
        return (
            (self.recipes is None or recipe in self.recipes)
            and (self.models is None or model in self.models or kind in self.models)
            and (self.columns is None or column in self.columns)
            and (self.grids is None or grid in self.grids)
        )


class Preset(_Data):
    """A budget: options of every run, lists of models that grids name, and rules, of which later ones win."""

    options: Mapping[str, OptionValue] = Field(alias="set")
    models: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
