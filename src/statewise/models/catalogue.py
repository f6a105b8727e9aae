"""Models by name: every level of the hierarchy, and the baselines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from statewise.errors import ExpressionError, TransitionError, shorten, unknown_name
from statewise.expressions import Product, call, parse
from statewise.models.baselines import MambaTracker, RecurrentTracker, TransformerTracker
from statewise.models.tracker import Readout, StateTracker
from statewise.randomness import derive
from statewise.transitions import LEVELS

BASELINES: dict[str, tuple[Callable[..., nn.Module], dict[str, Any]]] = {
    "rnn": (RecurrentTracker, {"cell": "rnn"}),
    "lstm": (RecurrentTracker, {"cell": "lstm"}),
    "gru": (RecurrentTracker, {"cell": "gru"}),
    "mamba": (MambaTracker, {}),
    "transformer": (TransformerTracker, {}),
}


def build_model(
    spec: str,
    symbols: int,
    classes: int,
    hidden_size: int,
    seed: int,
    additive: str = "none",
    embedding: int = 0,
    readout: Readout = "normalised",
) -> nn.Module:
    """Builds a model whose initial weights depend on the seed alone.

    Args:
        spec: `full`, `cp(rank)`, `block(size)`, `rotation`, `diagonal`, `positive`, `rnn`, `lstm`, `gru`,
            `mamba(layers)` or `transformer(layers)`.
        symbols: how many tokens there are.
        classes: how many outputs are told apart.
        hidden_size: the width.
        seed: of the initial weights.
        additive: for a level, an additive term.
        embedding: for a level, the size of a trained embedding; 0 for one-hot tokens. Baselines have one of their
            hidden size.
        readout: for a level, whether the hidden state is normalised before the readout.
    """
    parsed = parse(spec)
    if isinstance(parsed, Product):
        raise ExpressionError(f'"{shorten(spec)}" is a product; expected one model such as block(2)')
    if hidden_size < 1:
        raise TransitionError(f"hidden is {hidden_size}; expected a width of at least 1; use one such as 64")
    if parsed.name in LEVELS:
        generator = torch.Generator().manual_seed(derive(seed, "weights"))
        return StateTracker(symbols, classes, hidden_size, spec, additive, embedding, readout, generator)
    if parsed.name not in BASELINES:
        raise unknown_name("model", parsed.name, [*LEVELS, *BASELINES])
    if additive != "none":
        raise ExpressionError(f"{parsed.name} takes no additive term; use it with a level such as full")
    if embedding not in (0, hidden_size):
        raise ExpressionError(
            f"{parsed.name} embeds tokens in its hidden size, {hidden_size}, got embedding {embedding}; leave it out"
        )
    layers = parsed.args[0] if parsed.args else parsed.kwargs.get("layers", 1)
    if not isinstance(layers, int) or layers < 1:
        raise ExpressionError(f"{parsed.name} needs at least 1 layer, got {shorten(layers)}; correct it")
    function, given = BASELINES[parsed.name]
    kwargs = dict(parsed.kwargs) | ({"layers": parsed.args[0]} if parsed.args else {})
    if len(parsed.args) > 1:
        raise ExpressionError(f"{parsed.name} takes one plain argument, its layers; name the others")
    # torch's own modules draw from the global generator; it is put back as it was
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights"))
        sizes = {"symbols": symbols, "classes": classes, "hidden_size": hidden_size}
        return call(function, replace(parsed, args=(), kwargs=kwargs), sizes | given)
