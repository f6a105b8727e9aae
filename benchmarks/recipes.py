"""Which cells does our recipe bring to score 1.00 at lengths 500 and 10,000, and on how many seeds?

Runs each cell and seed once, in the order below, and appends its record to results/recipes.jsonl; cells that stand
there already are not run again. Usage: python benchmarks/recipes.py [MINUTES]
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from statewise.assemble import build_training
from statewise.cli.config import resolve
from statewise.run import Look, Plan, run

RESULTS = Path(__file__).parents[1] / "results" / "recipes.jsonl"
LENGTHS = (10, 500, 10_000)

CELLS: list[dict[str, Any]] = [
    *({"task": f"modular_addition({m})", "model": "rotation"} for m in (2, 3, 5, 10, 25)),
    {"task": "modular_addition(5)", "model": "full"},
    {"task": "modular_addition(10)", "model": "full"},
    {"task": "random_machine(10, seed={seed}, kind=permutation)", "model": "full"},
    {"task": "random_machine(10, seed={seed}, kind=map)", "model": "full", "steps": 3_000},
    {"task": "modular_addition(5)", "model": "block(2)"},
    {"task": "parity", "model": "diagonal"},
    {"task": "modular_addition(10)", "model": "diagonal"},
    {"task": "modular_addition(5)", "model": "full", "recipe": "stated", "hidden": 64, "embedding": 64, "steps": 3_000},
    {"task": "modular_addition(3)", "model": "lstm"},
    {
        "task": "modular_addition(50)",
        "model": "rotation",
        "hidden": 256,
        "lr": 0.02,
        "weight_decay": 0.0,
        "steps": 4_000,
    },
]


def show(look: Look, steps: int) -> None:
    scores = " ".join(f"{score:.3f}" for score in look.scores)
    print(f"  step {look.step}/{steps} loss {look.loss:.4f} scores {scores}", file=sys.stderr, flush=True)


def main(minutes: float) -> None:
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    done = [json.loads(line)["config"] for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for seed in range(5):
        for cell in CELLS:
            given = cell | {"seed": seed, "task": cell["task"].format(seed=seed)}
            config = resolve(None, given | {"test_lengths": LENGTHS, "words": 200}).model_dump(mode="json")
            if config in done:
                continue
            if time.monotonic() > ends:
                return
            print(config["task"], config["model"], "seed", seed, file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                plan = Plan(every=500, lengths=LENGTHS, words=200)
                record = run(build_training(config), plan, config, Path(folder) / "run", show)
            with RESULTS.open("a") as stream:
                stream.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
