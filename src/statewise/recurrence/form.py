"""The interface of a form: how the states of one level are computed over whole sequences.

Every level owes the same states,

    h_t = A_t h_{t-1} (+ b_t),    t = 1, ..., T,

and each has its own cheapest way to them: products of matrices grouped by token, small blocks side by side, sums of
angles. A form is that way. Over tokens, A_t is looked up in a table with the coefficients of each token; over
real-valued inputs, A_t = A(x_t) is computed from each. The forms here go step by step, and work for any transition.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.kernels import choose
from statewise.recurrence.reference import stack_steps
from statewise.recurrence.scaling import RESCALE_EVERY, inverse_power_above, rescale, rescale_exactly
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import LinearTransition, Transition

# tokens whose states are kept at once where only the last one is wanted
PIECE = 1_024

Level = TypeVar("Level", bound=Transition)
Inputs = Float[Tensor, "batch time input"]
Inside = Bool[Tensor, "batch time"] | None
States = Float[Tensor, "batch time hidden"]
State = Float[Tensor, "batch hidden"]
LogNorm = Float[Tensor, " batch"]


class Form(ABC, Generic[Level]):
    """The way to the states of one level over tokens.

    A table holds the coefficients of each token, as the level's `coefficients` returns them: a tensor, or several
    where there is an additive term. `batch.every` asks for states up to a positive factor, `batch.members` for several
    networks at once.
    """

    def __init__(self, transition: Level) -> None:
        self.transition = transition

    @abstractmethod
    def states(self, table: Any, h0: State, batch: TokenBatch) -> States:
        """Return h_t for every t; `batch.lengths` is None."""

    @abstractmethod
    def end(self, table: Any, h0: State, batch: TokenBatch) -> State:
        """Return h_t of each row at t = `batch.lengths`."""

    @abstractmethod
    def resume(self, table: Any, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Return the last state, as exp(log_norm) h, of sequences of any length that begin at exp(log_norm) h.

        The state returned is of bounded size and can be resumed from. A linear update is the same for every scale of
        its state, so that rescaling every few steps is the same as rescaling at each. With an additive term it is not.
        """


class SequenceForm(Form[Level]):
    """A form with a fast path over real-valued inputs too, through the kernels; other levels take the reference."""

    @abstractmethod
    def sequence(self, x: Inputs, h0: State, inside: Inside, normalise: bool) -> States:
        """Return h_t for every t; a state stays as it is where `inside` is false.

        With `normalise` each state is divided by its root mean square before the next step. A linear update may do so
        at the end alone, and keep states in range by powers of two until then.
        """


@final
class StepByStep(Form[Transition]):
    """One token after another through `act`: the form of any transition, of a user's own class too.

    It resumes through `act_scaled`, since an additive term sees the scale of the state; states then have norm 1.
    """

    def states(self, table: Any, h0: State, batch: TokenBatch) -> States:
        """Apply the update at each token."""
        return _step_states(self.transition, table, h0, batch)

    def end(self, table: Any, h0: State, batch: TokenBatch) -> State:
        """Return the last of all states."""
        return at_ends(_step_states(self.transition, table, h0, batch), batch.lengths)

    def resume(self, table: Any, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Apply the update at the scale of the state, and rescale, at each token."""
        return resume_by_steps(self.transition, table, h, log_norm, batch)


@final
class LinearStepByStep(Form[LinearTransition]):
    """One token after another through `act`, for linear updates: it resumes in pieces, rescaled exactly after each.

    The form of CP, whose matrix is cheapest to apply as its three factors.
    """

    def states(self, table: Any, h0: State, batch: TokenBatch) -> States:
        """Apply the update at each token."""
        return _step_states(self.transition, table, h0, batch)

    def end(self, table: Any, h0: State, batch: TokenBatch) -> State:
        """Return the last of all states."""
        return at_ends(_step_states(self.transition, table, h0, batch), batch.lengths)

    def resume(self, table: Any, h: State, log_norm: LogNorm, batch: TokenBatch) -> tuple[State, LogNorm]:
        """Compute a few states at a time, or, where norms stay, as many as memory holds."""
        piece = PIECE if self.transition.norm_preserving else RESCALE_EVERY
        return resume_in_pieces(self, table, h, log_norm, batch, piece)


def resume_by_steps(
    transition: Transition, table: Any, h: State, log_norm: LogNorm, batch: TokenBatch
) -> tuple[State, LogNorm]:
    """Resume from a state by one scaled step after another; states have norm 1."""
    h, log_norm = rescale(h, log_norm)
    for token in batch.tokens.unbind(1):
        h, log_norm = rescale(*transition.act_scaled(_look_up(table, token), h, log_norm))
    return h, log_norm


def resume_in_pieces(
    form: Form, table: Any, h: State, log_norm: LogNorm, batch: TokenBatch, piece: int = RESCALE_EVERY
) -> tuple[State, LogNorm]:
    """Resume a linear update through a form's `states`, a piece of the sequence at a time, rescaled after each."""
    for tokens in batch.tokens.split(piece, dim=1):
        if tokens.shape[1]:
            states = form.states(table, h, replace(batch, tokens=tokens))
            h, log_norm = rescale_exactly(states[:, -1], log_norm)
    return h, log_norm


def kernels_without_gradient(table: Tensor, h: Tensor, batch: TokenBatch) -> bool:
    """Return whether the kernels can run over a whole batch, since no gradient through it is wanted."""
    ready = not torch.is_grad_enabled() and choose(batch.backend, table, h) == "native"
    return ready and batch.tokens.shape[1] > 0


def at_ends(states: Float[Tensor, "batch time *state"], lengths: Int[Tensor, " batch"] | None) -> Tensor:
    """Return the last state of each row; all of them without lengths."""
    return states if lengths is None else states[torch.arange(len(lengths), device=lengths.device), lengths - 1]


def _step_states(transition: Transition, table: Any, h0: State, batch: TokenBatch) -> States:
    h, outputs, tokens, every = h0, [], batch.tokens, batch.every
    for t in range(tokens.shape[1]):
        h = transition.act(_look_up(table, tokens[:, t]), h)
        if every and (t + 1) % every == 0:
            h = h * inverse_power_above(h)
        outputs.append(h)
    return stack_steps(outputs, h0)


def _look_up(table: Any, token: Int[Tensor, " batch"]) -> Any:
    return table[token] if isinstance(table, Tensor) else pytree.tree_map(lambda part: part[token], table)
