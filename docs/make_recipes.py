"""Write the tables of docs/recipes.md from results/recipes.jsonl and results/baselines.jsonl."""

import re
from pathlib import Path

from statewise.runs import Record, parse_record

ROOT = Path(__file__).parents[1]
PAGE, RECORDS = ROOT / "docs" / "recipes.md", ROOT / "results" / "recipes.jsonl"
BASELINES = ROOT / "results" / "baselines.jsonl"
COLUMNS = ["task", "model", "steps", "seeds", "at 500: exactly 1.00", "scores at 500", "scores at 10,000"]
HEADER = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"


def read(file: Path) -> list[Record]:
    """Read records, one to a line."""
    return [parse_record(line) for line in file.read_text().splitlines()]


def table() -> str:
    """Return the table, cells in the order of their names, moduli and states in the order of their size."""
    cells: dict[tuple[str, str, int], dict[int, dict[int, float]]] = {}
    for record in read(RECORDS):
        options = record.config
        task = re.sub(r"seed=\d+", "seed=s", options.task)
        cell = (task, f"{options.model}, H = {options.hidden}", record.steps)
        cells.setdefault(cell, {})[options.seed] = {score.length: score.score for score in record.scores}
    return "\n".join([HEADER, *(_row(cell, cells[cell]) for cell in sorted(cells, key=_order))])


def _row(cell: tuple[str, str, int], seeds: dict[int, dict[int, float]]) -> str:
    by_length = {length: [scores.get(length) for _, scores in sorted(seeds.items())] for length in (500, 10_000)}
    perfect = sum(score == 1 for score in by_length[500])
    shown = [" ".join("-" if s is None else f"{s:.2f}" for s in by_length[length]) for length in (500, 10_000)]
    task, model, steps = cell
    names = ", ".join(str(seed) for seed in sorted(seeds))
    return f"| {task} | {model} | {steps:,} | {names} | {perfect} of {len(seeds)} | {shown[0]} | {shown[1]} |"


def _order(cell: tuple[str, str, int]) -> tuple[str, str, list[int], int]:
    numbers = [int(number) for number in re.findall(r"\((\d+)", cell[0])]
    kind = "map" if "kind=map" in cell[0] else ""
    return cell[1].split(",")[0], re.sub(r"\d+", "", cell[0]) + kind, numbers, cell[2]


def baselines() -> str:
    """Return a row for each run of a baseline that was trained as long as it needs."""
    lines = ["| task | model | steps | rate | training lengths | at 10 | at 500 |", "|" + " --- |" * 7]
    for record in read(BASELINES):
        options, scores = record.config, {score.length: score.score for score in record.scores}
        shown = " | ".join(f"{number:.3f}" for number in (record.score_id, scores[10], scores[500]))
        model = f"{options.model}, H = {options.hidden}"
        lines.append(f"| {options.task} | {model} | {record.steps:,} | {options.lr:g} | {shown} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Put the tables into the page, in place of those before."""
    before, _, rest = text.partition("## What was seen\n")
    after = rest[rest.index("\nEvery number is of a record") :]
    text = f"{before}## What was seen\n\n{table()}\n{after}"
    before, _, rest = text.partition("## Baselines, given time\n")
    after = rest[rest.index("\nBoth are asked") :]
    return f"{before}## Baselines, given time\n\n{baselines()}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
