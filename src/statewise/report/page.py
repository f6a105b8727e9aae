"""One self-contained page about all runs of a store: it fetches nothing, and needs no server."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from statewise.files import write_whole
from statewise.papers import read_paper, recorded, table_of
from statewise.papers.facts import FrozenScore, frozen_parity
from statewise.papers.lines import column_text, length_text
from statewise.report.angles import draw_angles
from statewise.report.certified import MOST_NETWORKS, NOT_CERTIFIED, summarise, verdicts_of
from statewise.report.charts import fixed, score_text
from statewise.report.entries import TRACKED, Entry, judged_at, read_entries
from statewise.report.heat import MARKS, MEANINGS, STEPS, heat_of, step_of
from statewise.report.hierarchy import summarise_levels
from statewise.report.listing import listing, made_with, moment_of
from statewise.report.panels import Sheet, additive_sheets, data_sheets, learning_sheets, length_sheets
from statewise.report.portraits import draw_portraits, table_of_arrows
from statewise.report.result_curves import result_sheets
from statewise.report.results import TaskResults, length_names, results_of, shown_lengths
from statewise.runs.record import STATUSES
from statewise.store import LENGTH, Store
from statewise.wording import visible

TABLES = ("table-addition", "table-machine", "table-arithmetic", "losses")
FIGURES = ("figure2", "figure3", "figure4")
# rows of results that a page has room for, and tasks whose curves it draws
MOST_ROWS, MOST_PANELS = 400, 60


@dataclass(frozen=True)
class Head:
    """What the top of the page shows.

    Args:
        runs: how many there are.
        statuses: how many ended how.
        tasks: how many there are, seeds of random machines aside.
        models: how many there are.
        scored: how many runs have a score.
        seconds: of one core, of all runs.
        made: with what runs were made, and how many.
        first: when the first run finished.
        last: when the last one did.
    """

    runs: int
    statuses: tuple[tuple[str, int], ...]
    tasks: int
    models: int
    scored: int
    seconds: float
    made: tuple[tuple[str, int], ...]
    first: str | None
    last: str | None


def write_page(store: Store, file: Path, preset: str) -> None:
    """Write the page of a store.

    Args:
        store: open to be read.
        file: where the page goes.
        preset: of the paper's tables; their numbers come from the runs of this preset.
    """
    paper = read_paper()
    entries = read_entries(store.records())
    by_key = {entry.key: entry for entry in entries}
    records = [entry.record for entry in entries]
    tasks = results_of(entries)
    shown = _first_rows(tasks)
    verdicts = verdicts_of(store, entries, shown)
    # a table's ceilings take a while, and nobody reads them where nothing was run
    wanted = [name for name in TABLES if recorded(paper, name, preset, records)]
    heats = [heat for name in wanted if (heat := heat_of(table_of(paper, name, preset, records), by_key)) is not None]
    figures = [*data_sheets(entries), *additive_sheets(entries, _frozen(entries, preset))]
    theirs = any(recorded(paper, name, preset, records) for name in FIGURES)
    page = _environment().from_string(_part("page.html.j2"))
    text = page.render(
        style=Markup(_part("style.css")),
        script=Markup(_part("page.js")),
        head=_head(entries),
        preset=preset,
        tasks=shown,
        rows=sum(len(task.rows) for task in tasks),
        columns=shown_lengths(shown),
        names=length_names(shown),
        curves=result_sheets(shown[:MOST_PANELS]),
        verdicts=verdicts,
        not_certified=NOT_CERTIFIED,
        most_networks=MOST_NETWORKS,
        heats=heats,
        theirs=theirs,
        marks=MARKS,
        meanings=MEANINGS,
        steps=STEPS,
        stated=LENGTH,
        judged=judged_at(entry.scores for entry in entries),
        probed=entries[0].probed if entries else LENGTH,
        tracked=TRACKED,
        levels=summarise_levels(entries),
        # by size of the task, at the rate that the paper would choose
        lengths=length_sheets(entries) if heats else [],
        learning=learning_sheets(entries),
        figures=figures if theirs else [_untitled(sheet) for sheet in figures],
        angles=draw_angles(store, entries),
        portraits=[(portrait, table_of_arrows(portrait.machine)) for portrait in draw_portraits(store, entries)],
        listing=listing(entries, verdicts),
    )
    write_whole(file, visible(text))


def _frozen(entries: Sequence[Entry], preset: str) -> list[FrozenScore]:
    """Compute what belongs beside runs with additive terms, where there are any."""
    return frozen_parity(preset) if any(entry.options.additive != "none" for entry in entries) else []


def _untitled(sheet: Sheet) -> Sheet:
    """Return a sheet without the number of a figure of the paper, whose runs it does not show."""
    title = sheet.title.partition(": ")[2]
    return replace(sheet, title=title[:1].upper() + title[1:])


def _first_rows(tasks: Sequence[TaskResults]) -> list[TaskResults]:
    """Return as many tasks and rows as a page has room for."""
    shown, left = [], MOST_ROWS
    for task in tasks:
        if left > 0:
            shown.append(replace(task, rows=task.rows[:left]))
            left -= len(task.rows)
    return shown


def _head(entries: Sequence[Entry]) -> Head:
    statuses = Counter(entry.status for entry in entries)
    moments = sorted(moment for entry in entries if (moment := moment_of(entry.record)) is not None)
    made = Counter(made for entry in entries if (made := made_with(entry.record)))
    return Head(
        runs=len(entries),
        statuses=tuple((status, statuses[status]) for status in STATUSES if statuses[status] or status in STATUSES[:1]),
        tasks=len({entry.subject for entry in entries}),
        models=len({entry.options.model for entry in entries}),
        scored=sum(bool(entry.scores) for entry in entries),
        seconds=math.fsum(entry.record.cost or 0.0 for entry in entries),
        made=tuple(made.most_common()),
        first=moments[0] if moments else None,
        last=moments[-1] if moments else None,
    )


def _environment() -> Environment:
    made = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"score": score_text, "whole": _whole, "fixed": fixed, "duration": _duration}
    made.filters |= {"length_text": length_text, "broken": _broken}
    made.globals |= {"column_text": column_text, "step_of": step_of, "summarise": summarise}
    return made


def _broken(name: str) -> Markup:
    """Let a long name break where its parts end."""
    return Markup("<wbr>").join(re.split(r"(?<=[_(,/:])", name))


def _whole(value: int | float | None) -> str:
    """Write a score with all of its digits."""
    return "–" if value is None else fixed(value, 6).rstrip("0").rstrip(".")


def _duration(seconds: int | float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:,.1f} h"


def _part(name: str) -> str:
    return (resources.files("statewise.report") / "template" / name).read_text(encoding="utf-8")
