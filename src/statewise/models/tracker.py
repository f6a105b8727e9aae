"""StateTracker: tokens in, a bilinear recurrence, a linear readout of the machine's outputs."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.errors import TransitionError
from statewise.models.interface import SequenceModel
from statewise.models.levels import build_transition, transition_spec
from statewise.models.pretrained import Pretrained
from statewise.recurrence import RESCALE_EVERY, TokenBatch, read_direction, read_tokens, resume_tokens
from statewise.transitions import Transition

Readout = Literal["plain", "normalised"]


def _without_autocast(method: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a recurrence in the dtype of its weights: errors of a product of many matrices grow with its length."""

    @wraps(method)
    def inside(self: "StateTracker", *args: Any) -> Any:
        device = self.initial_state.device.type
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return method(self, *args)
        with torch.autocast(device, enabled=False):
            return method(self, *args)

    return inside


@final
class StateTracker(SequenceModel, Pretrained):
    """Logits U h_t, or U h_t / |h_t|, of h_t = A(x_t) h_{t-1}, where x_t stands for token t.

    Without an additive term the two readouts have the same argmax, but not the same gradient: a plain readout can
    lower its loss by growing h, and its gradient vanishes; a normalised one cannot.

    Args:
        symbols: how many tokens there are.
        classes: how many output classes there are.
        hidden_size: H.
        transition: a level by name, as for BilinearRNN, or a `Transition` of these sizes, of one's own or not.
        additive: an additive term in the update of a named level.
        embedding: 0 for one-hot tokens, or the size of a trained embedding.
        readout: whether the hidden state is divided by its norm before the readout.
        generator: where the initial weights are drawn from.
    """

    # what computes: "native", "torch", or None for what there is
    backend: str | None = None

    def __init__(
        self,
        symbols: int,
        classes: int,
        hidden_size: int,
        transition: str | Transition = "full",
        additive: str = "none",
        embedding: int = 0,
        readout: Readout = "normalised",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if symbols < 1 or classes < 1 or embedding < 0:
            raise TransitionError(
                f"a tracker of {symbols} symbols, {classes} classes and embedding {embedding} cannot be built; "
                "expected at least 1, 1 and 0"
            )
        self.readout_kind: Readout = readout
        init = "features" if embedding else "tokens"
        if isinstance(transition, str):
            self.transition = build_transition(transition, embedding or symbols, hidden_size, additive, generator, init)
        else:
            self.transition = check_transition(transition, embedding or symbols, hidden_size, additive)
        # a readout of directions sees states up to a positive factor only
        self._every = RESCALE_EVERY if readout == "normalised" else 0
        self.embeddings = None
        if embedding:
            self.embeddings = nn.Parameter(torch.randn(symbols, embedding, generator=generator))
        self.initial_state = nn.Parameter(torch.ones(hidden_size))
        if not any(parameter.requires_grad for parameter in self.transition.parameters()):
            self.initial_state.requires_grad_(False)
        self.readout = nn.Parameter(torch.randn(classes, hidden_size, generator=generator) * hidden_size**-0.5)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that build this network again, up to its weights."""
        transition, additive = transition_spec(self.transition)
        embedding = 0 if self.embeddings is None else self.embeddings.shape[1]
        return {
            "symbols": self.transition.input_size if self.embeddings is None else len(self.embeddings),
            "classes": len(self.readout),
            "hidden_size": len(self.initial_state),
            "transition": transition,
            "additive": additive,
            "embedding": embedding,
            "readout": self.readout_kind,
        }

    @_without_autocast
    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time classes"]:
        """Compute the logits after each token."""
        return self._read(self._states(tokens, None))

    @_without_autocast
    def at_end(
        self, tokens: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits after the last token of each row, with as few states on the way as the level needs."""
        return self._read(self._states(tokens, lengths))

    def _states(self, tokens: Tensor, lengths: Tensor | None) -> Float[Tensor, "*batch hidden"]:
        h0 = self.initial_state.expand(tokens.shape[0], -1)
        reading = TokenBatch(tokens, lengths, self._every, self.backend)
        return read_tokens(self.transition, self.embeddings, h0, reading)

    def _read(self, h: Float[Tensor, "*batch hidden"]) -> Float[Tensor, "*batch classes"]:
        if self.readout_kind == "normalised":
            return read_direction(h, self.readout)
        return h @ self.readout.T

    def init_state(self, batch: int) -> tuple[Tensor, Tensor]:
        """Return the state before the first token: a hidden state and the logarithm of its scale."""
        h = self.initial_state.expand(batch, -1)
        return h, torch.zeros(batch, dtype=torch.float64, device=h.device)

    @_without_autocast
    def advance(
        self, tokens: Int[Tensor, "batch time"], state: tuple[Tensor, Tensor]
    ) -> tuple[Float[Tensor, "batch classes"], tuple[Tensor, Tensor]]:
        """Advance by several tokens; return the logits after the last, and a state of bounded size.

        A plain readout's logits grow with the state and are given for a state of norm 1, which no argmax sees.
        """
        h, log_norm = resume_tokens(self.transition, self.embeddings, tokens, *state, self.backend)
        return read_direction(h, self.readout), (h, log_norm)

    def tokens_at_once(self) -> int:
        """Return how many tokens one call of `advance` should get."""
        return 1 << 19

    def sequences_at_once(self, length: int) -> int:
        """Return a large number: a state does not grow with length."""
        return 1 << 20


def check_transition(transition: Transition, input_size: int, hidden_size: int, additive: str) -> Transition:
    """Refuse a transition whose sizes are not those of the network around it."""
    if additive != "none":
        raise TransitionError(
            f'additive is "{additive}" beside a transition that is a value; '
            f'wrap it as Additive(transition, "{additive}")'
        )
    sizes = (transition.input_size, transition.hidden_size)
    if sizes != (input_size, hidden_size):
        raise TransitionError(
            f"the transition has input and hidden sizes {sizes}, expected {(input_size, hidden_size)}; "
            "build it for these"
        )
    return transition
