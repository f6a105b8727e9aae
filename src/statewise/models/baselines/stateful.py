"""What a baseline must provide, and the verbs that follow from it."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class StatefulModel(nn.Module, ABC):
    """A causal model of tokens that can be run in pieces: `run` and `init_state` define it."""

    # the longest word that can be read; None is any
    longest_word: int | None = None

    @abstractmethod
    def init_state(self, batch: int) -> Any:
        """Gives the state before the first token."""

    @abstractmethod
    def run(self, tokens: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch time classes"], Any]:
        """Gives logits after each token, and the state to go on from."""

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time classes"]:
        """Gives logits after each token of whole words."""
        return self.run(tokens, self.init_state(tokens.shape[0]))[0]

    def at_end(
        self, tokens: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch classes"]:
        """Gives logits after the last token of each word."""
        return self(tokens)[torch.arange(len(lengths), device=lengths.device), lengths - 1]

    def advance(self, tokens: Int[Tensor, "batch time"], state: Any) -> tuple[Float[Tensor, "batch classes"], Any]:
        """Advances by several tokens; gives the logits after the last."""
        logits, state = self.run(tokens, state)
        return logits[:, -1], state

    def step(self, token: Int[Tensor, " batch"], state: Any) -> tuple[Float[Tensor, "batch classes"], Any]:
        """Advances by one token."""
        return self.advance(token.unsqueeze(1), state)

    def tokens_at_once(self) -> int:
        """Gives how many tokens, words times symbols, a chunk of evaluation may have."""
        return 65_536

    def words_at_once(self, length: int) -> int:
        """Gives how many words of a length fit into memory together."""
        return 1 << 20
