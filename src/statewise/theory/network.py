"""A tracker as matrices: what proofs, searches, extraction and snapping read."""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from statewise.errors import NetworkError
from statewise.models.interface import AdaptedModel
from statewise.models.tracker import StateTracker
from statewise.recurrence import token_table
from statewise.transitions import Block, Diagonal, Full, LinearTransition, Positive

# levels whose matrices, on one-hot tokens, hold stored weights and nothing else
_STORED = (Full, Block, Diagonal)
# products of three such numbers stay in the range of float64
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Network:
    """The function h_t = A[a_t] h_{t-1}, whose answer is the class with a logit (U h_t)_c larger than all others.

    Numbers are read as the rationals that they are; multiplying a matrix or a state by a positive number changes no
    answer, so hidden normalisation plays no part. Two equal largest logits are no answer.

    Args:
        matrices: A[a] for each symbol a.
        initial: h_0.
        readout: U.
        stored: whether each entry is a stored weight; otherwise it was computed from several, and rounded to 53 bits.
        logs: of a positive diagonal, the stored weights: the logarithms of its entries.
    """

    matrices: Float[np.ndarray, "symbol out in"]
    initial: Float[np.ndarray, " hidden"]
    readout: Float[np.ndarray, "classes hidden"]
    stored: bool = True
    logs: Float[np.ndarray, "symbol hidden"] | None = None

    def __post_init__(self) -> None:
        parts = (self.matrices, self.initial, self.readout)
        if not all(np.isfinite(part).all() for part in parts):
            raise NetworkError("the network has weights that are not finite; train it again, or use another run")
        largest = max(float(np.abs(part).max()) for part in parts)
        if largest > _LARGEST:
            raise NetworkError(f"the network has a weight of size {largest:.0e}; expected at most {_LARGEST:.0e}")

    @property
    def symbols(self) -> int:
        """The number of symbols."""
        return len(self.matrices)

    @property
    def hidden(self) -> int:
        """The hidden size."""
        return len(self.initial)

    @property
    def classes(self) -> int:
        """The number of output classes."""
        return len(self.readout)

    @cached_property
    def integers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Matrices, initial state and readout as Python integers, each times a positive number."""
        return (
            np.stack([_integers(matrix) for matrix in self.matrices]),
            _integers(self.initial),
            _integers(self.readout),
        )

    def states(self, sequences: Int[np.ndarray, "sequence time"]) -> Float[np.ndarray, "sequence hidden"]:
        """Return the final hidden states of sequences of one length, with norm 1."""
        h = np.broadcast_to(self.initial, (len(sequences), self.hidden))
        for t in range(sequences.shape[1]):
            h = np.einsum("bij,bj->bi", self.matrices[sequences[:, t]], h)
            h = h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return h

    def answers(self, sequences: Int[np.ndarray, "sequence time"]) -> Int[np.ndarray, " sequence"]:
        """Return the classes of the largest logits after sequences of one length."""
        return (self.states(sequences) @ self.readout.T).argmax(axis=1)


def network_of(model: Any) -> Network:
    """Read a trained or compiled tracker; a model whose state is no product of matrices is refused."""
    if not isinstance(model, StateTracker):
        name = type(model.module if isinstance(model, AdaptedModel) else model).__name__
        raise NetworkError(f"{name} is not bilinear: its state is no product of matrices; give a level such as full")
    if not isinstance(model.transition, LinearTransition):
        raise NetworkError(
            "the network is not linear in its hidden state (it has an additive term), so that is no product of "
            "matrices; train it with additive none, or evaluate its scores instead"
        )
    transition = model.transition
    with torch.no_grad():
        embeddings = None if model.embeddings is None else model.embeddings.double()
        # in float64, so that computed matrices are accurate to 53 bits
        doubled = copy.deepcopy(transition).double()
        table = token_table(doubled, embeddings)
        matrices = doubled.dense(table)
        _check_dense(doubled, table, matrices)
    parts = (matrices, model.initial_state, model.readout)
    stored = embeddings is None and isinstance(transition, _STORED)
    logs = table.detach().numpy() if isinstance(transition, Positive) and embeddings is None else None
    return Network(*(part.detach().double().numpy() for part in parts), stored=stored, logs=logs)


def _check_dense(transition: LinearTransition, table: torch.Tensor, matrices: torch.Tensor) -> None:
    """Refuse a level whose dense matrices are not what acts on a state: a proof about them would be about nothing."""
    generator = torch.Generator().manual_seed(0)
    for scale in (1.0, 1e3):
        h = scale * torch.randn(len(matrices), matrices.shape[-1], dtype=matrices.dtype, generator=generator)
        acted, expected = transition.act(table, h), (matrices @ h.unsqueeze(-1)).squeeze(-1)
        if not torch.allclose(acted, expected, rtol=1e-6, atol=1e-9 * float(expected.abs().max())):
            raise NetworkError(
                f"act and dense of {type(transition).__name__} disagree, so nothing can be proved of it; "
                "make act(c, h) equal dense(c) @ h"
            )


def _integers(values: np.ndarray) -> np.ndarray:
    """Return numbers as whole numbers without a common divisor, times one positive factor."""
    if (np.rint(values) == values).all() and np.abs(values).max() < 2.0**53:
        small = values.astype(np.int64)
        return (small // max(1, int(np.gcd.reduce(small.ravel())))).astype(object)
    ratios = [Fraction(value) for value in values.ravel().tolist()]
    scale = math.lcm(*(ratio.denominator for ratio in ratios))
    whole = [int(ratio * scale) for ratio in ratios]
    divisor = math.gcd(*whole) or 1
    made = np.empty(len(whole), dtype=object)
    made[:] = [value // divisor for value in whole]
    return made.reshape(values.shape)
