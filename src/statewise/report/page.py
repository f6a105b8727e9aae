"""One self-contained page about all runs of a store: it fetches nothing, and needs no server."""

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from statewise.files import write_whole
from statewise.papers import read_paper, table_of
from statewise.report.charts import fixed, score_text
from statewise.report.entries import FAR, TRACKED, Run, judged_at, read_runs
from statewise.report.heat import MARKS, MEANINGS, STEPS, heat_of
from statewise.report.levels import ladder
from statewise.report.listing import listing, made_by, moment_of
from statewise.report.panels import additive_sheets, data_sheets, learning_sheets, length_sheets
from statewise.report.portraits import draw_angles, draw_portraits, table_of_arrows
from statewise.store import STATUSES, Store

TABLES = ("table-addition", "table-machine", "table-arithmetic")
_RECIPES = {
    "stated": "the paper’s protocol",
    "statewise": "ours: the last hidden state is normalised in training too",
    "baseline": "other architectures, by the paper’s protocol",
}


def write_page(store: Store, file: Path, preset: str) -> None:
    """Writes the page of a store.

    Args:
        store: open to be read.
        file: where the page goes.
        preset: of the paper's tables; their numbers come from the runs of this preset.
    """
    paper = read_paper()
    runs = read_runs(store.records())
    by_key = {run.key: run for run in runs}
    # a table's ceilings take a while, and nobody reads them where nothing was run
    asked = [name for name in TABLES if _has_any(runs, paper.runs(name, preset))]
    heats = [heat_of(table_of(paper, name, preset, store.records()), by_key) for name in asked]
    shown = [heat for heat in heats if heat is not None]
    page = _environment().from_string(_part("page.html.j2"))
    text = page.render(
        style=Markup(_part("style.css")),
        script=Markup(_part("page.js")),
        head=_head(runs),
        preset=preset,
        heats=shown,
        missing=[(name, paper.title(name)) for name in TABLES if name not in {heat.table.name for heat in shown}],
        recipes=_RECIPES,
        marks=MARKS,
        meanings=MEANINGS,
        steps=STEPS,
        stated=FAR,
        far=judged_at(run.scores for run in runs),
        looked=runs[0].looked if runs else FAR,
        tracked=TRACKED,
        rungs=ladder(runs),
        lengths=length_sheets(runs),
        learning=learning_sheets(runs),
        figures=[*data_sheets(runs), *additive_sheets(runs, _frozen(runs, preset))],
        angles=draw_angles(store, runs),
        portraits=[(portrait, table_of_arrows(portrait.machine)) for portrait in draw_portraits(store, runs)],
        listing=listing(runs),
    )
    write_whole(file, text)


def _frozen(runs: Sequence[Run], preset: str) -> list[dict[str, Any]]:
    """Computes what belongs beside runs with additive terms, where there are any."""
    if all(run.additive == "none" for run in runs):
        return []
    from statewise.papers.facts import frozen_parity

    return frozen_parity(preset)


def _has_any(runs: Sequence[Run], configs: Iterable[dict[str, Any]]) -> bool:
    """Whether any run is on a task of these configs, with its model."""
    wanted = {(config["task"], config["model"]) for config in configs}
    return any((run.task, run.model) in wanted for run in runs)


def _head(runs: Sequence[Run]) -> dict[str, Any]:
    statuses = Counter(run.status for run in runs)
    order = [*STATUSES, *sorted(statuses.keys() - set(STATUSES))]
    moments = sorted(moment for run in runs if (moment := moment_of(run)) is not None)
    return {
        "runs": len(runs),
        "statuses": [(status, statuses[status]) for status in order if statuses[status] or status in STATUSES[:1]],
        "tasks": len({run.subject for run in runs}),
        "models": len({run.model for run in runs}),
        "scored": sum(bool(run.scores) for run in runs),
        # the members of an ensemble share its seconds
        "seconds": sum(float(run.record.get("seconds") or 0) / run.record.get("shared", 1) for run in runs),
        "made": Counter(made for run in runs if (made := made_by(run))).most_common(),
        "first": moments[0] if moments else None,
        "last": moments[-1] if moments else None,
    }


def _environment() -> Environment:
    made = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"score": score_text, "whole": _whole, "fixed": fixed, "duration": _duration}
    return made


def _whole(value: int | float | None) -> str:
    """Writes a score as it is, for those who look closer."""
    return "–" if value is None else fixed(value, 6).rstrip("0").rstrip(".")


def _duration(seconds: int | float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3600:,.1f} h"


def _part(name: str) -> str:
    return (resources.files("statewise.report") / "template" / name).read_text(encoding="utf-8")
