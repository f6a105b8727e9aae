"""One table of all models: every level of the hierarchy, from the highest to the lowest, then the baselines.

The catalogue of names, the recipes, the packs of a sweep, the tables of papers, the page of a store and the conformance
suites are derived from it: a new model is a row here and a file of its own. Classes are named, not imported, so that
the table can be read without torch.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from statewise.errors import ModelError, unknown_name
from statewise.expressions import Call, parse

# everything before the last colon is a file or a module; what follows is a call
OWN_SPEC = re.compile(r"(?P<place>.+):(?P<call>[A-Za-z_]\w*\s*(\(.*\))?)\s*", re.DOTALL)


@dataclass(frozen=True)
class Kind:
    """A kind of model, under the name that a user writes.

    Args:
        name: of the kind, without arguments.
        made_by: where its class is, as "module:Class"; of a level, the transition's class.
        label: for tables; {} stands for the argument.
        examples: specs on which the conformance suites run, at hidden sizes that 6 divides.
        cost: seconds of one core for a training step at hidden size 64, where nothing has been measured yet.
        recipe: what the recipe `statewise` sets for it.
        given: arguments of its class that its name fixes.
        argument: of a baseline, which argument of its class stands without its name.
        matrix: of a level, what A(x) is.
        parameters: of a level, how many recurrent parameters it has, in H, D and its argument.
        count: that number, from H, D and the argument.
        tracks: of a level, which finite-state machines it tracks.
        compiler: of a level, what writes a machine as its weights, as "module:function"; empty where nothing does.
    """

    name: str
    made_by: str
    label: str
    examples: tuple[str, ...]
    cost: float
    recipe: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    argument: str = "layers"
    matrix: str = ""
    parameters: str = ""
    count: Callable[[int, int, int], int] | None = None
    tracks: str = ""
    compiler: str = ""

    @property
    def is_level(self) -> bool:
        """Whether it is a level of the hierarchy, and not a baseline."""
        return bool(self.matrix)

    @property
    def made(self) -> Any:
        """The class itself."""
        return _find(self.made_by)

    @property
    def stackable(self) -> bool:
        """Whether several networks of this kind can train in one tensor program."""
        return self.is_level and self.made.stackable

    @property
    def write(self) -> Any:
        """The function that writes a machine as weights of this level; None where there is none."""
        return _find(self.compiler) if self.compiler else None


# these need every prefix of a sequence to learn from, and far more steps
_SLOW = {"readout": "plain", "embedding": 0, "supervision": "aligned", "steps": 5_000, "clip": 1.0}
# Mamba's, and the rivals', for which nothing was searched
_MAMBA = {**_SLOW, "lr": 2e-3}
_RECURRENT = {"readout": "plain", "embedding": 0, "loss": "squared", "steps": 4_000, "growth_share": 0.3}
_COMPILERS = "statewise.theory.compile"

# all train on the lengths of the paper, most with a curriculum; squared error needs as many dimensions
# as answers have, which cp and rotation may not have
TABLE: tuple[Kind, ...] = (
    Kind(
        name="full",
        made_by="statewise.transitions.full:Full",
        label="full bilinear",
        examples=("full",),
        cost=0.0008,
        recipe={"loss": "squared", "lr": 4e-3, "weight_decay": 0.1, "growth_share": 0.3},
        matrix="any matrix, linear in x",
        parameters="H^2 D",
        count=lambda h, d, a: h * h * d,
        tracks="all",
        compiler=f"{_COMPILERS}:write_full",
    ),
    Kind(
        name="cp",
        made_by="statewise.transitions.cp:CP",
        label="CP-factored, rank {}",
        examples=("cp(3)", "cp(11)"),
        cost=0.002,
        recipe={"lr": 1e-2, "weight_decay": 0.1, "growth_share": 0.3},
        matrix="W₁ diag(Wₓᵀx) W₂ᵀ",
        parameters="R (2H + D)",
        count=lambda h, d, a: a * (2 * h + d),
        tracks="more as R grows, all at R = H²",
        compiler=f"{_COMPILERS}:write_cp",
    ),
    Kind(
        name="block",
        made_by="statewise.transitions.block:Block",
        label="block-diagonal, size {}",
        examples=("block(1)", "block(2)", "block(3)", "block(6)"),
        cost=0.0006,
        recipe={"loss": "squared", "lr": 1e-2, "growth_share": 0.3},
        matrix="blocks of b × b, linear in x",
        parameters="b H D",
        count=lambda h, d, a: a * h * d,
        tracks="those that fit into blocks of b",
        compiler=f"{_COMPILERS}:write_block",
    ),
    Kind(
        name="rotation",
        made_by="statewise.transitions.rotation:Rotation",
        label="rotations (R2)",
        examples=("rotation",),
        cost=0.0004,
        recipe={"lr": 1e-2, "growth_share": 0.3},
        matrix="2 × 2 rotations by angles linear in x",
        parameters="H D / 2",
        count=lambda h, d, a: h * d // 2,
        tracks="of groups, the Abelian ones",
        compiler=f"{_COMPILERS}:write_rotation",
    ),
    Kind(
        name="diagonal",
        made_by="statewise.transitions.diagonal:Diagonal",
        label="real diagonal (size 1)",
        examples=("diagonal",),
        cost=0.0005,
        recipe={"lr": 3e-3, "clip": 1.0},
        matrix="real numbers, linear in x",
        parameters="H D",
        count=lambda h, d, a: h * d,
        tracks="of groups, those of exponent 2 (parity)",
        compiler=f"{_COMPILERS}:write_diagonal",
    ),
    Kind(
        name="positive",
        made_by="statewise.transitions.positive:Positive",
        label="positive diagonal",
        examples=("positive",),
        cost=0.0005,
        recipe={"lr": 3e-3, "clip": 1.0},
        matrix="exp of numbers linear in x",
        parameters="H D",
        count=lambda h, d, a: h * d,
        tracks="no group but the trivial one",
        compiler=f"{_COMPILERS}:write_positive",
    ),
    Kind(
        name="rnn",
        made_by="statewise.models.baselines.recurrent:RecurrentTracker",
        label="Elman RNN",
        examples=("rnn",),
        cost=0.0018,
        recipe=_RECURRENT,
        given={"cell": "rnn"},
    ),
    Kind(
        name="lstm",
        made_by="statewise.models.baselines.recurrent:RecurrentTracker",
        label="LSTM",
        examples=("lstm", "lstm(2)"),
        cost=0.0022,
        recipe={**_RECURRENT, "lr": 3e-3},
        given={"cell": "lstm"},
    ),
    Kind(
        name="gru",
        made_by="statewise.models.baselines.recurrent:RecurrentTracker",
        label="GRU",
        examples=("gru",),
        cost=0.0022,
        recipe={**_RECURRENT, "lr": 3e-3},
        given={"cell": "gru"},
    ),
    Kind(
        name="mamba",
        made_by="statewise.models.baselines.mamba:MambaTracker",
        label="Mamba, layers: {}",
        examples=("mamba", "mamba(2, eigenvalues=signed)"),
        cost=0.008,
        recipe=_MAMBA,
    ),
    Kind(
        name="mamba3",
        made_by="statewise.models.baselines.mamba3:Mamba3Tracker",
        label="Mamba-3, layers: {}",
        examples=("mamba3", "mamba3(2, heads=3)"),
        cost=0.006,
        recipe=_MAMBA,
    ),
    Kind(
        name="transformer",
        made_by="statewise.models.baselines.transformer:TransformerTracker",
        label="Transformer, layers: {}",
        examples=("transformer", "transformer(2, positions=none)"),
        cost=0.008,
        recipe={**_SLOW, "hidden": 128, "warmup": 500},
    ),
    Kind(
        name="gla",
        made_by="statewise.models.baselines.gla:GLATracker",
        label="Gated linear attention, layers: {}",
        examples=("gla", "gla(2)"),
        cost=0.004,
        recipe=_MAMBA,
    ),
    Kind(
        name="deltanet",
        made_by="statewise.models.baselines.deltanet:DeltaNetTracker",
        label="DeltaNet, layers: {}",
        examples=("deltanet", "deltanet(2, negative=true)"),
        cost=0.006,
        recipe=_MAMBA,
    ),
    Kind(
        name="gated_deltanet",
        made_by="statewise.models.baselines.gated_deltanet:GatedDeltaNetTracker",
        label="Gated DeltaNet, layers: {}",
        examples=("gated_deltanet", "gated_deltanet(2, negative=true)"),
        cost=0.007,
        recipe=_MAMBA,
    ),
    Kind(
        name="deltaproduct",
        made_by="statewise.models.baselines.deltaproduct:DeltaProductTracker",
        label="DeltaProduct, n: {}",
        examples=("deltaproduct", "deltaproduct(3, layers=2, gated=true)"),
        cost=0.0075,
        recipe=_MAMBA,
        argument="n",
    ),
    Kind(
        name="slice",
        made_by="statewise.models.baselines.slice:SliceTracker",
        label="SLiCE, blocks of {}",
        examples=("slice(1)", "slice(3, layers=2)"),
        cost=0.0035,
        recipe=_MAMBA,
        argument="block",
    ),
    Kind(
        name="pd_ssm",
        made_by="statewise.models.baselines.pd_ssm:PDTracker",
        label="PD-SSM, layers: {}",
        examples=("pd_ssm", "pd_ssm(2, dictionary=3)"),
        cost=0.006,
        recipe=_MAMBA,
    ),
    Kind(
        name="rwkv7",
        made_by="statewise.models.baselines.rwkv7:RWKV7Tracker",
        label="RWKV-7, layers: {}",
        examples=("rwkv7", "rwkv7(2, heads=3)"),
        cost=0.0085,
        recipe=_MAMBA,
    ),
    Kind(
        name="slstm",
        made_by="statewise.models.baselines.slstm:SLSTMTracker",
        label="sLSTM, layers: {}",
        examples=("slstm", "slstm(2, heads=3)"),
        cost=0.004,
        recipe=_MAMBA,
    ),
    Kind(
        name="mlstm",
        made_by="statewise.models.baselines.mlstm:MLSTMTracker",
        label="mLSTM, layers: {}",
        examples=("mlstm", "mlstm(2, heads=3)"),
        cost=0.0055,
        recipe=_MAMBA,
    ),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in TABLE}
# from the highest level to the lowest
LEVELS: Mapping[str, Kind] = {kind.name: kind for kind in TABLE if kind.is_level}
BASELINES: Mapping[str, Kind] = {kind.name: kind for kind in TABLE if not kind.is_level}


def kind_of(spec: str) -> Kind | None:
    """Return the kind that a model's spec names; None for a user's own class."""
    return None if is_own(spec) else KINDS.get(spec.split("(")[0].strip())


def is_own(spec: str) -> bool:
    """Return whether a spec names a class of a user's own: `file.py:Class` or `package.module:Class(options)`."""
    return OWN_SPEC.fullmatch(spec) is not None


def without_options(spec: str) -> str:
    """Return the file or module and the class of a user's own model, without the options of the class."""
    match = OWN_SPEC.fullmatch(spec)
    return spec if match is None else f"{match['place']}:{match['call'].partition('(')[0].strip()}"


def spec_of(model: str | type) -> str:
    """Return the name under which a model is recorded: as written, or `module:Class` of a class."""
    if not isinstance(model, str | type):
        raise ModelError(f"an object of {type(model).__name__} is given as a model; give the class itself, or a name")
    return model if isinstance(model, str) else f"{model.__module__}:{model.__qualname__.rpartition('.')[2]}"


def label_of(spec: str) -> str:
    """Return how tables call a model; a user's own is called by its class."""
    kind = kind_of(spec)
    if kind is None:
        return spec.rpartition(":")[2]
    parsed = parse(spec)
    argument = parsed.args[0] if isinstance(parsed, Call) and parsed.args else ""
    return kind.label.format(argument)


def short_names(models: Iterable[str]) -> dict[str, str]:
    """Return how tables call models: by the class of one's own, where that is one model's alone."""
    short = {model: model.rpartition(":")[2] if is_own(model) else model for model in models}
    counts = Counter(short.values())
    return {model: name if counts[name] == 1 else model for model, name in short.items()}


def need_kind(name: str) -> Kind:
    """Return the kind of a name; one that is not in the table is refused with the nearest."""
    if name not in KINDS:
        raise unknown_name("model", name, KINDS)
    return KINDS[name]


def _find(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
