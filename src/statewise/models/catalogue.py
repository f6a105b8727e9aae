"""Models by name or class: `full`, `block(2)`, `lstm`, `mamba(2)`, `my_model.py:MyNet(layers=2)`, or MyNet itself."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import nn

from statewise.errors import ExpressionError, ModelError, PretrainedError, TransitionError, shorten
from statewise.expressions import Call, Product, call, parse
from statewise.models.interface import SequenceModel, as_model
from statewise.models.layer import BilinearRNN
from statewise.models.own import OwnModel, own_model
from statewise.models.pretrained import read_pretrained, restored
from statewise.models.table import BASELINES, LEVELS, is_own, need_kind
from statewise.models.tracker import Readout, StateTracker
from statewise.randomness import derive
from statewise.transitions import Transition

ModelLike = str | type[nn.Module]
Built = TypeVar("Built", bound=nn.Module)


@dataclass(frozen=True)
class ModelOptions:
    """What a model is made of, up to the task: its kind and sizes.

    Args:
        model: its name, or `module:Class(options)` for a class of one's own.
        hidden: the width.
        embedding: for a level, the size of a trained embedding; 0 for one-hot tokens. Baselines have one of their
            hidden size.
        additive: for a level, an additive term.
        readout: for a level, whether the hidden state is normalised before the readout.
    """

    model: str
    hidden: int
    embedding: int = 0
    additive: str = "none"
    readout: Readout = "normalised"

    def build(self, symbols: int, classes: int, seed: int, own: type[nn.Module] | None = None) -> SequenceModel:
        """Build the untrained model for a task.

        Args:
            symbols: how many tokens there are.
            classes: how many output classes there are.
            seed: of the initial weights.
            own: the class, where the model is a user's own.
        """
        model = self.model if own is None else OwnModel(own, own_model(self.model).options)
        return build_model(model, symbols, classes, self.hidden, seed, self.additive, self.embedding, self.readout)


def build_model(
    model: "ModelLike | OwnModel",
    symbols: int,
    classes: int,
    hidden: int,
    seed: int = 0,
    additive: str = "none",
    embedding: int = 0,
    readout: Readout = "normalised",
) -> SequenceModel:
    """Build a model whose initial weights depend on the seed alone.

    Args:
        model: a name of the table of models, such as `full`, `block(2)`, `lstm`, `mamba(layers)` or
            `deltanet(layers)`; a class with `__init__(symbols, classes, hidden, **options)` and
            `forward(tokens) -> logits`; a class derived from `Transition`; or such a class as `file.py:Class`.
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden: the width.
        seed: of the initial weights.
        additive: for a level, an additive term.
        embedding: for a level, the size of a trained embedding; 0 for one-hot tokens. Baselines have one of their
            hidden size.
        readout: for a level, whether the hidden state is normalised before the readout.
    """
    if hidden < 1:
        raise TransitionError(f"hidden is {hidden}; expected a width of at least 1; use one such as 64")
    if isinstance(model, type):
        model = OwnModel(model)
    elif isinstance(model, str) and is_own(model):
        model = own_model(model, load=True)
    if isinstance(model, OwnModel):
        return _build_own(model, symbols, classes, hidden, seed, additive, embedding, readout)
    if model.endswith(".py"):
        raise ModelError(f'"{shorten(model)}" names a file and no class; write it as {shorten(model)}:Class')
    parsed = parse(model)
    if isinstance(parsed, Product):
        raise ExpressionError(f'"{shorten(model)}" is a product; expected one model such as block(2)')
    if need_kind(parsed.name).name in LEVELS:
        generator = torch.Generator().manual_seed(derive(seed, "weights"))
        return StateTracker(symbols, classes, hidden, model, additive, embedding, readout, generator)
    if additive != "none":
        raise ExpressionError(f"{parsed.name} takes no additive term; use it with a level such as full")
    if embedding not in (0, hidden):
        raise ExpressionError(
            f"{parsed.name} embeds tokens in its hidden size, {hidden}, got embedding {embedding}; leave it out"
        )
    return _seeded(seed, lambda: _build_baseline(parsed, symbols, classes, hidden))


def load_pretrained(directory: str | os.PathLike[str]) -> nn.Module:
    """Build the network that a directory holds, of whichever class: a StateTracker, a BilinearRNN or a baseline."""
    config, tensors = read_pretrained(directory)
    for known in (StateTracker, BilinearRNN):
        if config.get("class") == known.__name__:
            return known.from_pretrained(directory)
    model = config["arguments"].get("model", "")
    if not isinstance(model, str) or is_own(model) or config.get("class") != "build_model":
        raise PretrainedError(
            f'"{shorten(directory)}" holds a {shorten(model or config.get("class"))}, which is no class of statewise; '
            "build it yourself, and load model.safetensors into it"
        )
    return restored(directory, config, tensors, lambda: build_model(**config["arguments"]))


def _build_baseline(parsed: Call, symbols: int, classes: int, hidden: int) -> SequenceModel:
    kind = BASELINES[parsed.name]
    if len(parsed.args) > 1:
        raise ExpressionError(f"{parsed.name} takes one plain argument, its {kind.argument}; name the others")
    kwargs = dict(parsed.kwargs) | ({kind.argument: parsed.args[0]} if parsed.args else {})
    layers = kwargs.get("layers", 1)
    if not isinstance(layers, int) or layers < 1:
        raise ExpressionError(f"{parsed.name} needs at least 1 layer, got {shorten(layers)}; correct it")
    sizes = {"symbols": symbols, "classes": classes, "hidden_size": hidden}
    return call(kind.made, replace(parsed, args=(), kwargs=kwargs), sizes | dict(kind.given))


def _build_own(
    own: OwnModel, symbols: int, classes: int, hidden: int, seed: int, additive: str, embedding: int, readout: Readout
) -> SequenceModel:
    assert own.made is not None
    if additive != "none" or (embedding and not own.is_level):
        what = f"additive {additive}" if additive != "none" else f"embedding {embedding}"
        raise ExpressionError(
            f"{own.made.__name__} is a class of one's own and takes no {what}; build it into the class"
        )
    if not own.is_level:
        return _seeded(seed, lambda: as_model(own.build(symbols=symbols, classes=classes, hidden=hidden), classes))
    level = _seeded(seed, lambda: own.build(input_size=embedding or symbols, hidden_size=hidden))
    assert isinstance(level, Transition)
    generator = torch.Generator().manual_seed(derive(seed, "weights"))
    return StateTracker(symbols, classes, hidden, level, "none", embedding, readout, generator)


def _seeded(seed: int, build: Callable[[], Built]) -> Built:
    """Build with torch's global generator seeded, which torch's own modules draw from; it is put back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights"))
        return build()
