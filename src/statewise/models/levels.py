"""Levels of the hierarchy by name: `full`, `cp(64)`, `block(2)`, `rotation`, `diagonal`, `positive`."""

import inspect
from dataclasses import replace
from typing import Any, cast, get_args

import torch

from statewise.errors import ExpressionError, shorten, unknown_name
from statewise.expressions import Call, Product, call, parse
from statewise.models.pretrained import refuse_saving
from statewise.models.table import LEVELS
from statewise.transitions import Additive, Transition
from statewise.transitions.additive import Terms
from statewise.transitions.transition import Init


def build_transition(
    spec: str,
    input_size: int,
    hidden_size: int,
    additive: str = "none",
    generator: torch.Generator | None = None,
    init: Init = "features",
) -> Transition:
    """Build a transition from its name: `full`, `cp(rank)`, `block(size)`, `rotation`, `diagonal`, `positive`.

    Every level takes two options in its name, as in `diagonal(init=tokens, frozen=true)`: `init` says what the initial
    scale is balanced for, "features" (entries of mean square 1) or one-hot "tokens"; `frozen` keeps the
    weights as they were drawn, without gradient.

    Args:
        spec: the name.
        input_size: D.
        hidden_size: H.
        additive: "none", or a "constant" or "input"-dependent term around it.
        generator: where the initial weights are drawn from; None is torch's global one.
        init: the `init` where the name has none.
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
    linear = call(LEVELS[parsed.name].made, replace(parsed, kwargs=options), given)
    built = linear if additive == "none" else Additive(linear, cast("Any", additive), generator)
    return built.requires_grad_(not frozen)


def transition_spec(transition: Transition) -> tuple[str, str]:
    """Return the name and the additive term that build a transition again, up to its weights.

    Raises:
        ModelError: for a class of one's own, which no name can stand for.
    """
    linear, additive = transition, "none"
    if isinstance(transition, Additive):
        linear, additive = transition.linear, transition.terms
    kind = next((kind for kind in LEVELS.values() if type(linear) is kind.made), None)
    if kind is None:
        raise refuse_saving(type(linear).__name__)
    # the initialisation is no part of a network that has its weights
    given = ("input_size", "hidden_size", "init", "generator")
    arguments = tuple(getattr(linear, name) for name in inspect.signature(kind.made).parameters if name not in given)
    frozen = not any(parameter.requires_grad for parameter in transition.parameters())
    return str(Call(kind.name, arguments, {"frozen": True} if frozen else {})), additive
