"""Correction of drift at inference: off by default, since it is no longer the network alone.

Re-embedding replaces the hidden state, every T symbols, by the prototype of the nearest machine state. That is a
non-linearity, which linear recurrences lack: if from every prototype all sequences of up to T symbols stay nearest to
the correct prototype, the answers are correct at every length. The sign rule chooses the sign of the hidden state such
that it lies on the prototypes' side: linear maps are odd, so a state near -v_q would stay on the wrong side for ever.
"""

from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.errors import NetworkError
from statewise.models.interface import SequenceModel
from statewise.models.tracker import StateTracker
from statewise.theory.snap import Prototypes

_ROUNDS = 10_000


@final
class Corrected(SequenceModel):
    """A tracker with corrections of its hidden state.

    Args:
        tracker: the network.
        given: its prototypes.
        every: re-embed after so many symbols; 0 never does.
        sign_rule: whether signs are corrected before each answer.
    """

    def __init__(self, tracker: StateTracker, given: Prototypes, every: int = 0, sign_rule: bool = False) -> None:
        super().__init__()
        if every < 0:
            raise NetworkError(f"re-embedding every {every} symbols is not possible; use at least 1, or 0 for never")
        states = np.arange(given.machine.states)[:, None]
        if sign_rule and len(states) > 1 and (np.sort(given.machine.delta, axis=0) == states).all():
            raise NetworkError("symbols permute the states of this machine, so no sign is wrong; leave --sign-rule out")
        self.tracker, self.every = tracker, every
        dtype = tracker.readout.dtype
        self.vectors: Tensor
        self.side: Tensor | None
        self.register_buffer("vectors", torch.from_numpy(given.vectors).to(dtype))
        self.register_buffer("side", torch.from_numpy(_side(given.vectors)).to(dtype) if sign_rule else None)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time classes"]:
        """Compute the logits after each token."""
        state = self.init_state(len(tokens))
        logits = self.tracker.readout.new_empty(len(tokens), tokens.shape[1], len(self.tracker.readout))
        for t in range(tokens.shape[1]):
            logits[:, t], state = self.step(tokens[:, t], state)
        return logits

    def init_state(self, batch: int) -> tuple[Any, int]:
        """Return the tracker's state, and the number of symbols since it was last re-embedded."""
        return self.tracker.init_state(batch), 0

    def advance(self, tokens: Int[Tensor, "batch time"], state: tuple[Any, int]) -> tuple[Tensor, tuple[Any, int]]:
        """Advance by several tokens, with corrections on the way."""
        inner, since = state
        begin = 0
        logits = torch.empty(0)
        while begin < tokens.shape[1]:
            end = tokens.shape[1] if not self.every else min(tokens.shape[1], begin + self.every - since)
            logits, inner = self.tracker.advance(tokens[:, begin:end], inner)
            since, begin = since + end - begin, end
            h, log_norm = inner
            if self.side is not None:
                sign = torch.where(h @ self.side < 0, -1.0, 1.0).to(h.dtype).unsqueeze(-1)
                h, logits = sign * h, sign * logits
            if self.every and since == self.every:
                h, since = self.vectors[(h @ self.vectors.T).argmax(dim=-1)], 0
            inner = (h, log_norm)
        return logits, (inner, since)

    def sequences_at_once(self, length: int) -> int:
        """Return how many sequences of a length fit into memory together."""
        return self.tracker.sequences_at_once(length)

    def tokens_at_once(self) -> int:
        """Return how many tokens, sequences times symbols, a chunk may have."""
        return self.tracker.tokens_at_once()


def _side(vectors: Float[np.ndarray, "state hidden"]) -> Float[np.ndarray, " hidden"]:
    """Find l with l . v_q > 0 for all q, by the perceptron's rule."""
    side = vectors.mean(axis=0)
    for _ in range(_ROUNDS):
        products = vectors @ side
        if (products > 0).all():
            return side / np.linalg.norm(side)
        side = side + vectors[products.argmin()]
    raise NetworkError("no side holds all prototypes, as for a group, so no sign is wrong; leave --sign-rule out")
