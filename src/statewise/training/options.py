"""The resolved options of one run: a recipe's defaults, then a file, then flags; validated once.

Options are flat, as a TOML file and the command line have them. They travel as the values that use them: a model's
options, sequence lengths, an optimisation, an evaluation plan. A run has one identity, the hash of all of its options.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statewise.errors import RunError, StatewiseError, UnreadableError, shorten, unknown_name
from statewise.machines import Machine, machine
from statewise.machines.catalogue import from_file
from statewise.models.table import kind_of
from statewise.reading import read_text
from statewise.tasks import (
    Lengths,
    Sampling,
    SequenceSource,
    SequenceTask,
    Source,
    Supervision,
    Task,
    build_source,
    draws_for,
    has_machine,
)
from statewise.training.plans import EvaluationPlan, Loss, Optimisation

if TYPE_CHECKING:
    from statewise.models import ModelOptions

RECIPES: dict[str, dict[str, Any]] = {
    # the paper's protocol to the letter; what it leaves open is in docs/recipes.md
    "stated": {
        "hidden": 256,
        "embedding": 256,
        "readout": "plain",
        "steps": 100_000,
        "lr": 1e-3,
        "schedule": "constant",
        "late": 0,
    },
    # ours; each model's own settings are in the table of models
    "statewise": {
        "hidden": 64,
        "embedding": 0,
        "readout": "normalised",
        "steps": 2_000,
        "lr": 1e-3,
        "schedule": "cosine",
        "late": 0,
        "tests": "balanced",
    },
}
# of options that later versions added: left out where they have their defaults, so that earlier identities stay
_ADDED: dict[str, Any] = {
    "source": None,
    "machine": None,
    "loss": Optimisation.loss,
    "polish": False,
    "tests": "uniform",
    "draws": "uniform",
    "stride": Lengths.stride,
    "sequences": None,
    "certify": 0,
}
# the whole numbers of SQLite and Parquet end here
_LARGEST = 2**63 - 1
Whole = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
# JSON and TOML have lists
Positives = Annotated[
    tuple[Annotated[int, Field(ge=1, le=_LARGEST, strict=True)], ...], Field(min_length=1, strict=False)
]


class RunOptions(BaseModel):
    """Everything that a run's numbers depend on."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    task: str
    model: str
    recipe: Literal["statewise", "stated"] = "statewise"
    hidden: int = Field(ge=1, le=100_000)
    embedding: int = Field(ge=0, le=100_000)
    additive: str = "none"
    readout: Literal["plain", "normalised"]
    steps: int = Field(ge=1, le=10**9)
    batch: int = Field(default=Optimisation.batch, ge=1, le=10**6)
    lr: float
    schedule: Literal["constant", "cosine"]
    warmup: Whole = Optimisation.warmup
    weight_decay: float = Optimisation.weight_decay
    readout_decay: float = Optimisation.readout_decay
    clip: float = Optimisation.clip
    average: float = Optimisation.average
    length_power: float = Field(default=Optimisation.length_power, le=10)
    shortest: Whole = Lengths.shortest
    longest: Whole = Lengths.longest
    # shares of all steps: over which lengths grow to `longest`; in which they grow to `late`; at which that ends
    growth_share: float = Field(default=0.0, ge=0, le=1)
    late: Whole
    late_share: float = Field(default=0.5, ge=0, le=1)
    late_until: float = Field(default=0.9, ge=0, le=1)
    supervision: Supervision = "final"
    samples: int | None = Field(default=None, ge=1, le=10**8)
    validation: int = Field(default=0, ge=0, le=10**8)
    seed: int = Field(default=0, ge=0, lt=2**63)
    every: int = Field(default=EvaluationPlan.every, ge=1, le=_LARGEST)
    probe: Positives = EvaluationPlan.probe
    probe_words: int = Field(default=EvaluationPlan.probe_words, ge=1, le=_LARGEST)
    test_lengths: Positives = EvaluationPlan.lengths
    words: int = Field(default=EvaluationPlan.words, ge=1, le=10**8)
    stop_score: float = EvaluationPlan.stop_score
    patience: int = Field(default=EvaluationPlan.patience, ge=1, le=_LARGEST)
    settle: float = EvaluationPlan.settle
    loss: Loss = Optimisation.loss
    # lengths are `shortest`, `shortest` + `stride` and so on
    stride: Whole = Lengths.stride
    # whether the trained network is polished and tested again
    polish: bool = False
    # how test sequences are drawn
    tests: Sampling = "uniform"
    # how training sequences are drawn; our recipe decides it by the machine
    draws: Sampling = "uniform"
    # of a user's own model, the hash of its source text
    source: str | None = None
    # of a machine that its name does not build, the hash of its table and names
    machine: str | None = None
    # of a user's own labelled sequences, the hash of the sets that they are split into
    sequences: str | None = None
    # hidden-state updates that a search for a wrong sequence may take, in the trained network and in the polished one;
    # without any, neither has a verdict
    certify: int = Field(default=0, ge=0, le=_LARGEST)

    @property
    def model_options(self) -> "ModelOptions":
        """What the model is made of."""
        from statewise.models import ModelOptions

        return ModelOptions(self.model, self.hidden, self.embedding, self.additive, self.readout)

    @property
    def lengths(self) -> Lengths:
        """How long training sequences are."""
        growth = round(self.steps * self.growth_share)
        late_from = round(self.steps * (1 - self.late_share))
        late_to = max(late_from, round(self.steps * self.late_until))
        return Lengths(self.shortest, self.longest, growth, self.late, late_from, late_to, self.stride)

    @property
    def optimisation(self) -> Optimisation:
        """How weights are optimised."""
        return Optimisation(
            self.lr,
            self.steps,
            self.batch,
            self.schedule,
            self.warmup,
            self.weight_decay,
            self.readout_decay,
            self.clip,
            self.average,
            self.length_power,
            self.loss,
        )

    @property
    def evaluation(self) -> EvaluationPlan:
        """What is evaluated and when."""
        return EvaluationPlan(
            self.every,
            self.probe,
            self.probe_words,
            self.test_lengths,
            self.words,
            self.stop_score,
            self.patience,
            self.settle,
        )

    def build_task(self, kept: Source | None = None) -> SequenceTask:
        """Build the task, on the machine or the sequences that a run kept if they are given."""
        built = kept if isinstance(kept, Machine | SequenceSource) else build_source(self.task)
        if isinstance(built, SequenceSource):
            if built.digest != self.sequences:
                raise RunError(f"the sequences of {shorten(self.task, 80)} are not those of the run; give those it had")
            return built.task(self.lengths, self.supervision, self.samples, self.validation)
        return Task(built, self.lengths, self.supervision, self.samples, self.validation, self.tests, self.draws)

    def key(self, machine_text: str | None = None) -> str:
        """Return the identity of the run: a hash of its options, and of the machine's text if that came from a file."""
        written = json.dumps([self.to_dict(), machine_text], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(written.encode()).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON has them."""
        written = self.model_dump(mode="json")
        return {name: value for name, value in written.items() if name not in _ADDED or value != _ADDED[name]}

    def change(self, **options: Any) -> "RunOptions":
        """Return the same options with some changed, validated again."""
        return validate_options(self.to_dict() | options)


def resolve(
    options: Mapping[str, Any], file: Path | None = None, kept: Machine | SequenceSource | None = None
) -> RunOptions:
    """Resolve the options of a run; an unknown key, a wrong type or a missing name is one sentence.

    Args:
        options: as given by flags or keywords; None is not given.
        file: a TOML file with any of them, which flags override.
        kept: the machine or the sequences of the task, where its name need not build them.
    """
    given = _read(file) if file is not None else {}
    given |= {name: value for name, value in options.items() if value is not None}
    for needed in ("task", "model"):
        if needed not in given:
            _check_names(given)
            raise RunError(f"the run has no {needed}; name one, with --{needed} or in the file")
    _check_names(given)
    recipe = given.get("recipe", "statewise")
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise unknown_name("recipe", str(recipe), RECIPES)
    kind = kind_of(str(given["model"])) if recipe == "statewise" else None
    by_model = dict(kind.recipe) if kind is not None else {}
    # a fixed set of sequences has one distribution of lengths
    fixed = {"late": 0, "growth_share": 0.0} if given.get("samples") is not None else {}
    found = validate_options(RECIPES[recipe] | by_model | fixed | _of_source(given, kept) | given)
    if recipe == "stated" or "draws" in given or isinstance(kept, SequenceSource):
        return found
    return found.model_copy(update={"draws": _draws(found.task, kept, found.longest)})


def validate_options(given: Mapping[str, Any]) -> RunOptions:
    """Validate complete options; the first that is wrong is one sentence."""
    try:
        return RunOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"config key {where} is {shorten(first['input'])}: {first['msg'].lower()}; correct it") from None


def _of_source(given: Mapping[str, Any], kept: Machine | SequenceSource | None) -> dict[str, Any]:
    """Return the options that a source without a machine sets: its lengths, supervision and test sets."""
    task = given["task"]
    named = kept is None and isinstance(task, str) and not has_machine(task)
    built = build_source(task) if named else kept
    return dict(built.defaults(given)) if isinstance(built, SequenceSource) else {}


def _draws(task: str, kept: Machine | SequenceSource | None, longest: int) -> Sampling:
    """Return how training sequences are drawn in our recipe; a name that builds no machine is refused later."""
    try:
        if isinstance(kept, Machine):
            return draws_for(kept, longest)
        if kept is not None or not has_machine(task):
            return "uniform"
        # a file may change while a process runs
        return draws_for(machine(task), longest) if from_file(task) else _draws_by_name(task, longest)
    except StatewiseError:
        return "uniform"


@lru_cache(maxsize=4_096)
def _draws_by_name(task: str, longest: int) -> Sampling:
    return draws_for(machine(task), longest)


def _check_names(given: Mapping[str, Any]) -> None:
    unknown = sorted(given.keys() - RunOptions.model_fields.keys())
    if unknown:
        raise unknown_name("config key", unknown[0], RunOptions.model_fields)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(file))
    except UnreadableError as error:
        raise RunError(f'cannot read "{shorten(file)}": {error}; give a TOML file') from None
    except (ValueError, RecursionError) as error:
        raise RunError(f'"{shorten(file)}" is not TOML: {shorten(error)}; correct it') from None
