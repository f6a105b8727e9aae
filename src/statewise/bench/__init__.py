"""Benchmarks: one question per file; each checks its answers first, then times ours and its rivals in the same run."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from statewise.errors import unknown_name
from statewise.rooms import make_callable

if TYPE_CHECKING:
    from statewise.bench.timing import Row

# by name, where each is measured; modules are imported when they are used, since they need torch
BENCHMARKS = {
    "step-full": "steps:measure_full",
    "step-table": "steps:measure_table",
    "limit": "steps:measure_limit",
    "long-sequence": "sequences:measure_long",
    "inputs": "sequences:measure_inputs",
    "one-stream": "sequences:measure_one_stream",
    "ensemble": "ensemble:measure",
    "inference": "inference:measure",
    "growth": "growth:measure",
    "profile": "profile:measure",
    "sampling": "sampling:measure",
    "baselines": "baselines:measure",
    "sweep": "sweep_overhead:measure",
    "polish": "polish:measure",
}


def find_benchmark(name: str) -> "Callable[[], list[Row]]":
    """Return the function that measures a benchmark; an unknown name is refused with the nearest."""
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    module, function = BENCHMARKS[name].split(":")
    return getattr(import_module(f"statewise.bench.{module}"), function)


# `sw.bench(...)` measures one
make_callable(__name__)
