"""The page of runs that have the paper's width and steps, from their records alone."""

from statewise.papers import Paper
from statewise.papers.claims import is_level
from statewise.report.paper_markdown import markdown
from statewise.runs import Record
from statewise.wording import fixed

# a loss that has gone to 0, and scores that differ
_SETTLED, _APART = 0.01, 0.1
_PERFECT = 0.995


def letter_runs(paper: Paper, records: list[Record]) -> list[Record]:
    """Return the runs with the paper's width and steps, in the order of tables."""
    found = [
        record
        for record in records
        if (record.config.recipe, record.config.hidden, record.config.steps) == ("stated", paper.hidden, paper.steps)
        and record.status not in ("failed", "diverged")
        and paper.length in record.probe
    ]
    return sorted(found, key=lambda r: (r.config.task, r.config.model, r.config.loss, -r.config.lr))


def letter_sentence(paper: Paper, records: list[Record]) -> str:
    """Sum up the runs to the letter for the summary."""
    comparison = _normalisation(letter_runs(paper, records), paper.length)
    if not comparison:
        return ""
    link = "[to the letter](reproduction/to-the-letter.md)"
    return f"With the paper's width and steps ({link}): {comparison[0].lower()}{comparison[1:]}"


def letter_page(paper: Paper, records: list[Record]) -> str:
    """Show every run that has the paper's width and steps: what it reached, at the end and on the way."""
    whole, length = letter_runs(paper, records), paper.length
    if not whole:
        return ""
    by_task: dict[str, list[list[str]]] = {}
    ends = []
    for record in whole:
        options, loss = record.config, record.loss
        history = _history(record, length)
        best = max(history, default=None)
        if (options.readout, options.loss) == ("plain", "cross-entropy") and is_level(options.model):
            ends.append((loss is not None and loss < _SETTLED, best is not None and best >= _PERFECT))
        row = [options.model, "trained" if options.embedding else "fixed", f"{options.lr:g}", options.readout]
        row += [options.loss, f"{loss:.0f}" if loss is not None and loss >= 100 else _number(loss)]
        row += [_number(record.score_id), _number(best)]
        row += [f"{sum(score >= _PERFECT for score in history)}/{len(history)}"]
        scores = {score.length: score.score for score in record.scores}
        by_task.setdefault(options.task, []).append(row + [_number(scores.get(n)) for n in (length, 10_000)])
    header = ["model", "tokens", "rate", "readout", "loss", "last loss", "training lengths", "best", "perfect"]
    header += [f"{length}", "10,000"]
    shown = "\n\n".join(f"On `{task}`:\n\n{markdown(header, rows)}" for task, rows in by_task.items())
    return f"""# To the letter

{_normalisation(whole, length)}

Of the {len(ends)} runs of bilinear models with the paper's readout and loss, {sum(right for _, right in ends)} were
perfect at {length} at any evaluation. {sum(settled for settled, _ in ends)} had a last loss below {_SETTLED}, and
{sum(settled and right for settled, right in ends)} of these were ever perfect.

{shown}

Runs have the paper's width ({paper.hidden}) and steps ({paper.steps:,}), batch 64, Adam at a constant rate, and
training lengths 2 to 10; hidden states of bilinear models are normalised at inference. Readout `plain` is the paper's,
without normalisation in training; `normalised` differs from it in nothing but a last hidden state that is divided by
its norm, in training too. Each run has one seed, and normalised ones one rate. Tokens are a trained embedding, or
fixed: one-hot vectors, which allow the same functions at a fraction of the cost of a step, but are optimised otherwise.
Full networks were trained so, and their runs are not those of preset `paper`.

Columns are the last loss; the score on training lengths; over the evaluations at length {length} every 1,000 steps the
best score, and how many were perfect ({_PERFECT} or more); and the final scores at {length} and 10,000."""


def _history(record: Record, length: int) -> list[float]:
    at = record.probe.index(length)
    return [metrics.scores[at] for metrics in record.history]


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


def _number(value: float | None) -> str:
    return "–" if value is None else fixed(value)
