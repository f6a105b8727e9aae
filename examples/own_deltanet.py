"""DeltaNet in twenty lines: S_t = S_(t-1) (I - b k k^T) + b v k^T, a model of one's own for compare and ladder."""

import torch
from torch import nn

import statewise as sw


class DeltaNet(nn.Module):
    """One head of the delta rule; with `negative` its eigenvalues reach down to -1."""

    def __init__(self, symbols: int, classes: int, hidden: int, negative: bool = False) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)
        self.mix, self.strength, self.reach = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, 1), 1 + negative

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = self.mix(x).chunk(3, dim=-1)
        q, k, b = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1), self.strength(x).sigmoid()
        memory, out = x.new_zeros(len(x), x.shape[-1], x.shape[-1]), []
        for t in range(x.shape[1]):
            old = (memory @ k[:, t, :, None]).squeeze(-1)
            change = self.reach * b[:, t] * (v[:, t] - old)
            memory = memory + change.unsqueeze(-1) * k[:, t].unsqueeze(-2)
            out.append((memory @ q[:, t, :, None]).squeeze(-1))
        return self.read(torch.stack(out, dim=1))


if __name__ == "__main__":
    print(sw.compare(tasks=["parity"], models=["full", DeltaNet], seeds=1, steps=30, lengths=[10, 50]))
