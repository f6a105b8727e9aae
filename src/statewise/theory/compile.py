"""Machines into exact weights."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.machines import Machine


@dataclass(frozen=True, eq=False)
class ExactWeights:
    """Weights of a network that is a machine: h_t = A(x_t) h_{t-1} from one-hot symbols, answer = argmax of U h_t.

    Args:
        weight: A, as [hidden, hidden, symbol].
        initial: the hidden state before the first symbol.
        readout: U, as [class, hidden].
    """

    weight: Float[Tensor, "out in symbol"]
    initial: Float[Tensor, " hidden"]
    readout: Float[Tensor, "classes hidden"]


def compile_one_hot(machine: Machine, dtype: torch.dtype = torch.float32) -> ExactWeights:
    """Writes a machine as a full bilinear network with one hidden entry per state (Proposition 1 of the paper).

    A(a)[q', q] = 1 exactly if delta(q, a) = q'. Then h_t is the one-hot vector of the state after t symbols, and every
    product is of zeros and ones: there is no rounding in any float type, at any length.
    """
    delta = torch.from_numpy(machine.delta.copy())
    states, symbols = delta.shape
    weight = torch.zeros(states, states, symbols, dtype=dtype)
    q, a = torch.meshgrid(torch.arange(states), torch.arange(symbols), indexing="ij")
    weight[delta, q, a] = 1
    readout = torch.zeros(machine.classes, states, dtype=dtype)
    readout[torch.from_numpy(machine.outputs.copy()), torch.arange(states)] = 1
    return ExactWeights(weight, torch.nn.functional.one_hot(torch.tensor(machine.start), states).to(dtype), readout)
