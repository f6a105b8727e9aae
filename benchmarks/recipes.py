"""How far does our recipe go on word problems of groups, and which of its settings matter?

`groups`: full networks, and blocks of the size that Theorem G names, on S3, S4, A5 and S5, on seeds on which no choice
was made, polished. `study`: one setting changed at a time, on three tasks and the seeds on which choices were made.
Each run appends its record to results/recipes.jsonl, and what polish makes of it at 1,000,000 symbols to
results/million.jsonl; what stands there is not run again.
Usage: python benchmarks/recipes.py [MINUTES] [groups|study ...]
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from million import test_far, tested_far

from statewise.models import StateTracker
from statewise.runs import PlannedRun, execute_one, parse_record
from statewise.theory.polish.recording import polish_recorded
from statewise.training import Metrics, RunOptions, resolve

RESULTS = Path(__file__).parents[1] / "results" / "recipes.jsonl"
FRESH, CHOSEN_ON = (40, 41, 42, 43, 44), (100, 101, 102)
TESTS = {"test_lengths": (10, 500, 10_000), "words": 200, "every": 1_000}

# the block is the largest irreducible constituent that Theorem G needs; larger groups get more sequences a step
GROUPS: list[dict[str, Any]] = [
    {"task": "symmetric(3)", "model": "full"},
    {"task": "symmetric(4)", "model": "full", "batch": 128, "steps": 3_000},
    {"task": "alternating(5)", "model": "full", "hidden": 96, "batch": 128, "steps": 3_000},
    {"task": "symmetric(5)", "model": "full", "hidden": 128, "batch": 128, "steps": 4_000, "weight_decay": 0.05},
    {"task": "symmetric(3)", "model": "block(2)"},
    {"task": "symmetric(4)", "model": "block(3)", "hidden": 66, "batch": 128, "steps": 4_000},
    {"task": "alternating(5)", "model": "block(3)", "hidden": 66, "batch": 128, "steps": 4_000},
    # one-hot values would need blocks of 5 and 6 as well; an order of logits does not
    {"task": "symmetric(5)", "model": "block(4)", "loss": "cross-entropy", "hidden": 128, "batch": 256, "steps": 4_000},
]

TASKS = ("modular_addition(10)", "modular_arithmetic(10)", "random_machine(10, seed={seed}, kind=map)")
# one setting of the recipe of full networks at a time; {} is the recipe itself
STUDY: list[dict[str, Any]] = [
    {},
    {"loss": "cross-entropy"},
    {"loss": "cross-entropy", "weight_decay": 0.0},
    {"weight_decay": 0.0},
    {"weight_decay": 0.25},
    {"lr": 1e-3},
    {"lr": 1e-2},
    {"schedule": "constant"},
    {"growth_share": 0.0},
    {"readout": "plain"},
    {"batch": 32},
    {"batch": 256},
    {"hidden": 32},
    {"hidden": 256},
]


def plans(kinds: list[str]) -> Iterator[RunOptions]:
    """Yield the runs, seed after seed."""
    if "groups" in kinds:
        for seed in FRESH:
            for cell in GROUPS:
                yield resolve(TESTS | cell | {"seed": seed, "polish": True})
    if "study" in kinds:
        for seed in CHOSEN_ON:
            for change in STUDY:
                for task in TASKS:
                    yield resolve(TESTS | {"task": task.format(seed=seed), "model": "full", "seed": seed} | change)


def show(member: int, metrics: Metrics, steps: int) -> None:
    """Print an evaluation."""
    scores = " ".join(f"{score:.3f}" for score in metrics.scores)
    print(f"  step {metrics.step}/{steps} loss {metrics.loss:.4f} scores {scores}", file=sys.stderr, flush=True)


def main(minutes: float, kinds: list[str]) -> None:
    """Do what is not recorded yet, until the time is over."""
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done, far = {parse_record(line).config.key() for line in lines}, tested_far()
    for options in plans(kinds):
        known = options.key() in done
        if known and (not options.polish or options.key() in far):
            continue
        if time.monotonic() > ends:
            return
        print(options.task, options.model, "seed", options.seed, file=sys.stderr, flush=True)
        run = polish_recorded(execute_one(PlannedRun(options), show))
        record = run.record
        assert record is not None
        if options.polish and isinstance(run.model, StateTracker):
            test_far(options, run.model)
        if not known:
            with RESULTS.open("a") as stream:
                stream.write(record.to_json() + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2:] or ["groups", "study"])
