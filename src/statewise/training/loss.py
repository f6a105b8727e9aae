"""What training lowers, stated once for single models and for stacked ones.

Cross-entropy asks for an order of the logits and stops once they are confident; squared error asks for their values,
one-hot answers, and goes on until they are met.
"""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.models.interface import SequenceModel
from statewise.tasks import Batch
from statewise.training.plans import Loss


def tensor_on(device: torch.device, array: np.ndarray) -> Tensor:
    """Return an array as a tensor on a device; on the CPU it shares the array's memory."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def answer_loss(
    logits: Float[Tensor, "answer classes"],
    right: Int[Tensor, " answer"],
    loss: Loss = "cross-entropy",
    reduction: Literal["mean", "none"] = "mean",
) -> Float[Tensor, "*answer"]:
    """Compute the loss of answers: their mean, or that of each.

    Args:
        logits: a row for each answer.
        right: the correct classes.
        loss: "cross-entropy", or "squared" for the squared distance of the logits from the one-hot vector of the class.
        reduction: "mean" over all answers, or "none".
    """
    if loss == "cross-entropy":
        return nn.functional.cross_entropy(logits, right, reduction=reduction)
    each = (logits - nn.functional.one_hot(right, logits.shape[-1])).square().sum(dim=-1)
    return each.mean() if reduction == "mean" else each


def objective(model: SequenceModel, batch: Batch, loss: Loss = "cross-entropy") -> Float[Tensor, ""]:
    """Compute a model's mean loss over all tokens after which an answer is asked for."""
    device = model.device
    tokens = tensor_on(device, batch.tokens)
    if batch.asked is None:
        logits = model.at_end(tokens, tensor_on(device, batch.lengths))
        return answer_loss(logits, tensor_on(device, batch.finals), loss)
    asked = batch.asked.nonzero()
    rows, places = (tensor_on(device, index) for index in asked)
    right = tensor_on(device, batch.outputs[asked])
    return answer_loss(model.answers(tokens, rows, places), right, loss)
