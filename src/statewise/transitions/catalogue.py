"""Transitions by name: `full`, `cp(64)`, `block(2)`, `rotation`, `diagonal`, `positive`."""

from dataclasses import replace
from typing import Any, cast, get_args

import torch

from statewise.errors import ExpressionError, shorten, unknown_name
from statewise.expressions import Product, call, parse
from statewise.transitions.additive import Additive, Terms
from statewise.transitions.block import Block
from statewise.transitions.cp import CP
from statewise.transitions.diagonal import Diagonal
from statewise.transitions.full import Full
from statewise.transitions.positive import Positive
from statewise.transitions.rotation import Rotation
from statewise.transitions.transition import Init, LinearTransition, Transition

# from the highest level to the lowest
LEVELS: dict[str, type[LinearTransition]] = {
    "full": Full,
    "cp": CP,
    "block": Block,
    "rotation": Rotation,
    "diagonal": Diagonal,
    "positive": Positive,
}


def transition(
    spec: str,
    input_size: int,
    hidden_size: int,
    additive: str = "none",
    generator: torch.Generator | None = None,
    init: Init = "features",
) -> Transition:
    """Builds a transition from its name: `full`, `cp(rank)`, `block(size)`, `rotation`, `diagonal`, `positive`.

    Every level takes two options in its name, as in `diagonal(init=tokens, frozen=true)`: `init` says what the initial
    scale is balanced for, "features" (entries of mean square 1) or one-hot "tokens"; `frozen` keeps the
    weights as they were drawn, without gradient.

    Args:
        spec: the name.
        input_size: D.
        hidden_size: H.
        additive: "none", or a "constant" or "input"-dependent term around it.
        generator: where the initial weights are drawn from; None is torch's global one.
        init: the `init` where the name gives none.
    """
    parsed = parse(spec)
    if isinstance(parsed, Product):
        raise ExpressionError(f'"{shorten(spec)}" is a product; expected one transition such as block(2)')
    if parsed.name not in LEVELS:
        raise unknown_name("transition", parsed.name, LEVELS)
    if additive not in get_args(Terms):
        raise unknown_name("additive term", additive, get_args(Terms))
    options = {"init": init} | dict(parsed.kwargs)
    frozen = options.pop("frozen", False)
    if not isinstance(frozen, bool):
        raise ExpressionError(f"{parsed.name} needs true or false for frozen, got {shorten(frozen)}; correct it")
    given = {"input_size": input_size, "hidden_size": hidden_size, "generator": generator}
    linear = call(LEVELS[parsed.name], replace(parsed, kwargs=options), given)
    built = linear if additive == "none" else Additive(linear, cast("Any", additive), generator)
    return built.requires_grad_(not frozen)
