"""Batches, and how the kinds of supervision ask for answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

Supervision = Literal["final", "closed", "aligned", "chain"]
# those under which a network reads tokens that are no symbols of the machine
BEYOND_SYMBOLS: frozenset[Supervision] = frozenset({"closed", "chain"})
# those that ask for one answer, after the last token
AT_END: frozenset[Supervision] = frozenset({"final", "closed"})


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens padded with 0 to one length, how long each row is, and the output class that is right after each token.

    `asked` says after which tokens the answer is asked for; None is the last of each row.
    """

    tokens: Int[np.ndarray, "batch time"]
    lengths: Int[np.ndarray, " batch"]
    outputs: Int[np.ndarray, "batch time"]
    asked: Bool[np.ndarray, "batch time"] | None

    @property
    def answers(self) -> int:
        """How many answers are asked for."""
        return len(self.lengths) if self.asked is None else int(self.asked.sum())

    def rows(self, rows: slice) -> "Batch":
        """Return some of the rows."""
        asked = None if self.asked is None else self.asked[rows]
        return Batch(self.tokens[rows], self.lengths[rows], self.outputs[rows], asked)

    @property
    def finals(self) -> Int[np.ndarray, " batch"]:
        """The output class at the end of each sequence."""
        return self.outputs[np.arange(len(self.lengths)), self.lengths - 1]


def count_tokens(supervision: Supervision, symbols: int, classes: int) -> int:
    """Return how many different tokens there are: symbols, one that ends the sequence, and for a chain each output."""
    return symbols + {"closed": 1, "chain": 1 + classes}.get(supervision, 0)


def written_length(supervision: Supervision, length: int) -> int:
    """Return how many tokens a sequence of a length takes."""
    return {"closed": length + 1, "chain": 2 * length}.get(supervision, length)


def ask_at_end(tokens: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Ask for the output at the end of a sequence."""
    return Batch(tokens, lengths, outputs, None)


def _ask_after_closing(tokens: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """End the sequence with one more token, and ask for its output after that.

    A sequence a b c with outputs p q r becomes the tokens a b c =, and after the last r is asked for.
    """
    rows = np.arange(len(tokens))
    written, right = (np.pad(part, ((0, 0), (0, 1))) for part in (tokens, outputs))
    written[rows, lengths] = symbols
    right[rows, lengths] = outputs[rows, lengths - 1]
    return Batch(written, lengths + 1, right, None)


def _ask_after_each(tokens: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Ask for the output after each symbol."""
    return Batch(tokens, lengths, outputs, np.arange(tokens.shape[1]) < lengths[:, None])


def _ask_for_chain(tokens: np.ndarray, lengths: np.ndarray, outputs: np.ndarray, symbols: int) -> Batch:
    """Write the outputs out after the sequence, and ask for each of them.

    A sequence a b c with outputs p q r becomes the tokens a b c = p q, and after the last three p q r are asked for.
    """
    count, longest = tokens.shape
    written = np.zeros((count, 2 * longest), dtype=np.int64)
    right = np.zeros((count, 2 * longest), dtype=np.int64)
    written[:, :longest] = tokens
    rows, places = np.nonzero(np.arange(longest) < lengths[:, None])
    after = lengths[rows] + places
    right[rows, after] = outputs[rows, places]
    written[np.arange(count), lengths] = symbols
    follows = places < lengths[rows] - 1
    written[rows[follows], after[follows] + 1] = symbols + 1 + outputs[rows[follows], places[follows]]
    time = np.arange(2 * longest)
    return Batch(written, 2 * lengths, right, (time >= lengths[:, None]) & (time < 2 * lengths[:, None]))


FORMATS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, int], Batch]] = {
    "final": ask_at_end,
    "closed": _ask_after_closing,
    "aligned": _ask_after_each,
    "chain": _ask_for_chain,
}
