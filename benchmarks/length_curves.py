"""Score against length, from 10 to 1,000,000 symbols: bilinear levels, trained and polished, and the usual baselines.

All train on 2 to 10 symbols of one task with one seed. Curves are appended to results/length-curves.jsonl, one record
each, and what stands there is not run again; results/length-curves.png and .svg are drawn from all of them.
Usage: python benchmarks/length_curves.py [MINUTES] [MODEL ...]; MINUTES 0 only draws.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import statewise as sw
from statewise.errors import RunError, StatewiseError, unknown_name
from statewise.models.table import label_of
from statewise.report.figure import panels_of
from statewise.report.palette import GUIDE, line_style
from statewise.runs import Run, provenance
from statewise.training import resolve

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "length-curves.jsonl"
FIGURES = tuple(RESULTS.with_suffix(ending) for ending in (".png", ".svg"))

SEED = 30
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
# sequences per length, and how many symbols these may have together
WORDS, SYMBOLS = 200, 20_000_000
# baselines are too slow beyond; the cost of attention grows with the square of the length
LONGEST = {"transformer": 3_000, "mamba": 3_000, "lstm": 10_000, "rnn": 10_000}

_ADDITION, _PERMUTATION = "modular_addition(5)", f"random_machine(10, seed={SEED}, kind=permutation)"
# what baselines need to learn the training lengths, the same for all
_BASELINE = {"supervision": "aligned", "growth_share": 0.3, "warmup": 500, "clip": 1.0}
# levels have the recipe `statewise` as it is
SETTINGS: dict[str, dict[str, Any]] = {
    "full": {},
    "block(2)": {},
    "rotation": {},
    "lstm": {**_BASELINE, "hidden": 128},
    "rnn": {**_BASELINE, "hidden": 128},
    "mamba(4)": {**_BASELINE, "hidden": 32, "lr": 5e-3},
    "transformer(2)": {**_BASELINE, "hidden": 64, "steps": 10_000},
}
# which models stand on which task: blocks of two and rotations cannot track a permutation machine that does not commute
TASKS: dict[str, tuple[str, ...]] = {
    _ADDITION: tuple(SETTINGS),
    _PERMUTATION: tuple(model for model in SETTINGS if model not in ("block(2)", "rotation")),
}
TITLES = {_ADDITION: "Addition mod 5", _PERMUTATION: "Random permutation machine, 10 states"}
POLISHED = ("full", "block(2)", "rotation")
POLISH_SECONDS = 120.0
_GREY = "#66717d"


def options_of(task: str, model: str) -> dict[str, Any]:
    """Return all options of a run that are not defaults."""
    # one short test at the end: curves are measured apart
    return {"task": task, "model": model, "seed": SEED, "test_lengths": (10,), "words": 100} | SETTINGS[model]


def curve(run: Run) -> list[dict[str, Any]]:
    """Evaluate a network at every length that it can read."""
    kind = run.name.split("(")[0]
    ends = [end for end in (run.model.longest, LONGEST.get(kind)) if end is not None]
    lengths = [length for length in LENGTHS if length <= min(ends, default=LENGTHS[-1])]
    points = []
    for length in lengths:
        words = max(1, min(WORDS, SYMBOLS // length))
        began = time.perf_counter()
        score = sw.evaluate(run, lengths=[length], words=words, tests="uniform").scores[0]
        seconds = round(time.perf_counter() - began, 2)
        points.append({"length": length, "score": score.score, "words": words, "seconds": seconds})
        print(f"  length {length:,}: score {score.score:.3f}, {seconds:.1f} s", file=sys.stderr, flush=True)
    return points


def measure(task: str, model: str, key: str) -> list[dict[str, Any]]:
    """Train a network, polish it where that can be done, and evaluate both."""
    print(model, "on", task, file=sys.stderr, flush=True)
    common = {"task": task, "model": model, "key": key}
    began = time.perf_counter()
    run = sw.train(config=options_of(task, model))
    seconds = round(time.perf_counter() - began, 2)
    status = "diverged" if run.failed else "done"
    points = [] if run.failed else curve(run)
    records = [common | {"stage": "trained", "status": status, "seconds": seconds, "points": points}]
    if model in POLISHED and not run.failed:
        print("  polish", file=sys.stderr, flush=True)
        try:
            fine = sw.polish(run, seconds=POLISH_SECONDS)
            facts = {name: fine.to_dict()[name] for name in ("status", "seconds", "residual", "rank", "horizon")}
            records.append(common | {"stage": "polished", **facts, "points": curve(fine)})
        except StatewiseError as error:
            records.append(common | {"stage": "polished", "status": str(error), "points": []})
    return [record | asdict(provenance()) for record in records]


def draw_length_curves(file: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Draw a panel for each task: trained networks in full lines, polished ones dashed, proven horizons as bars."""
    if not records:
        raise RunError("there are no length curves; run benchmarks/length_curves.py first")
    tasks = [task for task in TASKS if any(record["task"] == task for record in records)]
    models = [model for model in SETTINGS if any(record["model"] == model for record in records)]
    with panels_of(file, len(tasks)) as panels:
        for axes, task in zip(panels, tasks, strict=True):
            axes.axhline(0, color=GUIDE, linewidth=0.8, zorder=0)
            axes.axvspan(2, 10, color="#eef1f4", zorder=0)
            here = [record for record in records if record["task"] == task and record["points"]]
            polished = [record for record in here if record["stage"] == "polished"]
            for record in here:
                style = _style(record["model"])
                if record["stage"] == "polished":
                    # dashes of different models take turns, so that curves that are all 1 can be told apart
                    turn, gap = 4 * polished.index(record), max(2, 4 * (len(polished) - 1))
                    style |= {"linestyle": (-turn, (4, gap)), "marker": "", "linewidth": 2.2, "zorder": 4}
                points = [(point["length"], point["score"]) for point in record["points"]]
                axes.plot(*zip(*points, strict=True), **style)
            _mark_horizons(axes, [record for record in polished if record["horizon"] is not None])
            axes.set_xscale("log")
            axes.set_xlim(2, 10**14)
            axes.set_xticks([10**power for power in (1, 3, 6, 9, 12)])
            axes.set_ylim(-0.32, 1.18)
            axes.set_xlabel("sequence length")
            axes.set_title(TITLES.get(task, task), fontsize=10)
            axes.annotate(
                "training lengths", (4.5, 0.5), ha="center", va="center", rotation=90, fontsize=7, color=_GREY
            )
        panels[0].set_ylabel("score (0 chance, 1 perfect)")
        for model in models:
            panels[-1].plot([], [], label=label_of(model), **_style(model))
        panels[-1].plot([], [], color=_GREY, linestyle=(0, (4, 2)), linewidth=2.2, label="polished")
        panels[-1].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _style(model: str) -> dict[str, Any]:
    return dict(line_style(list(SETTINGS).index(model))) | {"markersize": 3.5}


def _mark_horizons(axes: Any, records: Sequence[Mapping[str, Any]]) -> None:
    """Mark proven horizons by a bar at their length, and the way there by dots."""
    for place, record in enumerate(sorted(records, key=lambda record: -record["horizon"])):
        colour, horizon = _style(record["model"])["color"], record["horizon"]
        if place == 0:
            axes.plot([record["points"][-1]["length"], horizon], [1, 1], ":", color=colour, linewidth=1.2)
        axes.plot([horizon], [1], "|", color=colour, markersize=12, markeredgewidth=2)
        power = len(str(horizon)) - 1
        text = f"{record['model']}: proven to ${horizon / 10**power:.1f} \\cdot 10^{{{power}}}$"
        axes.annotate(text, (10**12.8, 0.92 - 0.075 * place), ha="right", va="top", fontsize=7, color=colour)


def main(minutes: float, models: list[str]) -> None:
    unknown = sorted(set(models) - set(SETTINGS))
    if unknown:
        raise unknown_name("model", unknown[0], list(SETTINGS))
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    records = [json.loads(line) for line in lines]
    done = {record["key"] for record in records}
    keys = {(task, model): resolve(options_of(task, model)).key() for task, own in TASKS.items() for model in own}
    for (task, model), key in keys.items():
        if key in done or (models and model not in models) or time.monotonic() > ends:
            continue
        found = measure(task, model, key)
        records.extend(found)
        with RESULTS.open("a") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in found)
    # curves of settings that were changed since stay in the file, and are not drawn
    shown = [record for record in records if record["key"] in keys.values()]
    for file in FIGURES:
        draw_length_curves(file, shown)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0, sys.argv[2:])
