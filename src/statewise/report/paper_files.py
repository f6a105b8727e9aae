"""The tables and figures of a paper as files: PNG, SVG, and the numbers behind them as CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from statewise.models import StateTracker
from statewise.papers import Table, paper_names, read_paper, recorded, table_of
from statewise.papers.audit import AUDIT, Audited, audited
from statewise.papers.facts import Fact, FrozenScore, ParityFrequency, frozen_parity
from statewise.papers.rotations import Angles, PlaneRow, Stage, angles_of, plane_rows
from statewise.report import paper_figures as figures
from statewise.report.audit_figure import write_audit
from statewise.report.curves import draw_frequencies
from statewise.report.networks import kept_network
from statewise.report.paper_tables import draw_table
from statewise.store import Store
from statewise.tasks import Task
from statewise.theory.polish import polish_tracker

# figures with a part that is computed beside their runs
FROZEN, PLANES = "figure3", "figure4"
# planes that make an answer, rather than follow it
WEIGHTIEST = 10
# those that are drawn as curves, and not as a table
CURVES = ("figure2", "figure3")


@dataclass(frozen=True)
class Parts:
    """What a figure shows beside its runs: frozen random networks, the planes of rotations, or audited networks."""

    frozen: tuple[FrozenScore, ...] = ()
    planes: tuple[PlaneRow, ...] = ()
    networks: tuple[Audited, ...] = ()

    @property
    def rows(self) -> tuple[Fact, ...]:
        """All rows."""
        return (*self.frozen, *self.planes, *self.networks)

    @property
    def heaviest_planes(self) -> list[PlaneRow]:
        """The planes of polished rotations; where there are none, the ten of each that the readout weighs most."""
        polished = [row for row in self.planes if row.stage == "polished"]
        return polished or [row for row in self.planes if row.place < WEIGHTIEST]


def parts_of(table: Table, store: Store) -> Parts:
    """Compute what a figure shows beside its runs."""
    if table.name == FROZEN:
        return Parts(frozen=tuple(frozen_parity(table.preset)))
    if table.name == AUDIT:
        records = (store.record(key) for row in table.rows for cell in row.cells for key in cell.runs)
        return Parts(networks=tuple(audited(table, (record for record in records if record is not None))))
    return Parts(planes=tuple(_planes(table, store))) if table.name == PLANES else Parts()


def _planes(table: Table, store: Store) -> list[PlaneRow]:
    """Read planes out of the weights that were kept, and polish them again: that takes less than a second."""
    cell = table.rows[0].cells[0]
    found: list[tuple[Stage, int, Angles]] = []
    for key in cell.runs:
        record = store.record(key)
        network = None if record is None or record.status == "diverged" else kept_network(store, record)
        angles = None if network is None else angles_of(network)
        if record is None or angles is None:
            continue
        found.append(("trained", record.config.seed, angles))
        assert isinstance(network, StateTracker)
        task = record.config.build_task()
        assert isinstance(task, Task)
        fine = polish_tracker(network, task, record.config.seed)
        turned = angles_of(fine.model) if fine.outcome == "converged" else None
        if turned is not None:
            found.append(("polished", record.config.seed, turned))
    assert isinstance(cell.column, int)
    return plane_rows(found, cell.column)


def write_table(table: Table, parts: Parts, out: Path) -> list[Path]:
    """Write a table or a figure with its computed parts; return the files."""
    files = [
        figures.write_rows(out, table.name, figures.written_lines(table)),
        figures.write_rows(out, f"{table.name}-cells", figures.cells_of(table)),
    ]
    if table.name == PLANES:
        # weights that were not kept have no planes to draw
        m = table.columns[0]
        assert isinstance(m, int)
        drawn = figures.write_planes(out, table.name, parts.planes, m) if parts.planes else []
        return [*files, _write_facts(out, f"{table.name}-planes", parts.planes), *drawn]
    if table.name == AUDIT:
        drawn = write_audit(out, table.name, parts.networks) if parts.networks else []
        return [*files, _write_facts(out, f"{table.name}-networks", parts.networks), *drawn]
    if table.name in CURVES:
        files += figures.write_readings(out, table.name, table)
        if table.column == "samples":
            files += figures.write_readings(out, f"{table.name}-short", table, inside=True)
    else:
        files += figures.write_figure(out, table.name, draw_table(table))
    if table.name == FROZEN:
        files.append(_write_facts(out, f"{table.name}-right", parts.frozen))
        for examples in sorted({row.examples for row in parts.frozen}):
            draw = figures.draw_frozen_parity(parts.frozen, examples)
            files += figures.write_figure(out, f"{table.name}-right-{examples}", draw)
    return files


def write_facts(name: str, rows: Sequence[Fact], out: Path) -> list[Path]:
    """Write what is computed, with its figure where there is one; return the files."""
    files = [_write_facts(out, name, rows)]
    frequencies = [row.found for row in rows if isinstance(row, ParityFrequency)]
    if frequencies:
        pictures = [out / f"{name}.png", out / f"{name}.svg"]
        for file in pictures:
            draw_frequencies(file, frequencies)
        files += pictures
    return files


def write_figures(store: Store, preset: str, out: Path) -> list[Path]:
    """Write every table and figure of a paper that a store has runs for; return the files."""
    grids = [(paper, name) for paper in map(read_paper, paper_names()) for name in paper.grids]
    wanted = {(run.task, run.model) for paper, name in grids for run in paper.runs(name, preset)}
    # a store may hold many more, and each is unpacked anew when it is read
    records = [record for record in store.records() if (record.config.task, record.config.model) in wanted]
    files = []
    for paper, name in grids:
        if recorded(paper, name, preset, records):
            table = table_of(paper, name, preset, records)
            files += write_table(table, parts_of(table, store), out)
    return files


def _write_facts(out: Path, name: str, rows: Sequence[Fact]) -> Path:
    return figures.write_rows(out, name, [row.to_dict() for row in rows])
