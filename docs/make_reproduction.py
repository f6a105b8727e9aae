"""Write docs/reproduction.md, its pages, docs/audit.md and README's table from the records in results/reproduction.

Records are lines of *.jsonl.gz; what is computed rather than trained lies beside them as CSV, as `statewise reproduce
NAME --out` writes it. What has no record is shown as not run.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from make_audit import PAGE as AUDIT_PAGE
from make_audit import audit_page, audit_sentence
from make_letter import letter_page, letter_runs, letter_sentence
from make_losses import contrasts, equal_terms
from make_papers import PAGES, paper_page, protocol_table
from make_samples import samples_section

from statewise.papers import PRESETS, Cell, Paper, Row, Table, judge_claims, lines_of, read_paper, recorded, table_of
from statewise.papers.audit import AUDIT
from statewise.papers.claims import EQUAL_TERMS, reached_by
from statewise.papers.lines import column_text, length_text
from statewise.papers.verdicts import MARKS
from statewise.report.paper_files import WEIGHTIEST
from statewise.report.paper_markdown import (
    folded,
    insert_table,
    lines_by_model,
    lines_markdown,
    markdown,
    readme_table,
)
from statewise.runs import Record
from statewise.store import read_records as read_file
from statewise.wording import counted, fixed

ROOT = Path(__file__).parents[1]
PAGE, PARTS, RECORDS, README = (
    ROOT / "docs" / "reproduction.md",
    ROOT / "docs" / "reproduction",
    ROOT / "results" / "reproduction",
    ROOT / "README.md",
)
NOT_RUN = "Not run."
TABLES = ("table-addition", "table-machine", "table-arithmetic")
_PERFECT = 0.995
# a proven length that is worth counting
_FAR = 10**9
# seconds without any run that part two sittings
_PAUSE = 120
# how near to a harmonic counts as one
_ON_HARMONIC = 0.05
# tables with more rows than this are folded
_SHORT = 24
# computed parts, by the name of their file
FACTS = {
    "figure3": [("figure3-right", "Right: parity by frozen random diagonals, at growing lengths")],
    "figure4": [("figure4-planes", "Planes")],
}
# pictures besides that of the name itself
PICTURES = {"figure2": ("figure2-short",), "figure3": ("figure3-right-2", "figure3-right-200")}
# what must be known to read a page
REMARKS = {
    "figure2": "Polish uses the training sequences and their answers at the end, and nothing else.",
    "figure4": "Training leaves planes between harmonics; polish keeps few planes, and each turns by a character.",
}


def read_records(folder: Path) -> list[Record]:
    """Read all records of a directory."""
    return [record for file in sorted(folder.glob("*.jsonl.gz")) for record in read_file(file)]


def pages(folder: Path) -> dict[Path, str]:
    """Return all pages: a summary of one screen, then one page for each table and figure, and two on how they came."""
    paper, records = read_paper(), read_records(folder)
    # a grid whose runs have no record is not run under that preset
    found = {
        (name, preset): table_of(paper, name, preset, records)
        for name in paper.grids
        for preset in PRESETS
        if recorded(paper, name, preset, records)
    }
    made = {PAGE: _summary(paper, records, found, folder), PARTS / "protocol.md": _protocol(paper)}
    letter = letter_page(paper, records)
    made |= {PARTS / "to-the-letter.md": letter} if letter else {}
    for name in paper.names():
        tables = [found[name, preset] for preset in PRESETS if (name, preset) in found]
        if name == AUDIT:
            made[AUDIT_PAGE] = audit_page(paper, next(iter(tables), None), records, folder / f"{AUDIT}.png")
        else:
            made[PARTS / f"{name}.md"] = _page(paper, name, tables, records, folder)
    made |= {PARTS / f"{page}.md": _other_page(name, records, folder) for name, page in PAGES.items()}
    return {file: text.rstrip() + "\n" for file, text in made.items()}


def readme(text: str, folder: Path) -> str:
    """Return the text of README with its table made from the records; as it is where there are none."""
    paper, records = read_paper(), read_records(folder)
    return insert_table(text, readme_table(table_of(paper, name, "quick", records) for name in TABLES[:2]))


def _page(paper: Paper, name: str, tables: list[Table], records: list[Record], folder: Path) -> str:
    title = paper.title(name)
    parts = [f"# {title}\n\nMade by `statewise reproduce {name}`; [how to read it](protocol.md)."]
    parts += [equal_terms(paper)] if name == EQUAL_TERMS else []
    parts += [_results(table) for table in tables[:1]]
    # pictures are of the records of the runs above
    files = [folder / f"{stem}.png" for stem in (name, *PICTURES.get(name, ()))]
    parts += [_picture(file, title) for file in files if file.exists() and (tables or not paper.trained(name))]
    parts += [REMARKS.get(name, ""), samples_section() if name == "figure2" else ""]
    if paper.trained(name):
        parts += [_table(paper, table, records) for table in tables] or [NOT_RUN]
    for file, heading in FACTS.get(name, [] if paper.trained(name) else [(name, "")]):
        parts.append(_facts(folder / f"{file}.csv", heading))
    return "\n\n".join(part for part in parts if part)


def _other_page(name: str, records: list[Record], folder: Path) -> str:
    """Return the page of another paper."""
    paper, sections = read_paper(name), {}
    for made in paper.names():
        if paper.trained(made):
            tables = [table_of(paper, made, p, records) for p in PRESETS if recorded(paper, made, p, records)]
            file = folder / f"{made}.png"
            shown = [_picture(file, paper.title(made))] if tables and file.exists() else []
            sections[made] = "\n\n".join([*shown, *(_table(paper, t, records, "###") for t in tables)]) or NOT_RUN
        else:
            sections[made] = _facts(folder / f"{made}.csv", "")
    return paper_page(name, paper, sections)


def _picture(file: Path, title: str, page: Path | None = None) -> str:
    beside = (page or PARTS / "any.md").parent
    return f"![{title}]({Path(os.path.relpath(file, beside)).as_posix()})"


def _summary(paper: Paper, records: list[Record], found: dict[tuple[str, str], Table], folder: Path) -> str:
    cited = paper.citation
    names = "\n".join(f"reproduction/{name}" for name in paper.names() if name != AUDIT)
    tables = [found[name, "quick"] for name in TABLES if (name, "quick") in found]
    picture = folder / f"{TABLES[0]}.png"
    shown = _picture(picture, "Scores on modular addition: the paper, its protocol in three readings, and ours", PAGE)
    letter = "\nreproduction/to-the-letter" if letter_runs(paper, records) else ""
    parts = [
        "# The paper, reproduced",
        f'{" and ".join(cited.authors)}, "{cited.title}", {cited.venue}, arXiv:{cited.arxiv}. The authors released no '
        "code; the protocol is known from summaries, and [what was stated, derived or chosen]"
        "(reproduction/protocol.md) is marked.",
        _reached(paper, tables) if tables else NOT_RUN,
        # one paragraph, since the summary is one screen
        f"{letter_sentence(paper, records)} {audit_sentence(found.get((AUDIT, 'quick')), records)}".strip(),
        readme_table(tables),
        shown if tables and picture.exists() else "",
        f"{_overview(paper, records)} {_whole_cost(paper, records)}",
        "Preset `quick` has small networks and few steps, preset `paper` the published budget. Scores are at length "
        f"{paper.length} where nothing else is said; 0 is chance, 1 is perfect.",
        f"```{{toctree}}\n:maxdepth: 1\n\n{names}{letter}\nreproduction/protocol\n```",
    ]
    return "\n\n".join(part for part in parts if part)


def _reached(paper: Paper, tables: list[Table]) -> str:
    """Write how many of the published scores above chance each reading reaches, and what polish makes of ours."""
    rows = []
    for name in ("stated", "normalised", "squared", "statewise"):
        reached = reached_by(tables, name)
        models = Counter(model for model, right in reached.cells if right)
        each = ", ".join(f"`{model}` {count}" for model, count in models.items())
        rows.append(
            [
                paper.readings[name].title,
                f"{reached.count} of {len(reached.cells)}" if reached.cells else "not run",
                each,
            ]
        )
    header = ["training", "published scores reached", "of which"]
    counted_here = "Published scores of bilinear models above chance, for m of 3 or more, under preset `quick`:"
    others = "The others are those that [algebra forbids](theory/levels.md), with [exceptions](recipes.md#what-fails)."
    polished = _polished(tables)
    return f"{counted_here}\n\n{markdown(header, rows)}\n\n{f'{polished} {others}' if polished else ''}".rstrip()


def _polished(tables: Iterable[Table]) -> str:
    """Write what polish makes of our networks."""
    cells = [cell for table in tables for line in lines_of(table) for cell in line.cells.values() if cell.polished]
    if not cells:
        return ""
    right = [cell for cell in cells if (cell.score_polished or 0.0) >= _PERFECT]
    before = sum((cell.score_longest or 0.0) >= _PERFECT for cell in cells)
    whole = [cell.horizon for cell in right if len(cell.proven) == len(cell.polished) and cell.horizon is not None]
    proven = [horizon for horizon in whole if horizon >= _FAR]
    return (
        f"Of our {len(cells)} cells with polish, {before} are right at 10,000 before it and {len(right)} after it; "
        f"in {len(proven)} of them all sequences of up to {length_text(min(proven, default=_FAR))} symbols or more are "
        "proven right on every seed."
    )


def _whole_cost(paper: Paper, records: list[Record]) -> str:
    """Write how long the runs of the three tables took, and how much of that the slowest baselines did."""
    keys = {run.key() for name in TABLES for run in paper.runs(name, "quick")}
    runs = [record for record in records if record.config.key() in keys]
    slow = [record for record in runs if record.config.model.startswith(("mamba", "transformer"))]
    minutes, others = (sum(record.cost or 0.0 for record in some) / 120 for some in (runs, slow))
    return (
        f"The three tables of preset `quick` took {minutes - others:.0f} minutes on two cores that were shared with "
        f"other work, and {others:.0f} more with `--slow`: Mamba and the Transformer need far more steps to learn the "
        "training lengths."
    )


def _overview(paper: Paper, records: list[Record]) -> str:
    """Write how many of the planned runs there are."""
    said = []
    for preset in PRESETS:
        there = {name: (recorded(paper, name, preset, records), len(paper.runs(name, preset))) for name in paper.grids}
        listed = ", ".join(f"{name} {done:,} of {planned:,}" for name, (done, planned) in there.items() if done)
        said += [f"Runs of preset `{preset}`: {listed}."] if listed else []
    return "\n".join(said)


def _verdicts(table: Table) -> str:
    """Write of every reading how its cells with a published number came out."""
    cells = {name: [c for row in table.rows if row.reading == name for c in row.cells] for name in table.readings}
    counts = {name: Counter(c.verdict for c in some if c.published is not None) for name, some in cells.items()}
    rows = [
        [reading.title, *(str(counts[name][verdict]) for verdict in MARKS)] for name, reading in table.readings.items()
    ]
    header = ["cells with a published number", *(f"{verdict} `{mark}`" for verdict, mark in MARKS.items())]
    return markdown(header, rows) if any(counts.values()) else ""


def _protocol(paper: Paper) -> str:
    claims = "\n".join(f"- {text[0].upper()}{text[1:]}." for text in paper.claims.values())
    readings = [
        [f"`{name}`", reading.title, reading.recipe, ", ".join(f"{k} = {v}" for k, v in reading.options.items()) or "–"]
        for name, reading in paper.readings.items()
    ]
    return f"""# Protocol, and how to read the tables

## Readings

The paper's training is run to the letter, and in two minimal readings: each sets one option and nothing else. Training
lengths stay 2 to 10, the rate is constant, and the best of several rates counts. For baselines there is no state to
normalise.

{markdown(["reading", "title", "recipe", "sets"], readings)}

Under preset `quick` all baselines of the tables are supervised after each symbol (`supervision = "aligned"`), since
Mamba and the Transformer do not learn otherwise within the budget; levels are supervised at the end of a sequence.

## A number

A score is at length {paper.length}: for each rate the median over seeds, then the best rate; if no rate is above
chance, the rate with the best score on training lengths. *Polished* is the median of the polished networks at the
longest length; a seed whose polish had nothing to solve counts as it was trained. *Proven length* is the least length
up to which all sequences are proven to be right, with how many of the seeds have such a proof. The ceiling is the
highest score that the algebra of the machine allows this level on long sequences; if each seed has a machine of its
own, the median over machines. A dash was not run, not published, does not apply, or is not known.

| mark | meaning |
| --- | --- |
| `=` | agrees within {paper.tolerance}, or within two standard errors; a score below chance counts as chance |
| `↑` | above the paper |
| `↓` | below the paper |
| `~` | the paper's number, but the training lengths were not learned within the budget (score below 0.99) |

Scores of preset `quick` are over 500 sequences, over 200 for Mamba and Transformers; of preset `paper`, over 1,000.

## The paper's protocol

*Stated* stands in the paper, as far as it is known here; *follow-up* in a later paper by the same authors
(arXiv:2602.18333); *derived* follows from the paper's numbers; what is *unknown* was chosen here.

{protocol_table(paper)}

## What the paper claims in words

{claims}"""


def _results(table: Table) -> str:
    """Write the result of a table first."""
    if table.name in TABLES:
        said = [(reading.title, reached_by([table], name)) for name, reading in table.readings.items()]
        counts = "; ".join(f"{title}: {found.count} of {len(found.cells)}" for title, found in said if found.cells)
        claim = "Published scores of bilinear models above chance, for m of 3 or more, that are reached"
        return "\n\n".join(part for part in (f"{claim}: {counts}." if counts else "", _polished([table])) if part)
    return ""


def _table(paper: Paper, table: Table, records: list[Record], heading: str = "##") -> str:
    cells = [(row, cell) for row in table.rows for cell in row.cells if cell.best is not None or cell.note]
    keys = {key for _, cell in cells for key in cell.runs}
    cost = _cost([record for record in records if record.key in keys])
    parts = [f"{heading} Preset {table.preset}", _verdicts(table) if "paper" in table.beside else "", cost]
    parts.append(contrasts(paper, table) if table.name == EQUAL_TERMS else _claims(paper, table))
    models = lines_by_model(table)
    for place, (label, lines) in enumerate(models.items()):
        shown = lines_markdown(table, lines)
        # the first model is the one that the paper is about
        parts.append(folded(label, shown) if place else f"**{label[0].upper()}{label[1:]}**\n\n{shown}")
    noted = [
        f"- {_where(table, row, cell)}: {cell.verdict}. {_sentence(cell.note)}" for row, cell in cells if cell.note
    ]
    if noted:
        title = "Cells that disagree or were not learned, and the likely reason, as far as the records show"
        parts.append(folded(title, "\n".join(noted)))
    parts.append(folded("All seeds, rates and budgets", _seeds(table, cells)))
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


def _claims(paper: Paper, table: Table) -> str:
    """Set the records beside what the paper claims."""
    counted_here, *lines = judge_claims(paper, table) or [""]
    listed = "\n".join(f"- {line}" for line in lines)
    return counted_here + "\n\n" + (folded(f"All {len(lines)}", listed) if len(lines) > _SHORT else listed)


def _seeds(table: Table, cells: list[tuple[Row, Cell]]) -> str:
    rows = [
        [
            row.label,
            row.reading,
            column_text(table, cell.column),
            cell.budget,
            "; ".join(f"{rate}: {_numbers(scores)}" for rate, scores in cell.by_rate.items()),
            _numbers(cell.inside),
            f"{_numbers(cell.longer)} at {cell.longest:,}" if cell.longest is not None else "",
            f"{_numbers(cell.polished)}; {cell.converged} converged" if cell.polished else "",
            cell.ceiling_reason,
        ]
        for row, cell in cells
    ]
    header = [
        "model",
        "reading",
        table.column,
        "budget",
        f"at {table.score.short}, by rate",
        "training lengths",
        "longer",
    ]
    return markdown([*header, "polished", "ceiling"], rows)


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
        # the CSV file has the others too
        rows = [row for row in rows if row["stage"] == "polished"] or rows
    shown = markdown(list(rows[0]), [[_rounded(value) for value in row.values()] for row in rows])
    return heading + (shown if len(rows) <= _SHORT else folded(f"All {len(rows)} rows", shown))


def _harmonic(rows: list[dict[str, str]]) -> str:
    """Write how far planes are from harmonics, before and after polish."""
    sentences = []
    for stage in dict.fromkeys(row["stage"] for row in rows):
        first = [row for row in rows if row["stage"] == stage and int(row["place"]) < WEIGHTIEST]
        seeds, farthest = len({row["seed"] for row in first}), max(float(row["off"]) for row in first)
        near = sum(float(row["off"]) < _ON_HARMONIC for row in first)
        few = len(first) < seeds * WEIGHTIEST
        of = "all planes" if few else f"the {WEIGHTIEST} planes that the readout weighs most"
        sentences.append(
            f"{stage.capitalize()}: of {of}, over {counted(seeds, 'seed')}, {near} of {len(first)} turn by a harmonic "
            f"to within {_ON_HARMONIC}; the farthest is {farthest:.1g} of a harmonic away."
        )
    return "\n".join(sentences) + "\n\n"


def _where(table: Table, row: Row, cell: Cell) -> str:
    scores = " / ".join("–" if score is None else fixed(score) for score in (cell.best, cell.published))
    return f"{row.label} ({row.reading}), {column_text(table, cell.column)}, {scores}"


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _numbers(values: Iterable[float]) -> str:
    return " ".join(map(fixed, values))


def _rounded(value: str) -> str:
    try:
        return f"{float(value):.4f}" if "." in value else value
    except ValueError:
        return value


if __name__ == "__main__":
    PARTS.mkdir(exist_ok=True)
    made = pages(RECORDS)
    # a page that nothing makes any longer is removed
    for file in {*PARTS.glob("*.md")} - made.keys():
        file.unlink()
    for file, text in made.items():
        file.write_text(text, encoding="utf-8")
    before = README.read_text(encoding="utf-8")
    after = readme(before, RECORDS)
    if after != before:
        README.write_text(after, encoding="utf-8")
