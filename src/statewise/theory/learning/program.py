"""A program of the user's that answers words over stdin and stdout.

The protocol is one line for each word: its symbols, with a space between any two. The program answers one line: the
output after the last symbol, or an output for each symbol, with spaces between them; the same of the two for all words.
It begins anew with each line, flushes what it writes, and ends when its input ends. The empty word is not asked.
"""

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType

from statewise.errors import ProgramError, shorten

# of one answer, in bytes
_LONGEST = 1 << 20
# how long a program may take to end by itself, in seconds
_PATIENCE = 1.0
# the longest that a wait can be asked for, in seconds
_LONGEST_WAIT = 1e6


class Program:
    """A running program; it is ended with the block that it is opened in, however that is left.

    Args:
        command: as in a shell, but without one: no variables, no pipes.
        seconds: how long one answer may take.
    """

    def __init__(self, command: str, seconds: float) -> None:
        self.command, self.seconds = command, min(seconds, _LONGEST_WAIT)
        try:
            parts = shlex.split(command)
        except ValueError as error:
            raise self._wrong(
                f"cannot be read ({error})", "a command with its arguments", "correct its quotes"
            ) from None
        if not parts:
            raise self._wrong("is empty", 'a command such as "python system.py"', "give one")
        # closed with the program
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            # a session of its own: Ctrl-C is ours, and what the program starts ends with it
            self._process = subprocess.Popen(
                parts,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._said.close()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise self._wrong(
                f"cannot be started ({reason})", "a program that can be run", "correct its name"
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)
        self._rest = b""

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the program: its input first, then by signals."""
        self._ready.close()
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            # what went wrong, or Ctrl-C, is no time to wait
            self._process.wait(_PATIENCE if kind is None else 0)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        finally:
            # a number that was waited for may be that of another process by now
            if self._process.poll() is None:
                self._signal(signal.SIGKILL)
                self._process.wait()
            self._output.close()
            self._said.close()

    def __call__(self, word: Sequence[str]) -> list[str]:
        """Return the outputs in the program's answer to a word of at least one symbol."""
        if self._rest or self._ready.select(0):
            self._more(word)
        try:
            self._input.write(f"{' '.join(word)}\n".encode())
        except OSError:
            raise self._ended(word) from None
        answer = self._line(word)
        try:
            outputs = answer.decode().split()
        except UnicodeDecodeError:
            raise self._wrong(f"answers {self._at(word)} with bytes that are not UTF-8", "text", "encode it") from None
        if not outputs:
            raise self._wrong(
                f"answers {self._at(word)} with a blank line",
                "an output, or one for each symbol",
                'name it, as in "none"',
            )
        return outputs

    def _line(self, word: Sequence[str]) -> bytes:
        """Return the next line of the program's."""
        until = time.monotonic() + self.seconds
        while b"\n" not in self._rest:
            if not self._ready.select(max(0.0, until - time.monotonic())):
                raise self._wrong(
                    f"does not answer {self._at(word)} within {self.seconds:g} s",
                    "a line for each word",
                    "flush its output after each line, or raise --answer-seconds",
                )
            read = os.read(self._output.fileno(), 1 << 16)
            if not read:
                raise self._ended(word)
            self._rest += read
            if len(self._rest) > _LONGEST:
                raise self._wrong(
                    f"answers {self._at(word)} with more than {_LONGEST:,} bytes", "one line", "end it by a line feed"
                )
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _more(self, word: Sequence[str]) -> None:
        """Refuse lines that nothing asked for; the end of the output is an end of the program."""
        if not self._rest and not os.read(self._output.fileno(), 1):
            raise self._ended(word)
        raise self._wrong(
            f"writes lines that were not asked for (before {self._at(word)})",
            "one line for each word",
            "write anything else to stderr",
        )

    def _ended(self, word: Sequence[str]) -> ProgramError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        code = self._process.poll()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        how = "closed its output" if code is None else f"ended with exit code {code}"
        why = f" ({shorten(said[-1])})" if said else ""
        return self._wrong(
            f"{how} at {self._at(word)}{why}", "an answer to each word until its input ends", "correct it"
        )

    def _at(self, word: Sequence[str]) -> str:
        return f'the word "{shorten(" ".join(word), 40)}"'

    def _wrong(self, what: str, expected: str, do: str) -> ProgramError:
        return ProgramError(f'the program "{shorten(self.command, 40)}" {what}; expected {expected}; {do}')

    def _signal(self, number: int) -> None:
        """Signal the program and all that it started."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)
