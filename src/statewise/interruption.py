"""Ctrl-C, SIGTERM and SIGHUP: a command saves what it has, ends, and says how to go on; twice means at once.

A batch system sends SIGTERM before it ends a job, and a terminal that is closed sends SIGHUP. All three raise
`Interrupted` where the command is, except between `deferred` steps, which are finished first so that they can be saved.
"""

import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# a closed terminal and a batch system may send theirs twice at the same moment, in seconds
_SAME_MOMENT = 0.5


class _Process:
    """When this process was asked to end, on the monotonic clock, and how long further signals mean the same."""

    asked: float | None = None
    same: float = _SAME_MOMENT


class Interrupted(KeyboardInterrupt):
    """A command that was asked to end.

    Args:
        number: of the signal.
        kept: what was saved, and how to go on.
    """

    def __init__(self, number: int = signal.SIGINT, kept: str = "") -> None:
        super().__init__(kept)
        self.number, self.kept = number, kept

    @classmethod
    def of(cls, stop: BaseException | None, kept: str) -> "Interrupted":
        """Return the same interruption, with what was saved."""
        return cls(getattr(stop, "number", signal.SIGINT), kept)

    @property
    def exit_code(self) -> int:
        """The code that shells give to a process that ended by this signal: 130, 143 or 129."""
        return 128 + self.number

    def __str__(self) -> str:
        """Say what happened in one sentence."""
        by = "Ctrl-C" if self.number == signal.SIGINT else signal.Signals(self.number).name
        return f"interrupted by {by}; {self.kept or 'all files are whole, and the same command begins anew'}"


class Request:
    """Whether a process was asked to end while it could not."""

    def __init__(self) -> None:
        self.number: int | None = None

    def asked(self) -> bool:
        """Return whether it was."""
        return self.number is not None

    def check(self) -> None:
        """Raise `Interrupted` if it was."""
        if self.number is not None:
            raise Interrupted(self.number)


def listen(signals: tuple[signal.Signals, ...] = SIGNALS, once: bool = False) -> None:
    """Let each of these signals end this process as Ctrl-C does; one that is ignored, as under nohup, stays so.

    Args:
        signals: which.
        once: whether a second one changes nothing, since somebody else ends this process if it takes too long.
    """
    _Process.same = math.inf if once else _SAME_MOMENT
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def deferred() -> Iterator[Request]:
    """Note signals instead of raising where the process is; a second one ends it at once.

    Only those are noted that end the process with an exception otherwise: what a program does with its signals, and
    what other threads do, stays as it is.
    """
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    taken = {n: h for n, h in before.items() if h is _interrupt or h is signal.default_int_handler}

    def note(number: int, frame: FrameType | None) -> None:
        if request.number is None:
            request.number = number
            _Process.asked = time.monotonic()
        elif taken[signal.Signals(number)] is _interrupt:
            _end_at_once(number)
        else:
            raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _Process.asked is not None:
        _end_at_once(number)
        return
    _Process.asked = time.monotonic()
    raise Interrupted(number)


def _end_at_once(number: int) -> None:
    assert _Process.asked is not None
    same = _Process.same if number != signal.SIGINT else 0.0
    if time.monotonic() - _Process.asked < same:
        return
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
