"""Processes that tests start, kill and wait for; waits are for conditions, and their bound is far from any outcome."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from statewise.errors import StoreError
from statewise.store import Store

ROOT = Path(__file__).parents[2]
BOUND = 600.0
# in the background of a shell Ctrl-C is ignored, also by the processes that are started there
WITH_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = [sys.executable, "-c", f"{WITH_CTRL_C}; from statewise.cli import main; main()"]
COORDINATOR = [sys.executable, "-m", "tests.sweep.coordinator"]


@contextmanager
def started(command: list[Any]) -> Iterator["subprocess.Popen[str]"]:
    """Start a process; at the end it is dead, and its pipes are closed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(list(map(str, command)), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as made:
        try:
            yield made
        finally:
            made.kill()
            made.communicate()


def finished(command: list[Any]) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end."""
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=BOUND)


def wait_for(condition: Callable[[], Any], process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait until a condition holds; a process that should bring it about must not end before."""
    deadline = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about"
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended with {process.returncode}: {process.communicate()[1]}")
        time.sleep(0.02)


def recorded(directory: Path) -> int:
    """Return how many runs a store has, which may be begun just now."""
    with suppress(StoreError), Store.open(directory) as store:
        return sum(store.counts().values())
    return 0


def checkpoints(directory: Path) -> set[tuple[str, int]]:
    """Return the checkpoints of a store's runs under way, with the times at which they were written."""
    found = set()
    for manifest in (directory / "work").glob("*/manifest.json"):
        with suppress(OSError):
            found.add((str(manifest), manifest.stat().st_mtime_ns))
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
