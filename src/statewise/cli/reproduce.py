"""`statewise reproduce`: a table or figure of the paper, beside the published numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewise.cli.show import show
from statewise.cli.sweep import (
    DryRun,
    EngineName,
    Memory,
    RayAddress,
    RetryFailed,
    TimeLimit,
    Workers,
    run_grid,
    summary_lines,
)
from statewise.errors import RunError, shorten
from statewise.sweep.engine import Limits
from statewise.wording import fixed

if TYPE_CHECKING:
    from statewise.papers import Paper, Table

Lines = list[tuple[str, str]]


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Such as table-addition or figure2.")],
    preset: Annotated[str, typer.Option(help="quick, or paper for the published budget.")] = "quick",
    store: Annotated[Path | None, typer.Option(help="The store; what it has is not run again.")] = None,
    engine: EngineName = "local",
    workers: Workers = 2,
    ray_address: RayAddress = None,
    memory: Memory = 0.0,
    time_limit: TimeLimit = 0.0,
    retry_failed: RetryFailed = False,
    dry_run: DryRun = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write figures, numbers and records into this directory.")] = None,
) -> None:
    """Repeat a table or figure of the paper, and show it beside the published numbers."""
    import torch

    from statewise.papers import read_paper

    # what is computed here is small, and more threads would wait for each other beside the workers
    torch.set_num_threads(1)
    paper = read_paper()
    configs = paper.runs(name, preset)
    result: dict[str, Any] = {"name": name, "title": paper.title(name), "preset": preset}
    if configs and store is None and not dry_run:
        raise RunError(f"{name} takes {len(configs):,} runs and needs a store for them; give --store DIR")
    if out is not None and out.exists() and not out.is_dir():
        raise RunError(f'"{shorten(out)}" is a file, and figures need a directory; give another --out')
    ran: dict[str, Any] = {}
    if configs:
        limits = Limits(time_limit, memory)
        ran = run_grid(store, configs, engine, workers, ray_address, dry_run, limits, retry_failed)
        if dry_run or store is None:
            show({**result, "rows": [], "runs": ran}, json, summary_lines(ran, store))
            return
        result["runs"] = ran
        made, lines = _of_records(paper, name, preset, store, out)
    elif dry_run:
        made, lines = {"rows": []}, [("", "computed from the definitions: there is nothing to train")]
    else:
        made, lines = _of_facts(paper, name, preset, out)
    show({**result, **made}, json, [("", f"{result['title']}, preset {preset}"), *lines])
    if ran.get("failed") or not all(row.get("holds", True) for row in made["rows"]):
        raise typer.Exit(1)


def _of_records(paper: "Paper", name: str, preset: str, store: Path, out: Path | None) -> tuple[dict[str, Any], Lines]:
    """Makes what is trained for, from the store's records."""
    from statewise.papers import as_json, table_of
    from statewise.papers.remarks import reply
    from statewise.report.paper_files import FROZEN, PLANES, parts_of, write_table
    from statewise.store import Store

    with Store.open(store) as opened:
        table = table_of(paper, name, preset, opened.records())
        found = parts_of(table, opened)
        keys = [key for row in table.rows for cell in row.cells for key in cell.runs]
        records = [record for key in keys if (record := opened.record(key)) is not None]
    replied = reply(table)
    result = {**as_json(table), "reply": replied}
    lines = [*table_lines(table), *note_lines(table), *([("", "")] * bool(replied)), *(("", line) for line in replied)]
    if name == FROZEN:
        lines += [("", ""), ("", "right: parity by frozen random diagonals"), *fact_lines(found)]
    elif name == PLANES:
        # one line for each plane that the readout looks at
        seen = [row for row in found if row["weight"] >= 0.1 * max(other["weight"] for other in found)]
        lines += [("", ""), ("", "planes, those with at least a tenth of the largest weight"), *fact_lines(seen)]
    if found:
        result["parts"] = found
    if out is not None:
        result["files"] = [str(file) for file in (*write_table(table, found, out), _write_records(name, records, out))]
        lines += [("", ""), ("", f"written to {out}")]
    return result, lines


def _of_facts(paper: "Paper", name: str, preset: str, out: Path | None) -> tuple[dict[str, Any], Lines]:
    """Makes what is computed."""
    from statewise.papers.facts import facts_of

    rows = facts_of(paper, name, preset)
    result: dict[str, Any] = {"rows": rows}
    lines = fact_lines(rows)
    if out is not None:
        from statewise.report.paper_figures import write_rows

        files = [write_rows(out, name, rows)]
        if name == "parity":
            from statewise.report.parity_figure import draw_frequencies
            from statewise.theory.frozen_parity import Frequency

            fields = ("hidden", "draws", "learned", "low", "high")
            found = [Frequency(**{f: row[f] for f in fields}, predicted=row["paper"]) for row in rows]
            for file in (out / "parity.png", out / "parity.svg"):
                draw_frequencies(file, found)
                files.append(file)
        result["files"] = [str(file) for file in files]
        lines += [("", ""), ("", f"written to {out}")]
    return result, lines


def _write_records(name: str, records: list[dict[str, Any]], out: Path) -> Path:
    """Writes the runs behind a table, as `statewise store merge` reads them."""
    from statewise.store.export import exporter

    file = out / f"{name}.jsonl.gz"
    exporter(file)(lambda: records)
    return file


def table_lines(table: "Table") -> Lines:
    """Gives a table for the eye: ours / the paper's / the ceiling in every cell, and whether they agree."""
    from statewise.papers.verdicts import MARKS

    shown = [["ours / paper / ceiling", "recipe", *(f"{table.column} = {column:,}" for column in table.columns)]]
    for row in table.rows:
        cells = [
            f"{_number(c.best):>5} / {_number(c.published)} / {_number(c.ceiling)} {MARKS.get(c.verdict, '')}"
            for c in row.cells
        ]
        shown.append([row.label, row.recipe, *cells])
    legend = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items())
    return [*(("", line) for line in _aligned(shown)), ("", legend)]


def note_lines(table: "Table") -> Lines:
    """Gives the cells that do not agree with the paper, with the likely reason of each."""
    lines: Lines = []
    for row in table.rows:
        for cell in row.cells:
            if cell.note:
                what = f"{row.label} ({row.recipe}), {table.column} = {cell.m:,}"
                lines.append(("", f"{what}: {cell.verdict} ({cell.budget}): {cell.note}"))
    return [("", ""), *lines] if lines else []


def fact_lines(rows: list[dict[str, Any]]) -> Lines:
    """Gives rows of plain values, aligned under their names."""
    if not rows:
        return [("", "nothing is there yet")]
    shown = [list(rows[0]), *([_value(value) for value in row.values()] for row in rows)]
    return [("", line) for line in _aligned(shown)]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(score: float | None) -> str:
    return "   -" if score is None else fixed(score)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
