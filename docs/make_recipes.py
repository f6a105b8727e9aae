"""Write the tables of docs/recipes.md from the records of the reproduction and of benchmarks/recipes.py."""

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from statewise.runs import Record, parse_record
from statewise.training import resolve

ROOT = Path(__file__).parents[1]
PAGE, RECORDS = ROOT / "docs" / "recipes.md", ROOT / "results" / "recipes.jsonl"
TABLES = [
    ROOT / "results" / "reproduction" / f"table-{name}.jsonl.gz" for name in ("addition", "machine", "arithmetic")
]
MILLION = ROOT / "results" / "million.jsonl"
FAR = [
    "task",
    "model",
    "seeds",
    "at 500",
    "at 10,000",
    "polished",
    "at 10,000 after polish",
    "at 1,000,000",
    "proven length, at least",
]
STUDIED = ("modular_addition(10)", "modular_arithmetic(10)", "random_machine(10, seed=s, kind=map)")


def read(file: Path) -> list[Record]:
    """Read records, one to a line; none where there is no file."""
    if not file.exists():
        return []
    text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
    return [parse_record(line) for line in text.splitlines()]


def cells(records: Iterable[Record]) -> dict[tuple[str, str, int], list[Record]]:
    """Sort polished runs by task, model and hidden size."""
    found: dict[tuple[str, str, int], list[Record]] = {}
    for record in records:
        if record.polished is not None:
            task = re.sub(r"seed=\d+", "seed=s", record.config.task)
            found.setdefault((task, record.config.model, record.config.hidden), []).append(record)
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def far(records: Iterable[Record]) -> str:
    """Return a row for each cell that was polished; those that algebra forbids were not learned, and are left out."""
    lines, far_scores = [_line(FAR), "|" + " --- |" * len(FAR)], _far_scores()
    for (task, model, hidden), runs in cells(records).items():
        if max(run.score_id or 0.0 for run in runs) < LEARNED:
            continue
        polished = [run.polished for run in runs if run.polished is not None]
        converged = [polish for polish in polished if polish.status == "converged"]
        horizons = [polish.horizon for polish in converged]
        least = min((h for h in horizons if h is not None), default=None)
        proven = "-" if not least or None in horizons or len(converged) < len(runs) else _power(least)
        after = [score.score for polish in polished for score in polish.scores if score.length == LONG]
        lines.append(
            _line(
                [
                    task,
                    f"{model}, H = {hidden}",
                    str(len(runs)),
                    _perfect(runs, 500),
                    _perfect(runs, LONG),
                    f"{len(converged)} of {len(runs)}",
                    f"{sum(score == 1 for score in after)} of {len(runs)}",
                    _at_a_million(runs, far_scores),
                    proven,
                ]
            )
        )
    return "\n".join(lines)


def study(records: list[Record]) -> str:
    """Return a row for each change of the recipe: the mean score at 500 and at 10,000 on each task."""
    rows: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        if record.polished is None:
            task = re.sub(r"seed=\d+", "seed=s", record.config.task)
            rows.setdefault(_change(record), {}).setdefault(task, []).append(record)
    lines = [_line(["change", *STUDIED]), "|" + " --- |" * (1 + len(STUDIED))]
    for change, by_task in sorted(rows.items(), key=lambda row: row[0] != AS_IS):
        lines.append(_line([change, *(_means(by_task.get(task, [])) for task in STUDIED)]))
    return "\n".join(lines)


LEARNED, LONG, AS_IS = 0.99, 10_000, "the recipe as it is"
PARTS: dict[str, Callable[[], str]] = {
    "far": lambda: far(record for file in TABLES for record in read(file)),
    "groups": lambda: far(read(RECORDS)),
    "study": lambda: study(read(RECORDS)),
}


def _change(record: Record) -> str:
    """Name the options by which a run differs from the recipe."""
    own = record.config
    # the records are older than balanced sequences
    uniform = {"tests": "uniform", "draws": "uniform"}
    plain = resolve({"task": own.task, "model": own.model, "seed": own.seed, **uniform}).to_dict()
    given = own.to_dict()
    kept = ("test_lengths", "words", "every", "polish")
    changed = {n: given.get(n, "cross-entropy") for n in plain.keys() | given.keys() if given.get(n) != plain.get(n)}
    named = [f"{name} {value}" for name, value in sorted(changed.items()) if name not in kept]
    return ", ".join(named) or AS_IS


def _means(runs: list[Record]) -> str:
    if not runs:
        return "-"
    scores = [[run.score_at(length) for run in runs] for length in (500, LONG)]
    return " / ".join(f"{sum(s.score for s in some if s is not None) / len(some):.2f}" for some in scores)


def _perfect(runs: list[Record], length: int) -> str:
    return f"{sum((s := run.score_at(length)) is not None and s.score == 1 for run in runs)} of {len(runs)}"


def _far_scores() -> dict[str, float]:
    """Read the scores of polished networks at 1,000,000 symbols, by the keys of their runs."""
    lines = MILLION.read_text().splitlines() if MILLION.exists() else []
    return {found["key"]: found.get("score", 0.0) for found in map(json.loads, lines)}


def _at_a_million(runs: list[Record], scores: dict[str, float]) -> str:
    tested = [scores[key] for run in runs if (key := run.config.key()) in scores]
    return f"{sum(score == 1 for score in tested)} of {len(tested)}" if tested else "-"


def _power(length: int) -> str:
    digits = len(str(length)) - 1
    return f"{length / 10**digits:.1f} · 10{str(digits).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def _line(values: list[str]) -> str:
    return f"| {' | '.join(values)} |"


def _order(cell: tuple[str, str, int]) -> tuple[str, str, list[int]]:
    numbers = [int(number) for number in re.findall(r"\((\d+)", cell[0])]
    kind = "map" if "kind=map" in cell[0] else ""
    return cell[1], re.sub(r"\d+", "", cell[0]) + kind, numbers


def page(text: str) -> str:
    """Put the tables into the page, in place of those before."""
    for name, made in PARTS.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        after = rest[rest.index(end) :]
        text = f"{before}{begin}\n\n{made()}\n\n{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
