"""`statewise demo`: the shortest true story."""

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.cli.config import resolve
from statewise.cli.show import show

_TASK, _MODEL, _STEPS, _LATE, _SEED = "modular_addition(5)", "full", 1_000, 40, 0
_WORDS, _LENGTHS = 200, (10, 500, 10_000)


def demo(
    out: Annotated[Path | None, typer.Option(help="Keep the trained run in this directory.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Train a network on a machine, test it far beyond its training lengths, and beside it a compiled one."""
    began = time.perf_counter()
    given = {"task": _TASK, "model": _MODEL, "steps": _STEPS, "seed": _SEED, "late": _LATE}
    options = resolve(None, given | {"test_lengths": _LENGTHS, "words": _WORDS}).model_dump(mode="json")
    if out is not None:
        record = _train(options, out / "run")
    else:
        with tempfile.TemporaryDirectory() as folder:
            record = _train(options, Path(folder) / "run")
    trained = {score["length"]: score["score"] for score in record["scores"]}
    compiled = _compiled_score(_LENGTHS[-1])
    result: dict[str, Any] = {
        "task": _TASK,
        "model": _MODEL,
        "hidden": options["hidden"],
        "scores": {str(length): score for length, score in trained.items()},
        "score_ood": trained[500],
        "compiled_score": compiled,
        "compiled_length": _LENGTHS[-1],
        "run": None if out is None else str(out / "run"),
        "seconds": round(time.perf_counter() - began, 1),
    }
    by_length = ", ".join(f"{score:.2f} at {length:,}" for length, score in trained.items())
    lines = [
        ("machine", f"{_TASK}: the sum of symbols mod 5, answered after the last symbol"),
        ("network", f"h_t = A(x_t) h_(t-1), full bilinear, hidden size {options['hidden']}"),
        ("trained", f"{_STEPS:,} steps on words of 2 to 10 symbols, the last ones on up to {_LATE}"),
        ("scores", f"{by_length} symbols (0 is chance, 1 is perfect)"),
        (
            "compiled",
            f"the same machine written into weights, hidden size 5: {compiled:.2f} at {_LENGTHS[-1]:,} symbols",
        ),
        ("seconds", f"{result['seconds']}"),
    ]
    show(result, json, lines)


def _train(options: dict[str, Any], directory: Path) -> dict[str, Any]:
    import torch

    from statewise.assemble import build_plan, build_training
    from statewise.cli.train import show_progress
    from statewise.run import run

    torch.set_num_threads(1)
    return run(build_training(options), build_plan(options), options, directory, show_progress)


def _compiled_score(length: int) -> float:
    """Tracks words with the machine's own transition matrices as weights; there is nothing to train."""
    from statewise.evaluate import evaluate
    from statewise.machines import machine
    from statewise.task import Task
    from statewise.theory.compile import compile_one_hot
    from statewise.tracker import StateTracker

    task = Task(machine(_TASK))
    exact = compile_one_hot(task.machine)
    tracker = StateTracker(task.machine.symbols, task.machine.classes, task.machine.states)
    tracker.load_state_dict(
        {
            "transition.matrices": exact.weight.permute(2, 0, 1),
            "initial_state": exact.initial,
            "readout": exact.readout,
        }
    )
    return evaluate(tracker, task, [length], _WORDS, _SEED)[0].score
