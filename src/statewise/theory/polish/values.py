"""Values: a full or CP-factored network polished until its logits are one-hot answers.

The network is first restricted to the directions that sequences lead to and that answers depend on, by balanced
truncation: the singular vectors of (derivatives of logits by earlier states) x (states). Its rank is the Hankel rank of
the answers, the smallest that a weighted automaton with these answers has.
"""

import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.theory.polish.automaton import AutomatonProblem, TrainedAutomaton, cp_of, tracker_of
from statewise.theory.polish.factors import Factors, factor_near
from statewise.theory.polish.least_squares import Show, mean_square, solve_least_squares
from statewise.theory.polish.outcome import TOLERANCE, Outcome, Polished
from statewise.theory.polish.sequences import Labelled, LabelledSource
from statewise.transitions import CP, Full, LinearTransition

# equations per unknown, and bounds on the sequences that give them
_EQUATIONS, _FEWEST, _MOST = 3, 1_000, 20_000
# sequences whose states and derivatives span what is tracked
_SAMPLE, _SUFFIXES = 4_000, 400
# singular values that fall by this factor have a gap
_GAP = 4.0
# ranks above the Hankel rank that are tried where the residual does not vanish
_FURTHER = 2


@dataclass(frozen=True)
class _Candidate:
    """A rank to try, whether targets are one-hot answers less their mean, and why."""

    rank: int
    centred: bool
    reason: str


def polish_values(
    trained: TrainedAutomaton, source: LabelledSource, seed: int, rank: int | None, until: float, show: Show | None
) -> Polished:
    """Polish a full or CP-factored network: choose a rank, truncate, solve for one-hot answers.

    Args:
        trained: the network.
        source: where labelled sequences come from.
        seed: of the sequences.
        rank: the hidden size to keep; None chooses it.
        until: a moment of `time.monotonic` at which it ends.
        show: called after each round with its number and the residual.
    """
    truncation = _Truncation(trained, source.draw(seed, _SAMPLE))
    best: Polished | None = None
    for candidate in _candidates(truncation, source, rank):
        found = _solve(truncation, candidate, source, seed, until, show)
        if best is None or found.residual < best.residual:
            best = found
        if best.outcome == "converged" or time.monotonic() > until:
            break
    assert best is not None
    return best


class _Truncation:
    """A network in balanced coordinates: its gains, and how much passes through each direction.

    Args:
        trained: the network.
        data: sequences whose prefixes and suffixes are followed.
    """

    def __init__(self, trained: TrainedAutomaton, data: Labelled) -> None:
        self.trained = trained
        states, self.gains = _follow(trained, data)
        self.matrices = trained.matrices / self.gains.view(-1, 1, 1)
        reached = _root(states)
        self._plain, self._centred = (
            _balance(reached, _root(_derivatives(self.matrices, readout, data)))
            for readout in (trained.readout, trained.readout - trained.readout.mean(dim=0))
        )

    def sizes(self, centred: bool) -> Float[Tensor, " hidden"]:
        """Return the singular values."""
        return (self._centred if centred else self._plain)[2]

    def cut(self, rank: int, centred: bool) -> tuple[Float[Tensor, "rank hidden"], Float[Tensor, "hidden rank"]]:
        """Return the maps into the first directions and back."""
        into, back, _ = self._centred if centred else self._plain
        return into[:rank], back[:, :rank]


def _follow(
    trained: TrainedAutomaton, data: Labelled
) -> tuple[Float[Tensor, "visit hidden"], Float[Tensor, " symbol"]]:
    """Return the directions of hidden states along sequences, and the mean gain of each symbol."""
    h, seen = (trained.initial / trained.initial.norm()).expand(len(data.tokens), -1), []
    logs, counts = (torch.zeros(len(trained.matrices), dtype=h.dtype) for _ in range(2))
    for t in range(data.tokens.shape[1]):
        following = torch.empty_like(h)
        for symbol in data.tokens[:, t].unique().tolist():
            rows = data.tokens[:, t] == symbol
            following[rows] = h[rows] @ trained.matrices[symbol].T
        norms, live = following.norm(dim=1, keepdim=True).clamp(min=1e-300), data.lengths > t
        logs.index_add_(0, data.tokens[live, t], norms[live, 0].log())
        counts.index_add_(0, data.tokens[live, t], torch.ones(int(live.sum()), dtype=h.dtype))
        h = following / norms
        seen.append(h[live])
    return torch.cat(seen), (logs / counts.clamp(min=1)).exp()


def _derivatives(matrices: Tensor, readout: Tensor, data: Labelled) -> Float[Tensor, "row hidden"]:
    """Return the derivatives of logits by the states before suffixes, each set of one size."""
    size, rows = readout.norm().clamp(min=1e-300), [readout]
    for word, length in zip(data.tokens[:_SUFFIXES].tolist(), data.lengths[:_SUFFIXES].tolist(), strict=True):
        back = readout
        for symbol in reversed(word[:length]):
            back = back @ matrices[symbol]
            back = back * (size / back.norm().clamp(min=1e-300))
            rows.append(back)
    return torch.cat(rows)


def _root(rows: Float[Tensor, "row hidden"]) -> Float[Tensor, "hidden entry"]:
    """Return R with R R^T the mean of the rows' squares."""
    _, sizes, axes = torch.linalg.svd(rows / math.sqrt(len(rows)), full_matrices=False)
    return axes.T * sizes


def _balance(reached: Tensor, observed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, sizes, right = torch.linalg.svd(observed.T @ reached)
    scale = sizes.clamp(min=1e-12 * float(sizes[0])).sqrt()
    return (left[:, : len(sizes)].T @ observed.T) / scale.unsqueeze(1), reached @ right[: len(sizes)].T / scale, sizes


def _candidates(truncation: _Truncation, source: LabelledSource, rank: int | None) -> list[_Candidate]:
    """List ranks to try: the Hankel rank of the answers, plain and centred, then gaps, then a few more."""
    if rank is not None:
        return [_Candidate(rank, centred, "as given") for centred in (False, True)]
    found: dict[tuple[int, bool], str] = {}
    least = {centred: source.hankel_rank(centred) for centred in (False, True)}
    for centred, value in least.items():
        if value is not None:
            of = "the answers less their mean" if centred else "the answers"
            found[value, centred] = f"the Hankel rank of {of} on short sequences is {value}"
    for centred in (False, True):
        sizes = truncation.sizes(centred)
        falls = (sizes[:-1] / sizes[1:].clamp(min=1e-300)).tolist()
        for place in sorted(range(len(falls)), key=lambda i: -falls[i])[:2]:
            if falls[place] >= _GAP:
                found.setdefault(
                    (place + 1, centred), f"singular values fall {falls[place]:.0f}-fold after {place + 1}"
                )
    known = least[False]
    if known is not None:
        for more in range(known + 1, known + 1 + _FURTHER):
            found.setdefault((more, False), f"the residual did not vanish at the Hankel rank, {known}")
    hidden = truncation.trained.hidden
    listed = [_Candidate(size, centred, reason) for (size, centred), reason in found.items() if 1 <= size <= hidden]
    if listed:
        return listed
    why = "no Hankel rank and no gap were found" if known is None else f"the answers have Hankel rank {known}"
    return [_Candidate(hidden, False, f"{why}: nothing is cut off")]


def _solve(
    truncation: _Truncation, candidate: _Candidate, source: LabelledSource, seed: int, until: float, show: Show | None
) -> Polished:
    trained, rank = truncation.trained, candidate.rank
    into, back = truncation.cut(rank, candidate.centred)
    transition, classes = trained.transition, source.classes
    matrices = (into @ truncation.matrices @ back).contiguous()
    count = min(_MOST, max(_FEWEST, math.ceil(_EQUATIONS * matrices.numel() / classes)))
    data = source.draw(seed + 1, count)
    targets = torch.nn.functional.one_hot(data.answers, classes).double()
    problem = AutomatonProblem(data, targets - 1 / classes if candidate.centred else targets)
    initial = into @ trained.initial / trained.initial.norm()
    with torch.no_grad():
        # the best readout of what is there is where the solver begins
        ends = problem.ends(matrices, initial)
        readout = torch.linalg.lstsq(ends, problem.targets, driver="gelsd").solution.T.contiguous()
    solution = solve_least_squares(problem, (matrices, initial, readout), until=until, show=show)
    matrices, initial, readout = solution.parameters
    cost = solution.cost
    if isinstance(transition, CP):
        gate = trained.coefficients / truncation.gains.unsqueeze(1)
        factors = factor_near(matrices, Factors(into @ transition.left, gate, back.T @ transition.right), until)
        built: LinearTransition = cp_of(factors)
        residual = problem.residual((factors.dense(), initial, readout))
        cost = mean_square(residual)
    else:
        built = Full.from_dense(matrices.permute(1, 2, 0))
    outcome: Outcome = "converged" if cost < TOLERANCE else "not converged"
    model = tracker_of(built, initial, readout)
    return Polished(
        model, trained.level, "values", rank, candidate.reason, cost, outcome, solution.rounds, len(targets)
    )
