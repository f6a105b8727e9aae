"""From a transition to its form: the one table of forms, and the functions that the rest of the package calls."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from torch.utils import _pytree as pytree

from statewise.kernels import Backend, choose
from statewise.recurrence.affine import AffineForm
from statewise.recurrence.blocks import block_form
from statewise.recurrence.diagonal import DiagonalForm, PositiveForm
from statewise.recurrence.form import Form, LinearStepByStep, SequenceForm, StepByStep
from statewise.recurrence.full import FullForm
from statewise.recurrence.reference import inside_lengths, unroll, without_padding
from statewise.recurrence.rotation import RotationForm
from statewise.recurrence.token_batch import TokenBatch
from statewise.transitions import Additive, Block, Diagonal, Full, LinearTransition, Positive, Rotation, Transition

FORMS: dict[type[Transition], Callable[[Any], Form]] = {
    Full: FullForm,
    Block: block_form,
    Rotation: RotationForm,
    Diagonal: DiagonalForm,
    Positive: PositiveForm,
    Additive: AffineForm,
    LinearTransition: LinearStepByStep,
}


def form_of(transition: Transition) -> Form:
    """Return the form of a transition, by its nearest class in the table; without one it goes step by step."""
    for kind in type(transition).__mro__:
        if kind in FORMS:
            return FORMS[kind](transition)
    return StepByStep(transition)


def read_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    h0: Float[Tensor, "batch hidden"],
    batch: TokenBatch,
) -> Float[Tensor, "batch time hidden"] | Float[Tensor, "batch hidden"]:
    """Return h_t = A(embedding of token t) h_{t-1} for every t, or, with lengths, at the end of each row.

    Args:
        transition: A, and an additive term if there is one.
        embeddings: the input that stands for each token; None is one-hot.
        h0: the state before the first token.
        batch: the sequences of tokens.
    """
    return states_by_table(transition, token_table(transition, embeddings), h0, batch)


def states_by_table(
    transition: Transition, table: Any, h0: Float[Tensor, "batch hidden"], batch: TokenBatch
) -> Float[Tensor, "batch time hidden"] | Float[Tensor, "batch hidden"]:
    """Return the states of `read_tokens` for any table of coefficients of this level, of one network or of several."""
    batch = batch.checked(_symbols(table), h0)
    form = form_of(transition)
    return form.states(table, h0, batch) if batch.lengths is None else form.end(table, h0, batch)


def resume_tokens(
    transition: Transition,
    embeddings: Float[Tensor, "token input"] | None,
    tokens: Int[Tensor, "batch time"],
    h: Float[Tensor, "batch hidden"],
    log_norm: Float[Tensor, " batch"],
    backend: str | None = None,
) -> tuple[Float[Tensor, "batch hidden"], Float[Tensor, " batch"]]:
    """Return the last state of sequences of any length, up to a factor, and the logarithm of that factor.

    The factors of a linear transition are powers of two, so that weights of whole numbers stay exact at any length.
    With an additive term states have norm 1.
    """
    table = token_table(transition, embeddings)
    batch = TokenBatch(tokens, backend=backend).checked(_symbols(table), h)
    return form_of(transition).resume(table, h, log_norm, batch)


def token_table(transition: Transition, embeddings: Tensor | None) -> Any:
    """Return the coefficients of each token."""
    return transition.of_tokens() if embeddings is None else transition.coefficients(embeddings)


def unroll_sequence(
    transition: Transition,
    x: Float[Tensor, "batch time input"],
    h0: Float[Tensor, "batch hidden"],
    lengths: Int[Tensor, " batch"] | None = None,
    backend: str | None = None,
    normalise: bool = False,
) -> tuple[Float[Tensor, "batch time hidden"], Float[Tensor, "batch hidden"]]:
    """Return what the reference `unroll` does for the same arguments, as fast as the level allows.

    `backend` is "native" or "torch"; None for whichever is available.
    """
    form = _sequence_form(transition, backend, x, h0)
    if form is None or x.shape[1] == 0:
        return unroll(transition, x, h0, lengths, normalise)
    inside = inside_lengths(x, lengths)
    states = form.sequence(without_padding(x, inside), h0, inside, normalise)
    return without_padding(states, inside), states[:, -1]


def sequence_backend(transition: Transition, backend: str | None, *tensors: Tensor) -> Backend:
    """Return whether real-valued inputs go through a fast path of the level ("native") or the reference ("torch")."""
    return "torch" if _sequence_form(transition, backend, *tensors) is None else "native"


def _sequence_form(transition: Transition, backend: str | None, *tensors: Tensor) -> SequenceForm | None:
    if choose(backend, *tensors) == "torch":
        return None
    form = form_of(transition)
    # with an additive term it is the linear part that is fast or not
    linear = form_of(transition.linear) if isinstance(transition, Additive) else form
    return form if isinstance(form, SequenceForm) and isinstance(linear, SequenceForm) else None


def _symbols(table: Any) -> int:
    first = table[0] if isinstance(table, tuple) else table
    return len(first if isinstance(first, Tensor) else pytree.tree_leaves(first)[0])
