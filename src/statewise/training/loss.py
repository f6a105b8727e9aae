"""What training lowers, stated once for single models and for stacked ones.

Cross-entropy asks for an order of the logits and stops once they are confident; squared error asks for their values,
one-hot answers, and goes on until they are met.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.models.interface import SequenceModel
from statewise.tasks import Batch
from statewise.training.plans import Loss


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
    tokens = torch.from_numpy(batch.tokens)
    if batch.asked is None:
        logits = model.at_end(tokens, torch.from_numpy(batch.lengths))
        return answer_loss(logits, torch.from_numpy(batch.finals), loss)
    rows, places = (torch.from_numpy(index) for index in batch.asked.nonzero())
    right = torch.from_numpy(batch.outputs)[rows, places]
    return answer_loss(model.answers(tokens, rows, places), right, loss)
