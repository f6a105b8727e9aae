"""What training lowers: the cross-entropy of a batch's answers."""

from typing import Any

import torch
from torch import Tensor, nn

from statewise.tasks.task import Batch


def objective(model: Any, batch: Batch) -> Tensor:
    """Gives a model's mean cross-entropy over all tokens after which an answer is asked for."""
    words = torch.from_numpy(batch.words)
    if batch.asked is None:
        logits = model.at_end(words, torch.from_numpy(batch.lengths))
        return nn.functional.cross_entropy(logits, torch.from_numpy(batch.finals))
    rows, places = (torch.from_numpy(index) for index in batch.asked.nonzero())
    right = torch.from_numpy(batch.outputs)[rows, places]
    return nn.functional.cross_entropy(model(words)[rows, places], right)
