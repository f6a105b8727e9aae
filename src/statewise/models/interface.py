"""The model interface, stated once: what training and evaluation ask of a model of token sequences.

`forward(tokens) -> logits` is all that a model must have. Everything else has a default that works, and can be
overridden where a model knows better:

| method or attribute | asked by | default |
| --- | --- | --- |
| `forward(tokens)` | training, if answers are asked for after each token | none: a model must have it |
| `at_end(tokens, lengths)` | training, if the answer is asked for at the end | the last row of `forward` |
| `answers(tokens, rows, places)` | training, if some answers are asked for | their rows of `forward` |
| `init_state`, `advance`, `step` | evaluation, chains of thought | the state is the tokens so far, read anew |
| `longest` | a check before training | None: any length |
| `sequences_at_once`, `tokens_at_once` | evaluation, to bound memory | about half a million tokens at once |

A class of a user's own need not derive from `SequenceModel`: `as_model` puts the defaults around it.
"""

from abc import ABC, abstractmethod
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.errors import InputError

# tokens, sequences times length, whose activations fit into memory for models of the usual sizes
_TOKENS_AT_ONCE = 1 << 19

Tokens = Int[Tensor, "batch time"]
Logits = Float[Tensor, "batch time classes"]
LastLogits = Float[Tensor, "batch classes"]


class SequenceModel(nn.Module, ABC):
    """A causal model of token sequences, with a default for all but `forward`."""

    # the longest sequence that can be read; None is any
    longest: int | None = None

    @property
    def device(self) -> torch.device:
        """Where the parameters are, and tokens must be."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    @abstractmethod
    def forward(self, tokens: Tokens) -> Logits:
        """Compute the logits after each token; those after token t depend on tokens up to t only."""

    def at_end(self, tokens: Tokens, lengths: Int[Tensor, " batch"]) -> LastLogits:
        """Compute the logits after the last token of each row."""
        return self.answers(tokens, torch.arange(len(lengths), device=lengths.device), lengths - 1)

    def answers(
        self, tokens: Tokens, rows: Int[Tensor, " answer"], places: Int[Tensor, " answer"]
    ) -> Float[Tensor, "answer classes"]:
        """Compute the logits after some tokens: places[i] of the sequence rows[i]."""
        return self(tokens)[rows, places]

    def init_state(self, batch: int) -> Any:
        """Return the state before the first token: here no tokens at all."""
        return torch.zeros(batch, 0, dtype=torch.int64, device=self.device)

    def advance(self, tokens: Tokens, state: Any) -> tuple[LastLogits, Any]:
        """Advance by several tokens; return the logits after the last, and the state to go on from."""
        read = torch.cat([state, tokens], dim=1)
        return self(read)[:, -1], read

    def step(self, token: Int[Tensor, " batch"], state: Any) -> tuple[LastLogits, Any]:
        """Advance by one token."""
        return self.advance(token.unsqueeze(1), state)

    def sequences_at_once(self, length: int) -> int:
        """Return how many sequences of a length fit into memory together."""
        return max(1, _TOKENS_AT_ONCE // max(1, length))

    def tokens_at_once(self) -> int:
        """Return how many tokens, sequences times time steps, one call of `advance` should get.

        Without a state of its own, a model reads everything anew at each call: one call is then best.
        """
        return 1 << 62


class RecurrentModel(SequenceModel, ABC):
    """A model with a state of its own: `init_state` and `run` define it."""

    @abstractmethod
    def init_state(self, batch: int) -> Any:
        """Return the state before the first token."""

    @abstractmethod
    def run(self, tokens: Tokens, state: Any) -> tuple[Logits, Any]:
        """Compute the logits after each token, and the state to go on from."""

    def forward(self, tokens: Tokens) -> Logits:
        """Compute the logits after each token of whole sequences."""
        return self.run(tokens, self.init_state(tokens.shape[0]))[0]

    def advance(self, tokens: Tokens, state: Any) -> tuple[LastLogits, Any]:
        """Advance by several tokens; return the logits after the last."""
        logits, state = self.run(tokens, state)
        return logits[:, -1], state

    def sequences_at_once(self, length: int) -> int:
        """Return a large number: a state does not grow with length."""
        return 1 << 20

    def tokens_at_once(self) -> int:
        """Return how many tokens one call of `advance` should get."""
        return 65_536


@final
class AdaptedModel(SequenceModel):
    """A user's module behind the whole interface: its own methods where it has them, the defaults elsewhere."""

    def __init__(self, module: nn.Module, classes: int | None = None) -> None:
        super().__init__()
        self.module, self.classes = module, classes
        self.longest = getattr(module, "longest", None)
        # half of a streaming state is none
        self.streams = hasattr(module, "init_state") and hasattr(module, "advance")

    def forward(self, tokens: Tokens) -> Logits:
        """Call the module, and check the shape of its logits."""
        logits = self.module(tokens)
        expected = (*tokens.shape, self.classes)
        found = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        if (
            not isinstance(found, tuple)
            or len(found) != 3
            or found[:2] != expected[:2]
            or found[2] != (expected[2] or found[2])
        ):
            raise InputError(
                f"{type(self.module).__name__}.forward gave {found} for tokens of shape {tuple(tokens.shape)}; "
                f"expected logits [batch, time, classes], {expected}; return one row of logits after each token"
            )
        return logits

    def at_end(self, tokens: Tokens, lengths: Int[Tensor, " batch"]) -> LastLogits:
        """Compute the logits after the last token of each row."""
        own = getattr(self.module, "at_end", None)
        return super().at_end(tokens, lengths) if own is None else own(tokens, lengths)

    def init_state(self, batch: int) -> Any:
        """Return the state before the first token."""
        return self._owner().init_state(batch) if self.streams else super().init_state(batch)

    def advance(self, tokens: Tokens, state: Any) -> tuple[LastLogits, Any]:
        """Advance by several tokens; return the logits after the last."""
        return self._owner().advance(tokens, state) if self.streams else super().advance(tokens, state)

    def sequences_at_once(self, length: int) -> int:
        """Return how many sequences of a length fit into memory together."""
        own = getattr(self.module, "sequences_at_once", None)
        return super().sequences_at_once(length) if own is None else int(own(length))

    def tokens_at_once(self) -> int:
        """Return how many tokens one call of `advance` should get."""
        own = getattr(self.module, "tokens_at_once", None)
        if own is not None:
            return int(own())
        return 65_536 if self.streams else super().tokens_at_once()

    def _owner(self) -> Any:
        return self.module


def as_model(module: nn.Module, classes: int | None = None) -> SequenceModel:
    """Return a module behind the whole interface, itself if it has it.

    Args:
        module: any with `forward(tokens) -> logits`.
        classes: how many output classes its logits must have, where that is known.
    """
    return module if isinstance(module, SequenceModel) else AdaptedModel(module, classes)
