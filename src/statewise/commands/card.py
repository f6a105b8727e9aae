"""The card of a network: what it is, how it scores and what is proven of it, as a README that is shared with it."""

import json

from statewise.commands.certify import certify
from statewise.commands.train import evaluate
from statewise.errors import StatewiseError, shorten
from statewise.runs.run import Run
from statewise.wording import fixed

# hidden-state updates of the search for a wrong word: the verdict is the same on every computer
_WORK = 100_000
_LENGTHS, _WORDS = (10, 500), 100


def model_card(run: Run, use: str) -> str:
    """Write the card of a run's network.

    Args:
        run: the network, with its task.
        use: the line of Python that loads it from the directory of the card.
    """
    from statewise import __version__

    parameters = sum(weight.numel() for weight in run.model.parameters())
    task = shorten(run.source.name or "a machine", 200)
    lengths = run.lengths
    facts = [
        ("task", f"`{task}`: {run.source.symbols:,} symbols, {run.source.classes:,} outputs"),
        ("model", f"`{run.name}`, {parameters:,} parameters"),
        ("origin", _origin(run)),
        *([("training lengths", f"{lengths.shortest} to {lengths.longest} symbols")] if run.trained else []),
        ("written by", f"statewise {__version__}"),
    ]
    return "\n".join(
        [
            "---",
            "library_name: statewise",
            "tags: [state tracking, finite-state machine, recurrent neural network]",
            f"model_name: {json.dumps(f'{run.name} on {task}', ensure_ascii=False)}",
            "---",
            "",
            f"# {run.name} on {task}",
            "",
            *_table(("", ""), facts),
            "",
            "## Scores",
            "",
            *_scores(run),
            "",
            "## Verdict",
            "",
            *_verdict(run),
            "",
            "## Use",
            "",
            "```python",
            use,
            "```",
            "",
            f"Symbols are numbered in this order: {_names(run.source.alphabet)}.",
            f"Outputs are numbered in this order: {_names(run.source.output_names)}.",
            "",
        ]
    )


def _origin(run: Run) -> str:
    if run.options is None:
        made = run.manifest
        return "made, not trained" if made is None else f"{made.origin}{f': {made.how}' if made.how else ''}"
    taken = "" if run.record is None else f", {run.record.steps:,} steps"
    return f"trained from seed {run.seed} with recipe {run.options.recipe}{taken}"


def _scores(run: Run) -> list[str]:
    """Return the scores of the record, or of a test that is made now; 0 is chance, 1 is perfect."""
    if run.record is not None and run.record.scores:
        rows = [(s.length, s.accuracy, s.score, s.measured_constant, s.count) for s in run.record.scores]
    else:
        try:
            measured = evaluate(run, lengths=_LENGTHS, words=_WORDS)
        except StatewiseError as error:
            return [f"Not tested: {error}."]
        rows = [(s.length, s.accuracy, s.score, s.constant, s.count) for s in measured.scores]
    written = [
        (
            f"{length:,}",
            *("–" if value is None else fixed(value, 3) for value in values),
            "–" if n is None else f"{n:,}",
        )
        for length, *values, n in rows
    ]
    return [
        *_table(("length", "accuracy", "score", "constant answer", "answers"), written),
        "",
        "A score of 0 is chance and 1 is perfect; the best constant answer has the score beside it.",
    ]


def _verdict(run: Run) -> list[str]:
    try:
        found = certify(run, work=_WORK)
    except StatewiseError as error:
        return [f"Not certified: {error}."]
    return [f"- **{name}**: {text}" for name, text in found.verdict_lines()]


def _table(head: tuple[str, ...], rows: "list[tuple[str, ...]]") -> list[str]:
    lines = [head, ("---",) * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{shorten(name)}`" for name in names[:50])
    return shown if len(names) <= 50 else f"{shown}, and {len(names) - 50:,} more"
