"""Additive terms: h' = A h + b is a matrix on (h, 1), so that the kernels of linear levels compute it.

Where A is made of blocks, each block gets a 1 of its own, and stays a block of one more row and column.
"""

from functools import singledispatch

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.transitions import Additive, Block, Diagonal, LinearTransition, Positive, Rotation
from statewise.transitions.additive import affine_matrix

Blocks = Float[Tensor, "token blocks out in"]


def affine_blocks(transition: Additive, table: tuple[Tensor, ...]) -> Blocks:
    """Gives [[A, b], [0, 1]] of each token, block by block."""
    linear, offset = table
    blocks = _blocks(transition.linear, linear)
    return affine_matrix(blocks, offset.unflatten(-1, blocks.shape[1:3]))


def with_ones(h: Float[Tensor, "batch hidden"], blocks: int) -> Float[Tensor, "batch longer"]:
    """Puts a 1 behind the part of each block."""
    return torch.nn.functional.pad(h.unflatten(-1, (blocks, -1)), (0, 1), value=1.0).flatten(-2)


def without_ones(h: Float[Tensor, "*batch longer"], blocks: int) -> Float[Tensor, "*batch hidden"]:
    """Takes them away again."""
    return h.unflatten(-1, (blocks, -1))[..., :-1].flatten(-2)


@singledispatch
def _blocks(linear: LinearTransition, table: Tensor) -> Blocks:
    """Gives the matrices of each token as blocks; a level that has none is one block."""
    return linear.dense(table).unsqueeze(1)


@_blocks.register
def _(linear: Block, table: Tensor) -> Blocks:
    return table


@_blocks.register
def _(linear: Diagonal, table: Tensor) -> Blocks:
    return table[..., None, None]


@_blocks.register
def _(linear: Positive, table: Tensor) -> Blocks:
    return table.exp()[..., None, None]


@_blocks.register
def _(linear: Rotation, table: Tensor) -> Blocks:
    return linear.planes(table)
