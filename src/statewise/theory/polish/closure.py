"""Closure: a network polished until hidden states of sequences with the same label coincide.

h_w = v_label(w) with free prototypes v, on the coherent functionals of each block. One-hot values need as many
dimensions as the answers' Hankel rank; closure needs no more than what the network already tracks.
"""

import math
import time
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from statewise.models.tracker import StateTracker
from statewise.theory.polish.automaton import AutomatonProblem, TrainedAutomaton, cp_of, tracker_of
from statewise.theory.polish.coherence import Piece, Visits, transitions
from statewise.theory.polish.edges import EdgeProblem
from statewise.theory.polish.factors import Factors, factor_near
from statewise.theory.polish.least_squares import Show, Solution, mean_square, solve_least_squares
from statewise.theory.polish.outcome import TOLERANCE, Outcome, Polished
from statewise.theory.polish.sequences import LabelledSource
from statewise.transitions import CP, Block, Diagonal, Full, LinearTransition, Rotation

# functionals are kept up to these spreads, the widest first: too many have no solution, too few forget
_SPREADS = (0.65, 0.3, 0.1)
# sequences whose states are compared; sequences that are solved for: bounds, and how many for each unknown
_SAMPLE, _EQUATIONS, _FEWEST, _MOST = 4_000, 3, 1_000, 20_000
# sequences for each pair of a label and a symbol, so that hardly one is missed where symbols are fitted; a bound
_WALKS, _MOST_WALKS = 10, 200_000
# what the solver aims at, relative to the squared size of a state: rounding
_TARGET = 1e-28
# a residual that is worth returning although it did not vanish
_NEARLY = 1e-4
# a block whose prototypes shrink to this share has found the trivial solution
_COLLAPSED = 0.3


def polish_closure(
    trained: TrainedAutomaton, source: LabelledSource, seed: int, rank: int | None, until: float, show: Show | None
) -> Polished:
    """Polish each block of a network: keep what is coherent, and make states with one label coincide.

    Blocks are divided by their own norms first, and by that of the whole state if that leads nowhere: a symbol that
    forgets may shrink one block beside another.

    Args:
        trained: the network.
        source: where labelled sequences come from.
        seed: of the sequences.
        rank: of full and CP-factored networks, how many functionals to keep; None keeps the coherent ones.
        until: a moment of `time.monotonic` at which it ends.
        show: called after each round with its number and the residual.
    """
    best = _polish_blocks(trained, source, seed, rank, until, show, joint=False)
    if best.outcome != "converged" and isinstance(trained.transition, Block | Diagonal) and time.monotonic() < until:
        found = _polish_blocks(trained, source, seed, rank, until, show, joint=True)
        best = found if found.outcome == "converged" else best
    return best


def _polish_blocks(
    trained: TrainedAutomaton,
    source: LabelledSource,
    seed: int,
    rank: int | None,
    until: float,
    show: Show | None,
    joint: bool,
) -> Polished:
    answer_of = source.answer_of
    visits = Visits(trained, source.draw(seed + 1, _SAMPLE), len(answer_of), joint)
    pairs = len(answer_of) * len(trained.matrices)
    edges = transitions(source.draw(seed + 3, min(_MOST_WALKS, max(_SAMPLE, _WALKS * pairs))), source.start)
    solved: list[tuple[Piece, Solution]] = []
    nearly: list[tuple[Piece, Solution]] = []
    rounds, sequences, best_spread = 0, 0, 1.0
    for block in range(visits.blocks.shape[1]):
        functionals, spreads, scatter = visits.functionals(block)
        if not len(spreads):
            # a block that begins at 0 stays there
            continue
        best_spread = min(best_spread, float(spreads[0]))
        for size in _sizes(visits, block, spreads, rank):
            piece = visits.piece(block, functionals[:size], scatter, edges, source.start)
            problem = _problem(piece, source, seed + 2)
            solution = _solve(piece, problem, edges, source.start, until, show)
            rounds, sequences = rounds + solution.rounds, max(sequences, len(problem.targets))
            if _is_near(piece, solution, TOLERANCE):
                solved.append((piece, solution))
                break
            if _is_near(piece, solution, _NEARLY):
                nearly.append((piece, solution))
            if time.monotonic() > until:
                break
    blocks = visits.blocks.shape[1]
    outcome: Outcome = "converged" if solved else "not converged"
    # what came nearest is returned all the same
    solved = solved or sorted(nearly, key=lambda pair: pair[1].cost)[: 1 if blocks == 1 else blocks]
    if not solved:
        reason = f"no functional is exact; the most coherent one varies by {best_spread:.0%} within a label"
        return _unchanged(trained, reason, best_spread**2, rounds, sequences)
    used = sorted({int(label) for label in visits.labels.unique().tolist()} | ({source.start} - {-1}))
    for whole in (True, False):
        kept = _independent(solved, whole)
        if not kept:
            continue
        model, prototypes = _assembled(trained.transition, kept, answer_of, source.classes, torch.tensor(used))
        if _margin(model.readout.detach(), prototypes[used], answer_of[used]) > 0:
            count = sum(len(piece.initial) for piece, _ in kept)
            where = "" if blocks == 1 else f" in {len(kept)} of {blocks} blocks"
            reason = f"{count} functionals{where} take one value for each label"
            residual, size = max(solution.cost for _, solution in kept), len(model.initial_state)
            return Polished(model, trained.level, "closure", size, reason, residual, outcome, rounds, sequences)
    reason = "functionals that take one value for each label do not separate the answers"
    return _unchanged(trained, reason, max(solution.cost for _, solution in solved), rounds, sequences)


def _sizes(visits: Visits, block: int, spreads: Float[Tensor, " rank"], rank: int | None) -> list[int]:
    """Return how many functionals to keep, in the order in which that is tried."""
    if isinstance(visits.trained.transition, Rotation):
        # a plane is kept or left as a whole
        return [2] if visits.spread(block) < _SPREADS[0] else []
    if rank is not None:
        return [rank] if rank <= len(spreads) else []
    sizes = [int((spreads < bound).sum()) for bound in _SPREADS]
    return [size for place, size in enumerate(sizes) if size and size not in sizes[:place]]


def _problem(piece: Piece, source: LabelledSource, seed: int) -> AutomatonProblem:
    labels, size = piece.prototypes.shape
    symbols = len(piece.dense(*piece.parameters))
    count = min(_MOST, max(_FEWEST, math.ceil(_EQUATIONS * symbols * size), 20 * labels))
    data = source.draw(seed, count)
    known = torch.nn.functional.one_hot(data.labels, labels).double()
    return AutomatonProblem(data, known, piece.dense, piece.initial)


def _solve(
    piece: Piece,
    problem: AutomatonProblem,
    edges: Int[Tensor, "edge 3"],
    start: int,
    until: float,
    show: Show | None,
) -> Solution:
    """Solve for one piece along edges, or along whole sequences where labels of prefixes are not known."""
    data, labels = problem.data, len(piece.prototypes)
    begun = (*piece.parameters, piece.prototypes)
    target = _TARGET * float(piece.prototypes.square().sum()) / labels
    inside = torch.arange(data.path.shape[1]) < data.lengths.unsqueeze(1)
    if start >= 0 and bool((data.path[inside] >= 0).all()):
        along = EdgeProblem(edges, piece.dense, len(piece.dense(*piece.parameters)), piece.prototypes, start)
        found = solve_least_squares(along, begun, target, until=until, show=show)
    else:
        found = solve_least_squares(problem, begun, target, until=until, show=show)
    *parameters, prototypes = found.parameters
    if piece.factors is not None:
        factors = factor_near(parameters[0], piece.factors, until)
        cost = mean_square(problem.residual((factors.dense(), prototypes)))
        return replace(found, parameters=(factors.left, factors.gate, factors.right, prototypes), cost=cost)
    return replace(found, cost=mean_square(problem.residual(found.parameters)))


def _is_near(piece: Piece, solution: Solution, tolerance: float) -> bool:
    before, after = float(piece.prototypes.norm()), float(solution.parameters[-1].norm())
    scale = max(after**2 / len(piece.prototypes), 1e-300)
    return solution.cost < tolerance * scale and after > _COLLAPSED * before


def _independent(solved: list[tuple[Piece, Solution]], whole: bool) -> list[tuple[Piece, Solution]]:
    """Leave out blocks that track what others track already: what repeats only lets errors grow apart.

    Args:
        solved: exact blocks.
        whole: whether all of a block must be new; else a part of it suffices.
    """
    kept: list[tuple[Piece, Solution]] = []
    spanned, rank = torch.zeros(len(solved[0][0].prototypes), 0, dtype=torch.float64), 0
    for piece, solution in sorted(solved, key=lambda pair: -len(pair[0].initial)):
        more = torch.cat([spanned, solution.parameters[-1]], dim=1)
        found = int(torch.linalg.matrix_rank(more, rtol=1e-6))
        if found == rank + len(piece.initial) or (not whole and found > rank):
            kept.append((piece, solution))
            spanned, rank = more, found
    return kept


def _assembled(
    transition: LinearTransition,
    solved: list[tuple[Piece, Solution]],
    answer_of: Int[Tensor, " label"],
    classes: int,
    used: Int[Tensor, " used"],
) -> tuple[StateTracker, Tensor]:
    """Put solved blocks side by side, in the structure of the level, with the best readout of their prototypes."""
    parameters = [solution.parameters[:-1] for _, solution in solved]
    size = transition.size if isinstance(transition, Block) else 0
    # a reduced block keeps the size of the level, with zeros where nothing is left
    padding = [max(0, size - len(piece.initial)) for piece, _ in solved]
    initial = torch.cat(
        [torch.nn.functional.pad(piece.initial, (0, more)) for (piece, _), more in zip(solved, padding, strict=True)]
    )
    prototypes = torch.cat(
        [
            torch.nn.functional.pad(solution.parameters[-1], (0, more))
            for (_, solution), more in zip(solved, padding, strict=True)
        ],
        dim=1,
    )
    if isinstance(transition, CP):
        built: LinearTransition = cp_of(Factors(*parameters[0]))
    elif isinstance(transition, Rotation):
        angles = torch.stack([angle for (angle,) in parameters])
        built = Rotation(angles.shape[1], 2 * len(angles)).double()
        with torch.no_grad():
            built.weight.copy_(angles)
    else:
        padded = [
            torch.nn.functional.pad(matrices, (0, more, 0, more))
            for (matrices,), more in zip(parameters, padding, strict=True)
        ]
        weight = torch.stack([torch.block_diag(*of_symbol) for of_symbol in zip(*padded, strict=True)]).permute(1, 2, 0)
        made = {Full: Full.from_dense, Diagonal: Diagonal.from_dense, Block: lambda w: Block.from_dense(w, size)}
        built = made[type(transition)](weight)
    readout = best_readout(prototypes[used], answer_of[used], classes)
    return tracker_of(built, initial, readout), prototypes


def _unchanged(trained: TrainedAutomaton, reason: str, residual: float, rounds: int, sequences: int) -> Polished:
    kept, found = trained.tracker, "rank not found"
    return Polished(kept, trained.level, "closure", trained.hidden, reason, residual, found, rounds, sequences)


def best_readout(
    prototypes: Float[Tensor, "label hidden"], answers: Int[Tensor, " label"], classes: int
) -> Float[Tensor, "classes hidden"]:
    """Choose the readout that is right at all prototypes by the largest margin: their means, or a fit of one-hot."""
    one_hot = torch.nn.functional.one_hot(answers, classes).to(prototypes.dtype)
    means = one_hot.T @ prototypes / one_hot.sum(dim=0).clamp(min=1.0).unsqueeze(1)
    fitted = torch.linalg.lstsq(prototypes, one_hot, driver="gelsd").solution.T.contiguous()
    centred = torch.linalg.lstsq(prototypes, one_hot - 1 / classes, driver="gelsd").solution.T.contiguous()
    return max((means, fitted, centred), key=lambda readout: _margin(readout, prototypes, answers))


def _margin(readout: Tensor, prototypes: Tensor, answers: Int[Tensor, " label"]) -> float:
    logits = prototypes @ readout.T / readout.norm()
    own = logits.gather(1, answers.unsqueeze(1)).squeeze(1)
    rivals = logits.scatter(1, answers.unsqueeze(1), -math.inf).amax(dim=1)
    return float((own - rivals).min())
