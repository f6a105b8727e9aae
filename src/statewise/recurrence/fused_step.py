"""A whole training step of full matrices over tokens, for several networks: losses and gradients in one call."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.kernels import call
from statewise.recurrence.request import RESCALE_EVERY


@dataclass(frozen=True)
class FullWeights:
    """What several full trackers of one-hot tokens are made of, or the gradients of that."""

    matrices: Float[Tensor, "member token out in"]
    initial: Float[Tensor, "member hidden"]
    readout: Float[Tensor, "member classes hidden"]


def losses_and_gradients(
    weights: FullWeights,
    tokens: Int[Tensor, "member batch time"],
    lengths: Int[Tensor, "member batch"],
    answers: Int[Tensor, "member batch"],
    direction: bool,
) -> tuple[Float[Tensor, " member"], FullWeights]:
    """Gives each member's mean cross-entropy at the end of its words, and its gradients.

    With the kernels only: the same is computed elsewhere through autograd, and a test compares the two.

    Args:
        weights: of all members.
        tokens: the words of each, numbered from 0.
        lengths: how many tokens of each word count, at least 1.
        answers: the right class of each word.
        direction: whether states are divided by their norm before they are read out.
    """
    gradients = FullWeights(*(torch.empty_like(part) for part in (weights.matrices, weights.initial, weights.readout)))
    losses = weights.initial.new_empty(len(weights.initial))
    members, symbols, hidden = weights.matrices.shape[:3]
    sizes = (members, symbols, hidden, weights.readout.shape[1], tokens.shape[1], tokens.shape[2])
    inputs = (weights.matrices, weights.initial, weights.readout)
    words = (tokens.transpose(1, 2).contiguous(), lengths.contiguous(), answers.contiguous())
    outputs = (losses, gradients.matrices, gradients.initial, gradients.readout)
    every = RESCALE_EVERY if direction else 0
    call("tokens_train", losses.dtype, *inputs, *words, *outputs, *sizes, every, int(direction))
    return losses, gradients
