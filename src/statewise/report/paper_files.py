"""The tables and figures of a paper as files: PNG, SVG, and the numbers behind them as CSV."""

from pathlib import Path
from typing import Any

from statewise.papers import Table
from statewise.papers.facts import frozen_parity, planes
from statewise.report import paper_figures as figures
from statewise.report.weights import kept_weights
from statewise.store import Store

# figures with a part that is computed beside their runs
FROZEN, PLANES = "figure3", "figure4"


def parts_of(table: Table, store: Store) -> list[dict[str, Any]]:
    """Computes what a figure shows beside its runs: frozen random networks, or the planes of trained rotations."""
    if table.name == FROZEN:
        return frozen_parity(table.preset)
    return _planes(table, store) if table.name == PLANES else []


def _planes(table: Table, store: Store) -> list[dict[str, Any]]:
    cell = table.rows[0].cells[0]
    held = []
    for key in cell.runs:
        record, weights = store.record(key), kept_weights(store, key)
        if record is not None and weights is not None and record["status"] != "diverged":
            held.append((record["config"]["seed"], weights))
    return planes(held, cell.m)


def write_table(table: Table, parts: list[dict[str, Any]], out: Path) -> list[Path]:
    """Writes a table or a figure with its computed parts; gives the files."""
    files = [figures.write_rows(out, table.name, figures.cells_of(table))]
    if table.name == PLANES:
        # weights that were not kept have no planes to draw
        drawn = figures.write_figure(out, table.name, figures.draw_planes(parts, table.columns[0])) if parts else []
        return [*files, figures.write_rows(out, f"{table.name}-planes", parts), *drawn]
    if not table.name.startswith("table-"):
        files += figures.write_figure(out, table.name, figures.draw_rows(table))
        if table.column != "m":
            files += figures.write_figure(out, f"{table.name}-short", figures.draw_rows(table, short=True))
    else:
        for recipe in dict.fromkeys(row.recipe for row in table.rows):
            files += figures.write_figure(out, f"{table.name}-{recipe}", figures.draw_table(table, recipe))
    if table.name == FROZEN:
        files.append(figures.write_rows(out, f"{table.name}-right", parts))
        for examples in sorted({row["examples"] for row in parts}):
            draw = figures.draw_frozen_parity(parts, examples)
            files += figures.write_figure(out, f"{table.name}-right-{examples}", draw)
    return files
