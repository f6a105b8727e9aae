"""The results of any store as files: CSV, LaTeX, a heat map of models and tasks, and curves against length."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.files import write_whole
from statewise.report.certified import RunVerdict, summarise, verdicts_of
from statewise.report.charts import Number, fixed
from statewise.report.entries import judged_at, read_entries
from statewise.report.figure import plain_text
from statewise.report.heat import step_of
from statewise.report.palette import light_scale
from statewise.report.paper_figures import write_figure
from statewise.report.paper_tables import INK, NO_CELL, QUIET, draw_key, draw_square
from statewise.report.result_curves import in_parts, write_curves
from statewise.report.results import ResultRow, Spread, TaskResults, length_names, results_of, shown_lengths
from statewise.report.table_files import latex_text, write_csv, written_line
from statewise.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME, CURVES = "results", "results-curves"
# of one heat map
_MOST_COLUMNS, _MOST_LINES = 12, 60
# in inches: a column, a line, a letter of a row's name and of a task's
_COLUMN, _LINE, _LETTER, _SMALL = 0.95, 0.34, 0.068, 0.062

Verdicts = Mapping[str, RunVerdict]


def write_results(store: Store, out: Path) -> list[Path]:
    """Write the results of a store: table, heat map and curves; return the files."""
    entries = read_entries(store.records())
    tasks = results_of(entries)
    verdicts = verdicts_of(store, entries, tasks)
    files = [write_csv(out / f"{NAME}.csv", written_rows(tasks, verdicts)), out / f"{NAME}.tex"]
    write_whole(files[-1], latex_of(tasks, verdicts))
    if any(row.best.scores for task in tasks for row in task.rows):
        files += _write_heat(out, tasks)
        files += write_curves(out, CURVES, tasks)
    return files


def written_rows(tasks: Sequence[TaskResults], verdicts: Verdicts) -> list[dict[str, Any]]:
    """Return a row for each model on each task, as CSV has it; beside every score stands the best constant answer."""
    lengths = sorted({length for task in tasks for row in task.rows for length in row.best.scores})
    rows = []
    for task in tasks:
        for row in task.rows:
            options = row.options
            written: dict[str, Any] = {
                "task": task.title,
                "model": row.model,
                "note": row.note,
                "setting": row.best.name,
                "settings": len(row.settings),
                "training_lengths": row.lengths,
                "steps": row.steps,
                "batch": options.batch,
                "hidden": options.hidden,
                "parameters": row.parameters,
                "seconds": row.seconds,
                "tests": options.tests,
                "seeds": len(row.best.entries),
                "diverged": row.best.diverged,
                "failed": row.failed,
            }
            written |= _numbers("training", row.best.inside)
            for length in lengths:
                written |= _numbers(str(length), row.best.scores.get(length))
            rows.append(written | {"verdict": "; ".join(summarise(row.best.entries, verdicts))})
    return rows


def latex_of(tasks: Sequence[TaskResults], verdicts: Verdicts) -> str:
    """Write the table for LaTeX, which needs the package booktabs; of the test lengths, those that the page shows."""
    lengths, names = shown_lengths(tasks), length_names(tasks)
    heads = ["training lengths", *(names[length] for length in lengths)]
    spans = " & ".join(rf"\multicolumn{{2}}{{c}}{{{head}}}" for head in heads)
    scores = " & ".join(["score & const."] * len(heads))
    lines = [
        "% mean ± standard deviation over seeds; const. is the score of the best constant answer; needs booktabs",
        rf"\begin{{tabular}}{{llrrr{'rr' * len(heads)}l}}",
        r"\toprule",
        rf"model & trained on & steps & parameters & seeds & {spans} & verdict \\",
        rf" &  &  &  &  & {scores} &  \\",
    ]
    for task in tasks:
        lines += [r"\midrule", rf"\multicolumn{{{6 + 2 * len(heads)}}}{{l}}{{\textbf{{{latex_text(task.title)}}}}} \\"]
        for row in task.rows:
            spreads = [row.best.inside, *(row.best.scores.get(length) for length in lengths)]
            cells = [
                latex_text(", ".join(filter(None, (row.name, row.best.name)))),
                latex_text(row.lengths),
                latex_text(row.steps),
                "--" if row.parameters is None else f"{row.parameters:,}",
                str(len(row.best.entries)),
                *(part for spread in spreads for part in _latex_scores(spread)),
                latex_text("; ".join(summarise(row.best.entries, verdicts))),
            ]
            lines.append(written_line(cells))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _write_heat(out: Path, tasks: Sequence[TaskResults]) -> list[Path]:
    """Draw models and tasks as a heat map, or as several where one would be too large to be read."""
    length = judged_at(dict.fromkeys(row.best.scores, 0.0) for task in tasks for row in task.rows)
    parts = [
        (some, names)
        for some in in_parts(tasks, _MOST_COLUMNS)
        for names in in_parts(list(dict.fromkeys(_row_name(row) for task in some for row in task.rows)), _MOST_LINES)
    ]
    files = []
    for number, (some, names) in enumerate(parts):
        stem = NAME if len(parts) == 1 else f"{NAME}-{number + 1}"
        files += write_figure(out, stem, draw_results(some, names, length))
    return files


def draw_results(tasks: Sequence[TaskResults], rows: Sequence[str], length: int) -> "Callable[[Axes], None]":
    """Draw some rows of some tasks as a heat map: the mean score at a length above the best constant answer."""
    # what all were trained on stands above them
    terms = {_terms_text(row) for task in tasks for row in task.rows}
    shared = terms.pop() if len(terms) == 1 else ""
    cells = {
        (_row_name(row), place): spread
        for place, task in enumerate(tasks)
        for row in task.rows
        if (spread := row.best.scores.get(length)) is not None
    }

    def draw(axes: "Axes") -> None:
        titles = [plain_text(task.title) for task in tasks]
        names = [plain_text(name.removesuffix(f", {shared}")) for name in rows]
        wide = max([_COLUMN, *(_SMALL * len(title) + 0.15 for title in titles)])
        across, down, left = max(wide * len(tasks), 4.2), _LINE * len(rows), _LETTER * max(map(len, names)) + 0.3
        # all places are in inches, so that names have the room that they need
        size = left + across + 0.15, down + 1.2
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_layout_engine("none")
        figure.set_size_inches(*size)
        axes.set_position((left / size[0], 0.42 / size[1], across / size[0], down / size[1]))
        axes.set_axis_off()
        axes.set_xlim(0, across)
        axes.set_ylim(down, 0)
        write = partial(axes.text, va="center", clip_on=False)
        heading = f"Mean score at length {length:,}, above the best constant answer (c)"
        write(-left + 0.1, -0.55, heading, ha="left", fontsize=10, color=INK)
        write(-left + 0.1, -0.36, f"all trained on {shared}" if shared else "", ha="left", fontsize=8, color=QUIET)
        for place, title in enumerate(titles):
            write((place + 0.5) * wide, -0.13, title, ha="center", fontsize=8, color=QUIET)
        for line, (row, name) in enumerate(zip(rows, names, strict=True)):
            write(-0.1, (line + 0.5) * _LINE, name, ha="right", fontsize=8.5, color=INK)
            for place in range(len(tasks)):
                _draw_cell(axes, place * wide, line * _LINE, wide, cells.get((row, place)))
        draw_key(axes, down + 0.13)

    return draw


def _draw_cell(axes: "Axes", left: Number, top: Number, wide: Number, spread: Spread | None) -> None:
    step = None if spread is None else step_of(spread.mean)
    ground, ink = (NO_CELL, QUIET) if step is None else light_scale()[step]
    draw_square(axes, left, top, wide, _LINE, ground, 1)
    write = partial(axes.text, left + wide / 2, ha="center", va="center", color=ink)
    if spread is None:
        write(y=top + _LINE / 2, s="not run", fontsize=6.5, fontstyle="italic")
        return
    write(y=top + 0.115, s=score_words(spread), fontsize=7.5, fontweight="bold")
    constant = "unknown" if spread.constant is None else fixed(spread.constant)
    write(y=top + 0.245, s=f"c {constant}", fontsize=6)


def score_words(spread: Spread) -> str:
    """Write a score: mean, and standard deviation where there are several seeds."""
    return fixed(spread.mean) + ("" if spread.deviation is None else f" ± {fixed(spread.deviation)}")


def _row_name(row: ResultRow) -> str:
    """Return a row's name with what it was trained on: tasks of one line were trained alike."""
    return f"{row.name}, {_terms_text(row)}"


def _terms_text(row: ResultRow) -> str:
    return f"lengths {row.lengths}, {row.options.steps:,} steps"


def _numbers(name: str, spread: Spread | None) -> dict[str, Any]:
    return {
        f"score_{name}": None if spread is None else spread.mean,
        f"std_{name}": None if spread is None else spread.deviation,
        f"constant_{name}": None if spread is None else spread.constant,
        f"learned_{name}": None if spread is None else spread.learned,
    }


def _latex_scores(spread: Spread | None) -> tuple[str, str]:
    if spread is None:
        return "--", "--"
    return latex_text(score_words(spread)), "--" if spread.constant is None else latex_text(fixed(spread.constant))
