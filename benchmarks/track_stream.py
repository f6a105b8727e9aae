"""Measure `statewise track` over ten million symbols: symbols per second, and how far memory grows.

python benchmarks/track_stream.py results/track-stream.json
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import statewise as sw

COUNT = 10_000_000
MACHINES = ("parity", "symmetric(3)")


def measure(expression: str, table: bool, file: Path) -> dict[str, object]:
    run = sw.compile(expression, run=10)
    sw.track(run, ["0" if expression == "parity" else "e"], table=table)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open(os.devnull, "w") as nowhere:
        began, clock = time.process_time(), time.perf_counter()
        found = sw.track(run, file, table=table, write=nowhere.write)
        seconds, elapsed = time.process_time() - began, time.perf_counter() - clock
    assert found.symbols == COUNT
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "machine": expression,
        "by": found.by,
        "symbols": COUNT,
        "seconds": round(elapsed, 2),
        "processor_seconds": round(seconds, 2),
        "per_processor_second": round(COUNT / seconds),
        "grown_kilobytes": grown,
    }


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for expression in MACHINES:
            machine, file = sw.machine(expression), Path(folder) / "symbols.txt"
            drawn = np.random.default_rng(0).integers(0, machine.symbols, COUNT)
            names = np.array(machine.alphabet)
            with file.open("w") as stream:
                for part in np.array_split(drawn, 100):
                    stream.write("\n".join(names[part]) + "\n")
            rows += [measure(expression, table, file) for table in (True, False)]
    Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
