"""The parts of the page on equal terms: what all runs share, and which of the paper's contrasts survive."""

from collections import Counter

from statewise.papers import Paper, Table
from statewise.papers.claims import EQUAL_TERMS
from statewise.papers.contrasts import Judged, judge_contrast
from statewise.report.paper_markdown import folded, markdown
from statewise.wording import counted


def equal_terms(paper: Paper) -> str:
    """Write what all runs of the comparison share, from its plan."""
    rows = paper.plan(EQUAL_TERMS, "quick")
    first = rows[0].cells[0].runs[0]
    rates: dict[str, set[float]] = {}
    for row in rows:
        rates.setdefault(row.model, set()).update(run.lr for cell in row.cells for run in cell.runs)
    named = "; ".join(
        f"`{model}` {', '.join(f'{rate:g}' for rate in sorted(some, reverse=True))}" for model, some in rates.items()
    )
    return (
        f"All models have H {first.hidden}, {first.steps:,} steps of batch {first.batch}, training lengths "
        f"{first.shortest} to {first.longest} with a\ncurriculum over the first {first.growth_share:.0%} of steps, a "
        f"{first.schedule} schedule, gradients clipped at {first.clip:g}, the answer after each\nsymbol, and no "
        "polish. Bilinear models read their answers from the normalised hidden state, the others from the plain one. "
        f"Each has\ntwo rates ({named}); the better one is chosen by the score on training lengths, never by longer "
        "ones. Mamba and the Transformer, which take minutes a run, are compared in the tables."
    )


def contrasts(paper: Paper, table: Table) -> str:
    """Write for every contrast of the paper whether it survives equal terms."""
    parts = []
    for contrast in paper.contrasts:
        judged = judge_contrast(table, contrast)
        source = "Reported by the paper" if contrast.published else "Not in the paper"
        rows = [
            [table.readings[one.reading].title, one.behind, str(one.column), one.outcome, one.numbers] for one in judged
        ]
        heading = f"**{contrast.claim[0].upper()}{contrast.claim[1:]}.** {source}. {_sum_up(table, judged)}"
        parts.append(f"{heading}\n\n{folded('Scores', markdown(['loss', 'model', 'task', 'outcome', 'scores'], rows))}")
    return "\n\n".join(parts)


def _sum_up(table: Table, judged: list[Judged]) -> str:
    sentences = []
    for name, reading in table.readings.items():
        counts = Counter(one.outcome for one in judged if one.reading == name)
        said = ", ".join(f"{outcome} in {count}" for outcome, count in counts.items())
        sentences.append(f"Under {reading.title}, of {counted(sum(counts.values()), 'comparison')}: {said}.")
    return " ".join(sentences)
