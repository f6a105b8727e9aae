"""Write docs/reproduction.md and the pages below it from the records in results/reproduction alone.

Records are lines of *.jsonl.gz; what is computed rather than trained lies beside them as CSV, as `statewise reproduce
NAME --out` writes it. What has no record is shown as not run.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from statewise.papers import PRESETS, Cell, Paper, Row, Table, judge_claims, read_paper, recorded, table_of
from statewise.papers.verdicts import ABOVE, AGREES, MARKS, NOISE
from statewise.runs import Record
from statewise.store import read_records as read_file
from statewise.wording import counted, fixed

ROOT = Path(__file__).parents[1]
PAGE, PARTS, RECORDS = (
    ROOT / "docs" / "reproduction.md",
    ROOT / "docs" / "reproduction",
    ROOT / "results" / "reproduction",
)
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


def pages(folder: Path) -> dict[Path, str]:
    """Return all pages: a summary of one screen, then one page for each table and figure, and two on how they came."""
    paper, records = read_paper(), read_records(folder)
    made = {PAGE: _summary(paper, records), PARTS / "protocol.md": _protocol(paper)}
    letter = _to_the_letter(paper, records)
    made |= {PARTS / "to-the-letter.md": letter} if letter else {}
    for name in paper.names():
        parts = [f"# {paper.title(name)}\n\nMade by `statewise reproduce {name}`; [how to read it](protocol.md)."]
        parts += [_picture(file, paper.title(name)) for file in sorted(folder.glob(f"{name}*.png"), key=_whole_first)]
        if paper.trained(name):
            tried = [preset for preset in PRESETS if recorded(paper, name, preset, records)]
            parts += [_table(table_of(paper, name, preset, records), records) for preset in tried] or [NOT_RUN]
        for file, title in FACTS.get(name, [] if paper.trained(name) else [(name, "")]):
            parts.append(_facts(folder / f"{file}.csv", title))
        made[PARTS / f"{name}.md"] = "\n\n".join(part for part in parts if part)
    return {file: text.rstrip() + "\n" for file, text in made.items()}


def _whole_first(file: Path) -> tuple[int, str]:
    return len(file.stem), file.stem


def _picture(file: Path, title: str, page: Path | None = None) -> str:
    beside = (page or PARTS / "any.md").parent
    return f"![{title}]({Path(os.path.relpath(file, beside)).as_posix()})"


def _summary(paper: Paper, records: list[Record]) -> str:
    cited = paper.citation
    names = "\n".join(f"reproduction/{name}" for name in paper.names())
    picture = RECORDS / "table-addition-statewise.png"
    letter = "\nreproduction/to-the-letter" if _letter_runs(paper, records) else ""
    return f"""# The paper, reproduced

{" and ".join(cited.authors)}, "{cited.title}", {cited.venue}, arXiv:{cited.arxiv}. The authors released no code; the
protocol is known from summaries, and [what was stated, derived or chosen](reproduction/protocol.md) is marked.

{_reached(paper, records)}
{_letter_sentence(paper, records)}

{_picture(picture, "Scores on modular addition under our recipe, beside the paper's and the ceilings", PAGE)}

Each cell has our score at length {paper.length} in large type; below it the published score and the highest score that
the algebra of the machine allows. 0 is chance, 1 is perfect.

{_overview(paper, records)}

Preset `quick` takes an hour on two cores, with small networks and few steps; preset `paper` is the published budget.
Cells are counted where a number was published. `~` has the paper's number, but the training lengths were not learned
within the budget.

```{{toctree}}
:maxdepth: 1

{names}{letter}
reproduction/protocol
```"""


def _overview(paper: Paper, records: list[Record]) -> str:
    """Write what was run, and how the published cells of each came out."""
    rows = []
    for name in filter(paper.trained, paper.names()):
        for preset in PRESETS:
            there, all_runs = recorded(paper, name, preset, records), len(paper.runs(name, preset))
            if there or preset == "quick":
                table = table_of(paper, name, preset, records)
                counts = [str(_count(table, verdict)) if _published(table) else "–" for verdict in MARKS]
                rows.append([f"[{name}](reproduction/{name}.md)", preset, f"{there:,} of {all_runs:,}", *counts])
    header = ["name", "preset", "runs", *(f"{verdict} `{mark}`" for verdict, mark in MARKS.items())]
    return _markdown(header, rows)


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
reaches {" and ".join(said)}. `stated` is the paper's training as far as it is known, `statewise` is ours."""


def _count(table: Table, verdict: str) -> int:
    return sum(cell.verdict == verdict for row in table.rows for cell in row.cells)


def _published(table: Table) -> bool:
    return any(cell.published is not None for row in table.rows for cell in row.cells)


def _folded(title: str, text: str) -> str:
    """Return a part that opens when its title is chosen."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _protocol(paper: Paper) -> str:
    rows = []
    for item, known in paper.protocol.items():
        value = ", ".join(map(str, known.value)) if isinstance(known.value, tuple) else str(known.value)
        rows.append([item.replace("_", " "), value, known.mark, known.note])
    claims = "\n".join(f"- {text[0].upper()}{text[1:]}." for text in paper.claims.values())
    return f"""# Protocol, and how to read the tables

## A cell

A cell reads *ours/the paper's/the ceiling*. Ours is the score at length {paper.length}: for each rate the median over
seeds, then the best rate; if no rate is above chance, the rate with the best score on training lengths. The ceiling is
the highest score that the algebra of the machine allows this level on long sequences; if each seed has a machine of its
own, the median over machines. A dash was not run, not published, or is not known.

| mark | meaning |
| --- | --- |
| `=` | agrees within {paper.tolerance}, or within two standard errors; a score below chance counts as chance |
| `↑` | above the paper |
| `↓` | below the paper |
| `~` | the paper's number, but the training lengths were not learned within the budget |

Scores of preset `quick` are over 500 sequences, over 200 for Mamba and Transformers; of preset `paper`, over 1,000.

## A recipe

| recipe | training |
| --- | --- |
| `stated` | the paper's, as far as it is known; `quick` has smaller networks, one-hot tokens and suitable rates |
| `baseline` | the same training of a model that is not bilinear |
| `statewise` | ours: the last hidden state is divided by its norm, and lengths grow |

Under `statewise` lengths grow to 80 (CP), 160 (full), 1,280 (most blocks) or 10,240 (rotations).

The paper tests at fifty times its training length. Under `statewise`, length 500 is six times the training length for
CP and three times for full networks, but within the training lengths of most blocks and of rotations: for these, see
the scores at 10,000.

Preset `quick` has CP of rank 64 and blocks of 1, 2 and 8: at its width a block of 64 is a full matrix. Random machines
whose symbols are maps are run under `statewise` only.

## The paper's protocol

*Stated* stands in the paper, as far as it is known here; *follow-up* in a later paper by the same authors
(arXiv:2602.18333); *derived* follows from the paper's numbers; what is *unknown* was chosen here.

{_markdown(["item", "value", "mark", "note"], rows)}

## What the paper claims in words

{claims}"""


def _letter_runs(paper: Paper, records: list[Record]) -> list[Record]:
    """Return the runs with the paper's width and steps."""
    return [
        record
        for record in records
        if (record.config.recipe, record.config.hidden, record.config.steps) == ("stated", paper.hidden, paper.steps)
        and record.status not in ("failed", "diverged")
    ]


def _letter_sentence(paper: Paper, records: list[Record]) -> str:
    """Sum up the runs to the letter for the summary."""
    whole = _letter_runs(paper, records)
    comparison = _normalisation(whole, paper.length)
    if not comparison:
        return ""
    link = "[to the letter](reproduction/to-the-letter.md)"
    return f"\nWith the paper's width and steps ({link}): {comparison[0].lower()}{comparison[1:]}"


def _to_the_letter(paper: Paper, records: list[Record]) -> str:
    """Show every run that has the paper's width and steps: what it reached, at the end and on the way."""
    hidden, steps, length = paper.hidden, paper.steps, paper.length
    whole = _letter_runs(paper, records)
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
    header = [
        "model",
        "tokens",
        "rate",
        "readout",
        "loss",
        "training lengths",
        "best",
        "perfect",
        f"{length}",
        "10,000",
    ]
    shown = "\n\n".join(f"On `{task}`:\n\n{_markdown(header, rows)}" for task, rows in by_task.items())
    return f"""# To the letter

{_normalisation(whole, length)}

Of the {len(ends)} runs of bilinear models with the paper's readout, {sum(right for _, right in ends)} were perfect at
{length} at any evaluation. {sum(settled for settled, _ in ends)} had a last loss below {_SETTLED}, and
{sum(settled and right for settled, right in ends)} of these were ever perfect.

{shown}

Runs have the paper's width ({hidden}) and steps ({steps:,}), batch 64, Adam at a constant rate, and training lengths 2
to 10; hidden states of bilinear models are normalised at inference. Readout `plain` is the paper's, without
normalisation in training; `normalised` differs from it in nothing but a last hidden state that is divided by its norm,
in training too. Each run has one seed, and normalised ones one rate. Tokens are a trained embedding, or fixed: one-hot
vectors, which allow the same functions at a fraction of the cost of a step, but are optimised otherwise. Full networks
were trained so, and their runs are not those of preset `paper`.

Columns are the last loss; the score on training lengths; over the evaluations at length {length} every 1,000 steps the
best score, and how many were perfect ({_PERFECT} or more); and the final scores at {length} and 10,000."""


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
    return f"""Of {len(pairs)} pairs of runs that differ in nothing but dividing the last hidden state by its norm in
training, the normalised run scores higher at {length} by more than {_APART} in {higher} and lower in {lower};
{perfect[0]} of the plain and {perfect[1]} of the normalised ones end at {_PERFECT} or more."""


def _end(record: Record, length: int) -> float:
    return next(score.score for score in record.scores if score.length == length)


def _table(table: Table, records: list[Record]) -> str:
    cells = [(row, cell) for row in table.rows for cell in row.cells if cell.best is not None or cell.note]
    counted_here = ", ".join(f"{_count(table, verdict)} {verdict}" for verdict in MARKS)
    counts = f"Cells with a published number: {counted_here}. " if _published(table) else ""
    keys = {key for _, cell in cells for key in cell.runs}
    cost = _cost([record for record in records if record.key in keys])
    parts = [f"## Preset {table.preset}", f"{counts}{cost}", _matrix(table), _claims(table)]
    noted = [
        f"- {_where(table, row, cell)}: {cell.verdict}. {_sentence(cell.note)}" for row, cell in cells if cell.note
    ]
    if noted:
        parts.append(
            _folded(
                "Cells that disagree or were not learned, and the likely reason, as far as the records show",
                "\n".join(noted),
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
    header = ["model", "recipe", table.column, "budget", "at 500, by rate", "training lengths", "longer", "ceiling"]
    return _markdown(header, rows)


def _facts(file: Path, title: str) -> str:
    heading = f"## {title}\n\n" if title else ""
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
    PARTS.mkdir(exist_ok=True)
    for file, text in pages(RECORDS).items():
        file.write_text(text, encoding="utf-8")
