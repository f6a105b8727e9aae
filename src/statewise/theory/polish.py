"""Polish: a trained network made exact to machine precision, from sequences of its training lengths alone.

With a plain readout a bilinear network is a weighted automaton, f(w) = U A_w h_0. Two of rank r and s that agree on all
words of fewer than r + s symbols agree on all words (Schuetzenberger), so a network that meets the VALUES, one-hot
answers, on short sequences is right at every length, up to the residual that is left. Polish restricts a full or
CP-factored network to the subspace that it tracks, then solves U A_w h_0 = one-hot by Levenberg-Marquardt in float64.

Rotations and blocks would need as many dimensions for one-hot values as the machine has characters. There the objective
is CLOSURE: hidden states with the same answer coincide, h_w = v_answer(w), with free prototypes v, on the blocks in
which they nearly do already. No machine enters either objective: sequences and their answers are all that is used.
"""

import math
import time
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.errors import NetworkError
from statewise.models.tracker import StateTracker
from statewise.tasks import Task
from statewise.theory.automaton import (
    AutomatonProblem,
    Labelled,
    TrainedAutomaton,
    draw_labelled,
    hankel_rank,
    tracker_of,
)
from statewise.theory.closure import polish_closure
from statewise.theory.least_squares import solve_least_squares
from statewise.theory.polished import TOLERANCE, Outcome, Polished, Show
from statewise.transitions import CP, Block, Diagonal, Full, LinearTransition, Rotation

# equations per unknown, and bounds on the sequences that give them
_EQUATIONS, _FEWEST, _MOST = 3, 1_000, 20_000
# of the sequences whose hidden states span what is tracked
_SAMPLE, _SAMPLE_LONGEST = 4_000, 10
# singular values that fall by this factor have a gap
_GAP = 4.0
# ranks above the Hankel rank that are tried where the residual does not vanish
_FURTHER = 2


def polish_tracker(
    model: StateTracker,
    task: Task,
    seed: int = 0,
    rank: int | None = None,
    seconds: float = 120.0,
    show: Show | None = None,
) -> Polished:
    """Restrict a trained tracker to what it tracks, and solve for its answers to machine precision.

    Args:
        model: trained, without an additive term.
        task: where sequences and answers come from.
        seed: of the sequences.
        rank: of full and CP-factored networks, the hidden size to keep; None chooses it.
        seconds: how long the solver may take.
        show: called after each round with its number and the residual.
    """
    transition = model.transition
    if not isinstance(transition, LinearTransition):
        raise NetworkError("the network has an additive term, so it is no weighted automaton; polish one without")
    if rank is not None and not 1 <= rank <= transition.hidden_size:
        raise NetworkError(f"rank is {rank}; expected 1 to {transition.hidden_size}, the hidden size; correct it")
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        raise NetworkError("the network has weights that are not finite; train it again")
    until = time.monotonic() + seconds
    if isinstance(transition, Full | CP):
        return _polish_values(TrainedAutomaton(model), task, seed, rank, until, show)
    if isinstance(transition, Block | Rotation | Diagonal):
        if rank is not None:
            raise NetworkError("blocks and rotations keep what is coherent, and take no rank; leave it out")
        return polish_closure(TrainedAutomaton(model), task, seed, until, show)
    name = type(transition).__name__.lower()
    raise NetworkError(f"{name} networks cannot be polished; use full, cp, block, rotation or diagonal")


def _polish_values(
    trained: TrainedAutomaton, task: Task, seed: int, rank: int | None, until: float, show: Show | None
) -> Polished:
    """Polish a full or CP-factored network: choose a rank, project, solve for one-hot answers."""
    visited = _visited(trained, draw_labelled(task, seed, _SAMPLE, _SAMPLE_LONGEST))
    _, sizes, axes = torch.linalg.svd(visited, full_matrices=False)
    candidates = _ranks(sizes, task, trained.hidden) if rank is None else [(rank, "as given")]
    best: Polished | None = None
    for size, reason in candidates:
        found = _solve_values(trained, axes[:size], visited @ axes[:size].T, reason, task, seed, until, show)
        if best is None or found.residual < best.residual:
            best = found
        if best.outcome == "converged" or time.monotonic() > until:
            break
    assert best is not None
    return best


def _solve_values(
    trained: TrainedAutomaton,
    axes: Float[Tensor, "rank hidden"],
    inside: Float[Tensor, "visit rank"],
    reason: str,
    task: Task,
    seed: int,
    until: float,
    show: Show | None,
) -> Polished:
    rank, symbols, classes = len(axes), len(trained.matrices), len(trained.readout)
    projected = axes @ trained.matrices @ axes.T
    # each symbol's gain is divided out: answers do not see it, and values would
    gains = torch.stack([(inside @ matrix.T).norm(dim=1).mean() for matrix in projected])
    transition = trained.transition
    if isinstance(transition, CP):
        parts = (axes @ transition.left, trained.coefficients / gains.unsqueeze(1), axes @ transition.right)
        dense: Callable[..., Tensor] = _dense_cp
    else:
        parts, dense = (projected / gains.view(-1, 1, 1),), _dense_full
    unknowns = sum(part.numel() for part in parts)
    count = min(_MOST, max(_FEWEST, math.ceil(_EQUATIONS * unknowns / classes)))
    problem = AutomatonProblem(draw_labelled(task, seed + 1, count), classes, dense)
    initial = axes @ trained.initial / trained.initial.norm()
    with torch.no_grad():
        # the best readout of what is there is where the solver begins
        ends = problem.ends(dense(*parts), initial)
        readout = torch.linalg.lstsq(ends, problem.one_hot, driver="gelsd").solution.T.contiguous()
    solution = solve_least_squares(problem, (*parts, initial, readout), TOLERANCE, until=until, show=show)
    *found, initial, readout = solution.parameters
    if isinstance(transition, CP):
        built: LinearTransition = CP(symbols, rank, transition.rank).double()
        with torch.no_grad():
            for name, value in zip(("left", "gate", "right"), found, strict=True):
                getattr(built, name).copy_(value)
        level = f"cp({transition.rank})"
    else:
        built, level = Full.from_dense(found[0].permute(1, 2, 0)), "full"
    outcome: Outcome = "converged" if solution.cost < TOLERANCE else "not converged"
    model = tracker_of(built, initial, readout)
    return Polished(model, level, "values", rank, reason, solution.cost, outcome, solution.rounds, count)


def _dense_full(matrices: Tensor) -> Tensor:
    return matrices


def _dense_cp(left: Tensor, gate: Tensor, right: Tensor) -> Tensor:
    return torch.einsum("ir,ar,jr->aij", left, gate, right)


def _visited(trained: TrainedAutomaton, data: Labelled) -> Float[Tensor, "visit hidden"]:
    """Return the directions of all hidden states along sequences."""
    h, seen = (trained.initial / trained.initial.norm()).expand(len(data.tokens), -1), []
    for t in range(data.tokens.shape[1]):
        following = torch.empty_like(h)
        for symbol in data.tokens[:, t].unique().tolist():
            rows = data.tokens[:, t] == symbol
            following[rows] = h[rows] @ trained.matrices[symbol].T
        h = following / following.norm(dim=1, keepdim=True).clamp(min=1e-300)
        seen.append(h[data.lengths > t])
    return torch.cat(seen)


def _ranks(sizes: Float[Tensor, " hidden"], task: Task, hidden: int) -> list[tuple[int, str]]:
    """List ranks to try: the Hankel rank of the answers, then where singular values have a gap, then a few more."""
    least = hankel_rank(task)
    found = {least: f"the Hankel rank of the answers on short sequences is {least}"}
    falls = (sizes[:-1] / sizes[1:].clamp(min=1e-300)).tolist()
    for place in sorted(range(len(falls)), key=lambda i: -falls[i])[:2]:
        if falls[place] >= _GAP:
            found.setdefault(place + 1, f"singular values fall {falls[place]:.0f}-fold after {place + 1}")
    for rank in range(least + 1, least + 1 + _FURTHER):
        found.setdefault(rank, f"the residual did not vanish at the Hankel rank, {least}")
    return [(rank, reason) for rank, reason in found.items() if rank <= hidden]
