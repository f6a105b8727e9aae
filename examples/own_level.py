"""A level of one's own: symmetric matrices, A(x) = sum_k (W_k + W_k^T) x_k, between diagonals and full matrices.

Symmetric matrices have real eigenvalues only: they track parity, and no rotation by a third of a turn.
"""

import torch
from torch import Tensor, nn

import statewise as sw


class Symmetric(sw.LinearTransition):
    """A(x) = sum_k (W_k + W_k^T) x_k. Parameters: H^2 D."""

    commutes = norm_preserving = positive = composable = False

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight = nn.Parameter(torch.randn(input_size, hidden_size, hidden_size) * (2 * hidden_size) ** -0.5)

    def coefficients(self, x: Tensor) -> Tensor:
        return torch.einsum("...k,kij->...ij", x, self.weight + self.weight.mT)

    def act(self, coefficients: Tensor, h: Tensor) -> Tensor:
        return (coefficients @ h.unsqueeze(-1)).squeeze(-1)

    def dense(self, coefficients: Tensor) -> Tensor:
        return coefficients

    def compose(self, later: Tensor, earlier: Tensor) -> Tensor:
        raise NotImplementedError("a product of two symmetric matrices is not symmetric")

    @classmethod
    def from_dense(cls, weight: Tensor) -> "Symmetric":
        built = cls(weight.shape[2], weight.shape[0])
        built.weight = nn.Parameter(weight.detach().permute(2, 0, 1) / 2)
        return built


if __name__ == "__main__":
    layer = sw.BilinearRNN(8, 16, transition=Symmetric(8, 16))
    output, h_n = layer(torch.randn(4, 20, 8))
    print("layer", tuple(output.shape), tuple(h_n.shape))
    run = sw.train("parity", Symmetric, hidden=16, steps=300, lr=0.01)
    print(sw.evaluate(run, lengths=[10, 100]))
    print(sw.certify(run, seconds=1.0))
    tasks = ["parity", "modular_addition(3)"]
    print(sw.compare(tasks, ["diagonal", Symmetric, "full"], seeds=1, steps=300, hidden=16, lengths=[10, 100]))
