"""Which cells does our recipe bring to score 1.00 at lengths 500 and 10,000, and on how many seeds?

Runs each cell and seed once, in the order below, and appends its record to results/recipes.jsonl; cells that stand
there already are not run again. Usage: python benchmarks/recipes.py [MINUTES] [MODEL ...]
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from statewise.runs.run import Look, run
from statewise.training.assemble import build_plan, build_training
from statewise.training.options import resolve

RESULTS = Path(__file__).parents[1] / "results" / "recipes.jsonl"
# seeds 0 and 1 were used to choose the recipe
SEEDS = (2, 3, 4, 5, 6)
EVERY_MODULUS = (2, 3, 5, 10, 25, 50)
TESTS = {"test_lengths": (10, 500, 10_000), "words": 200, "every": 500}
PERMUTATION, MAP = (f"random_machine({{states}}, seed={{seed}}, kind={kind})" for kind in ("permutation", "map"))

CELLS: list[dict[str, Any]] = [
    *({"task": f"modular_addition({m})", "model": "rotation"} for m in EVERY_MODULUS),
    *({"task": f"modular_addition({m})", "model": "block(2)"} for m in EVERY_MODULUS),
    {"task": "parity", "model": "diagonal"},
    {"task": "modular_addition(10)", "model": "diagonal"},
    *({"task": f"modular_addition({m})", "model": "full"} for m in (2, 5, 10)),
    *({"task": PERMUTATION, "states": n, "model": "full"} for n in (5, 10)),
    {"task": MAP, "states": 10, "model": "full"},
    *({"task": kind, "states": 25, "model": "full", "hidden": 128, "steps": 4_000} for kind in (PERMUTATION, MAP)),
    {"task": PERMUTATION, "states": 10, "model": "cp(256)"},
    {"task": PERMUTATION, "states": 25, "model": "cp(1024)"},
    *({"task": f"modular_addition({m})", "model": "full", "hidden": 128, "steps": 4_000} for m in (25, 50)),
]


def show(look: Look, steps: int) -> None:
    scores = " ".join(f"{score:.3f}" for score in look.scores)
    print(f"  step {look.step}/{steps} loss {look.loss:.4f} scores {scores}", file=sys.stderr, flush=True)


def main(minutes: float, models: list[str]) -> None:
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    done = [json.loads(line)["config"] for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    for seed in SEEDS:
        for cell in CELLS:
            given = dict(cell)
            given |= {"seed": seed, "task": cell["task"].format(seed=seed, states=given.pop("states", None))}
            config = resolve(None, given | TESTS).model_dump(mode="json")
            if config in done or (models and config["model"] not in models):
                continue
            if time.monotonic() > ends:
                return
            print(config["task"], config["model"], "seed", seed, file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                record = run(build_training(config), build_plan(config), config, Path(folder) / "run", show)
            with RESULTS.open("a") as stream:
                stream.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2:])
