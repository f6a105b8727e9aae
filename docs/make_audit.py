"""The page of the audit, docs/audit.md, from its records alone: what tests say of networks, and what proofs say."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median_low

from statewise.papers import Paper, Table
from statewise.papers.audit import (
    FAR,
    PAPERS,
    TESTED,
    TITLES,
    TRAININGS,
    Audited,
    Training,
    audit_rows,
    audited,
    headings,
    proven_text,
    refuted,
)
from statewise.papers.lines import NOTHING, length_text
from statewise.report.paper_markdown import folded, markdown
from statewise.runs import Record
from statewise.wording import counted, fixed

PAGE = Path(__file__).parent / "audit.md"
TITLE = "What a score of 1.00 is worth"
_MINUTE = 60


def audit_page(paper: Paper, table: Table | None, records: Sequence[Record], picture: Path) -> str:
    """Return the page: the result, the figure, a table for each training, how to read them, and every seed."""
    networks = audited(table, records) if table is not None else []
    if table is None or not networks:
        return f"# {TITLE}\n\nNot run."
    beside = Path(os.path.relpath(picture, PAGE.parent)).as_posix()
    parts = [
        f"# {TITLE}",
        _result(networks),
        _missing(table),
        f"![Tested length against proven length]({beside})" if picture.exists() else "",
        _reading(networks),
        *(_section(table, networks, training) for training in TRAININGS),
        _method(paper, table, records),
        _TRY,
    ]
    return "\n\n".join(part for part in parts if part)


def audit_sentence(table: Table | None, records: Sequence[Record]) -> str:
    """Sum the audit up for the summary of the reproduction; empty without records."""
    networks = audited(table, records) if table is not None else []
    right = [network for network in _as_trained(networks) if network.right(PAPERS)]
    if not right:
        return ""
    return (
        f"[What a score of 1.00 is worth](audit.md): of {len(right)} networks as trained that answer every test "
        f"sequence of {PAPERS} symbols correctly, {len(refuted(right))} are refuted."
    )


def _result(networks: Sequence[Audited]) -> str:
    """Write the result first: of the networks that are right in tests, how many are refuted, and at which length."""
    trained = _as_trained(networks)
    near, right, far = ([n for n in trained if n.right(length)] for length in TESTED)
    wrong = sorted(n.verdict.wrong_at for n in refuted(right) if n.verdict.wrong_at is not None)
    parts = [
        f"Of {counted(len(trained), 'network')} as trained, {len(right)} answer every test sequence of {PAPERS} "
        f"symbols correctly: score 1.00. **{len(refuted(right))} of these {len(right)} are refuted**: a sequence is "
        "known that they answer wrong."
    ]
    if wrong:
        short = sum(length < PAPERS for length in wrong)
        parts.append(
            f"The shortest known one has {median_low(wrong):,} symbols in the median and {wrong[0]:,} at least; for "
            f"{short} of the {len(wrong)} networks it is shorter than the sequences of the test."
        )
    rest = [network for network in right if network.verdict.status != "refuted"]
    parts += [f"Of the others, {_counts(rest)}."] if rest else []
    parts += [f"Of the {len(far)} networks that score 1.00 at {FAR:,}, {_counts(far)}."] if far else []
    inside = [n for n in near if n.verdict.wrong_at is not None and n.verdict.wrong_at <= TESTED[0]]
    parts.append(
        f"\n\nThe training lengths themselves are no exception: of the {len(near)} networks that score 1.00 at "
        f"{TESTED[0]} symbols, the longest they were trained on, {len(inside)} are wrong on a sequence of at most so "
        f"many. Score 1.00 at {PAPERS} is reached by {_reached(trained, 'stated')} networks of the paper's protocol, "
        f"at the small budget below, and by {_reached(trained, 'statewise')} of our recipe."
    )
    polished = [network for network in networks if network.training == "polished"]
    if polished:
        ours = [network for network in trained if network.training == "statewise"]
        lengths = [proven_text(median_low([n.verdict.proven_to for n in some])) for some in (ours, polished)]
        proven = sum(network.verdict.status == "proven" for network in polished)
        exact = sum(network.exact is not None and network.exact.status == "proven" for network in polished)
        parts.append(
            f"\n\nProofs reach {lengths[0]} symbols in the median for networks of our recipe as trained, and "
            f"{lengths[1]} after [polish](exact-networks.md#polish). Of the {len(polished)} polished networks {proven} "
            f"are proven for all lengths as they are, and {exact} once they are written in whole numbers."
        )
    return " ".join(parts).replace(" \n\n", "\n\n")


def _missing(table: Table) -> str:
    """Say how many of the planned runs have no record yet."""
    cells = [cell for row in table.rows for cell in row.cells]
    done, planned = sum(len(cell.runs) for cell in cells), sum(cell.planned for cell in cells)
    if done == planned:
        return ""
    return f"**Not complete**: {done} of {planned} planned runs have a record. Each table says how many of a level do."


def _reached(networks: Sequence[Audited], training: Training) -> str:
    some = [network for network in networks if network.training == training]
    return f"{sum(network.right(PAPERS) for network in some)} of {len(some)}"


def _counts(networks: Sequence[Audited]) -> str:
    """Write how many networks have which verdict."""
    words = {
        "refuted": "refuted",
        "proven": "proven right at all lengths",
        "horizon": "undecided beyond a proven length",
        "unknown": "undecided",
    }
    found = {word: sum(n.verdict.status == status for n in networks) for status, word in words.items()}
    return ", ".join(f"{count} {'is' if count == 1 else 'are'} {word}" for word, count in found.items() if count)


def _reading(networks: Sequence[Audited]) -> str:
    """Say how tests can miss what a proof finds."""
    held = [n for n in _as_trained(networks) if n.right(PAPERS) and n.verdict.wrong_at is not None]
    powers = sum("power" in (n.verdict.method or "") for n in held)
    every = "All" if powers == len(held) else f"{powers} of the"
    found = f"{every} {len(held)} wrong sequences above are such. " if held else ""
    return f"""Each mark is a network: to the right, how far tests find it right; upwards, how far that is proven
(filled), and a sequence that is known to be wrong (open). A thin line joins the two: what lies between them is not
known.

Tests and proofs ask different questions. A score is an average over sequences drawn at random; a proof is about every
sequence. Training leaves a small error per symbol. Along a random sequence the errors of different symbols average out;
along a sequence that repeats one word they add up, and after enough repetitions the answer is wrong.
{found}Random tests hardly ever draw such a sequence."""


def _section(table: Table, networks: Sequence[Audited], training: Training) -> str:
    rows = audit_rows(table, networks, training)
    if not rows or not rows[-1].networks:
        return ""
    title = TITLES[training][0].upper() + TITLES[training][1:]
    shown = markdown(
        headings(training), [[f"`{row.model}`" if row is not rows[-1] else row.model, *row.texts()[1:]] for row in rows]
    )
    some = [network for network in networks if network.training == training]
    return f"## {title}\n\n{shown}\n\n{folded('Every task and seed', _cells(some))}"


def _cells(networks: Sequence[Audited]) -> str:
    """Write a row for each level and task, with a number for each seed."""
    groups: dict[tuple[str, str], list[Audited]] = {}
    for network in networks:
        groups.setdefault((network.model, network.task), []).append(network)
    header = ["level", "task", "seeds", *(f"score at {length:,}" for length in (10, PAPERS, FAR))]
    header += ["wrong at", "proven up to", "decided by"]
    rows = []
    for (model, task), some in groups.items():
        scores = [_each(fixed(n.scores[length]) for n in some) for length in (10, PAPERS, FAR)]
        wrong = _each(NOTHING if n.verdict.wrong_at is None else length_text(n.verdict.wrong_at) for n in some)
        methods = ", ".join(dict.fromkeys(n.verdict.method or NOTHING for n in some))
        proven = _each(proven_text(n.verdict.proven_to) for n in some)
        rows.append([f"`{model}`", task, _each(str(n.seed) for n in some), *scores, wrong, proven, methods])
    return markdown(header, rows)


def _method(paper: Paper, table: Table, records: Sequence[Record]) -> str:
    by_key = {record.key: record for record in records}
    runs = [by_key[key] for row in table.rows for cell in row.cells for key in cell.runs]
    polished = [run.polished for run in runs if run.polished is not None]
    verdicts = [run.verdict for run in runs] + [part for p in polished for part in (p.verdict, p.exact)]
    judged = sum(verdict.seconds for verdict in verdicts if verdict is not None) / _MINUTE
    config = next(run.config for run in runs if run.config.recipe == "stated")
    words = runs[0].config.words
    budget = f"width {config.hidden} (the paper: {paper.hidden}) and {_steps(runs)} steps (the paper: {paper.steps:,})"
    cost = f"""{len(runs)} runs took {_by_the_clock(runs) / _MINUTE:.0f} minutes by the clock of one worker, on a
  machine that was busy with other work; {judged:.0f} of them were proofs and searches."""
    tasks = ", ".join(f"{name} (`{task}`)" for name, task in _tasks(paper, table).items())
    return f"""## How it was done

- **Tasks**: {tasks}.
  Every seed draws its own machine where the task is random. Seeds are {_seeds(runs)}, on which nothing was chosen.
- **The paper's protocol**: preset `{table.preset}` has {budget}, at one rate, {config.lr:g}.
  Tokens are one-hot, and the paper's are a trained embedding. Nothing else differs from
  [it](reproduction/protocol.md), as far as it is known. *Our recipe* is that of
  [recipes](recipes.md).
- **Networks**: one for each run that has a record; of polished ones, one for each polish that converged. Where a level
  cannot track the machine, polish finds nothing to solve.
- **Score**: {words} sequences of each length, drawn at random; 1.00 means that not one was wrong. 0 is chance.
- **Refuted**: a sequence of the task is known on which the network is wrong, replayed exactly: in whole numbers, or in
  balls that contain the true numbers. It is the shortest that was found, not the shortest there is. *Wrong at* is its
  length.
- **Proven up to**: every sequence of the task of 2 to so many symbols is answered correctly, by a
  [bound on errors](theory/trained-networks.md) with all rounding accounted for. More work proves more. Medians are
  over all networks, those without any proof included; of an even number the lower one.
- **In whole numbers**: the polished network is [written in whole numbers](exact-networks.md#polish), and proven equal
  to its machine at every length.
- **Judged** are the stored weights, in exact arithmetic. Each search may take {config.certify:,} hidden-state updates,
  so that verdicts do not depend on the speed of a computer. A network without a verdict is not known to be right.
- **Cost**: {cost}

Made by `statewise reproduce audit --store DIR`. The records are `results/reproduction/audit.jsonl.gz`;
`audit-networks.csv` beside them has one row for each network."""


def _by_the_clock(runs: Iterable[Record]) -> float:
    """Return for how many seconds any of the runs was under way."""
    spans = sorted(
        (r.finished - r.seconds, r.finished) for r in runs if r.finished is not None and r.seconds is not None
    )
    busy, until = 0.0, 0.0
    for begin, end in spans:
        busy, until = busy + max(0.0, end - max(begin, until)), max(until, end)
    return busy


def _tasks(paper: Paper, table: Table) -> dict[str, str]:
    named = paper.grids[table.name].task
    assert not isinstance(named, str)
    return dict(named)


def _steps(runs: Iterable[Record]) -> str:
    steps = sorted({run.config.steps for run in runs if run.config.recipe == "stated"}, reverse=True)
    return " or ".join(f"{number:,}" for number in steps)


def _seeds(runs: Iterable[Record]) -> str:
    seeds = sorted({run.config.seed for run in runs})
    return f"{seeds[0]} to {seeds[-1]}"


def _as_trained(networks: Iterable[Audited]) -> list[Audited]:
    return [network for network in networks if network.training != "polished"]


def _each(texts: Iterable[str]) -> str:
    return " ".join(texts)


_TRY = """## Audit a run of your own

`certify` in a config file is the work of the search; the verdict stands in the record beside the scores, for the
polished network too. `statewise certify RUN` shows the wrong sequence itself.

```toml
# audited.toml
task = "modular_addition(3)"
model = "full"
hidden = 16
steps = 400
polish = true
certify = 20000
test_lengths = [10, 500]
```

```bash
statewise train --config audited.toml --out audited
```"""
