"""N*: the least number of training sequences with which any run reaches a validation loss below 1e-4.

The measure of Ebrahimi et al. 2026 (arXiv:2602.18333): fixed sets of different sequences, validation on others, answers
at the end, Adam at a constant rate, five seeds. Here sequences have 2 to 10 symbols, runs 5,000 steps of 64 sequences
instead of 250,000, and the rate is one at which that suffices. N is doubled until a run succeeds, then searched for in
between, to within a third. Each run appends its record to results/samples-needed.jsonl; what stands there is not run
again.
Usage: python benchmarks/samples_needed.py [MINUTES]
"""

import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from statewise.runs import provenance
from statewise.training import advance, build_training, evaluate_held_out, resolve

RESULTS = Path(__file__).parents[1] / "results" / "samples-needed.jsonl"
MODULI, SEEDS, RATES = (2, 3, 5), (10, 20, 30, 40, 50), (3e-3,)
MODELS = [("full", 64), ("full", 8), ("block(2)", 64), ("rotation", 64), ("lstm", 64)]
STEPS, ENOUGH, FEWEST, MOST, PRECISION = 5_000, 1e-4, 8, 16_384, 1.3
# of 2 to 10 symbols modulo 2 there are 2,044 sequences
MOST_BINARY = 1_600
Attempts = dict[tuple[str, int, int, int, int, float], float]


class OutOfTimeError(Exception):
    """The minutes are over."""


def attempt(model: str, hidden: int, m: int, count: int, seed: int, rate: float) -> dict[str, Any]:
    """Train once, and return the record with the loss on sequences that were set aside."""
    plan = {
        "task": f"modular_addition({m})",
        "model": model,
        "recipe": "stated",
        "hidden": hidden,
        "embedding": 0,
        "lr": rate,
        "steps": STEPS,
        "seed": seed,
        "samples": count,
        "validation": max(10, min(2_000, count // 5)),
    }
    options = resolve(plan)
    began = time.perf_counter()
    training = build_training(options)
    advance([training], STEPS)
    found = evaluate_held_out(training.model.eval(), training.task, seed, options.loss)
    assert found is not None
    # a loss that is no number is no success
    loss = found.loss if math.isfinite(found.loss) else 1e9
    facts = {"m": m, "count": count, "loss": loss, "accuracy": found.accuracy}
    shown = {name: plan[name] for name in ("model", "hidden", "lr", "steps", "seed", "validation")}
    return shown | facts | {"seconds": round(time.perf_counter() - began, 2)} | asdict(provenance())


def succeeds(attempts: Attempts, model: str, hidden: int, m: int, count: int, ends: float) -> bool:
    """Return whether any run with so many sequences succeeds, trying what was not tried yet."""
    for rate in RATES:
        for seed in SEEDS:
            key = (model, hidden, m, count, seed, rate)
            if key not in attempts:
                if time.monotonic() > ends:
                    raise OutOfTimeError
                record = attempt(*key)
                attempts[key] = record["loss"]
                print(*key, f"{record['loss']:.1e}", file=sys.stderr, flush=True)
                with RESULTS.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")
            if attempts[key] < ENOUGH:
                return True
    return False


def search(attempts: Attempts, model: str, hidden: int, m: int, ends: float) -> None:
    """Find the least number of sequences with which a run succeeds."""
    most = MOST_BINARY if m == 2 else MOST
    low, high = 0, FEWEST
    while not succeeds(attempts, model, hidden, m, high, ends):
        if high == most:
            return
        low, high = high, min(most, 2 * high)
    while low and high > PRECISION * low and high - low > 1:
        middle = round(math.sqrt(low * high))
        if succeeds(attempts, model, hidden, m, middle, ends):
            high = middle
        else:
            low = middle


def main(minutes: float) -> None:
    """Search for all models and moduli, until the time is over."""
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    records = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    attempts = {(r["model"], r["hidden"], r["m"], r["count"], r["seed"], r["lr"]): r["loss"] for r in records}
    try:
        for m in MODULI:
            for model, hidden in MODELS:
                search(attempts, model, hidden, m, ends)
    except OutOfTimeError:
        print("the minutes are over; start it again to go on", file=sys.stderr)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
