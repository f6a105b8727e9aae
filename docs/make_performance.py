"""Write the table and the figure of docs/performance.md from the records in results/bench."""

import json
import re
from pathlib import Path

from statewise.bench import BENCHMARKS
from statewise.bench.timing import Row, unit_of

ROOT = Path(__file__).parents[1]
PAGE, RECORDS, FIGURE = ROOT / "docs" / "performance.md", ROOT / "results" / "bench", ROOT / "docs" / "growth.svg"
HEADER = "| benchmark | work | rival | ours | rival's | ratio | aim |\n| --- | --- | --- | --- | --- | --- | --- |"


def rows_of(name: str) -> list[Row]:
    """Read what a benchmark measured."""
    rows = json.loads((RECORDS / f"{name}.json").read_text())["rows"]
    return [Row(row["case"], row["rival"], row["ours_s"], row["rival_s"], row["target"]) for row in rows]


def table() -> str:
    """Return a row for each comparison; the single sizes of growth are in the figure."""
    lines = [HEADER]
    for name in BENCHMARKS:
        for row in rows_of(name):
            if name == "growth" and "exponent" not in row.case and unit_of(row.case)[1] != "GB":
                continue
            unit = _gigabytes if unit_of(row.case)[1] == "GB" else _milliseconds
            aim = "" if row.target is None else f"{row.target:.3g}"
            times = f"{unit(row.ours_s)} | {unit(row.rival_s)}"
            lines.append(f"| `{name}` | {row.case} | {row.rival} | {times} | {row.ratio:.2f} | {aim} |")
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _gigabytes(amount: float) -> str:
    return f"{amount:.2f} GB"


def page(text: str) -> str:
    """Put the table into the page, in place of the one before."""
    before, _, rest = text.partition("## What was measured\n")
    after = rest[rest.index("\nEvery row is of a record") :]
    summary = f"<details><summary>{len(table().splitlines()) - 2} comparisons</summary>"
    return f"{before}## What was measured\n\n{summary}\n\n{table()}\n\n</details>\n{after}"


def draw() -> None:
    """Draw time against each size on logarithmic axes, with the fitted exponents."""
    from statewise.report.figure import figure_of
    from statewise.report.palette import line_style

    points: dict[str, list[tuple[int, float]]] = {}
    exponents = {}
    for row in rows_of("growth"):
        if found := re.fullmatch(r"full, (\w) (\d+)", row.case):
            points.setdefault(found[1], []).append((int(found[2]), row.ours_s * 1e3))
        elif found := re.search(r"full, (\w) from .* exponent ([\d.]+)", row.case):
            exponents[found[1]] = found[2]
    names = {"T": "length T", "B": "batch B", "H": "width H", "V": "alphabet V"}
    with figure_of(FIGURE) as axes:
        for index, (name, curve) in enumerate(points.items()):
            axes.plot(
                *zip(*curve, strict=True), label=f"{names[name]}, exponent {exponents[name]}", **line_style(index)
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("size; the others are T 64, B 64, H 64, V 5")
        axes.set_ylabel("milliseconds a step")
        axes.legend(frameon=False)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    draw()
