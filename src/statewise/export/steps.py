"""One step of a network as a module of its own: a token and a state in, logits and the next state out.

This is what every format is made of: the single step as it is, the whole sequence as a loop around it. States are
tensors whose number and shapes do not change; the batch is one of their axes.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from statewise.models.interface import AdaptedModel, RecurrentModel, SequenceModel
from statewise.models.tracker import StateTracker
from statewise.recurrence import rescale, rescale_exactly, token_table
from statewise.recurrence.scaling import normalise
from statewise.transitions import LinearTransition


class Step(nn.Module, ABC):
    """A step of a network, without gradients.

    Args:
        initial: the state before the first token, of one sequence.
        names: of its tensors.
        axes: the axis of each that is the batch.
    """

    def __init__(self, initial: tuple[Tensor, ...], names: tuple[str, ...], axes: tuple[int, ...]) -> None:
        super().__init__()
        for name, value in zip(names, initial, strict=True):
            self.register_buffer(f"initial_{name}", value.detach().clone(memory_format=torch.contiguous_format))
        self.names, self.axes = names, axes

    def initial(self) -> tuple[Tensor, ...]:
        """Return the state before the first token, of one sequence."""
        return tuple(getattr(self, f"initial_{name}") for name in self.names)

    def begin(self, batch: int) -> tuple[Tensor, ...]:
        """Return the state before the first token."""
        begun = []
        for value, axis in zip(self.initial(), self.axes, strict=True):
            sizes = [batch if place == axis else size for place, size in enumerate(value.shape)]
            begun.append(value.expand(sizes).clone(memory_format=torch.contiguous_format))
        return tuple(begun)

    @abstractmethod
    def forward(self, token: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Return the logits after a token, and the state to go on from."""


@final
class TrackerStep(Step):
    """A step of a tracker, as `StateTracker.step`, or as its `forward` where states are not to be scaled.

    The state of a linear level is the hidden state, known up to a positive factor, which no direction sees. With an
    additive term it is the hidden state and the logarithm of its scale.

    Args:
        model: the tracker.
        scaled: keep states of bounded size, and read directions; else hidden states are what they are, logits too.
    """

    def __init__(self, model: StateTracker, scaled: bool = True) -> None:
        linear = isinstance(model.transition, LinearTransition)
        hidden = model.initial_state.detach().unsqueeze(0)
        both = (hidden, torch.zeros(1, dtype=torch.float64))
        bare = linear or not scaled
        super().__init__(
            both[:1] if bare else both, ("hidden", "log_norm")[: 1 if bare else 2], (0,) * (1 if bare else 2)
        )
        self.model, self.scaled, self.linear = model, scaled, linear

    def forward(self, token: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Look the coefficients of the token up, and apply them."""
        transition, readout = self.model.transition, self.model.readout
        table = token_table(transition, self.model.embeddings)
        coefficients = pytree.tree_map(lambda part: part[token], table)
        if not self.scaled:
            h = transition.act(coefficients, state[0])
            return h @ readout.T, h
        if self.linear:
            h, _ = rescale_exactly(transition.act(coefficients, state[0]), state[0].new_zeros(token.shape))
            return normalise(h)[0] @ readout.T, h
        h, log_norm = rescale(*transition.act_scaled(coefficients, *state))
        return h @ readout.T, h, log_norm


@final
class RecurrentStep(Step):
    """A step of any model whose state has tensors of fixed shapes: a baseline, or a class of a user's own."""

    def __init__(self, model: SequenceModel, axes: tuple[int, ...]) -> None:
        parts, structure = pytree.tree_flatten(model.init_state(1))
        super().__init__(tuple(parts), tuple(f"state_{place}" for place in range(len(parts))), axes)
        self.model, self.structure = model, structure

    @classmethod
    def of(cls, model: SequenceModel) -> "RecurrentStep | None":
        """Return the step of a model; None where its state grows with the sequence, or has no axis of the batch."""
        with torch.no_grad():
            one, two = (pytree.tree_leaves(model.init_state(batch)) for batch in (1, 2))
            after = pytree.tree_leaves(model.step(torch.zeros(1, dtype=torch.int64), model.init_state(1))[1])
        if [part.shape for part in one] != [part.shape for part in after]:
            return None
        axes = [
            [axis for axis, (a, b) in enumerate(zip(few.shape, more.shape, strict=True)) if a != b]
            for few, more in zip(one, two, strict=True)
        ]
        return cls(model, tuple(found[0] for found in axes)) if all(len(found) == 1 for found in axes) else None

    def forward(self, token: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        """Take the model's own step."""
        logits, after = self.model.step(token, pytree.tree_unflatten(list(state), self.structure))
        return logits, *pytree.tree_leaves(after)


def has_state(model: SequenceModel) -> bool:
    """Return whether a model has a state of its own, and not the tokens so far."""
    return isinstance(model, StateTracker | RecurrentModel) or (isinstance(model, AdaptedModel) and model.streams)
