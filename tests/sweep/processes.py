"""Processes that tests start, kill and wait for; waits are for conditions, and their bound is far from any outcome."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from statewise.errors import StoreError
from statewise.store import Store
from tests.command import PATIENCE, ROOT

COORDINATOR = [sys.executable, "-m", "tests.sweep.coordinator"]


def finished(command: list[Any]) -> "subprocess.CompletedProcess[str]":
    """Run a process to its end."""
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)


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
            # it lists files before there is a checkpoint
            if "folder" in json.loads(manifest.read_text()):
                found.add((str(manifest), manifest.stat().st_mtime_ns))
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
