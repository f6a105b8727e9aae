"""Writes the table of docs/recipes.md from results/recipes.jsonl."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, RECORDS = ROOT / "docs" / "recipes.md", ROOT / "results" / "recipes.jsonl"
COLUMNS = ["task", "model", "recipe", "seed", "steps", "score at 10", "at 500", "at 10,000"]
HEADER = f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"


def table() -> str:
    """Gives the table: a row per record, by cell and seed."""
    rows = []
    for line in RECORDS.read_text().splitlines():
        record = json.loads(line)
        config = record["config"]
        scores = " | ".join(f"{score['score']:.2f}" for score in record["scores"]) or "diverged | |"
        cell = f"{config['task']} | {config['model']}, H = {config['hidden']} | {config['recipe']}"
        rows.append((cell, config["seed"], f"| {cell} | {config['seed']} | {record['steps']:,} | {scores} |"))
    order = list(dict.fromkeys(cell for cell, _, _ in rows))
    rows.sort(key=lambda row: (order.index(row[0]), row[1]))
    return "\n".join([HEADER, *(text for _, _, text in rows)])


def page(text: str) -> str:
    """Puts the table into the page, in place of the one before."""
    before, _, rest = text.partition("## What was seen\n")
    after = rest[rest.index("\nEvery row is a record") :]
    return f"{before}## What was seen\n\n{table()}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
