"""Weights into networks: what all constructions share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Real

from statewise.models.tracker import StateTracker
from statewise.transitions import Block, Diagonal, LinearTransition


@dataclass(frozen=True, eq=False)
class Compiled:
    """A network whose weights were constructed, not trained.

    Args:
        model: the network.
        level: the name of its level.
        exact: whether every weight is stored without rounding; otherwise the network tracks up to a horizon.
        how: the construction, in words.
    """

    model: StateTracker
    level: str
    exact: bool
    how: str


def tracker(
    transition: LinearTransition,
    initial: Real[np.ndarray, " hidden"],
    weights: Real[np.ndarray, "class hidden"],
) -> StateTracker:
    """Build a network from a transition, an initial hidden state and a readout, in the dtype of the transition."""
    symbols, hidden = transition.input_size, transition.hidden_size
    dtype = next(transition.parameters()).dtype
    model = StateTracker(symbols, len(weights), hidden, transition).to(dtype)
    with torch.no_grad():
        model.initial_state.copy_(torch.from_numpy(np.asarray(initial, dtype=np.float64)))
        model.readout.copy_(torch.from_numpy(np.asarray(weights, dtype=np.float64)))
    return model


def block_network(
    matrices: Real[np.ndarray, "symbol out in"],
    initial: Real[np.ndarray, " hidden"],
    weights: Real[np.ndarray, "class hidden"],
    size: int,
    dtype: torch.dtype,
    exact: bool,
    how: str,
) -> Compiled:
    """Write matrices that are zero outside blocks of one size."""
    transition = Block.from_dense(weight_of(matrices, dtype), size)
    return Compiled(tracker(transition, initial, weights), f"block({size})", exact, how)


def pack(
    matrices: np.ndarray, initial: np.ndarray, weights: np.ndarray, sizes: Sequence[int], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Place small blocks side by side in blocks of one size, padded with zeros."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    bins = fill_bins(sizes, size)
    where = np.full(size * len(bins), -1, dtype=np.int64)
    for b, parts in enumerate(bins):
        inside = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in parts])
        where[b * size : b * size + len(inside)] = inside
    used = where >= 0

    def spread(values: np.ndarray, axis: int) -> np.ndarray:
        taken = np.take(values, np.maximum(where, 0), axis=axis)
        shape = [1] * values.ndim
        shape[axis] = len(where)
        return taken * used.reshape(shape)

    return spread(spread(matrices, 1), 2), spread(initial, 0), spread(weights, 1)


def fill_bins(sizes: Sequence[int], size: int) -> list[list[int]]:
    """Distribute parts over bins of one size, large parts first, each into the first bin that has room."""
    bins: list[list[int]] = []
    room: list[int] = []
    for part in sorted(range(len(sizes)), key=lambda p: -sizes[p]):
        place = next((b for b, free in enumerate(room) if free >= sizes[part]), None)
        if place is None:
            bins.append([])
            room.append(size)
            place = len(bins) - 1
        bins[place].append(part)
        room[place] -= sizes[part]
    return bins


def diagonal_of(entries: Float[np.ndarray, "symbol hidden"], dtype: torch.dtype) -> Diagonal:
    """Build the transition whose matrices have these diagonals."""
    return Diagonal.from_dense(torch.diag_embed(torch.from_numpy(entries)).permute(1, 2, 0).to(dtype))


def weight_of(matrices: Real[np.ndarray, "symbol out in"], dtype: torch.dtype) -> torch.Tensor:
    """Return matrices as the tensor of a full level, W[out, in, symbol]."""
    return torch.from_numpy(np.ascontiguousarray(matrices.transpose(1, 2, 0), dtype=np.float64)).to(dtype)
