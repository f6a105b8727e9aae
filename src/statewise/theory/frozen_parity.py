"""Parity from two examples (Proposition 3 of the paper).

A frozen random real diagonal reads a bit x as +1 (for 0) or -1 (for 1): channel i multiplies its state by s_i x, where
s_i is a random sign. After a sequence of T bits with parity p (+1 even, -1 odd), h_i = s_i^T p. Channels with s_i = +1
hold p; the others hold (-1)^T p. Two sequences, one of even and one of odd length, determine a linear readout u by
least squares: with a and b the sums of u over the two kinds of channels, they require a + b = 1 and a - b = 1. So
a = 1 and b = 0, which is parity at every length, if any channel has s_i = +1; if none has, the two equations contradict
each other. A random draw of H signs has none with probability 2^-H.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from statewise.errors import RunError
from statewise.randomness import derive
from statewise.recurrence import unroll
from statewise.transitions import Diagonal

# one sequence of even and one of odd length, as bits, with its parity
EXAMPLES = (((0, 1), -1), ((1, 0, 1), 1))


@dataclass(frozen=True)
class Frequency:
    """The frequency with which random frozen networks of one size learn parity.

    Args:
        hidden: H.
        draws: how many networks were drawn.
        learned: how many are correct at every length.
        predicted: 1 - 2^-H.
        low: the lower end of the 95 % Wilson interval of the frequency.
        high: its upper end.
    """

    hidden: int
    draws: int
    learned: int
    predicted: float
    low: float
    high: float


def fit_readouts(signs: Float[Tensor, "draw hidden"]) -> Float[Tensor, "draw hidden"]:
    """Fit the readout of each draw to the two examples, in closed form (the least-squares solution of least norm)."""
    states = torch.stack([signs ** len(bits) * parity for bits, parity in EXAMPLES], dim=1)
    answers = torch.tensor([float(parity) for _, parity in EXAMPLES], dtype=signs.dtype)
    return (torch.linalg.pinv(states) @ answers).to(signs.dtype)


def learned(signs: Float[Tensor, "draw hidden"], readouts: Float[Tensor, "draw hidden"]) -> Bool[Tensor, " draw"]:
    """Return whether each draw is correct at every length.

    A hidden state depends on the sequence only through its parity and the parity of its length, so one even and one odd
    length decide all.
    """
    even = (readouts.sum(dim=1)) > 0.5
    odd = ((readouts * signs).sum(dim=1)) > 0.5
    return even & odd


def frequency(hidden: int, draws: int, seed: int) -> Frequency:
    """Draw frozen networks, fit their readouts to two examples, and count those correct at every length."""
    if hidden < 1 or draws < 1:
        raise RunError(f"hidden is {hidden} and draws {draws}; expected at least 1 of each; correct them")
    generator = torch.Generator().manual_seed(derive(seed, "frequency", hidden))
    signs = torch.randint(0, 2, (draws, hidden), generator=generator).double() * 2 - 1
    right = int(learned(signs, fit_readouts(signs)).sum())
    return Frequency(hidden, draws, right, 1 - 2.0**-hidden, *wilson(right, draws))


def wilson(successes: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % confidence interval of a frequency (Wilson, 1927)."""
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = z / (1 + z * z / trials) * (share * (1 - share) / trials + z * z / (4 * trials * trials)) ** 0.5
    return centre - spread, centre + spread


def track_parity(hidden: int, length: int, sequences: int, seed: int) -> tuple[int, int]:
    """Run one network that learned parity over random sequences, bit by bit through the recurrence.

    Returns:
        how many sequences were answered correctly, and how many there were.
    """
    generator = torch.Generator().manual_seed(derive(seed, "track"))
    while True:
        signs = torch.randint(0, 2, (1, hidden), generator=generator).double() * 2 - 1
        readout = fit_readouts(signs)
        if bool(learned(signs, readout)):
            break
    network = Diagonal.from_dense(torch.diag(signs[0]).unsqueeze(-1))
    h = torch.ones(sequences, hidden, dtype=torch.float64)
    bits = torch.randint(0, 2, (sequences, length), generator=generator)
    with torch.no_grad():
        for piece in bits.split(10_000, dim=1):
            _, h = unroll(network, (1 - 2 * piece).double().unsqueeze(-1), h)
    answers = torch.where(h @ readout[0] > 0, 1, -1)
    right = 1 - 2 * (bits.sum(dim=1) % 2)
    return int((answers == right).sum()), sequences
