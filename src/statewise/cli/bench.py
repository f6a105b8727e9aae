"""`statewise bench`."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.show import show
from statewise.errors import unknown_name
from statewise.files import write_whole

BENCHMARKS = {
    "step-full": "steps:measure_full",
    "step-table": "steps:measure_table",
    "limit": "steps:measure_limit",
    "long-sequence": "sequences:measure_long",
    "one-stream": "sequences:measure_one_stream",
    "ensemble": "together:measure",
    "growth": "growth:measure",
    "inference": "inference:measure",
    "profile": "profile:measure",
    "baselines": "baselines:measure",
    "sampling": "sampling:measure",
    "sweep": "sweeps:measure",
}


def bench(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One benchmark; none lists them.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Keep the result in this JSON file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure ours against named rivals, in one run, answers checked first."""
    if name is None:
        show({"benchmarks": sorted(BENCHMARKS)}, json, [("benchmarks", ", ".join(sorted(BENCHMARKS)))])
        return
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)

    from json import dumps

    import torch

    from statewise.runs.run import provenance

    torch.set_num_threads(threads)
    module, function = BENCHMARKS[name].split(":")
    rows = getattr(import_module(f"statewise.bench.{module}"), function)()
    result: dict[str, Any] = {"name": name, "threads": threads, "rows": [row.written() for row in rows]} | provenance()
    if out is not None:
        write_whole(out, dumps(result, indent=1) + "\n")
    show(result, json, [(row.case, _sentence(row)) for row in rows])


def _sentence(row: Any) -> str:
    aim = "" if row.target is None else f" (aim {row.target:g})"
    from statewise.bench.timing import unit_of

    scale, unit = unit_of(row.case)
    return f"{row.ours_s * scale:.3g} {unit}, {row.rival} {row.rival_s * scale:.3g} {unit}: {row.ratio:.2f} x{aim}"
