"""What a paper's file holds, as typed values: citation, protocol, published scores, grids and presets."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# a value of m or of an option, or the name of a task
Column = int | str
# of both presets, or of each
Columns = tuple[Column, ...] | Mapping[str, tuple[Column, ...]]
# of an option of a run, as TOML has it
OptionValue = str | bool | int | float | tuple[int, ...]
# what a table shows of a cell: scores on training lengths, at the paper's length, at the longest, and of the polished
# network at the longest; and the length up to which polished networks are proven
Shown = Literal["training", "test", "longest", "polished", "proven"]


class Data(BaseModel):
    """A part of a paper's file: frozen, with no key that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Citation(Data):
    """Where a paper is to be found."""

    title: str
    authors: tuple[str, ...]
    venue: str
    arxiv: str
    # where the numbers here were read
    numbers: str = ""


class ProtocolItem(Data):
    """One item of how the paper's models were trained and tested.

    Args:
        value: a number, several, or a description.
        mark: whether the paper states it, it follows, a later paper of the same authors says it, or it is our choice.
        note: what else is known.
    """

    value: int | str | tuple[int | float, ...]
    mark: Literal["stated", "derived", "follow-up", "unknown"]
    note: str = ""


def _numbered(scores: Mapping[Column, float]) -> Mapping[Column, float]:
    """Return scores by column; keys of JSON are texts, also those that are values of m."""
    return {int(column) if str(column).isdigit() else column: score for column, score in scores.items()}


ByColumn = Annotated[Mapping[Column, float], AfterValidator(_numbered)]


class PublishedRow(Data):
    """A row of a published table, which stands for every one of its models; scores are by column."""

    table: str
    where: str
    models: tuple[str, ...]
    scores: ByColumn


class Reading(Data):
    """One way to read the paper's training, or ours: a recipe, and what differs from it.

    Args:
        title: for a reader.
        short: the same in a word.
        recipe: of the library, from which it starts.
        options: what differs from that.
        shows: what tables show of its cells.
    """

    title: str
    short: str
    recipe: Literal["stated", "statewise"]
    options: Mapping[str, OptionValue] = Field(default_factory=dict, alias="set")
    shows: tuple[Shown, ...] = ("test",)


class Block(Data):
    """Rows of a grid: models under readings.

    Args:
        readings: each makes a row for each model.
        models: their specs, or the name of a list of the preset.
        label: what is added to the models' labels.
        task: where it is not the grid's.
        columns: where they are not all of the grid's.
        options: of every run.
    """

    readings: tuple[str, ...]
    models: str | tuple[str, ...]
    label: str = ""
    task: str | None = None
    columns: Columns | None = None
    options: Mapping[str, OptionValue] = Field(default_factory=dict, alias="set")


class Grid(Data):
    """The runs behind a table or a figure.

    Args:
        title: for a reader.
        task: a machine, with {m} for the column and {seed} for the run's seed; or one for each column, by its name.
        columns: where tasks do not name them.
        option: the option of a run that columns are values of, where they are not those of m.
        rate_by: whether the best rate is that of the paper's length, as the paper chooses, or that of training lengths.
        beside: what tables show beside the readings.
        blocks: the rows.
    """

    title: str
    task: str | Mapping[str, str]
    blocks: tuple[Block, ...]
    columns: Columns = ()
    option: str | None = None
    rate_by: Literal["test", "training"] = "test"
    beside: tuple[Literal["paper", "constant", "ceiling"], ...] = ("paper", "ceiling")

    @property
    def column(self) -> str:
        """What columns are."""
        return self.option or ("m" if isinstance(self.task, str) else "task")

    def columns_of(self, preset: str, block: Block | None = None) -> tuple[Column, ...]:
        """Return the columns under a preset, of all rows or of a block."""
        if block is not None and block.columns is not None:
            return _under(preset, block.columns)
        return _under(preset, self.columns) if isinstance(self.task, str) else tuple(self.task)

    def task_of(self, block: Block, column: Column) -> str:
        """Return the machine of a column, with {seed} where each run draws its own."""
        task = block.task or (self.task if isinstance(self.task, str) else self.task[str(column)])
        return task.replace("{m}", str(column))


def _under(preset: str, columns: Columns) -> tuple[Column, ...]:
    return columns[preset] if isinstance(columns, Mapping) else columns


class LengthRange(Data):
    """Test lengths from a first to a last, a step apart."""

    first: int
    last: int
    step: int = 1

    @property
    def each(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(self.first, self.last + 1, self.step))


class Rule(Data):
    """What a preset sets for the runs that fit all that the rule names; what it does not name fits."""

    readings: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    columns: tuple[Column, ...] | None = None
    grids: tuple[str, ...] | None = None
    rates: tuple[float, ...] | None = None
    seeds: tuple[int, ...] | None = None
    tests: LengthRange | None = None
    options: Mapping[str, OptionValue] = Field(default_factory=dict, alias="set")

    @property
    def sets(self) -> dict[str, OptionValue]:
        """Its options, test lengths included."""
        return dict(self.options) | ({} if self.tests is None else {"test_lengths": self.tests.each})

    def fits(self, grid: str, model: str, kind: str, reading: str, column: Column) -> bool:
        """Return whether a run fits; models are named with or without their arguments."""
        return (
            (self.readings is None or reading in self.readings)
            and (self.models is None or model in self.models or kind in self.models)
            and (self.columns is None or column in self.columns)
            and (self.grids is None or grid in self.grids)
        )


class Contrast(Data):
    """What the paper reports of two models, to be tested on equal terms.

    Args:
        claim: for a reader.
        ahead: the model that is right at the paper's length.
        behind: those that are not.
        columns: of the grid.
        published: whether the paper reports it; otherwise it is ours.
    """

    claim: str
    ahead: str
    behind: tuple[str, ...]
    columns: tuple[Column, ...]
    published: bool = True


class Preset(Data):
    """A budget: options of every run, lists of models that grids name, and rules, of which later ones win.

    Args:
        slow: kinds of models that take longer than all others together, and are run only where that is asked for.
    """

    options: Mapping[str, OptionValue] = Field(alias="set")
    models: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    slow: tuple[str, ...] = ()
