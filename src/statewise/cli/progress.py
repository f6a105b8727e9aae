"""Progress on stderr: a bar on a terminal, a line every half minute anywhere else.

Whatever is under way is described by an `Update`: what, how much of it is done, the rate, and details. There are two
sinks for them, a bar and a log. The time left never grows: where work takes far longer than it was expected to, it
stands still, and is a lower bound.
"""

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from statewise.stages import Stage, heard_by
from statewise.training.metrics import Metrics
from statewise.wording import duration, visible

if TYPE_CHECKING:
    from statewise.sweep import Progress

# how often a log has a line, in seconds
_LOG_EVERY = 30.0
# how often a bar is drawn anew, in seconds
_BAR_EVERY = 0.2
# how often it is seen whether a line is due
_LOOK_EVERY = 1.0
# an estimate that is longer than the countdown by this factor stops it
_MUCH_LONGER = 1.5
# the time left is shown once this share of a grid is done
_LEAST_SHARE = 0.01
_SWEEPS = ("sweep", "reproduce", "compare", "ladder")
_TRAININGS = ("train", "demo")


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
    """The time left, as it is shown: it follows the estimates down, and never up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Begin anew, with something else."""
        self._ends: float | None = None
        self._held: float | None = None

    def hear(self, left: float | None) -> None:
        """Take a new estimate of the seconds that are left; None where nothing is known."""
        if left is None:
            return
        now = self._clock()
        shown = left if self._ends is None else self._left(now)
        if left > _MUCH_LONGER * max(shown, 1.0):
            self._held = shown
        else:
            self._ends, self._held = now + min(left, shown), None

    @property
    def text(self) -> str:
        """What to write now; nothing where nothing is known."""
        if self._ends is None:
            return ""
        left = self._left(self._clock())
        if self._held is None:
            return f"about {duration(left)} left"
        return f"over {duration(left)} left" if left >= 1 else "longer than expected"

    def _left(self, now: float) -> float:
        assert self._ends is not None
        return max(0.0, self._ends - now) if self._held is None else self._held


class Pace:
    """How long a stage will go on, by the share of it that is done since it began."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what, self._began, self._first = "", 0.0, 0.0

    def left(self, stage: Stage) -> float | None:
        """Return the seconds that are left, as far as they can be known."""
        if stage.what != self._what:
            self._what, self._began, self._first = stage.what, self._clock(), stage.share or 0.0
        if stage.share is None or stage.share <= self._first:
            return None
        return (self._clock() - self._began) * (1 - stage.share) / (stage.share - self._first)


class Sink(ABC):
    """Where progress is shown.

    Args:
        clock: tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._countdown = clock, Countdown(clock)
        self._last: Update | None = None

    def show(self, update: Update) -> None:
        """Show how far something is."""
        if self._last is None or self._last.what != update.what:
            self._countdown.begin()
        self._last = update
        self._countdown.hear(update.left)
        self._changed(update)

    @abstractmethod
    def _changed(self, update: Update) -> None:
        """Write what is new."""

    @abstractmethod
    def end(self) -> None:
        """Show nothing more."""


class Log(Sink):
    """A line now and then, for a file, a pipe or a batch system, whether or not anything is new.

    Args:
        command: that is under way, until it says more.
        write: writes a line.
        every: seconds between two lines.
        clock: tells seconds.
    """

    def __init__(
        self,
        command: str,
        write: Callable[[str], None],
        every: float = _LOG_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._command, self._write, self._every = command, write, every
        self._began = self._written = clock()
        self._over, self._one_writer = threading.Event(), threading.Lock()

    def watch(self) -> None:
        """Write when it is time to, from a thread of its own, however long nothing is said."""
        threading.Thread(target=self._watch, daemon=True).start()

    def tick(self) -> None:
        """Write a line if the last one is old enough."""
        with self._one_writer:
            now = self._clock()
            if self._over.is_set() or now - self._written < self._every:
                return
            self._written = now
        what = self._command if self._last is None else self._last.text
        parts = (time.strftime("%H:%M:%S"), what, f"{duration(now - self._began)} so far", self._countdown.text)
        self._write(visible("  ".join(part for part in parts if part)))

    def _changed(self, update: Update) -> None:
        self.tick()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            self.tick()

    def end(self) -> None:
        """Leave the log as it is."""
        self._over.set()


class Bar(Sink):
    """A bar that is kept up to date, below the lines that last.

    Args:
        command: that is under way, until it says more.
        clock: tells seconds.
    """

    def __init__(self, command: str, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        super().__init__(clock)
        self._console = Console(stderr=True, highlight=False)
        text = TextColumn("{task.fields[detail]}", markup=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(24), text)
        self._progress = Progress(
            *columns,
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            refresh_per_second=1 / _BAR_EVERY,
        )
        self._task = self._progress.add_task(command, total=None, detail="")
        self._drawn, self._shown, self._what = -_BAR_EVERY, False, ""

    def _changed(self, update: Update) -> None:
        """Draw the bar anew, if it shows something else or is old enough."""
        update = replace(update, what=visible(update.what), detail=visible(update.detail))
        if not self._shown:
            self._progress.start()
            self._shown = True
        if update.lasting:
            self._console.print(update.detail, markup=False, soft_wrap=True)
        elif update.what == self._what and self._clock() - self._drawn < _BAR_EVERY:
            return
        self._drawn, self._what = self._clock(), update.what
        share = "" if update.share is None else f"{update.share:4.0%}  "
        detail = "" if update.lasting else update.detail
        self._progress.update(
            self._task,
            description=update.what,
            total=None if update.share is None else 1.0,
            completed=update.share or 0.0,
            detail="  ".join(part for part in (f"{share}{detail}".strip(), self._countdown.text) if part),
        )

    def end(self) -> None:
        """Take the bar away; lines that last stay."""
        if self._shown:
            self._progress.stop()


class Reporter:
    """What a command says of its progress, as updates of a sink.

    Args:
        command: its name.
        sink: where it is shown.
        clock: tells seconds.
    """

    def __init__(self, command: str, sink: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        self._command, self._sink, self._clock, self._pace = command, sink, clock, Pace(clock)
        # what was measured last, and when
        self._whole, self._at = Update(command, None, None, ""), clock()
        self._measured = ""

    def show(self, *told: Any) -> None:
        """Show what the command measures itself: an evaluation in training, or how far a grid is."""
        if self._command in _SWEEPS:
            found = of_sweep(self._command, *told)
            # where work turns out to be more than was expected, the share stands still
            share = max(found.share or 0.0, self._whole.share or 0.0)
            self._whole, self._at = replace(found, share=share), self._clock()
            self._sink.show(self._whole)
        elif self._command in _TRAININGS:
            update = of_training(*told)
            self._measured = measured(*told)
            self._sink.show(update)

    def hear(self, stage: Stage) -> None:
        """Show a stage; those of runs that a grid does in this process stand beside the whole."""
        if self._command in _SWEEPS:
            whole = self._whole
            left = None if whole.left is None else max(0.0, whole.left - (self._clock() - self._at))
            self._sink.show(replace(whole, left=left, detail=f"{whole.detail}  {stage}".strip()))
            return
        known = self._measured if stage.what == "training" else ""
        detail = "  ".join(part for part in (stage.detail, known) if part)
        self._sink.show(Update(stage.what, stage.share, self._pace.left(stage), detail))


@contextmanager
def progress_of(command: str) -> Iterator[Callable[..., None]]:
    """Show the progress of a command, on a terminal or in a log; yield what it calls with what it measures itself."""
    if sys.stderr.isatty():
        sink: Sink = Bar(command)
    else:
        sink = Log(command, lambda line: print(line, file=sys.stderr, flush=True))
        sink.watch()
    reporter = Reporter(command, sink)
    try:
        with heard_by(reporter.hear):
            yield reporter.show
    finally:
        sink.end()


def of_training(metrics: Metrics, steps: int, lengths: Sequence[int]) -> Update:
    """Describe an evaluation during training: step, loss, scores with their lengths, and the rate."""
    rate = _rate(metrics)
    left = (steps - metrics.step) / rate if rate else None
    detail = f"step {metrics.step:,} of {steps:,}  {measured(metrics, steps, lengths)}"
    return Update("training", metrics.step / steps, left, detail, lasting=True)


def measured(metrics: Metrics, steps: int, lengths: Sequence[int]) -> str:
    """Write what was measured: the loss, the scores, each with the length that it is of, and the rate."""
    scores = ", ".join(f"{s:.3f} at {n:,}" for s, n in zip(metrics.scores, lengths, strict=True))
    parts = [] if metrics.loss is None else [f"loss {metrics.loss:.4f}"]
    parts += [f"score {scores}"] if scores else []
    return "  ".join([*parts, f"{_rate(metrics):,.0f} steps/s"])


def _rate(metrics: Metrics) -> float:
    return metrics.step / metrics.seconds if metrics.seconds else 0.0


def of_sweep(command: str, progress: "Progress | Any") -> Update:
    """Describe how far a grid of runs is: how many ended how, and the rate."""
    others = "".join(f"  {count:,} {name}" for name, count in sorted(progress.statuses.items()) if name != "done")
    rate = progress.done / max(progress.seconds, 1e-9)
    per = f"{rate:.1f} runs/s" if rate >= 1 else f"{60 * rate:.1f} runs/min"
    detail = f"{progress.done:,} of {progress.total:,} runs{others}{f'  {per}' if progress.done else ''}"
    # before that it is the time in which workers start that counts
    left = progress.seconds_left if progress.share >= _LEAST_SHARE else None
    return Update(command, progress.share, left, detail)
