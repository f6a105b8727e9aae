"""The pages of other people's papers: their protocol and numbers from the file of data, ours from records."""

from collections.abc import Mapping

from statewise.papers import Paper
from statewise.report.paper_markdown import folded, markdown
from statewise.wording import fixed

# the name of each paper's page
PAGES = {"grazzi2024": "grazzi", "chomsky": "chomsky"}
TITLES = {
    "grazzi2024": "Parity and modular arithmetic, as Grazzi et al. test them",
    "chomsky": "The regular tasks of the Chomsky-hierarchy suite",
}
# what must be known to read a page
REMARKS = {
    "grazzi2024": (
        "Brackets need a stack, so no machine with finitely many states answers them at every length. One that keeps "
        "the k outermost brackets, and takes the value of what is deeper for 0, scores what the last table of ours "
        "shows, by counting. Its stacks grow sixteen-fold with k, and each needs a state for every value read so far: "
        "k = 1 takes more than the 64 entries of one-hot states at H 64. At k = 0 it is the constant answer 0, the "
        "most frequent value; the published scores of the Transformer, of mLSTM and of both Mambas are not above that. "
        "That no other machine of so many states does better is not claimed."
    ),
    "chomsky": "All four tasks are finite-state machines of the catalogue, which the full level tracks exactly.",
}


def paper_page(name: str, paper: Paper, sections: Mapping[str, str]) -> str:
    """Write the page of a paper.

    Args:
        name: of its file of data.
        paper: what that holds.
        sections: of everything that can be repeated, what the records give.
    """
    cited = paper.citation
    parts = [
        f"# {TITLES[name]}",
        f'{", ".join(cited.authors)}, "{cited.title}", {cited.venue}, arXiv:{cited.arxiv}. Numbers of the paper: '
        f"{cited.numbers}.",
        f"A score is the scaled accuracy (0 is chance, 1 is perfect), {paper.score.text}. Of several seeds the "
        f"{paper.over_seeds} counts; of several rates the one with the best score on training lengths, never on longer "
        "ones. *Constant answer* is the score of the best constant answer on the same sequences.",
        REMARKS[name],
        *(_terms(paper, grid) for grid in paper.grids),
    ]
    for made, section in sections.items():
        parts += [f"## {paper.title(made)}", f"Made by `statewise reproduce {made}`.", section]
    parts += [*(_published(paper, grid) for grid in paper.grids), folded("The paper's protocol", protocol_table(paper))]
    return "\n\n".join(part for part in parts if part)


def _terms(paper: Paper, grid: str) -> str:
    """Write what all runs of preset quick share, from their plan."""
    runs = paper.runs(grid, "quick")
    first = runs[0]
    rates: dict[tuple[float, ...], set[str]] = {}
    for row in paper.plan(grid, "quick"):
        tried = tuple(sorted({run.lr for cell in row.cells for run in cell.runs}, reverse=True))
        rates.setdefault(tried, set()).add(f"`{row.model}`")
    named = "; ".join(f"{', '.join(map(str, tried))} for {', '.join(sorted(of))}" for tried, of in rates.items())
    lengths = {len(run.test_lengths) for run in runs}
    return (
        f"Under preset `quick` all models have H {first.hidden}, {first.steps:,} steps of batch {first.batch}, "
        f"training lengths {first.shortest} to {first.longest} with a curriculum over the first "
        f"{first.growth_share:.0%} of steps, a {first.schedule} schedule, gradients clipped at {first.clip:g}, "
        "the answer at the end, "
        f"{len({run.seed for run in runs})} seed and {' or '.join(map(str, sorted(lengths)))} test lengths of "
        f"{first.words} sequences each. Bilinear models have one layer and read their answers from the normalised "
        f"hidden state; the others have two. Rates: {named}."
    )


def _published(paper: Paper, grid: str) -> str:
    columns = paper.columns(grid, "paper")
    rows = [
        [row.where, *(fixed(row.scores[column], 1 if paper.random else 3) for column in columns)]
        for row in paper.published_rows
        if row.table == grid
    ]
    unit = "accuracy in percent" if paper.random else "scaled accuracy"
    return f"## What the paper reports\n\n{markdown([unit, *map(str, columns)], rows)}"


def protocol_table(paper: Paper) -> str:
    """Write how a paper trains and tests, item by item."""
    rows = []
    for item, known in paper.protocol.items():
        value = ", ".join(map(str, known.value)) if isinstance(known.value, tuple) else str(known.value)
        rows.append([item.replace("_", " "), value, known.mark, known.note])
    return markdown(["item", "value", "mark", "note"], rows)
