"""DeltaNet in twenty lines, as a file that `--model own_deltanet.py:DeltaNet` reads: nothing of statewise is needed."""

import torch
from torch import Tensor, nn


class DeltaNet(nn.Module):
    """S_t = S_(t-1) + beta_t (v_t - S_(t-1) k_t) k_t^T, read by q_t; beta up to 2 lets eigenvalues be negative."""

    def __init__(self, symbols: int, classes: int, hidden: int, negative: bool = True) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)
        self.project, self.beta = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, 1)
        self.largest = 2.0 if negative else 1.0

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        q, k, v = self.project(x).chunk(3, dim=-1)
        k, beta = nn.functional.normalize(k, dim=-1), self.largest * torch.sigmoid(self.beta(x))
        state, outputs = x.new_zeros(len(x), x.shape[2], x.shape[2]), []
        for t in range(x.shape[1]):
            change = beta[:, t] * (v[:, t] - torch.einsum("bij,bj->bi", state, k[:, t]))
            state = state + change.unsqueeze(2) * k[:, t].unsqueeze(1)
            outputs.append(torch.einsum("bij,bj->bi", state, q[:, t]))
        return self.read(torch.stack(outputs, dim=1))


if __name__ == "__main__":
    import statewise as sw

    print(sw.check_model(DeltaNet))
    run = sw.train("parity", DeltaNet, steps=100, hidden=16)
    print(sw.evaluate(run, lengths=[10, 50]))
    print(sw.compare(tasks=["parity"], models=["full", DeltaNet], seeds=1, steps=30, lengths=[10, 50]))
