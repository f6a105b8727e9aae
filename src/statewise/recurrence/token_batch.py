"""A batch of token sequences, and how their states are computed."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from statewise.errors import InputError
from statewise.kernels import in_memory


@dataclass(frozen=True)
class TokenBatch:
    """A batch of sequences for one network, or for several whose tables and rows lie one after the other.

    Args:
        tokens: the token of each row and time step; those of network m are numbered from m V.
        lengths: the length of each row, at least 1, where only its last state is wanted; None for every state.
        every: divide each state by a power of two near its largest entry after so many steps, so that states are
            known up to a positive factor and long sequences neither overflow nor underflow; 0 never does.
        backend: "native" or "torch"; None for whichever is available.
        members: the number of networks.
    """

    tokens: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"] | None = None
    every: int = 0
    backend: str | None = None
    members: int = 1

    def checked(self, symbols: int, h0: Tensor) -> "TokenBatch":
        """Return the same in 64-bit integers; raise `InputError` for a token or a length that is out of range."""
        if len(self.tokens) != len(h0):
            raise InputError(f"there are {len(self.tokens)} sequences and {len(h0)} states; expected as many")
        if in_memory(h0):
            if self.tokens.numel():
                _require("tokens", self.tokens, 0, symbols - 1)
            if self.lengths is not None and len(self.lengths):
                _require("lengths", self.lengths, 1, self.tokens.shape[1])
        lengths = None if self.lengths is None else self.lengths.long()
        return TokenBatch(self.tokens.long(), lengths, self.every, self.backend, self.members)


def _require(what: str, values: Tensor, least: int, most: int) -> None:
    low, high = (int(bound) for bound in values.aminmax())
    if not least <= low <= high <= most:
        raise InputError(f"{what} go from {low} to {high}; expected {least} to {most}")
