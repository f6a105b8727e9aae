"""Standard streams that may be closed, on a full disk, or gone with their terminal."""

import io
import os
import sys
from typing import Any, TextIO

from statewise.errors import OutputError
from statewise.files import reason_of


class _Output(io.FileIO):
    """Standard output: the first result that it does not take is one error, and what follows is dropped."""

    _gone = False

    def write(self, data: Any) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write bytes."""
        if self._gone:
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            self._gone = True
            raise
        except OSError as error:
            self._gone = True
            raise OutputError(
                f"cannot write to standard output: {reason_of(error)}; what the command wrote into files stays"
            ) from None


class _Messages(io.FileIO):
    """Standard error: what it does not take is dropped, since no message is worth a run."""

    def write(self, data: Any) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write bytes."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def guard_streams() -> None:
    """Make standard output and standard error such that a command survives what becomes of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # a file that is opened later must not get the number of a closed stream
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is sys.__stdout__:
        # a terminal that cannot show a character shows a question mark
        sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout, "replace")
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Messages(2, "wb", closefd=False), sys.stderr, "backslashreplace")


def _text(raw: io.FileIO, before: TextIO | Any, errors: str) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    lines = raw.isatty() or isinstance(raw, _Messages)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=lines)
