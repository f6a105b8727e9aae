"""How long does it take, and how much memory, to make a trained network exact: 256 dimensions, 50 symbols, 50 states?

The network is trained first, untimed, as `statewise train` does it; its score at the long length before is in the row,
since polishing what was exact already would say nothing. Time is that of `polish_tracker` alone, memory that of a new
process that does nothing else, its training included.

The solver is also compared with torch's L-BFGS, on the same equations, from the same weights, to the same residual:
networks of 5 and 20 states, exact in random coordinates but for noise. These rows inform, and have no aim.
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from statewise.bench.timing import Row, best_times, peak_memory
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models.tracker import StateTracker
from statewise.tasks import Task
from statewise.theory.compile import one_hot, tracker
from statewise.theory.network import network_of
from statewise.theory.polish import TaskSequences, polish_tracker
from statewise.theory.polish.automaton import AutomatonProblem
from statewise.theory.polish.least_squares import Parameters, solve_least_squares
from statewise.theory.polish.outcome import TOLERANCE
from statewise.training import advance, build_training, evaluate_model, resolve
from statewise.transitions import Full

STATES, HIDDEN, STEPS, LENGTH, SEQUENCES = 50, 256, 3_000, 10_000, 50
LIMIT_S, LIMIT_BYTES = 120.0, 2_000_000_000
# of the comparison with L-BFGS: the numbers of states, and how far each weight is from exact
SMALL, NOISE = (5, 20), 0.03
_TURNS, _ROUNDS, _SCALES = 5, 1_500, (1.0, 1e6, 1e12)
_RUN = "import sys; from statewise.bench.polish import main; main(*map(int, sys.argv[1:]))"


@dataclass(frozen=True)
class Cost:
    """What polishing one network took.

    Args:
        seconds: of `polish_tracker`.
        peak: the peak memory of the process until then, in bytes.
        outcome: of the polish.
        residual: that is left.
        before: the score at the long length before.
        after: the same after.
    """

    seconds: float
    peak: int
    outcome: str
    residual: float
    before: float
    after: float


def measure(states: int = STATES, hidden: int = HIDDEN, steps: int = STEPS, small: Sequence[int] = SMALL) -> list[Row]:
    """Polish a trained network in a new process, and time the solver on small ones beside L-BFGS.

    Args:
        states: of the machine, and how many symbols it has.
        hidden: the hidden size of the trained network.
        steps: for which it is trained.
        small: the machines on which solvers are compared.
    """
    arguments = map(str, (states, hidden, steps, torch.get_num_threads()))
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswerError(f"polish failed: {done.stderr.strip()[-300:]}; nothing was measured")
    cost = Cost(**json.loads(done.stdout))
    if cost.outcome != "converged" or cost.after != 1.0:
        raise WrongAnswerError(
            f"polish: {cost.outcome}, score {cost.after:.3f} at length {LENGTH:,}; time says nothing"
        )
    case = f"full, H {hidden}, V {states}, modular_addition({states}), {_scores(cost)}"
    return [
        Row(case, f"{LIMIT_S:g} s", cost.seconds, LIMIT_S, 1.0),
        Row("peak memory of the same, in GB", "2 GB", cost.peak / 1e9, LIMIT_BYTES / 1e9, 1.0),
        *(compare_solvers(size) for size in small),
    ]


def _scores(cost: Cost) -> str:
    # a score a little below chance is chance
    return f"score at {LENGTH:,} from {max(0.0, cost.before):.2f} to {cost.after:.2f}, residual {cost.residual:.0e}"


def main(states: int, hidden: int, steps: int, threads: int) -> None:
    """Print the cost as JSON: what the new process does."""
    torch.set_num_threads(threads)
    print(json.dumps(asdict(polish_trained(states, hidden, steps))))


def polish_trained(states: int, hidden: int, steps: int) -> Cost:
    """Train a network by its recipe on sequences of ten symbols, polish it, and evaluate it at the long length."""
    training = build_training(
        resolve({"task": f"modular_addition({states})", "model": "full", "hidden": hidden, "steps": steps})
    )
    advance([training], steps)
    model, task = training.model.eval(), training.task
    assert isinstance(model, StateTracker)
    assert isinstance(task, Task)
    before = _score(model, task)
    began = time.perf_counter()
    # more than is allowed, so that what takes too long is measured and not cut off
    polished = polish_tracker(model, task, seconds=5 * LIMIT_S)
    seconds, peak = time.perf_counter() - began, peak_memory()
    after = _score(polished.model, task)
    return Cost(seconds, peak, polished.outcome, polished.residual, before, after)


def _score(model: StateTracker, task: Task) -> float:
    return evaluate_model(model.eval(), task, [LENGTH], SEQUENCES, 0)[0].score


def hidden_machine(states: int, noise: float, seed: int = 0) -> tuple[StateTracker, Task]:
    """Return an exact network of a machine in random coordinates, with noise on every weight of its matrices."""
    task, generator = Task(machine(f"modular_addition({states})")), torch.Generator().manual_seed(seed)
    exact = network_of(one_hot(task.machine, torch.float64).model)
    axes = torch.linalg.qr(torch.randn(states, states, dtype=torch.float64, generator=generator))[0]
    matrices = axes @ torch.from_numpy(exact.matrices) @ axes.T
    matrices = matrices + noise * torch.randn(matrices.shape, dtype=torch.float64, generator=generator)
    turn = axes.numpy()
    return tracker(Full.from_dense(matrices.permute(1, 2, 0)), turn @ exact.initial, exact.readout @ turn.T), task


def compare_solvers(states: int, turns: int = _TURNS) -> Row:
    """Solve for one-hot answers to one residual, with our solver and with L-BFGS, by turns; the best of each counts."""
    model, task = hidden_machine(states, NOISE)
    network = network_of(model)
    begun = tuple(torch.tensor(part) for part in (network.matrices, network.initial, network.readout))
    data = TaskSequences(task).draw(0, max(1_000, 3 * states**2))
    problem = AutomatonProblem(data, torch.nn.functional.one_hot(data.answers, states).double())
    ours = solve_least_squares(problem, begun, TOLERANCE)
    if ours.stopped != "converged":
        raise WrongAnswerError(f"polish: the solver {ours.stopped} at residual {ours.cost:.0e}; nothing was timed")
    residual, scale = _best_scale(problem, begun)
    times = best_times(
        {
            "ours": lambda: solve_least_squares(problem, begun, TOLERANCE),
            "theirs": lambda: solve_by_lbfgs(problem, begun, scale),
        },
        repeats=turns,
        most_s=60.0,
    )
    case = f"the solver alone, {states} states and symbols, H {states}, to residual {ours.cost:.0e}"
    return Row(case, f"torch.optim.LBFGS, best scale, to {residual:.0e}", times["ours"], times["theirs"])


def _best_scale(problem: AutomatonProblem, begun: Parameters) -> tuple[float, float]:
    """Return the residual that L-BFGS reaches and the scale at which it does so fastest, or comes nearest."""
    tried = []
    for scale in _SCALES:
        began = time.perf_counter()
        residual = solve_by_lbfgs(problem, begun, scale)
        tried.append((max(residual, TOLERANCE), time.perf_counter() - began, residual, scale))
    return min(tried)[2:]


def solve_by_lbfgs(problem: AutomatonProblem, begun: Parameters, scale: float) -> float:
    """Lower the residual until it counts as exact or L-BFGS stops; return the least.

    As it does best here: in one call and with a long history, and with tolerances that do not end it early. It takes
    no curvature below 1e-10 into its history, so that how fast it ends depends on what the cost is multiplied with.
    """
    matrices, initial, readout = leaves = [part.clone().requires_grad_() for part in begun]
    optimiser = torch.optim.LBFGS(
        leaves,
        max_iter=_ROUNDS,
        history_size=300,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )
    least = math.inf

    def closure() -> Tensor:
        nonlocal least
        optimiser.zero_grad()
        cost = (problem.ends(matrices, initial) @ readout.T - problem.targets).square().sum() / len(problem.targets)
        least = min(least, float(cost.detach()))
        if least < TOLERANCE:
            raise _ReachedError
        scaled = scale * cost
        scaled.backward()
        return scaled

    with suppress(_ReachedError):
        optimiser.step(closure)
    return least


class _ReachedError(Exception):
    """L-BFGS has no other way to be told that it is done."""
