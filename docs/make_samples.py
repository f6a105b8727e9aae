"""N* on the page of data efficiency, from the records of benchmarks/samples_needed.py."""

import json
from pathlib import Path
from typing import Any

from statewise.report.paper_markdown import markdown

RECORDS = Path(__file__).parents[1] / "results" / "samples-needed.jsonl"
ENOUGH = 1e-4


def samples_section() -> str:
    """Write the least number of training sequences of each model and modulus; nothing where there are no records."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []
    if not records:
        return ""
    cells: dict[tuple[str, int], dict[int, list[dict[str, Any]]]] = {}
    for record in records:
        cells.setdefault((record["model"], record["hidden"]), {}).setdefault(record["m"], []).append(record)
    moduli = sorted({record["m"] for record in records})
    rows = [
        [f"`{model}`, H {hidden}", *(_least(found.get(m, [])) for m in moduli)]
        for (model, hidden), found in cells.items()
    ]
    seeds, rates = (sorted({record[name] for record in records}) for name in ("seed", "lr"))
    steps = records[0]["steps"]
    return (
        "## N*, the least number of training sequences\n\n"
        "N* is the least number of different training sequences with which any run reaches a validation loss below "
        f"{ENOUGH:g} (arXiv:2602.18333).\nModular addition, sequences of 2 to 10 symbols with the answer at the end, "
        "cross-entropy, Adam at a constant rate, the best of "
        f"{len(seeds)} seeds ({', '.join(map(str, seeds))})\nat the rate {' or '.join(f'{rate:g}' for rate in rates)}, "
        f"{steps:,} steps of 64 sequences. The follow-up has three rates and 250,000 steps. N is searched for to "
        "within a third.\n\n"
        f"{markdown(['model', *(f'm = {m}' for m in moduli)], rows)}\n\n"
        "Records: `results/samples-needed.jsonl` (`python benchmarks/samples_needed.py`)."
    )


def _least(records: list[dict[str, Any]]) -> str:
    if not records:
        return "not run"
    enough = [record["count"] for record in records if record["loss"] < ENOUGH]
    return f"{min(enough):,}" if enough else f"not with {max(record['count'] for record in records):,}"
