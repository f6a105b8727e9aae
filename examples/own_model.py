"""A model of one's own: any class with __init__(symbols, classes, hidden) and forward(tokens) -> logits."""

import torch
from torch import nn

import statewise as sw


class RunningMean(nn.Module):
    """The mean of all token embeddings so far: it counts symbols, and forgets their order."""

    def __init__(self, symbols: int, classes: int, hidden: int) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(1, tokens.shape[1] + 1).view(1, -1, 1)
        return self.read(self.embed(tokens).cumsum(dim=1) / steps)


if __name__ == "__main__":
    run = sw.train("parity", RunningMean, steps=200, hidden=16)
    print(sw.evaluate(run, lengths=[10, 100]))
    print(sw.compare(tasks=["parity"], models=["full", "lstm", RunningMean], seeds=1, steps=200, lengths=[10, 100]))
