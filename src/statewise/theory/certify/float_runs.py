"""Verdicts about the run of a network in float32 or float64, which rounds at every symbol.

A run multiplies the state with the stored matrix of each symbol in turn. Let u = 2^-24 or 2^-53. Products and sums are
rounded to nearest, in any order, fused or not, so that one symbol leaves an error of at most gamma |A| |h|, with
gamma = (H + 2) u / (1 - (H + 2) u), and what vanishes below the range of the type. The state is divided by powers of
two before it leaves 2^-40 ... 2^40, which rounds nothing, and is divided by its norm where a logit is read.

Some runs do not round at all. If |A| |h| stays below 2^p in units of the last bits, p = 24 or 53, every partial sum is
a whole number of these units that the type holds. Directions are then followed as in an exact decision, with powers of
two as the only factors, and only the readout may round.
"""

from collections import deque
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from statewise.errors import NetworkError, shorten
from statewise.machines import Machine, minimise
from statewise.tasks import legal_moves
from statewise.theory.certify.orbit import MAX_PAIRS, Legal
from statewise.theory.certify.trained import growths, prove_trained_horizon
from statewise.theory.certify.verdict import RUN, Verdict, check_fit
from statewise.theory.dyadic import Dyadic
from statewise.theory.network import Network

_BITS = {"float32": 24, "float64": 53}
# exponents between which the largest numbers of all matrices and of the readout must lie
_RANGE = 20
# products that the search for a repeating run may take
_MAX_PRODUCTS, _MAX_NUMBERS = 10_000_000_000, 50_000_000


def certify_run(
    network: Network,
    machine: Machine,
    dtype: str,
    shortest: int = 0,
    *,
    work: int | None = None,
    all_words: bool = False,
) -> Verdict:
    """Decide up to which length the run of a network in floats answers as a machine does: proven, horizon or unknown.

    Args:
        network: the network under test.
        machine: the machine that it should be.
        dtype: the type in which it runs.
        shortest: words of fewer symbols are not judged.
        work: about how many hidden-state updates the search for a bound may make; None for as many as it likes.
        all_words: judge sequences too that lead to an output named "error", which no task draws.

    Raises:
        NetworkError: where the run computes its matrices from other weights, or rounds the weights first.
    """
    if dtype not in _BITS:
        raise NetworkError(f'dtype is "{shorten(dtype)}"; expected float32 or float64; correct it')
    check_fit(network, machine)
    _check_stored(network, dtype)
    minimal = minimise(machine)
    legal = legal_moves(minimal)
    restricted = not (all_words or bool(legal.all()))
    judged = legal if restricted else np.ones_like(legal)
    found = _decide(network, minimal, dtype, shortest, judged, work)
    status, method, reason, horizon = found
    return Verdict(status, method, reason, shortest, horizon, restricted=restricted, numbers=RUN + dtype)


def _decide(
    network: Network, minimal: Machine, dtype: str, shortest: int, legal: Legal, work: int | None
) -> tuple[Literal["proven", "horizon", "unknown"], str, str, int | None]:
    method = "growth of errors"
    if not all(_within_range(part) for part in (*network.matrices, network.readout)):
        return (
            "unknown",
            method,
            f"weights are not between 2^-{_RANGE} and 2^{_RANGE}, so that a run may underflow",
            None,
        )
    if _repeats(network, minimal, dtype, shortest, legal):
        return "proven", "orbit", f"no symbol rounds in {dtype}, and all directions were checked", None
    unit = 2.0 ** -_BITS[dtype]
    proven = growths(network, minimal, legal, unit, work)
    found = prove_trained_horizon(network, minimal, shortest, legal, unit, proven, work=work)
    if found is None:
        return "unknown", method, f"no bound on errors in {dtype} was shown", None
    return "horizon", method, f"each symbol adds a bounded error, rounding in {dtype} included", found.length


def _check_stored(network: Network, dtype: str) -> None:
    """Refuse a network whose run rounds before it begins."""
    given = (network.exact, network.angles, network.logs)
    if any(part is not None for part in given) or network.reading != Network.reading:
        raise NetworkError(
            f"the run computes its matrices from other weights and rounds them, of which no bound is known; "
            f"leave dtype out to judge {network.reading}"
        )
    parts = (network.matrices, network.initial, network.readout)
    if dtype == "float32" and any((part.astype(np.float32) != part).any() for part in parts):
        raise NetworkError("the weights are float64, and a run in float32 would round them first; give dtype float64")


def _within_range(values: Float[np.ndarray, "..."]) -> bool:
    largest = float(np.abs(values).max())
    return largest == 0 or 2.0**-_RANGE <= largest <= 2.0**_RANGE


def _repeats(network: Network, machine: Machine, dtype: str, shortest: int, legal: Legal) -> bool:
    """Return whether a run never rounds before the readout, repeats, and is answered correctly in spite of it."""
    most = 2.0 ** _BITS[dtype]
    wholes = [Dyadic.of(part).whole for part in network.matrices]
    if max(int(abs(whole).max()) for whole in wholes) >= most:
        return False
    matrices = np.stack([whole.astype(np.float64) for whole in wholes])
    sizes = np.abs(matrices)
    start = _without_twos(Dyadic.of(network.initial).whole)
    if start is None or np.abs(start).max() >= most:
        return False
    limit = min(MAX_PAIRS, _MAX_PRODUCTS // max(1, matrices.size), _MAX_NUMBERS // network.hidden)
    first = (start.tobytes(), machine.start)
    seen, waiting = {first: 0}, deque([(start, machine.start, 0)])
    while waiting:
        h, state, length = waiting.popleft()
        column = h.astype(np.float64)
        if length >= shortest and not _read_right(network, column, int(machine.outputs[state]), dtype):
            return False
        # sums of positive whole numbers reach 2^p in floats if and only if they do
        if not ((sizes @ np.abs(column)).max() < most):
            return False
        moved = (matrices @ column).astype(np.int64)
        for a in np.flatnonzero(legal[state]).tolist():
            after = _without_twos(moved[a])
            if after is None:
                return False
            there, longer = int(machine.delta[state, a]), min(length + 1, shortest)
            pair = (after.tobytes(), there)
            if seen.get(pair, -1) < longer:
                seen[pair] = longer
                waiting.append((after, there, longer))
        if len(seen) > limit:
            return False
    return True


def _without_twos(whole: np.ndarray) -> Int[np.ndarray, " hidden"] | None:
    """Divide whole numbers by the largest power of two that divides them all; None for zeros, and beyond 64 bits."""
    if not any(whole.tolist()) or max(abs(x) for x in whole.tolist()) >= 1 << 62:
        return None
    numbers = whole.astype(np.int64)
    together = int(np.bitwise_or.reduce(np.abs(numbers)))
    return numbers // (together & -together)


def _read_right(network: Network, h: Float[np.ndarray, " hidden"], output: int, dtype: str) -> bool:
    """Return whether the logit of an output leads by more than a readout in floats, and this sum itself, can lose."""
    share = 8 * (network.hidden + 8) * 2.0 ** -_BITS[dtype]
    for c, row in enumerate(network.readout):
        if c != output:
            own = network.readout[output]
            lead, size = (own - row) @ h, (np.abs(own) + np.abs(row)) @ np.abs(h)
            if not (lead > share * size and size > 2.0**-60 * np.abs(h).sum()):
                return False
    return True
