"""Closure: blocks and rotations polished until hidden states with the same answer coincide.

h_w = v_answer(w) with free prototypes v, on the blocks in which that nearly holds already. One-hot values would need as
many dimensions as the machine has characters; closure needs a few coherent blocks.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from statewise.errors import NetworkError
from statewise.tasks import Task
from statewise.theory.automaton import AutomatonProblem, Labelled, TrainedAutomaton, draw_labelled, tracker_of
from statewise.theory.least_squares import Parameters, solve_least_squares
from statewise.theory.polished import TOLERANCE, Polished, Show
from statewise.transitions import Block, Diagonal, LinearTransition, Rotation

# a block is kept if its states with one answer are spread by less than this share of their size
_SPREAD = 0.3
# sequences that are solved for: bounds, and how many for each unknown of a block
_EQUATIONS, _FEWEST, _MOST = 3, 1_000, 20_000


def polish_closure(trained: TrainedAutomaton, task: Task, seed: int, until: float, show: Show | None) -> Polished:
    """Polish blocks, rotations or diagonals: keep what is coherent, and make states with one answer coincide."""
    transition, classes = trained.transition, len(trained.readout)
    blocks = transition.blocks(trained.coefficients)
    symbols, count_blocks, size = blocks.shape[:3]
    # gains of a block are divided out: only its direction is seen
    scale = torch.linalg.det(blocks).abs().clamp(min=1e-300) ** (1 / size)
    blocks = blocks / scale[..., None, None]
    initial = trained.initial.view(count_blocks, size)
    initial = initial / initial.norm(dim=1, keepdim=True).clamp(min=1e-300)
    data = draw_labelled(task, seed + 1, _FEWEST)
    states = _block_states(blocks, initial, data)
    one_hot = torch.nn.functional.one_hot(data.answers, classes).double()
    seen = one_hot.sum(dim=0).clamp(min=1.0)
    means = torch.einsum("wc,wni->cni", one_hot, states) / seen.view(-1, 1, 1)
    away = (states - means[data.answers]).square().sum(dim=2).mean(dim=0).sqrt()
    spread = away / states.square().sum(dim=2).mean(dim=0).sqrt()
    kept = (spread < _SPREAD).nonzero().flatten()
    if not len(kept):
        raise NetworkError(
            f"no block of {size} is coherent: hidden states with one answer are spread by {float(spread.min()):.0%} of "
            "their size or more; train further, or polish a full network"
        )
    count = min(_MOST, max(_FEWEST, math.ceil(_EQUATIONS * symbols * size)))
    data = draw_labelled(task, seed + 2, count)
    flat = initial[kept].flatten()
    if isinstance(transition, Rotation):
        parts: Parameters = (trained.coefficients[:, kept].clone(),)
        dense: Callable[..., Tensor] = _dense_rotation
    else:
        parts, dense = (blocks[:, kept].clone(),), _dense_blocks
    problem = AutomatonProblem(data, classes, dense, flat)
    solution = solve_least_squares(problem, (*parts, means[:, kept].flatten(1)), TOLERANCE, until=until, show=show)
    *found, prototypes = solution.parameters
    built, level = _built(transition, found[0], symbols, len(kept), size)
    weights = trained.readout.view(classes, count_blocks, size) * trained.initial.view(count_blocks, size).norm(
        dim=1
    ).view(1, -1, 1)
    readout = _best_readout(prototypes, [weights[:, kept].flatten(1), prototypes])
    outcome = "converged" if solution.cost < TOLERANCE else "not converged"
    reason = f"{len(kept)} of {count_blocks} blocks are coherent: their states with one answer nearly coincide"
    model = tracker_of(built, flat, readout)
    return Polished(model, level, "closure", len(flat), reason, solution.cost, outcome, solution.rounds, count)


def _block_states(blocks: Tensor, initial: Tensor, data: Labelled) -> Float[Tensor, "word block entry"]:
    h = initial.expand(len(data.tokens), *initial.shape)
    for t in range(data.tokens.shape[1]):
        moved = torch.einsum("wnij,wnj->wni", blocks[data.tokens[:, t]], h)
        h = torch.where((data.lengths > t).view(-1, 1, 1), moved, h)
    return h


def _dense_blocks(blocks: Tensor) -> Tensor:
    return torch.stack([torch.block_diag(*matrices) for matrices in blocks])


def _dense_rotation(angles: Tensor) -> Tensor:
    cos, sin = angles.cos(), angles.sin()
    return _dense_blocks(torch.stack([torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)], dim=-2))


def _built(
    transition: LinearTransition, found: Tensor, symbols: int, kept: int, size: int
) -> tuple[LinearTransition, str]:
    if isinstance(transition, Rotation):
        rotation = Rotation(symbols, 2 * kept).double()
        with torch.no_grad():
            rotation.weight.copy_(found.T)
        return rotation, "rotation"
    weight = _dense_blocks(found).permute(1, 2, 0)
    if isinstance(transition, Diagonal):
        return Diagonal.from_dense(weight), "diagonal"
    return Block.from_dense(weight, size), f"block({size})"


def _best_readout(
    prototypes: Float[Tensor, "classes hidden"], candidates: list[Tensor]
) -> Float[Tensor, "classes hidden"]:
    """Choose the readout that is right at all prototypes by the largest margin, or fit one-hot values to them."""
    fitted = torch.linalg.lstsq(
        prototypes, torch.eye(len(prototypes), dtype=prototypes.dtype), driver="gelsd"
    ).solution.T
    return max([*candidates, fitted.contiguous()], key=lambda readout: _margin(readout, prototypes))


def _margin(readout: Tensor, prototypes: Tensor) -> float:
    logits = prototypes @ readout.T / readout.norm()
    own = logits.diagonal()
    rivals = logits.masked_fill(torch.eye(len(logits), dtype=torch.bool), -math.inf).amax(dim=1)
    return float((own - rivals).min())
