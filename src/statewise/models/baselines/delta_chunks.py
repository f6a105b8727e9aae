"""RWKV-7's recurrence in chunks: matrices that decay, forget along one direction and take in another."""

import torch
from jaxtyping import Float
from torch import Tensor

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
    u_j = S_{j-1} kappa_j solves a triangular system. So the loop runs over chunks, not over time.

    Args:
        r: what the state is read with.
        log_w: the logarithm of the decays.
        k: where values are written.
        v: the values.
        kappa: the directions that are removed.
        a: at which rate.
        first: S before the first step.
    """
    time, rows = r.shape[2], (part.flatten(0, 1) for part in (r, log_w, k, v, kappa, a * kappa))
    S, length = first.flatten(0, 1), -(-time // -(-time // _LONGEST))
    ys = []
    for chunk in zip(*(part.split(length, dim=1) for part in rows), strict=True):
        y, S = _take_chunk(*chunk, S=S)
        ys.append(y)
    return torch.cat(ys, dim=1).unflatten(0, r.shape[:2]), S.view_as(first)


def _take_chunk(
    r: Tensor, log_w: Tensor, k: Tensor, v: Tensor, kappa: Tensor, removed: Tensor, S: Tensor
) -> tuple[Tensor, Tensor]:
    length = r.shape[1]
    until = log_w.cumsum(dim=1)
    # differences from the middle stay small; what is computed does not depend on it
    middle = until[:, length // 2, None].detach()
    since = until - middle
    grown, shrunk = since.exp(), (-since).exp()
    read = torch.cat([kappa * (since - log_w).exp(), r * grown], dim=1)
    written = torch.cat([removed * shrunk, k * shrunk], dim=1)
    met, S = torch.bmm(read, written.mT), S * middle.exp()
    from_first = torch.bmm(read, S.mT)
    known = torch.baddbmm(from_first[:, :length], met[:, :length, length:].tril(-1), v)
    # what is not below the diagonal of the system is not read
    u = torch.linalg.solve_triangular(met[:, :length, :length], known, upper=False, unitriangular=True)
    added = torch.cat([-u, v], dim=1)
    seen = torch.ones(length, length, dtype=r.dtype, device=r.device).tril().repeat(1, 2)
    y = torch.baddbmm(from_first[:, length:], met[:, length:] * seen, added)
    return y, torch.baddbmm(S, added.mT, written) * grown[:, -1:]
