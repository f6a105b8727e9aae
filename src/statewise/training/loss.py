"""What training lowers, stated once for single models and for stacked ones."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from statewise.models.interface import SequenceModel
from statewise.tasks import Batch


def answer_loss(
    logits: Float[Tensor, "answer classes"], right: Int[Tensor, " answer"], reduction: Literal["mean", "none"] = "mean"
) -> Float[Tensor, "*answer"]:
    """Compute the cross-entropy of answers: their mean, or that of each."""
    return nn.functional.cross_entropy(logits, right, reduction=reduction)


def objective(model: SequenceModel, batch: Batch) -> Float[Tensor, ""]:
    """Compute a model's mean loss over all tokens after which an answer is asked for."""
    tokens = torch.from_numpy(batch.tokens)
    if batch.asked is None:
        logits = model.at_end(tokens, torch.from_numpy(batch.lengths))
        return answer_loss(logits, torch.from_numpy(batch.finals))
    rows, places = (torch.from_numpy(index) for index in batch.asked.nonzero())
    right = torch.from_numpy(batch.outputs)[rows, places]
    return answer_loss(model(tokens)[rows, places], right)
