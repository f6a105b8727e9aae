"""Which tokens are read, what is asked of them, and how the answer is computed."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from statewise.errors import InputError
from statewise.kernels import in_memory

# steps between rescalings: float32 holds gains of up to 10,000 a step that long
RESCALE_EVERY = 8


@dataclass(frozen=True)
class TokenBatch:
    """One reading of a batch of words by one network, or by several whose tables and rows lie one after the other.

    Args:
        tokens: which token comes when; those of network m are numbered from m V.
        lengths: how many tokens of each row count, at least 1: only the state after the last is asked for. None asks
            for every state.
        every: divide each state by a power of two near its largest entry after so many steps, so that states are given
            up to a positive factor and long words neither overflow nor underflow; 0 never does.
        backend: "native" or "torch"; None takes what there is.
        members: how many networks there are.
    """

    tokens: Int[Tensor, "batch time"]
    lengths: Int[Tensor, " batch"] | None = None
    every: int = 0
    backend: str | None = None
    members: int = 1

    def checked(self, symbols: int, h0: Tensor) -> "TokenBatch":
        """Gives the same with whole numbers of 64 bits; what no table of `symbols` rows or no word holds is refused."""
        if len(self.tokens) != len(h0):
            raise InputError(f"there are {len(self.tokens)} words and {len(h0)} states; expected as many")
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
