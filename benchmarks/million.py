"""Is a polished network right at 1,000,000 symbols? All runs of the three tables under our recipe, polished again.

Runs whose polished network is not proven to that length come first. Runs whose polish did not converge are left out.
Weights come from a store of the reproduction if one is given, and are trained again where it has none. Each run appends
its record to results/million.jsonl; what stands there is not run again.
Usage: python benchmarks/million.py [MINUTES] [STORE]
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from statewise.models import StateTracker
from statewise.papers import read_paper
from statewise.report.networks import kept_network
from statewise.runs import PlannedRun, execute_one, provenance
from statewise.store import Store
from statewise.store.record_files import read_records
from statewise.theory import polish_tracker
from statewise.training import RunOptions, evaluate_model

RESULTS = Path(__file__).parents[1] / "results" / "million.jsonl"
TABLES = ("table-addition", "table-machine", "table-arithmetic")
LENGTH, WORDS = 1_000_000, 8


def plans() -> Iterator[RunOptions]:
    """Yield the runs of our recipe whose polish converged, one seed of each cell after the other."""
    paper, proven = read_paper(), proven_lengths()
    found = {
        run.key(): run
        for name in TABLES
        for run in paper.runs(name, "quick")
        if run.recipe == "statewise" and run.key() in proven
    }
    yield from sorted(found.values(), key=lambda run: (proven[run.key()] >= LENGTH, run.seed))


def proven_lengths() -> dict[str, int]:
    """Return up to which length each converged network of the tables is proven correct, by the keys of their runs."""
    found: dict[str, int] = {}
    for name in TABLES:
        for record in read_records(RESULTS.parent / "reproduction" / f"{name}.jsonl.gz"):
            if record.polished is not None and record.polished.status == "converged":
                found[record.key] = record.polished.horizon or 0
    return found


def trained(options: RunOptions, store: Store | None) -> StateTracker:
    """Return the trained network of a run."""
    record = None if store is None else store.record(options.key())
    network = None if record is None or store is None else kept_network(store, record)
    if network is None:
        network = execute_one(PlannedRun(options), lambda *_: None).model
    assert isinstance(network, StateTracker)
    return network


def tested_far() -> set[str]:
    """Return the keys of runs that have a record."""
    return {json.loads(line)["key"] for line in RESULTS.read_text().splitlines()} if RESULTS.exists() else set()


def test_far(options: RunOptions, network: StateTracker) -> None:
    """Polish a trained network, test it at a million symbols, and append the record."""
    task = options.build_task()
    # rounds end it, not the clock: the outcome is that of a quiet machine
    fine = polish_tracker(network, task, options.seed, seconds=math.inf)
    record = {
        "key": options.key(),
        "task": options.task,
        "model": options.model,
        "hidden": options.hidden,
        "seed": options.seed,
        "outcome": fine.outcome,
        "residual": fine.residual,
    }
    if fine.outcome == "converged":
        (found,) = evaluate_model(fine.model, task, (LENGTH,), WORDS, options.seed)
        record |= {"length": LENGTH, "words": WORDS, "correct": found.correct, "score": found.score}
    print(options.task, options.model, options.seed, fine.outcome, record.get("score"), file=sys.stderr, flush=True)
    with RESULTS.open("a") as stream:
        stream.write(json.dumps(record | asdict(provenance())) + "\n")


def main(minutes: float, store: Store | None) -> None:
    """Do what is not recorded yet, until the time is over."""
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    done = tested_far()
    for options in plans():
        if time.monotonic() > ends:
            return
        if options.key() not in done:
            test_far(options, trained(options, store))


if __name__ == "__main__":
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    if len(sys.argv) > 2:
        with Store.open(Path(sys.argv[2])) as opened:
            main(limit, opened)
    else:
        main(limit, None)
