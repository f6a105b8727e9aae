"""What a long computation is at: said where it happens, heard by whoever listens, and by no one unless asked.

    with heard_by(print):
        sw.certify(run)

Saying something decides nothing: with and without a listener the results are the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """What is being done.

    Args:
        what: is being done.
        share: of it that is done, from 0 to 1; None where that is not known.
        detail: counts and residuals.
    """

    what: str
    share: float | None = None
    detail: str = ""

    def __str__(self) -> str:
        """Write the stage in one line."""
        done = "" if self.share is None else f"{self.share:4.0%}  "
        return f"{self.what}  {done}{self.detail}".rstrip()


Listener = Callable[[Stage], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def say(what: str, share: float | None = None, detail: str | Callable[[], str] = "") -> None:
    """Say what is being done; a detail that takes time to write is a function, called if anyone listens."""
    listener = _listener.get()
    if listener is not None:
        text = detail if isinstance(detail, str) else detail()
        listener(Stage(what, None if share is None else min(1.0, max(0.0, share)), text))


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let a function hear what is said inside, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
