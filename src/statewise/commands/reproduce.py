"""`statewise reproduce`: a table or figure of a paper, beside the published numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, device_of, path_of, torch_threads
from statewise.errors import RunError, shorten
from statewise.sweep import EngineOptions, GridOutcome, GridPlan, Limits, ShowProgress, plan_grid, run_grid
from statewise.wording import Lines, Result, columns, counted

if TYPE_CHECKING:
    from statewise.papers import Paper, Table
    from statewise.papers.facts import Fact
    from statewise.report.paper_files import Parts


@dataclass(frozen=True)
class Reproduction(Result):
    """Something of a paper, repeated; of a dry run, what it would take.

    Args:
        name: what the paper's file calls it.
        title: for a reader.
        preset: the budget.
        grid: of what takes runs, how they stand.
        table: of what takes runs, ours beside the paper's.
        claims: what the table's records say of what the paper claims in words.
        parts: what a figure shows beside its runs.
        facts: what was computed.
        out: where files were written.
        files: those.
    """

    name: str
    title: str
    preset: str
    grid: GridOutcome | GridPlan | None = None
    table: "Table | None" = None
    claims: tuple[str, ...] = ()
    parts: "Parts | None" = None
    facts: "tuple[Fact, ...]" = ()
    out: Path | None = None
    files: tuple[Path, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a run has failed, or a fact contradicts what is proven."""
        shown = (*self.facts, *(self.parts.rows if self.parts else ()))
        return (self.grid is not None and self.grid.failed) or any(fact.contradicted for fact in shown)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows, and how the runs stand."""
        made: dict[str, Any] = {"name": self.name, "title": self.title, "preset": self.preset}
        made |= {} if self.grid is None else {"runs": self.grid.to_dict()}
        if self.table is None:
            made["rows"] = [fact.to_dict() for fact in self.facts]
        else:
            made |= self.table.to_dict() | {"claims": list(self.claims)}
        made |= {"parts": [row.to_dict() for row in self.parts.rows]} if self.parts and self.parts.rows else {}
        return made | ({} if self.out is None else {"files": [str(file) for file in self.files]})

    def lines(self) -> Lines:
        """Return the table with its notes, or what was computed."""
        if isinstance(self.grid, GridPlan):
            return self.grid.lines()
        lines = [f"{self.title}, preset {self.preset}"]
        if self.table is not None:
            lines += [*_table_lines(self.table), *_after_a_gap(_note_lines(self.table)), *_after_a_gap(self.claims)]
            lines += [] if self.parts is None else _part_lines(self.table, self.parts)
        elif self.facts:
            lines += _fact_lines(self.facts)
        else:
            lines.append("computed from the definitions: there is nothing to train")
        lines += [] if self.out is None else ["", f"written to {self.out}"]
        return [("", line) for line in lines]


def reproduce(
    name: str,
    preset: str = "quick",
    store: PathLike | None = None,
    engine: str = "local",
    workers: int = 2,
    ray_address: str | None = None,
    memory: float = 0.0,
    time_limit: float = 0.0,
    retry_failed: bool = False,
    slow: bool = False,
    dry_run: bool = False,
    out: PathLike | None = None,
    device: str = "cpu",
    show: ShowProgress | None = None,
) -> Reproduction:
    """Repeat a table or figure of a paper, and show it beside the published numbers.

    Args:
        name: such as table-addition, audit or grazzi-table3
        preset: quick, or paper for the published budget
        store: the store; what it has is not run again
        engine: local, or ray
        workers: packs of runs at once
        ray_address: a running Ray cluster; none starts one here
        memory: gigabytes that a pack may use; 0 for no bound
        time_limit: seconds that a pack may take; 0 for no bound
        retry_failed: try runs again that have failed
        slow: run Mamba and the Transformer too, which take twice as long as all others under preset quick
        dry_run: show what would be run, and about how long it takes, from a few steps that are timed
        out: write figures, numbers and records into this directory
        device: where to compute: cpu, cuda, mps or auto
        show: called with the progress, about once a second
    """
    from statewise.papers import find_paper

    paper, directory, folder = find_paper(name), path_of(store), path_of(out)
    runs = paper.runs(name, preset, slow)
    made = Reproduction(name, paper.title(name), preset)
    if runs and directory is None and not dry_run:
        raise RunError(f"{name} takes {len(runs):,} runs and needs a store for them; give --store DIR")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise RunError(f'"{shorten(folder)}" is a file, and figures need a directory; give another --out')
    if folder is not None:
        from statewise.report.figure import pyplot_for_files

        # before anything is run for what is drawn at the end
        pyplot_for_files()
    on = EngineOptions(engine, workers, ray_address, Limits(time_limit, memory), device_of(device))
    # what is computed here is small, and more threads would wait for each other beside the workers
    with torch_threads(1):
        if runs and (dry_run or directory is None):
            return replace(made, grid=plan_grid(directory, runs, on, retry_failed))
        if directory is not None and runs:
            grid = run_grid(directory, runs, on, retry_failed, show)
            return _of_records(replace(made, grid=grid), paper, directory, folder)
        return made if dry_run else _of_facts(made, paper, folder)


def _of_records(made: Reproduction, paper: "Paper", store: Path, out: Path | None) -> Reproduction:
    """Make what is trained for, from the store's records."""
    from statewise.papers import judge_claims, table_of
    from statewise.report.paper_files import parts_of, write_table
    from statewise.store import Store, exporter

    with Store.open(store) as opened:
        table = table_of(paper, made.name, made.preset, opened.records())
        parts = parts_of(table, opened)
        keys = [key for row in table.rows for cell in row.cells for key in cell.runs]
        records = [record for key in keys if (record := opened.record(key)) is not None]
    made = replace(made, table=table, claims=tuple(judge_claims(paper, table)), parts=parts)
    if out is None:
        return made
    files = write_table(table, parts, out)
    # the runs behind the table, as `statewise store merge` reads them
    kept = out / f"{made.name}.jsonl.gz"
    exporter(kept)(lambda: records)
    return replace(made, out=out, files=(*files, kept))


def _of_facts(made: Reproduction, paper: "Paper", out: Path | None) -> Reproduction:
    """Make what is computed."""
    from statewise.papers.facts import facts_of
    from statewise.report.paper_files import write_facts

    made = replace(made, facts=tuple(facts_of(paper, made.name, made.preset)))
    return made if out is None else replace(made, out=out, files=tuple(write_facts(made.name, made.facts, out)))


def _table_lines(table: "Table") -> list[str]:
    """Write a table, a line for each model in each column; models that were not run are counted below."""
    from statewise.papers import headings_of, lines_of
    from statewise.papers.verdicts import MARKS

    headings, lines = headings_of(table), lines_of(table)
    shown = [["model", table.column, *(heading.short for heading in headings)]]
    before = ""
    for line in filter(lambda line: line.has_run, lines):
        numbers = [f"{line.text(h)} {line.mark(h)}".strip() for h in headings]
        # a model is named once
        shown.append([line.label if line.label != before else "", _column(line.column), *numbers])
        before = line.label
    missing = sum(not line.has_run for line in lines)
    legend = ", ".join(f"{mark} {verdict}" for verdict, mark in MARKS.items()) if "paper" in table.beside else ""
    left = f"{counted(missing, 'line')} not run" if missing else ""
    return [*columns(shown), *(text for text in (legend, left) if text)]


def _note_lines(table: "Table") -> list[str]:
    """Write the cells that do not agree with the paper, with the likely reason of each."""
    return [
        f"{row.label} ({row.reading}), {table.column} = {_column(cell.column)}: "
        f"{cell.verdict} ({cell.budget}): {cell.note}"
        for row in table.rows
        for cell in row.cells
        if cell.note
    ]


def _column(column: "int | str") -> str:
    return f"{column:,}" if isinstance(column, int) else column


def _part_lines(table: "Table", parts: "Parts") -> list[str]:
    from statewise.papers.audit import AUDIT, TITLES, TRAININGS, audit_rows, headings
    from statewise.report.paper_files import FROZEN, PLANES

    if table.name == AUDIT:
        lines = []
        for training in TRAININGS:
            rows = [row.texts() for row in audit_rows(table, parts.networks, training)]
            lines += ["", TITLES[training], *columns([headings(training), *rows])]
        return lines
    if table.name == FROZEN:
        return ["", "right: parity by frozen random diagonals", *_fact_lines(parts.frozen)]
    if table.name == PLANES:
        heading = "planes after polish; without it, the ten that the readout weighs most"
        return ["", heading, *_fact_lines(parts.heaviest_planes)]
    return []


def _fact_lines(facts: "Sequence[Fact]") -> list[str]:
    """Write rows aligned under the names of their columns."""
    if not facts:
        return ["nothing is there yet"]
    rows = [fact.to_dict() for fact in facts]
    return columns([list(rows[0]), *([_value(value) for value in row.values()] for row in rows)])


def _after_a_gap(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _value(value: str | int | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
