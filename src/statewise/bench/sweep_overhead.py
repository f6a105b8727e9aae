"""What does a sweep cost by itself? Aimed at: 300,000 null runs in 5 minutes and 200 MB, their status in a second."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from statewise.bench.timing import Row, best_times
from statewise.errors import WrongAnswerError

RUNS = 300_000
_COMMAND = [sys.executable, "-c", "from statewise.cli import main; main()"]
_GRID = '[[grid]]\ntask = "null"\nmodel = "full"\nseed = {{ first = 0, count = {runs} }}\n'


def measure(runs: int = RUNS) -> list[Row]:
    """Sweeps over null runs into a new store as a user does, and asks for its status."""
    with tempfile.TemporaryDirectory() as folder:
        grid, store = Path(folder) / "grid.toml", Path(folder) / "store"
        grid.write_text(_GRID.format(runs=runs), encoding="utf-8")
        began = time.perf_counter()
        swept = _ask("sweep", grid, "--store", store)
        took = time.perf_counter() - began
        if (swept["done"], _ask("runs", store)["counts"]) != (runs, {"done": runs}):
            raise WrongAnswerError(f"the sweep recorded {swept['done']:,} of {runs:,} runs; its time says nothing")
        size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        told = best_times({"status": lambda: _ask("runs", store)}, repeats=5)["status"]
    what, aim = f"{runs:,} null runs", "the aim"
    return [
        Row(f"{what}, swept by 2 workers", aim, took, 300.0, target=1.0),
        Row(f"{what}, space on the disk, in GB", aim, size / 1e9, 0.2, target=1.0),
        Row(f"{what}, their status told by the command", aim, told, 1.0, target=1.0),
    ]


def _ask(*arguments: object) -> dict[str, Any]:
    done = subprocess.run([*_COMMAND, *map(str, arguments), "--json"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise WrongAnswerError(f"the command failed: {done.stderr.strip()}")
    return json.loads(done.stdout)
