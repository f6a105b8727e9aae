"""Progress on stderr: a bar on a terminal, a line every half minute anywhere else.

Whatever is under way is described by an `Update`: what, how much of it is done, the rate, and details. There are two
sinks for them, a bar and a log. The time left is a countdown: it follows the estimates, and does not jump up.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statewise.training.metrics import Metrics
from statewise.wording import duration, visible

if TYPE_CHECKING:
    from statewise.sweep import Progress

# how often a log has a line, in seconds
_LOG_EVERY = 30.0
# how often a bar is drawn anew, in seconds
_BAR_EVERY = 0.2
# an estimate that is longer than the countdown by this factor is believed
_MUCH_LONGER = 1.5
_SWEEPS = ("sweep", "reproduce", "compare", "ladder")


@dataclass(frozen=True)
class Update:
    """How far something is.

    Args:
        what: is under way.
        share: of it that is done, from 0 to 1; None where that is not known.
        left: the estimated seconds that are left; None where nothing is known.
        detail: counts, rates and scores.
        lasting: whether a terminal keeps the line, as it keeps each evaluation.
    """

    what: str
    share: float | None
    left: float | None
    detail: str
    lasting: bool = False

    @property
    def text(self) -> str:
        """All but the time left, in one line."""
        done = "" if self.share is None else f"{self.share:4.0%}  "
        return f"{self.what}  {done}{self.detail}".rstrip()


class Countdown:
    """The time left, as it is shown: it follows the estimates, and grows only where they are far longer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._ends = clock, None

    def show(self, left: float | None) -> float | None:
        """Return what to show for a new estimate of the seconds that are left."""
        if left is None:
            return None
        now = self._clock()
        if self._ends is None or left > _MUCH_LONGER * max(self._ends - now, 1.0):
            self._ends = now + left
        else:
            self._ends = min(now + left, self._ends)
        return max(0.0, self._ends - now)


class Sink(ABC):
    """Where progress is shown."""

    @abstractmethod
    def show(self, update: Update) -> None:
        """Show how far something is."""

    @abstractmethod
    def end(self) -> None:
        """Show nothing more."""


class Log(Sink):
    """A line now and then, for a file, a pipe or a batch system.

    Args:
        write: writes a line.
        every: seconds between two lines.
        clock: tells seconds.
    """

    def __init__(
        self, write: Callable[[str], None], every: float = _LOG_EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._every, self._clock = write, every, clock
        self._countdown, self._last = Countdown(clock), clock()

    def show(self, update: Update) -> None:
        """Write a line if the last one is old enough."""
        left = self._countdown.show(update.left)
        if self._clock() - self._last < self._every:
            return
        self._last = self._clock()
        ends = "" if left is None else f"  about {duration(left)} left"
        self._write(visible(f"{time.strftime('%H:%M:%S')}  {update.text}{ends}"))

    def end(self) -> None:
        """Leave the log as it is."""


class Bar(Sink):
    """A bar that is kept up to date, below the lines that last."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._console = Console(stderr=True, highlight=False)
        text = TextColumn("{task.fields[detail]}", markup=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(24), text)
        self._progress = Progress(*columns, console=self._console, transient=True, refresh_per_second=1 / _BAR_EVERY)
        self._task: Any = None
        self._countdown = Countdown()

    def show(self, update: Update) -> None:
        """Draw the bar anew."""
        update = replace(update, what=visible(update.what), detail=visible(update.detail))
        left = self._countdown.show(update.left)
        ends = "" if left is None else f"  about {duration(left)} left"
        if update.lasting:
            self._console.print(update.detail, markup=False, soft_wrap=True)
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(update.what, total=None, detail="")
        total = None if update.share is None else 1.0
        done = 0.0 if update.share is None else update.share
        share = "" if update.share is None else f"{update.share:4.0%}  "
        self._progress.update(
            self._task,
            description=update.what,
            total=total,
            completed=done,
            detail=f"{share}{'' if update.lasting else update.detail}{ends}",
        )

    def end(self) -> None:
        """Take the bar away; lines that last stay."""
        if self._task is not None:
            self._progress.stop()


@contextmanager
def progress_of(command: str) -> Iterator[Callable[..., None]]:
    """Yield what shows the progress of a command, on a terminal or in a log."""
    sink: Sink = Bar() if sys.stderr.isatty() else Log(lambda line: print(line, file=sys.stderr, flush=True))
    try:
        if command in _SWEEPS:
            yield lambda progress: sink.show(of_sweep(command, progress))
        elif command in ("train", "demo"):
            yield lambda metrics, steps, lengths: sink.show(of_training(metrics, steps, lengths))
        else:
            yield lambda text: sink.show(Update(command, None, None, text))
    finally:
        sink.end()


def of_training(metrics: Metrics, steps: int, lengths: Sequence[int]) -> Update:
    """Describe an evaluation during training: step, loss, scores with their lengths, and the rate."""
    rate = metrics.step / metrics.seconds if metrics.seconds else 0.0
    left = (steps - metrics.step) / rate if rate else None
    loss = "" if metrics.loss is None else f"loss {metrics.loss:.4f}  "
    scores = ", ".join(f"{s:.3f} at {n:,}" for s, n in zip(metrics.scores, lengths, strict=True))
    shown = f"score {scores}  " if scores else ""
    detail = f"step {metrics.step:,} of {steps:,}  {loss}{shown}{rate:,.0f} steps/s"
    return Update("training", metrics.step / steps, left, detail, lasting=True)


def of_sweep(command: str, progress: "Progress | Any") -> Update:
    """Describe how far a grid of runs is: how many ended how, and the rate."""
    others = "".join(f"  {count:,} {name}" for name, count in sorted(progress.statuses.items()) if name != "done")
    rate = progress.done / max(progress.seconds, 1e-9)
    per = f"{rate:.1f} runs/s" if rate >= 1 else f"{60 * rate:.1f} runs/min"
    detail = f"{progress.done:,} of {progress.total:,} runs{others}  {per}"
    return Update(command, progress.share, progress.seconds_left, detail)
