"""RWKV-7's recurrence in chunks: matrices that decay, forget along one direction and take in another."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

# decays of at least exp(-exp(-1/2)) each stay within 1/128 and 128 of the middle of a chunk
_LONGEST = 16

Keys = Float[Tensor, "batch heads time key"]
Values = Float[Tensor, "batch heads time value"]
Matrix = Float[Tensor, "batch heads value key"]


def generalised_delta(
    r: Keys, log_w: Keys, k: Keys, v: Values, kappa: Keys, a: Keys, first: Matrix
) -> tuple[Values, Matrix]:
    """Compute every S_t r_t, and the last S, of S_t = S_{t-1} (diag(w_t) - kappa_t^T (a_t * kappa_t)) + v_t^T k_t.

    Within a chunk, S_t = S_0 diag(w_1 ... w_t) + sum_j (v_j^T k_j - u_j^T (a_j * kappa_j)) diag(w_{j+1} ... w_t), where
    u_j = S_{j-1} kappa_j is linear in S_0 and in the values before, by a triangular system. So a chunk is an affine map
    of S_0, and the loop runs over chunks, not over time.

    Args:
        r: what the state is read with.
        log_w: the logarithm of the decays.
        k: where values are written.
        v: the values.
        kappa: the directions that are removed.
        a: at which rate.
        first: S before the first step.
    """
    time = r.shape[2]
    chunks = -(-time // _LONGEST)
    length = -(-time // chunks)
    # steps of zeros at the end change nothing: S_t = S_{t-1}
    padded = (F.pad(part, (0, 0, 0, chunks * length - time)) for part in (r, log_w, k, v, kappa, a * kappa))
    r, log_w, k, v, kappa, removed = (part.unflatten(2, (chunks, length)) for part in padded)
    until = log_w.cumsum(dim=3)
    # differences from the middle stay small; what is computed does not depend on it
    middle = until[:, :, :, length // 2, None].detach()
    read = torch.cat([kappa * (until - log_w - middle).exp(), r * (until - middle).exp()], dim=3)
    inverse = (middle - until).exp()
    written = torch.cat([removed * inverse, k * inverse], dim=3)
    met = read @ written.mT
    by_removed, by_values = met[..., :length, :length].tril(-1), met[..., :length, length:].tril(-1)
    read_removed, read_values = met[..., length:, :length].tril(), met[..., length:, length:].tril()
    entering, reading = (read * middle.exp()).split(length, dim=3)
    # u_j = from_first_j S_0^T + from_values_j
    known = torch.cat([entering, by_values @ v], dim=-1)
    solved = _solve(by_removed, known)
    from_first, from_values = solved.split([k.shape[-1], v.shape[-1]], dim=-1)
    end = until[:, :, :, -1:]
    removed, k = (written * (end - middle).exp()).split(length, dim=3)
    factor = torch.diag_embed(end.squeeze(3).exp()) - from_first.mT @ removed
    term = v.mT @ k - from_values.mT @ removed
    begins, S = [], first
    for chunk in range(chunks):
        begins.append(S)
        S = S @ factor[:, :, chunk] + term[:, :, chunk]
    read_first = reading - read_removed @ from_first
    y = read_first @ torch.stack(begins, dim=2).mT + (read_values @ v - read_removed @ from_values)
    return y.flatten(2, 3)[:, :, :time], S


def _solve(lower: Float[Tensor, "*batch step step"], known: Tensor) -> Tensor:
    """Solve (I + L) U = known for strictly lower triangular L: (I + L)^-1 = ... (I + L^4) (I + L^2) (I - L).

    A power of L vanishes, so the product is finite, and a few matrix products are faster than a system for each chunk.
    """
    solved, power, exponent = known - lower @ known, lower, 1
    while 2 * exponent < lower.shape[-1]:
        power, exponent = power @ power, 2 * exponent
        solved = solved + power @ solved
    return solved
