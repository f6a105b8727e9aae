"""How many labelled words does each method need to find a machine exactly, on every one of five seeds?

Words have 2 to 10 symbols and one label, that of their end; each method is given more and more words until it finds
the machine on all seeds. The exact Hankel method needs complete blocks, so it is given all words up to a length
instead. Records are appended to results/words-needed.jsonl, and what stands there is not run again;
docs/words-needed.svg is drawn from all of them.
Usage: python benchmarks/words_needed.py [MINUTES] [METHOD ...]
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from statewise.errors import RunError, StatewiseError, unknown_name
from statewise.machines import Machine, equivalent, machine
from statewise.randomness import stream
from statewise.report.figure import figure_of
from statewise.report.palette import line_style
from statewise.runs import provenance
from statewise.tasks import Task
from statewise.theory.extraction import extract
from statewise.theory.learning.hankel import solve_hankel
from statewise.theory.learning.labelled import LabelledWords, count_words
from statewise.theory.learning.state_merging import merge_states
from statewise.theory.learning.tables import fit_tables
from statewise.theory.network import network_of
from statewise.training import advance, build_training, resolve

ROOT = Path(__file__).parents[1]
RESULTS, FIGURE = ROOT / "results" / "words-needed.jsonl", ROOT / "docs" / "words-needed.svg"
SEEDS = range(5)
SIZES = [25 * 2**i for i in range(11)]
NOISE, STEPS = 0.2, 2_000
TASKS = ["modular_addition(5)", "random_machine(5, seed={seed}, kind=map)", "random_machine(10, seed={seed}, kind=map)"]
# training takes seconds whatever the number of words, and never finds a machine from very few
SGD_SIZES = [size for size in SIZES if 200 <= size <= 6_400]


def draw(truth: Machine, count: int, seed: int, noise: float = 0.0) -> LabelledWords:
    """Draw the words that a training run of the same seed reads; of a share of them the label is drawn too."""
    batch = Task(truth, samples=count).batch(seed, 0, count)
    words = [tuple(word[:length]) for word, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)]
    generator = stream(seed, "noise", count)
    drawn = generator.integers(0, truth.classes, count)
    labels = np.where(generator.random(count) < noise, drawn, batch.finals).tolist()
    return count_words(truth.alphabet, truth.output_names, words, labels)


def train(task: str, count: int, seed: int) -> Machine:
    """Train a full network on so many words, over and over, and extract its machine."""
    training = build_training(resolve({"task": task, "model": "full", "samples": count, "seed": seed, "steps": STEPS}))
    advance([training], STEPS)
    truth = training.task.machine
    network = network_of(training.model.eval())
    return extract(network, 2, 10, seed, truth.alphabet, truth.output_names).machine


FROM_WORDS: dict[str, tuple[Callable[[LabelledWords], Machine], float]] = {
    "rpni": (merge_states, 0.0),
    "least-squares": (lambda data: fit_tables(data).machine, 0.0),
    "least-squares, tables alone": (lambda data: fit_tables(data, sweeps=0).machine, 0.0),
    "least-squares, 20 % noise": (lambda data: fit_tables(data).machine, NOISE),
}
METHODS = [*FROM_WORDS, "hankel, all short words", "sgd"]


def attempts(task: str, method: str, seed: int) -> Iterator[tuple[int, Callable[[], Machine]]]:
    """Yield, in growing number of words, how a method is tried."""
    name = task.format(seed=seed)
    truth = machine(name)
    if method.startswith("hankel"):
        words: list[tuple[int, ...]] = []
        for length in range(7):
            words.extend(itertools.product(range(truth.symbols), repeat=length))
            if len(words) > SIZES[-1]:
                return
            labels = [int(truth.answer(np.array(word, dtype=np.int64))) for word in words]
            data = count_words(truth.alphabet, truth.output_names, words, labels) if len(set(labels)) > 1 else None
            yield len(words), lambda data=data: solve_hankel(_given(data))
        return
    learner, noise = FROM_WORDS.get(method, (None, 0.0))
    for count in SGD_SIZES if learner is None else SIZES:
        if learner is None:
            yield count, lambda count=count: train(name, count, seed)
        else:
            yield count, lambda count=count: learner(draw(truth, count, seed, noise))


def _given(data: LabelledWords | None) -> LabelledWords:
    if data is None:
        raise StatewiseError("one label only")
    return data


def attempt(task: str, method: str, seed: int, count: int, find: Callable[[], Machine]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        exact, reason = equivalent(find(), machine(task.format(seed=seed))), None
    except StatewiseError as error:
        exact, reason = False, str(error)
    seconds = round(time.perf_counter() - began, 4)
    record = {"task": task, "method": method, "seed": seed, "words": count, "exact": exact, "seconds": seconds}
    return record | {"reason": reason} | asdict(provenance())


def measure(minutes: float, methods: list[str]) -> None:
    torch.set_num_threads(1)
    ends = time.monotonic() + 60 * minutes
    RESULTS.parent.mkdir(exist_ok=True)
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {(r["task"], r["method"], r["words"], r["seed"]): r["exact"] for r in map(json.loads, lines)}
    for method in methods or METHODS:
        for task in TASKS:
            # all seeds are given a number of words before any is given more
            for tries in zip(*(attempts(task, method, seed) for seed in SEEDS), strict=True):
                for seed, (count, find) in zip(SEEDS, tries, strict=True):
                    key = (task, method, count, seed)
                    if key in done:
                        continue
                    if time.monotonic() > ends:
                        return
                    record = attempt(task, method, seed, count, find)
                    done[key] = record["exact"]
                    print(method, task, count, seed, record["exact"], record["seconds"], file=sys.stderr, flush=True)
                    with RESULTS.open("a") as stream_out:
                        stream_out.write(json.dumps(record) + "\n")
                if all(done[task, method, count, seed] for seed, (count, _) in zip(SEEDS, tries, strict=True)):
                    break


@dataclass(frozen=True)
class Need:
    """What a method needed on a task.

    Args:
        task: the machine, with "{seed}" where each seed has its own.
        method: its name.
        words: the smallest number of words tried from which every seed's machine was found; None if there was none.
        tried: the largest number of words tried on every seed.
        seeds: how many there were.
    """

    task: str
    method: str
    words: int | None
    tried: int
    seeds: int


def words_needed(records: Iterable[Mapping[str, Any]]) -> list[Need]:
    """Sum records up, in the order in which they come; numbers of words that not all seeds tried do not count."""
    cells: dict[tuple[str, str], dict[int, dict[int, bool]]] = {}
    for record in records:
        sizes = cells.setdefault((record["task"], record["method"]), {})
        sizes.setdefault(record["words"], {})[record["seed"]] = record["exact"]
    needs = []
    for (task, method), sizes in cells.items():
        seeds = max(len(outcomes) for outcomes in sizes.values())
        whole = {words: outcomes for words, outcomes in sizes.items() if len(outcomes) == seeds}
        enough = [words for words, outcomes in whole.items() if all(outcomes.values())]
        needs.append(Need(task, method, min(enough, default=None), max(whole), seeds))
    return needs


def draw_words_needed(file: Path, needs: Sequence[Need]) -> None:
    """Draw the number of words against the method, a mark for each task; an arrow marks what was not enough."""
    if not needs:
        raise RunError("there are no records of words needed; run benchmarks/words_needed.py first")
    methods = list(dict.fromkeys(need.method for need in needs))
    tasks = list(dict.fromkeys(need.task for need in needs))
    with figure_of(file) as axes:
        for place, task in enumerate(tasks):
            style: dict[str, Any] = dict(line_style(place))
            arrow: dict[str, Any] = style | {"marker": ">"}
            # tasks lie beside each other, so that equal numbers do not hide one another
            offset = 0.27 * (place - (len(tasks) - 1) / 2)
            axes.plot([], [], linestyle="", label=_title(task), **style)
            for need in (need for need in needs if need.task == task):
                height = methods.index(need.method) + offset
                words = need.tried if need.words is None else need.words
                text = f"{words:,}" if need.words is not None else f"more than {words:,}"
                axes.plot([words], [height], **(arrow if need.words is None else style))
                axes.annotate(text, (words, height), (7, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_xscale("log")
        most = max(need.words or need.tried for need in needs)
        axes.set_xlim(right=4 * most)
        axes.set_yticks(range(len(methods)), methods)
        axes.invert_yaxis()
        axes.grid(axis="x", which="major", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(f"labelled words for the exact machine on all {max(need.seeds for need in needs)} seeds")
        axes.legend(frameon=False, fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, columnspacing=1)


def _title(task: str) -> str:
    return task.replace(", seed={seed}", "")


def main(minutes: float, methods: list[str]) -> None:
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise unknown_name("method", unknown[0], METHODS)
    measure(minutes, methods)
    records = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    records.sort(key=lambda record: (METHODS.index(record["method"]), TASKS.index(record["task"])))
    draw_words_needed(FIGURE, words_needed(records))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2:])
