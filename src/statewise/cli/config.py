"""The resolved configuration of one run: a recipe's defaults, then a file, then flags."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statewise.errors import RunError, shorten, unknown_name
from statewise.expressions import Call, parse

# what our recipe sets by model: levels with few parameters move them further, and need longer words to be exact;
# baselines see the lengths of the paper only
BY_MODEL: dict[str, dict[str, Any]] = {
    **{key: {"readout": "plain"} for key in ("rnn", "lstm", "gru", "mamba", "transformer")},
    "full": {"lr": 1e-3, "late": 80},
    "cp": {"lr": 1e-3, "late": 80},
    "block": {"lr": 3e-3, "late": 160},
    "rotation": {"lr": 1e-2, "late": 320},
    "diagonal": {"lr": 3e-3, "clip": 1.0},
    "positive": {"lr": 3e-3, "clip": 1.0},
}

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
    # ours
    "statewise": {
        "hidden": 64,
        "embedding": 0,
        "readout": "normalised",
        "steps": 2_000,
        "lr": 1e-3,
        "schedule": "cosine",
        "late": 0,
    },
}


class RunConfig(BaseModel):
    """Everything that a run's numbers depend on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    model: str
    recipe: Literal["statewise", "stated"] = "statewise"
    hidden: int = Field(ge=1)
    embedding: int = Field(ge=0)
    additive: str = "none"
    readout: Literal["plain", "normalised"]
    steps: int
    batch: int = 64
    lr: float
    schedule: Literal["constant", "cosine"]
    warmup: int = 0
    weight_decay: float = 0.0
    readout_decay: float = 0.0
    clip: float = 0.0
    average: float = 0.0
    shortest: int = 2
    longest: int = 10
    growth: int = 0
    late: int
    late_share: float = Field(default=0.5, ge=0, le=1)
    supervision: Literal["final", "aligned"] = "final"
    samples: int | None = None
    validation: int = 0
    seed: int = Field(default=0, ge=0, lt=2**63)
    every: int = Field(default=250, ge=1)
    test_lengths: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(10, 500), min_length=1)
    words: int = Field(default=1000, ge=1)
    stop_score: float = 0.0
    settle: float = 0.0


def resolve(file: Path | None, flags: dict[str, Any]) -> RunConfig:
    """Puts a configuration together; an unknown key, a wrong type or a missing name is one sentence."""
    given = _read(file) if file is not None else {}
    given |= {key: value for key, value in flags.items() if value is not None}
    for needed in ("task", "model"):
        if needed not in given:
            raise RunError(f"the run has no {needed}; give --{needed}, or a config file that has it")
    recipe = given.get("recipe", "statewise")
    if recipe not in RECIPES:
        raise unknown_name("recipe", str(recipe), RECIPES)
    unknown = sorted(given.keys() - RunConfig.model_fields.keys())
    if unknown:
        raise unknown_name("config key", unknown[0], RunConfig.model_fields)
    parsed = parse(str(given["model"]))
    by_model = BY_MODEL.get(parsed.name, {}) if isinstance(parsed, Call) and recipe == "statewise" else {}
    try:
        return RunConfig.model_validate(RECIPES[recipe] | by_model | given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"config key {where} is {shorten(first['input'])}: {first['msg'].lower()}; correct it") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f'cannot read "{shorten(file)}": {(error.strerror or "").lower()}; give a TOML file') from None
    except ValueError as error:
        raise RunError(f'"{shorten(file)}" is not TOML: {shorten(error)}; correct it') from None
