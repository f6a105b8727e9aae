"""The command line in a process of its own, as a person or a script uses it."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

STATEWISE = [sys.executable, "-m", "statewise"]
ROOT = Path(__file__).parents[1]
# a condition that is waited for comes within moments on a quiet machine; on a busy one it may take long
PATIENCE = 600


def statewise(*arguments, **options):
    """Call the command, and return what it printed and how it ended."""
    options = {"timeout": PATIENCE} | options
    return subprocess.run([*STATEWISE, *map(str, arguments)], capture_output=True, text=True, **options)


def hear():
    """Let signals end this process, or reach what listens to them.

    A shell without job control starts what is in the background with Ctrl-C turned off, and nohup turns SIGHUP off.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def started(command, **options):
    """Start a process that hears signals; whatever happens, it has ended and its pipes are closed afterwards."""
    heard = {"preexec_fn": hear}
    options = (
        {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
        | heard
        | options
    )
    with subprocess.Popen(list(map(str, command)), **options) as process:
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def until(condition, process=None):
    """Wait until a condition holds; fail if the process ends before it does, or if it never comes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never came"
        if process is not None and process.poll() is not None:
            assert condition(), f"the process ended with {process.returncode} before"
            return
        time.sleep(0.05)
