"""Write docs/reproduction.md, and the table in README.md, from the records in results/reproduction alone.

Records are lines of *.jsonl.gz; what is computed rather than trained lies beside them as CSV, as `statewise reproduce
NAME --out` writes it. What has no record is shown as not run.
"""

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from statewise.papers import PRESETS, Cell, Paper, Row, Table, judge_claims, read_paper, recorded, table_of
from statewise.papers.verdicts import ABOVE, AGREES, MARKS, NOISE
from statewise.runs import Record
from statewise.store import read_records as read_file
from statewise.wording import counted, fixed

ROOT = Path(__file__).parents[1]
PAGE, README, RECORDS = ROOT / "docs" / "reproduction.md", ROOT / "README.md", ROOT / "results" / "reproduction"
BEGIN, END = "<!-- table-addition -->", "<!-- end -->"
NOT_RUN = "Not run."
# a loss that has gone to 0, and scores that differ
_SETTLED, _APART = 0.01, 0.1
_PERFECT = 0.995
# seconds without any run that part two sittings
_PAUSE = 120
# planes that make an answer, rather than follow it, and how near to a harmonic counts as one
_WEIGHTIEST, _ON_HARMONIC = 10, 0.05
# tables with more rows than this are folded
_SHORT = 24
# computed parts, by the name of their file
FACTS = {
    "figure3": [("figure3-right", "Right: parity by frozen random diagonals, at growing lengths")],
    "figure4": [("figure4-planes", "Planes, those that the readout weighs most first")],
}


def read_records(folder: Path) -> list[Record]:
    """Read all records of a directory."""
    return [record for file in sorted(folder.glob("*.jsonl.gz")) for record in read_file(file)]


def page(folder: Path) -> str:
    """Return the whole page."""
    paper, records = read_paper(), read_records(folder)
    parts = [_opening(paper), _overview(paper, records), _protocol(paper), _to_the_letter(paper, records)]
    for name in paper.names():
        parts.append(f"## {paper.title(name)}\n\n`statewise reproduce {name}`")
        parts += [_picture(file, paper.title(name)) for file in sorted(folder.glob(f"{name}*.png"), key=_whole_first)]
        if paper.trained(name):
            tried = [preset for preset in PRESETS if recorded(paper, name, preset, records)]
            parts += [_table(table_of(paper, name, preset, records), records) for preset in tried] or [NOT_RUN]
        for file, title in FACTS.get(name, [] if paper.trained(name) else [(name, "")]):
            parts.append(_facts(folder / f"{file}.csv", title))
    return "\n\n".join(part for part in parts if part) + "\n"


def _whole_first(file: Path) -> tuple[int, str]:
    return len(file.stem), file.stem


def _picture(file: Path, title: str) -> str:
    return f"![{title}]({Path(os.path.relpath(file, PAGE.parent)).as_posix()})"


def readme(text: str, folder: Path) -> str:
    """Put the table of modular addition between its marks; a text without them stays as it is."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return text
    paper, records = read_paper(), read_records(folder)
    run = recorded(paper, "table-addition", "quick", records)
    shown = _matrix(table_of(paper, "table-addition", "quick", records)) if run else NOT_RUN
    return f"{before}{begin}\n\n{shown}\n\n{end}{after}"


def _opening(paper: Paper) -> str:
    cited = paper.citation
    return f"""# The paper, repeated

{" and ".join(cited.authors)}, "{cited.title}", {cited.venue}, arXiv:{cited.arxiv}.
The authors released no code. This page is written by `docs/make_reproduction.py` from the records in
`results/reproduction`.

A cell reads *ours/the paper's/the ceiling*: our score at length {paper.length} (0 is guessing evenly, 1 is perfect;
for each rate the median over seeds, then the best rate), the published score, and the highest score that the algebra of
the machine allows this level on long words; where each seed has a machine of its own, the median over machines. A dash
is what was not run, not published, or not known. Where no rate is above chance, the one that learned most on short
words speaks. Short words are those of the lengths that training begins with, 2 to 10.

`=` agrees within {paper.tolerance}, or within two standard errors where few words were tested; a score below chance
counts as chance. `↑` is above the paper, `↓` below it. `~` has the paper's number, but short words were not learned in
our budget, so that it says little. Scores of preset `quick` are those of 500 words, of 200 for Mamba and Transformers;
of preset `paper`, of 1,000.

Recipe `stated` is the paper's training as far as it is known, with preset `quick` on smaller networks with one-hot
tokens, at the rates that suit these; `baseline` is that training of a model that is not bilinear. Recipe `statewise` is
ours, and another training altogether: the last hidden state is divided by its norm, and words grow, for CP-factored
networks to 80, for full ones to 160, for blocks mostly to 1,280 and for rotations to 10,240 (budgets name the length).
The paper's scores are of words fifty times as long as those of training. Under our recipe words of 500 are six times as
long for CP, three times for full networks, and no longer than those of training for most blocks and for rotations; how
far these go beyond, only the scores at 10,000 tell.

Preset `quick` has CP of rank 64 and blocks of 1, 2 and 8: at its width a block of 64 is a full matrix. Random machines
whose symbols are maps are tried under our recipe only."""


def _overview(paper: Paper, records: list[Record]) -> str:
    """Write what was run, and how the published cells of each came out."""
    rows = []
    for name in filter(paper.trained, paper.names()):
        for preset in PRESETS:
            there, all_runs = recorded(paper, name, preset, records), len(paper.runs(name, preset))
            if there or preset == "quick":
                table = table_of(paper, name, preset, records)
                counts = [str(_count(table, verdict)) if _published(table) else "–" for verdict in MARKS]
                rows.append([f"`{name}`", preset, f"{there:,} of {all_runs:,}", *counts])
    header = ["name", "preset", "runs", *(f"{verdict} `{mark}`" for verdict, mark in MARKS.items())]
    return f"""## What was run

Preset `quick` is made for an hour on two cores, with small networks and few steps; preset `paper` is the published
budget. Cells are counted where a number was published.

{_markdown(header, rows)}

{_reached(paper, records)}"""


def _reached(paper: Paper, records: list[Record]) -> str:
    """Write how many of the published scores above chance each recipe reaches."""
    tables = [table_of(paper, name, "quick", records) for name in filter(paper.trained, paper.names())]
    said = []
    for recipe in ("stated", "statewise"):
        # the first row of a model: on random machines permutations, not maps
        cells: dict[tuple[str, str, int], Cell] = {}
        for table in tables:
            for row in table.rows:
                for cell in row.cells:
                    if row.recipe == recipe and cell.m > 2 and cell.published and cell.published > NOISE:
                        cells.setdefault((table.name, row.model, cell.m), cell)
        reached = [model for (_, model, _), cell in cells.items() if cell.verdict in (AGREES, ABOVE)]
        by_model = ", ".join(f"`{model}` {count}" for model, count in Counter(reached).items())
        said.append(f"{len(reached)} of {len(cells)} under `{recipe}`" + (f" ({by_model})" if reached else ""))
    return f"""Of the published scores of bilinear models that are above chance, for m of 3 or more, preset `quick`
reaches {" and ".join(said)}."""


def _count(table: Table, verdict: str) -> int:
    return sum(cell.verdict == verdict for row in table.rows for cell in row.cells)


def _published(table: Table) -> bool:
    return any(cell.published is not None for row in table.rows for cell in row.cells)


def _folded(title: str, text: str) -> str:
    """Return a part that opens when its title is chosen."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _protocol(paper: Paper) -> str:
    marks = (
        "What is *stated* stands in the paper, as far as it is known here; *follow-up* in a later paper by the same "
        "authors (arXiv:2602.18333); *derived* follows from the paper's numbers; what is *unknown* was chosen here."
    )
    rows = []
    for item, known in paper.protocol.items():
        value = ", ".join(map(str, known.value)) if isinstance(known.value, tuple) else str(known.value)
        rows.append([item.replace("_", " "), value, known.mark, known.note])
    claims = [f"- {text[0].upper()}{text[1:]}." for text in paper.claims.values()]
    table = _folded(f"All {len(rows)} items", _markdown(["item", "value", "mark", "note"], rows))
    return "\n".join(["## The protocol", "", marks, "", table, "", "Besides numbers, the paper says:", "", *claims])


def _to_the_letter(paper: Paper, records: list[Record]) -> str:
    """Show every run that has the paper's width and steps: what it reached, at the end and on the way."""
    hidden, steps, length = paper.hidden, paper.steps, paper.length
    whole = [
        record
        for record in records
        if (record.config.recipe, record.config.hidden, record.config.steps) == ("stated", hidden, steps)
        and record.status not in ("failed", "diverged")
    ]
    if not whole:
        return ""
    by_task: dict[str, list[list[str]]] = {}
    ends = []
    for record in sorted(whole, key=lambda r: (r.config.task, r.config.model, -r.config.lr)):
        options, loss = record.config, record.loss
        at = record.probe.index(length)
        scores = {score.length: score.score for score in record.scores}
        history = [metrics.scores[at] for metrics in record.history]
        if options.readout == "plain" and options.model not in paper.presets["paper"].models["baselines"]:
            ends.append((loss is not None and loss < _SETTLED, max(history) >= _PERFECT))
        row = [options.model, "trained" if options.embedding else "fixed", f"{options.lr:g}", options.readout]
        row += [f"{loss:.0f}" if loss is not None and loss >= 100 else _number(loss)]
        row += [_number(record.score_id), _number(max(history))]
        row += [f"{sum(score >= _PERFECT for score in history)}/{len(history)}"]
        by_task.setdefault(options.task, []).append(row + [_number(scores.get(n)) for n in (length, 10_000)])
    header = ["model", "tokens", "rate", "readout", "loss", "short", "best", "right", f"{length}", "10,000"]
    shown = "\n\n".join(f"On `{task}`:\n\n{_markdown(header, rows)}" for task, rows in by_task.items())
    return f"""## To the letter

Runs with the paper's width ({hidden}) and steps ({steps:,}), batch 64, Adam at a constant rate, words of 2 to 10
symbols; hidden states of bilinear models are normalised at inference. Readout `plain` is the paper's: no normalisation
in training; `normalised` differs from it in nothing but a last hidden state that is divided by its norm, in training
too. Each run has one seed, and normalised ones one rate. Tokens are a trained embedding, or fixed: one-hot vectors,
which allow the same functions at a fraction of the cost of a step, but weights move otherwise. Full networks were
trained so, and their runs are not those of preset `paper`.

Columns are the last loss; the last score on short words; of the looks at length {length} that were taken every 1,000
steps the best, and how many were right, which is {_PERFECT} or more; and the last scores at {length} and 10,000.

{shown}

Of the {len(ends)} runs of bilinear models with the paper's readout, {sum(right for _, right in ends)} were right at
{length} at any look. {sum(settled for settled, _ in ends)} had a last loss below {_SETTLED}: short words had little
left to teach them, and {sum(settled and right for settled, right in ends)} of these were ever right.

{_normalisation(whole, length)}""".rstrip()


def _normalisation(whole: list[Record], length: int) -> str:
    """Compare runs that differ in the readout alone."""
    by_rest: dict[str, dict[str, Record]] = {}
    for record in whole:
        rest = record.config.change(readout="plain").key()
        by_rest.setdefault(rest, {})[record.config.readout] = record
    pairs = [both for both in by_rest.values() if {"plain", "normalised"} <= both.keys()]
    if not pairs:
        return ""
    ends = [[_end(both[readout], length) for readout in ("plain", "normalised")] for both in pairs]
    higher = sum(normalised > plain + _APART for plain, normalised in ends)
    lower = sum(normalised < plain - _APART for plain, normalised in ends)
    perfect = [sum(end >= _PERFECT for end in readout) for readout in zip(*ends, strict=True)]
    return f"""What normalisation in training does: {len(pairs)} pairs of these runs differ in the readout alone.
At {length} the normalised one ends higher by more than {_APART} in {higher} of them and lower in {lower};
{perfect[0]} of the plain and {perfect[1]} of the normalised ones end at {_PERFECT} or more."""


def _end(record: Record, length: int) -> float:
    return next(score.score for score in record.scores if score.length == length)


def _table(table: Table, records: list[Record]) -> str:
    cells = [(row, cell) for row in table.rows for cell in row.cells if cell.best is not None or cell.note]
    told = ", ".join(f"{_count(table, verdict)} {verdict}" for verdict in MARKS)
    counts = f"Cells with a published number: {told}. " if _published(table) else ""
    keys = {key for _, cell in cells for key in cell.runs}
    cost = _cost([record for record in records if record.key in keys])
    parts = [f"### Preset {table.preset}", f"{counts}{cost}", _matrix(table), _claims(table)]
    noted = [
        f"- {_where(table, row, cell)}: {cell.verdict}. {_sentence(cell.note)}" for row, cell in cells if cell.note
    ]
    if noted:
        parts.append(
            _folded(
                "Where they disagree or say little, and the likely reason, as far as the records say", "\n".join(noted)
            )
        )
    parts.append(_folded("All seeds, rates and budgets", _seeds(table, cells)))
    return "\n\n".join(part for part in parts if part)


def _cost(records: list[Record]) -> str:
    """Write what runs took of one core and, where they were done without a pause, by the clock."""
    runs = [(r.finished - r.seconds, r.finished) for r in records if r.finished is not None and r.seconds is not None]
    if not runs:
        return ""
    spent = sum(record.cost or 0.0 for record in records)
    began, paused = min(runs)[0], 0.0
    until = began
    for begin, end in sorted(runs):
        paused, until = max(paused, begin - until), max(until, end)
    by_the_clock = f", and {(until - began) / 60:,.0f} by the clock" if paused < _PAUSE else ""
    return f"The {len(runs):,} runs took {spent / 60:,.0f} minutes of one core{by_the_clock}, on a shared machine."


def _claims(table: Table) -> str:
    """Set the records beside what the paper claims."""
    counted_here, *lines = judge_claims(table) or [""]
    return "\n".join([counted_here, "", *(f"- {line}" for line in lines)]).strip()


def _matrix(table: Table) -> str:
    columns = [f"{table.column} = {column:,}" for column in table.columns]
    rows = [[row.label, row.recipe, *(_shown(cell) for cell in row.cells)] for row in table.rows if _has(row)]
    return _markdown(["model", "recipe", *columns], rows)


def _seeds(table: Table, cells: list[tuple[Row, Cell]]) -> str:
    rows = [
        [
            row.label,
            row.recipe,
            f"{cell.m:,}",
            cell.budget,
            "; ".join(f"{rate}: {_numbers(scores)}" for rate, scores in cell.by_rate.items()),
            _numbers(cell.inside),
            f"{_numbers(cell.longer)} at {cell.longest:,}" if cell.longest is not None else "",
            cell.ceiling_reason,
        ]
        for row, cell in cells
    ]
    header = ["model", "recipe", table.column, "budget", "at 500, by rate", "short words", "longer", "ceiling"]
    return _markdown(header, rows)


def _facts(file: Path, title: str) -> str:
    heading = f"### {title}\n\n" if title else ""
    if not file.exists():
        return heading + NOT_RUN
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows:
        return heading + NOT_RUN
    if "off" in rows[0]:
        heading += _harmonic(rows)
    shown = _markdown(list(rows[0]), [[_rounded(value) for value in row.values()] for row in rows])
    return heading + (shown if len(rows) <= _SHORT else _folded(f"All {len(rows)} rows", shown))


def _harmonic(rows: list[dict[str, str]]) -> str:
    """Write how many of the planes that count turn by a harmonic."""
    first = [row for row in rows if int(row["place"]) < _WEIGHTIEST]
    near = sum(float(row["off"]) < _ON_HARMONIC for row in first)
    seeds = len({row["seed"] for row in rows})
    return (
        f"Of the {_WEIGHTIEST} planes that the readout weighs most, over {counted(seeds, 'seed')}, "
        f"{near} of {len(first)} turn by a harmonic to within {_ON_HARMONIC}.\n\n"
    )


def _has(row: Row) -> bool:
    return any(cell.best is not None or cell.note for cell in row.cells)


def _shown(cell: Cell) -> str:
    numbers = "/".join(_number(value) for value in (cell.best, cell.published, cell.ceiling))
    # the space does not break
    return f"{numbers}\u00a0{MARKS.get(cell.verdict, '')}".strip()


def _where(table: Table, row: Row, cell: Cell) -> str:
    return f"{row.label} ({row.recipe}), {table.column} = {cell.m:,}, {_number(cell.best)} / {_number(cell.published)}"


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value)


def _numbers(values: Iterable[float]) -> str:
    return " ".join(map(_number, values))


def _rounded(value: str) -> str:
    try:
        return f"{float(value):.4f}" if "." in value else value
    except ValueError:
        return value


def _markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(part.replace("|", "\\|") for part in line) + " |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(RECORDS), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        print(f"{README.name} has no place for the table: {BEGIN} and {END}", file=sys.stderr)
    README.write_text(readme(text, RECORDS), encoding="utf-8")
