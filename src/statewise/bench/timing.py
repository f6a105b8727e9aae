"""How times are taken, and what a benchmark returns."""

import gc
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from statewise.errors import WrongAnswerError


@dataclass(frozen=True)
class Row:
    """One comparison: how long we take and how long a rival takes for the same work, in seconds.

    Args:
        case: the work.
        rival: what we are compared with.
        ours_s: our time.
        rival_s: the rival's time.
        target: the least ratio of the two that we aim for; None where the row only informs.
    """

    case: str
    rival: str
    ours_s: float
    rival_s: float
    target: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster we are."""
        return self.rival_s / self.ours_s

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "case": self.case,
            "rival": self.rival,
            "ours_s": self.ours_s,
            "rival_s": self.rival_s,
            "ratio": self.ratio,
            "target": self.target,
        }

    def sentence(self) -> str:
        """Write the comparison for a reader."""
        scale, unit = unit_of(self.case)
        ours, rival = f"{self.ours_s * scale:.3g} {unit}", f"{self.rival_s * scale:.3g} {unit}"
        aim = "" if self.target is None else f" (aim {self.target:g})"
        return f"{ours}, {self.rival} {rival}: {self.ratio:.2f} x{aim}"


def unit_of(case: str) -> tuple[float, str]:
    """Return by what the numbers of a case are multiplied to be shown, and their unit."""
    return (1.0, "GB") if case.endswith("in GB") else (1e3, "ms")


def best_times(
    calls: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    least_s: float = 0.05,
    most_s: float = 6.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Time several calls by turns, and return the best time of each.

    By turns, so that a busy moment of the machine meets all alike; the best, since noise only ever adds. A call that
    is shorter than `least_s` is repeated within a turn; turns end early once they have taken `most_s` in all.
    The clock may be that of the process, which does not count what others do.
    """
    numbers = {}
    for name, call in calls.items():
        call()
        began = time.perf_counter()
        call()
        numbers[name] = max(1, min(1000, round(least_s / max(1e-9, time.perf_counter() - began))))
    best = dict.fromkeys(calls, float("inf"))
    gc.collect()
    gc.disable()
    try:
        began_all = time.perf_counter()
        for turn in range(repeats):
            if turn > 1 and time.perf_counter() - began_all > most_s:
                break
            for name, call in calls.items():
                began = clock()
                for _ in range(numbers[name]):
                    call()
                best[name] = min(best[name], (clock() - began) / numbers[name])
    finally:
        gc.enable()
    return best


def peak_memory() -> int:
    """Return the peak memory of this process in bytes; a new process may count that of the one which started it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def require_close(what: str, found: Tensor, expected: Tensor) -> None:
    """Refuse to go on where two ways of computing the same do not agree, to a thousandth of the largest entry."""
    largest = float(expected.detach().abs().max())
    if found.shape != expected.shape or not float((found - expected).detach().abs().max()) <= 1e-3 * largest:
        raise WrongAnswerError(f"{what}: the answers differ from the reference; nothing was timed")
