"""Progress on stderr, if that is a terminal: one line that is kept up to date, or one for each evaluation."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from statewise.training.metrics import Metrics
from statewise.wording import duration

if TYPE_CHECKING:
    from statewise.sweep import Progress

# how often a line is shown anew, in seconds
_EVERY = 0.5


@contextmanager
def progress_of(command: str) -> Iterator[Callable[..., None] | None]:
    """Yield what shows the progress of a command; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
    elif command in ("sweep", "reproduce", "compare", "ladder"):
        line = _SweepLine()
        try:
            yield line.show
        finally:
            line.end()
    elif command in ("train", "demo"):
        yield show_metrics
    else:
        yield lambda text: print(text, file=sys.stderr, flush=True)


def show_metrics(metrics: Metrics, steps: int) -> None:
    """Print one line: step, loss, scores, rate and the time left."""
    rate = metrics.step / metrics.seconds if metrics.seconds else 0.0
    left = (steps - metrics.step) / rate if rate else 0.0
    scores = " ".join(f"{score:6.3f}" for score in metrics.scores)
    loss = float("nan") if metrics.loss is None else metrics.loss
    line = f"step {metrics.step:,}/{steps:,}  loss {loss:.4f}  scores {scores}  {rate:.0f} steps/s  {left:.0f} s left"
    print(line, file=sys.stderr, flush=True)


class _SweepLine:
    def __init__(self) -> None:
        self.shown = 0.0

    def show(self, progress: "Progress | Any") -> None:
        now = time.monotonic()
        if now - self.shown < _EVERY and progress.done < progress.total:
            return
        self.shown = now
        left = progress.seconds_left
        ends = "" if left is None else f"  about {duration(left)} left"
        others = "".join(f"  {count:,} {name}" for name, count in sorted(progress.statuses.items()) if name != "done")
        rate = progress.done / max(progress.seconds, 1e-9)
        per = f"{rate:.1f} runs/s" if rate >= 1 else f"{60 * rate:.1f} runs/min"
        text = f"{progress.done:,}/{progress.total:,} runs  {progress.share:4.0%}{others}  {per}{ends}"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print(file=sys.stderr)
