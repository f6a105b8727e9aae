"""How do time and memory of a training step grow with length, batch, width and alphabet?

A row for each size has its time beside that of the smallest; a row for each axis has the fitted exponent, and, for
length and batch, what the largest size would take if time grew with the exponent that we aim for.
"""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence

import torch

from statewise.bench.steps import training_step
from statewise.bench.timing import Row, best_times, peak_memory
from statewise.errors import WrongAnswerError
from statewise.models.tracker import StateTracker

BASE = {"T": 64, "B": 64, "H": 64, "V": 5}
SIZES = {"T": (64, 256, 1024, 4096), "B": (16, 64, 256, 1024), "H": (32, 64, 128, 256), "V": (2, 5, 10, 25, 50)}
# the exponent that we aim to stay below; None informs
BOUNDS = {"T": 1.05, "B": 1.05, "H": None, "V": None}
LONG, LIMIT_BYTES = 10_000, 2_000_000_000
_MEMORY = "from statewise.bench.growth import peak_of_long_sequences; print(peak_of_long_sequences())"


def measure() -> list[Row]:
    """Time steps along each axis, and measure the peak memory of training on sequences of 10,000 symbols."""
    rows = []
    for name, seconds, exponent in curves():
        sizes = SIZES[name]
        for size, second in zip(sizes, seconds, strict=True):
            rows.append(Row(f"full, {name} {size}", f"{name} {sizes[0]}", second, seconds[0]))
        case = f"full, {name} from {sizes[0]:,} to {sizes[-1]:,}, exponent {exponent:.2f}"
        bound = BOUNDS[name]
        allowed = seconds[0] * (sizes[-1] / sizes[0]) ** (bound or 2.0)
        rows.append(Row(case, f"growth with exponent {bound or 2.0}", seconds[-1], allowed, bound and 1.0))
    done = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswerError("training on sequences of 10,000 symbols failed; nothing was measured")
    peak = int(done.stdout)
    # in this row, seconds stand for gigabytes
    case = f"peak memory of full, H 64, B 64, T {LONG:,}, in GB"
    rows.append(Row(case, "2 GB", peak / 1e9, LIMIT_BYTES / 1e9, 1.0))
    return rows


def curves() -> list[tuple[str, list[float], float]]:
    """Return, for each axis, the time of a step at each size and the fitted exponent of time against size."""
    found = []
    for name, sizes in SIZES.items():
        seconds = []
        for size in sizes:
            values = BASE | {name: size}
            seconds.append(best_times({"step": _step(**values)}, repeats=5, least_s=0.02)["step"])
        found.append((name, seconds, _exponent(sizes, seconds)))
    return found


def peak_of_long_sequences() -> int:
    """Take two training steps on sequences of 10,000 symbols, and return the process's peak memory in bytes."""
    torch.set_num_threads(1)
    step = _step(T=LONG, B=64, H=64, V=5)
    step()
    step()
    return peak_memory()


def _step(T: int, B: int, H: int, V: int) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    model = StateTracker(V, V, H, "full", generator=generator)
    tokens = torch.randint(0, V, (B, T), generator=generator)
    answers = torch.randint(0, V, (B,), generator=generator)
    return training_step(model, tokens, torch.full((B,), T), answers)


def _exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Fit log seconds = exponent log size + constant, by least squares."""
    xs, ys = [math.log(size) for size in sizes], [math.log(second) for second in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return above / sum((x - mean_x) ** 2 for x in xs)
