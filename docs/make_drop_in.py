"""Write docs/drop-in-measured.md from results/drop-in.jsonl."""

import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from statewise.report.paper_markdown import markdown

ROOT = Path(__file__).parents[1]
RECORDS, PAGE = ROOT / "results" / "drop-in.jsonl", ROOT / "docs" / "drop-in-measured.md"
TASKS = {"digits": "Digits, row by row", "text": "Text, character by character"}

INTRODUCTION = """# In place of an LSTM: measured

Bilinear layers, an LSTM, a GRU and a hybrid of `block(8)` and attention, each with about as many parameters as the
LSTM. The budget is small: {steps} steps of training, {minutes:.0f} minutes of one core for all {runs}
runs, {seeds} seeds. Differences of less than two standard deviations say nothing, and longer training may turn the
order round.

{verdict}

"""

METHOD = """## How it was measured

- **Digits.** The 1,797 images of 8 x 8 pixels that scikit-learn has: eight inputs of eight real numbers, answered after
  the last. 1,000 train, 300 validate, 497 test.
- **Text.** The documentation topics of Python's standard library (`pydoc_data`): the next of 64 characters, in windows
  of 64. A tenth of the topics validates and a tenth tests, up to 300 windows of each. Scores are bits per character.
- **Equal terms.** All models have the same batches, AdamW with a cosine, clipped gradients and a linear readout; each
  tries the rates {rates} with the first seed, and keeps the one with the least validation loss. {edge} of {chosen}
  choices are the largest rate: larger ones were not tried.
- **Sizes.** The hidden size is the multiple of 8 whose network is nearest to the LSTM's in parameters, at most 256.
- **Additive** means `additive="input"`: h' = A(x) h + B x. Bilinear layers have `normalise=True` unless the name says
  otherwise. Seconds are the processor time of a run's training.

`python benchmarks/drop_in.py` makes and resumes the records in `results/drop-in.jsonl`, and needs scikit-learn;
`python docs/make_drop_in.py` makes this page. Measured on symbols after long sequences, architectures stand on
[the ladder](ladder.md) and on [Python's lexer](lexer.md).
"""


def read_records() -> list[dict[str, Any]]:
    """Return the records."""
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def standing(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return, for each model, its runs at the rate with the least validation loss of the first seed."""
    by_model: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_model[record["model"]].append(record)
    kept = {}
    for model, runs in by_model.items():
        first = [run for run in runs if run["seed"] == 0]
        rate = min(first, key=lambda run: (math.isnan(run["validation_loss"]), run["validation_loss"]))["rate"]
        kept[model] = [run for run in runs if run["rate"] == rate]
    return kept


def scores(task: str, runs: list[dict[str, Any]]) -> list[float]:
    """Return the score of each run: accuracy of digits in percent, bits per character of text."""
    if task == "digits":
        return [100 * run["test_accuracy"] for run in runs]
    return [run["test_loss"] / math.log(2) for run in runs]


def table(task: str, kept: dict[str, list[dict[str, Any]]]) -> str:
    """Write the table of a task, the best first."""
    sign = -1 if task == "digits" else 1
    order = sorted(kept, key=lambda model: sign * fmean(scores(task, kept[model])))
    rows = []
    for model in order:
        runs, values = kept[model], scores(task, kept[model])
        found = f"{fmean(values):.1f} ± {pstdev(values):.1f}" if task == "digits" else (
            f"{fmean(values):.2f} ± {pstdev(values):.2f}")  # fmt: skip
        seconds = fmean(run["seconds"] for run in runs)
        rows.append([model, str(runs[0]["hidden"]), f"{runs[0]['parameters']:,}", f"{runs[0]['rate']:g}",
                     found, str(len(runs)), f"{seconds:.1f}"])  # fmt: skip
    what = "test accuracy, %" if task == "digits" else "test bits per character"
    return markdown(["model", "hidden size", "parameters", "rate", what, "seeds", "seconds"], rows)


def verdict(task: str, kept: dict[str, list[dict[str, Any]]]) -> str:
    """Say how the best bilinear layer stands to the LSTM and the GRU."""
    sign = -1 if task == "digits" else 1
    usual = ("lstm", "gru")
    rest = [model for model in kept if model not in usual and "attention" not in model]
    best = min(rest, key=lambda model: sign * fmean(scores(task, kept[model])))
    rival = min(usual, key=lambda model: sign * fmean(scores(task, kept[model])))
    ours, theirs = scores(task, kept[best]), scores(task, kept[rival])
    spread = math.hypot(pstdev(ours), pstdev(theirs))
    ahead = sign * (fmean(theirs) - fmean(ours))
    how = "ahead of" if ahead > 2 * spread else "behind" if ahead < -2 * spread else "level with"
    unit = "% correct" if task == "digits" else "bits per character"
    pattern = "{:.1f}" if task == "digits" else "{:.2f}"
    pair = f"{pattern.format(fmean(ours))} and {pattern.format(fmean(theirs))} {unit}"
    name = {"lstm": "LSTM", "gru": "GRU"}[rival]
    return f"- On {task}, `{best}`, the best bilinear layer, is {how} the {name}: {pair}."


def page() -> str:
    """Return the text of the page."""
    records = read_records()
    kept = {task: standing([record for record in records if record["task"] == task]) for task in TASKS}
    told = "\n".join(verdict(task, kept[task]) for task in TASKS)
    steps = sorted({record["steps"] for record in records})
    parts = [
        INTRODUCTION.format(
            steps=" or ".join(f"{count:,}" for count in steps),
            minutes=sum(record["seconds"] for record in records) / 60,
            runs=len(records),
            seeds=len({record["seed"] for record in records}),
            verdict=told,
        )
    ]
    parts += [f"## {title}\n\n{table(task, kept[task])}\n\n" for task, title in TASKS.items()]
    rates = ", ".join(f"{rate:g}" for rate in sorted({record["rate"] for record in records}))
    chosen = [runs[0]["rate"] for task in TASKS for runs in kept[task].values()]
    edge = chosen.count(max(record["rate"] for record in records))
    return "".join(parts) + METHOD.format(rates=rates, edge=edge, chosen=len(chosen))


if __name__ == "__main__":
    PAGE.write_text(page())
