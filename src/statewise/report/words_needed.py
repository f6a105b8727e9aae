"""How many labelled words each method needs to find a machine exactly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewise.errors import RunError
from statewise.report.figure import figure_of
from statewise.report.palette import looks


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
    """Sums records up, in the order in which they come; numbers of words that not all seeds tried do not count."""
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
    """Draws the number of words against the method, a mark for each task; an arrow marks what was not enough."""
    if not needs:
        raise RunError("there are no records of words needed; run benchmarks/words_needed.py first")
    methods = list(dict.fromkeys(need.method for need in needs))
    tasks = list(dict.fromkeys(need.task for need in needs))
    with figure_of(file) as axes:
        for place, task in enumerate(tasks):
            look = looks(place)
            arrow: dict[str, Any] = {**look, "marker": ">"}
            # tasks lie beside each other, so that equal numbers do not hide one another
            offset = 0.27 * (place - (len(tasks) - 1) / 2)
            axes.plot([], [], linestyle="", label=_title(task), **look)
            for need in (need for need in needs if need.task == task):
                height = methods.index(need.method) + offset
                words = need.tried if need.words is None else need.words
                text = f"{words:,}" if need.words is not None else f"more than {words:,}"
                axes.plot([words], [height], **(arrow if need.words is None else look))
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
