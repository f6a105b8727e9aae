"""Polish: a trained network made exact to machine precision, from sequences of at most ten symbols.

With a plain readout a bilinear network is a weighted automaton, f(w) = U A_w h_0. Two of rank r and s that agree on all
words of fewer than r + s symbols agree on all words (Schuetzenberger), so a network that meets VALUES, one-hot answers,
on short sequences is right at every length, up to the residual that is left. CLOSURE asks for less: hidden states of
sequences with the same answers to all continuations coincide. It keeps the structure of every level, and needs no more
dimensions than the network tracks already. Both are solved by Levenberg-Marquardt in float64. No machine enters either
objective: sequences and their answers are all that is used.
"""

import time

import torch

from statewise.errors import NetworkError
from statewise.models.tracker import StateTracker
from statewise.stages import say
from statewise.tasks import Task
from statewise.theory.polish.automaton import TrainedAutomaton
from statewise.theory.polish.closure import polish_closure
from statewise.theory.polish.least_squares import Show
from statewise.theory.polish.outcome import Objective, Outcome, Polished
from statewise.theory.polish.sequences import LabelledSource, OwnSequences, TaskSequences
from statewise.theory.polish.values import polish_values
from statewise.transitions import CP, Block, Diagonal, Full, LinearTransition, Rotation

# sequences that tell whether a network has learned its task, and the share of them that it must answer right
_ASKED, _MOSTLY = 1_000, 0.9

__all__ = ["LabelledSource", "Objective", "Outcome", "OwnSequences", "Polished", "TaskSequences", "polish_tracker"]


def polish_tracker(
    model: StateTracker,
    source: Task | LabelledSource,
    seed: int = 0,
    rank: int | None = None,
    seconds: float = 120.0,
    show: Show | None = None,
    objective: Objective | None = None,
) -> Polished:
    """Restrict a trained tracker to what it tracks, and solve for its answers to machine precision.

    Closure comes first, at every level. Where no coherent part of a full or CP-factored network separates the answers,
    but most answers are right, values are solved for, and returned if they converge or closure found nothing.

    Args:
        model: trained, without an additive term.
        source: where sequences and answers come from.
        seed: of the sequences.
        rank: of full and CP-factored networks, the hidden size to keep; None chooses it.
        seconds: how long the solver may take.
        show: called after each round with its number and the residual.
        objective: what to solve for; None chooses.
    """
    transition = model.transition
    if not isinstance(transition, LinearTransition):
        raise NetworkError("the network has an additive term, so it is no weighted automaton; polish one without")
    if rank is not None and not 1 <= rank <= transition.hidden_size:
        raise NetworkError(f"rank is {rank}; expected 1 to {transition.hidden_size}, the hidden size; correct it")
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        raise NetworkError("the network has weights that are not finite; train it again")
    if not isinstance(transition, Full | CP | Block | Rotation | Diagonal):
        name = type(transition).__name__.lower()
        raise NetworkError(f"{name} networks cannot be polished; use full, cp, block, rotation or diagonal")
    whole = isinstance(transition, Full | CP)
    if rank is not None and not whole:
        raise NetworkError("blocks and rotations keep what is coherent, and take no rank; leave it out")
    if objective == "values" and not whole:
        raise NetworkError("values are solved for in full and cp networks only; leave the objective out")
    until = time.monotonic() + seconds
    trained, drawn = TrainedAutomaton(model), TaskSequences(source) if isinstance(source, Task) else source
    best: Polished | None = None
    if objective != "values":
        say("finding what the network tracks")
        best = polish_closure(trained, drawn, seed, rank, until, show)
    further = objective is None and whole and time.monotonic() < until and _is_learned(trained, drawn, seed)
    if best is None or (further and best.outcome != "converged"):
        say("solving for values")
        found = polish_values(trained, drawn, seed, rank, until, show)
        if best is None or found.outcome == "converged" or best.outcome == "rank not found":
            best = found
    return best


def _is_learned(trained: TrainedAutomaton, source: LabelledSource, seed: int) -> bool:
    """Return whether most short sequences are answered right: values are solved from there, and from nowhere else."""
    data = source.draw(seed, _ASKED)
    with torch.no_grad():
        logits = trained.tracker(data.tokens)[torch.arange(len(data.lengths)), data.lengths - 1]
    return float((logits.argmax(dim=1) == data.answers).double().mean()) >= _MOSTLY
