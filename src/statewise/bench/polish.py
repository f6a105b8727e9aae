"""How long does it take, and how much memory, to make a trained network exact: 256 dimensions, 50 symbols, 50 states?

The network is trained first, untimed, as `statewise train` does it. It must be wrong at the long length before, and
right after: a benchmark of something that was exact already would say nothing. Time is that of `polish_tracker` alone,
memory that of a new process that does nothing else, its training included.

The solver is also compared with torch's L-BFGS, on the same equations from the same weights: a small network, exact in
random coordinates but for noise, so that both begin near a solution.
"""

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from statewise.bench.timing import Row, peak_memory
from statewise.errors import WrongAnswerError
from statewise.machines import machine
from statewise.models.tracker import StateTracker
from statewise.tasks import Task
from statewise.theory.compile import one_hot, tracker
from statewise.theory.network import network_of
from statewise.theory.polish import TaskSequences, polish_tracker
from statewise.theory.polish.automaton import AutomatonProblem
from statewise.theory.polish.outcome import TOLERANCE
from statewise.training import advance, build_training, evaluate_model, resolve
from statewise.transitions import Full

STATES, HIDDEN, STEPS, LENGTH, SEQUENCES = 50, 256, 3_000, 10_000, 50
LIMIT_S, LIMIT_BYTES = 120.0, 2_000_000_000
# of the comparison with L-BFGS: states, and how far each weight is from exact
SMALL, NOISE = 5, 0.03
_TURNS, _ROUNDS = 3, 5_000
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


def measure(states: int = STATES, hidden: int = HIDDEN, steps: int = STEPS) -> list[Row]:
    """Polish a trained network in a new process, and a small one beside L-BFGS.

    Args:
        states: of the machine, and how many symbols it has.
        hidden: the hidden size of the trained network.
        steps: for which it is trained.
    """
    arguments = map(str, (states, hidden, steps, torch.get_num_threads()))
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswerError(f"polish failed: {done.stderr.strip()[-300:]}; nothing was measured")
    cost = Cost(**json.loads(done.stdout))
    if cost.outcome != "converged" or cost.after != 1.0:
        raise WrongAnswerError(f"polish: {cost.outcome}, score {cost.after:.3f} at length {LENGTH:,}; time says nothing")
    case = f"full, H {hidden}, V {states}, modular_addition({states}), {_scores(cost)}"
    return [
        Row(case, f"{LIMIT_S:g} s", cost.seconds, LIMIT_S, 1.0),
        Row(f"peak memory of the same, in GB", "2 GB", cost.peak / 1e9, LIMIT_BYTES / 1e9, 1.0),
        _compare(),
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
    before = _score(model, task)
    began = time.perf_counter()
    polished = polish_tracker(model, task)
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


def _compare(states: int = SMALL) -> Row:
    """Solve for one-hot answers with our solver and with L-BFGS, by turns; the best of each counts."""
    model, task = hidden_machine(states, NOISE)
    best = dict.fromkeys(("ours", "theirs"), math.inf)
    residuals = dict(best)
    for _ in range(_TURNS):
        began = time.perf_counter()
        polished = polish_tracker(model, task, rank=states, objective="values")
        best["ours"] = min(best["ours"], time.perf_counter() - began)
        if polished.outcome != "converged":
            raise WrongAnswerError(f"polish of {states} states: {polished.outcome}; nothing was timed")
        # the sequences that were solved for
        data = TaskSequences(task).draw(1, polished.sequences)
        targets = torch.nn.functional.one_hot(data.answers, task.machine.classes).double()
        problem = AutomatonProblem(data, targets)
        began = time.perf_counter()
        residuals["theirs"] = _solve_by_lbfgs(problem, model)
        best["theirs"] = min(best["theirs"], time.perf_counter() - began)
        residuals["ours"] = polished.residual
    case = f"one-hot answers of modular_addition({states}), H {states}, residual {residuals['ours']:.0e}"
    return Row(case, f"torch's L-BFGS, residual {residuals['theirs']:.0e}", best["ours"], best["theirs"], 1.0)


def _solve_by_lbfgs(problem: AutomatonProblem, model: StateTracker) -> float:
    """Lower the residual until it counts as exact or L-BFGS stops; return it."""
    parts = (network_of(model).matrices, network_of(model).initial, network_of(model).readout)
    matrices, initial, readout = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in parts)
    optimiser = torch.optim.LBFGS(
        [matrices, initial, readout],
        max_iter=1,
        history_size=100,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        cost = (problem.ends(matrices, initial) @ readout.T - problem.targets).square().sum() / len(problem.targets)
        cost.backward()
        return cost

    least, since = math.inf, 0
    for _ in range(_ROUNDS):
        # the cost before the round
        cost = float(optimiser.step(closure))
        least, since = (cost, 0) if cost < 0.999 * least else (least, since + 1)
        if least < TOLERANCE or since > 20:
            break
    return least
