"""Which curves a page shows: scores against length, learning, and the paper's Figures 2 and 3."""

import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from markupsafe import Markup

from statewise.papers.facts import FrozenScore
from statewise.report.charts import (
    Axis,
    Key,
    Line,
    Number,
    Panel,
    degrees,
    draw_chart,
    fixed,
    kinds,
    log_axis,
    score_axis,
    short_number,
    step_axis,
)
from statewise.report.entries import Entry, Subject, at_best_rate, grouped, model_order, thinned

_SCORE = attrgetter("score")
_LEAST_LOSS = 1e-8
# of all learning curves together, so that thousands of runs still make a page that opens at once
_MOST_POINTS = 40_000


@dataclass(frozen=True)
class Sheet:
    """Panels that share a subject and a legend."""

    title: str
    legend: tuple[Key, ...]
    panels: tuple[Panel, ...]


def length_sheets(entries: Iterable[Entry]) -> list[Sheet]:
    """Draw score against length: a sheet for each family of tasks, a panel for each model, a curve for each size."""
    plain = [entry for entry in _ended(entries) if entry.options.samples is None and entry.options.additive == "none"]
    sheets = []
    for family, members in _families(plain):
        sizes = sorted({entry.subject.size for entry in members}, key=_none_first)
        colour = dict(zip(sizes, degrees(len(sizes)), strict=True))
        lengths = sorted({length for entry in members for length in entry.scores})
        x = log_axis(lengths, "sequence length", None if len(lengths) > 4 else lengths)
        panels = []
        for (label, training), some in _models(members):
            lines = []
            for size in sizes:
                best = at_best_rate(_largest_design([entry for entry in some if entry.subject.size == size]))
                lines += _spread(best, colour[size], f"{label} on {Subject(family, size)}")
            if lines:
                name = f"Score against length, {label}, {training}, {family}"
                y = score_axis(_heights(lines), "score")
                panels.append(Panel(label, training, (draw_chart(_behind(lines), x, y, name, 150),)))
        legend = tuple(Key(colour[size], f"m = {size}") for size in sizes if size is not None)
        sheets.append(Sheet(family, legend, tuple(panels)))
    return [sheet for sheet in sheets if sheet.panels]


def learning_sheets(entries: Iterable[Entry]) -> list[Sheet]:
    """Draw how runs learned: a sheet for each task, a panel for each model, a curve for every run."""
    plain = [entry for entry in entries if entry.history and entry.options.samples is None]
    most = max(8, _MOST_POINTS // max(1, len(plain)))
    sheets = []
    for family, members in _families(plain):
        for size in sorted({entry.subject.size for entry in members}, key=_none_first):
            subject = Subject(family, size)
            some = [entry for entry in members if entry.subject == subject]
            rates = sorted({entry.options.lr for entry in some})
            colour = dict(zip(rates, kinds(len(rates)), strict=True))
            panels = [
                Panel(label, training, _learning(of_model, colour, most, f"{label} on {Subject(family, size)}"))
                for (label, training), of_model in _models(some)
            ]
            legend = tuple(Key(colour[rate], f"rate {rate:g}") for rate in rates)
            sheets.append(Sheet(str(subject), legend, tuple(panels)))
    return sheets


def data_sheets(entries: Iterable[Entry]) -> list[Sheet]:
    """Draw Figure 2: scores at the judged length, and on unseen sequences of training lengths, against their number."""
    few = [entry for entry in _ended(entries) if _samples(entry) > 0]
    if all(entry.score is None for entry in few):
        return []
    far = f"{few[0].judged:,}"
    widths = grouped(few, lambda entry: entry.label)
    # a width is named where a model has several
    several = {label for label, some in widths.items() if len({entry.options.hidden for entry in some}) > 1}
    names = {entry.key: entry.label + f", H {entry.options.hidden}" * (entry.label in several) for entry in few}
    models = list(dict.fromkeys(names[entry.key] for _, some in _models(few) for entry in some))
    colour = dict(zip(models, kinds(len(models)), strict=True))
    sizes = sorted({_samples(entry) for entry in few})
    x = log_axis(sizes, "training sequences", sizes if len(sizes) <= 6 else None)
    panels = []
    for (subject, training), some in grouped(few, lambda entry: (entry.subject, entry.training)).items():
        charts = []
        for where, score in ((f"at {far}", _SCORE), ("on training lengths", attrgetter("score_id"))):
            lines = []
            for model, of_model in grouped(some, lambda entry: names[entry.key]).items():
                lines += _medians(grouped(of_model, _samples), colour[model], f"{model}, {training}", score)
            name = f"Score {where} against the number of training sequences, {subject}, {training}"
            y = score_axis(_heights(lines), f"score {where}")
            charts += [draw_chart(_behind(lines), x, y, name, 190)] if lines else []
        panels += [Panel(str(subject), training, tuple(charts))] if charts else []
    legend = tuple(Key(colour[model], model) for model in models)
    return [Sheet("Figure 2: how many training sequences are enough", legend, tuple(panels))]


def additive_sheets(entries: Iterable[Entry], frozen: Sequence[FrozenScore] = ()) -> list[Sheet]:
    """Draw Figure 3: what additive terms do, against the size of the task and against length.

    Args:
        entries: the runs of a store.
        frozen: scores of frozen random networks on parity, for the figure's right half.
    """
    plain = [entry for entry in _ended(entries) if entry.options.samples is None]
    found = {entry.options.additive for entry in plain} | {row.additive for row in frozen}
    terms = sorted(found, key=lambda term: (term != "none", term))
    colour = dict(zip(terms, kinds(len(terms)), strict=True))
    panels = []
    for (family, _), some in grouped(plain, lambda entry: (entry.subject.family, _design(entry, "additive"))).items():
        if all(entry.options.additive == "none" for entry in some):
            continue
        options = some[0].options
        budget = f"{some[0].training}, H {options.hidden}, {some[0].record.steps:,} steps"
        title, note = options.model, f"{family}, {budget}"
        sized = [entry for entry in some if entry.subject.size is not None]
        sizes = sorted({entry.subject.size or 0 for entry in sized})
        if len(sizes) > 1:
            by_term = grouped(sized, lambda entry: entry.options.additive)
            lines = [
                line
                for term, of_term in by_term.items()
                for line in _medians(
                    grouped(of_term, lambda entry: entry.subject.size or 0), colour[term], f"term {term}"
                )
            ]
            y = score_axis(_heights(lines), f"score at {sized[0].judged:,}")
            chart = draw_chart(_behind(lines), log_axis(sizes, "m", sizes), y, f"Additive terms, {title}")
        else:
            lengths = sorted({length for entry in some for length in entry.scores})
            lines = [
                line
                for term, of_term in grouped(some, lambda entry: entry.options.additive).items()
                for line in _spread(at_best_rate(of_term) or of_term, colour[term], f"term {term}")
            ]
            y = score_axis(_heights(lines), "score")
            chart = draw_chart(_behind(lines), log_axis(lengths, "sequence length"), y, f"Additive terms, {title}")
            note = f"{some[0].subject}, {budget}"
        panels += [Panel(title, note, (chart,))] if lines else []
    panels += [_frozen(rows, colour) for rows in grouped(frozen, lambda row: row.examples).values()]
    legend = tuple(Key(colour[term], "no additive term" if term == "none" else f"{term} term") for term in terms)
    return [Sheet("Figure 3: additive terms", legend, tuple(panels))] if panels else []


def _frozen(rows: Sequence[FrozenScore], colour: dict[str, str]) -> Panel:
    """Draw parity by frozen random diagonals against length: medians over draws."""
    lines = []
    for term, some in grouped(rows, lambda row: row.additive).items():
        points = [(row.length, row.score) for row in some]
        end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in points)
        lines.append(Line(points, colour[term], f"term {term}: {end}"))
    name = "frozen random diagonals"
    x, y = log_axis(sorted({row.length for row in rows}), "sequence length"), score_axis(_heights(lines), "score")
    note = f"parity, a readout fitted to {rows[0].examples:,} sequences, the median of {rows[0].draws:,} draws"
    return Panel(name, note, (draw_chart(lines, x, y, f"Additive terms, {name}, {note}"),))


def _learning(entries: Sequence[Entry], colour: dict[float, str], most: int, name: str) -> tuple[Markup, ...]:
    x = step_axis(max(evaluation.step for entry in entries for evaluation in entry.history))
    bare = Axis(x.low, x.high, x.ticks)
    scores, losses = [], []
    for entry in entries:
        title = f"rate {entry.options.lr:g}, seed {entry.options.seed}, {entry.status}"
        ended = entry.status == "diverged"
        shown = thinned(entry.history, most)
        score = [(one.step, one.score) for one in shown if one.score is not None]
        loss = [(one.step, max(one.loss, _LEAST_LOSS)) for one in shown if one.loss is not None]
        scores.append(Line(score, colour[entry.options.lr], title, "faint", ended, marked=True))
        losses.append(Line(loss, colour[entry.options.lr], title, "faint", ended, marked=True))
    constants = [entry.constants[entry.probed] for entry in entries if entry.probed in entry.constants]
    if constants:
        flat = statistics.fmean(constants)
        scores = [Line([(x.low, flat), (x.high, flat)], "", f"best constant answer: {fixed(flat)}", "guide"), *scores]
    heights, depths = _heights(scores), _heights(losses)
    charts = []
    if any(line.points for line in scores if line.kind != "guide"):
        probed = f"{entries[0].probed:,}"
        named = f"Score at length {probed} during training, {name}"
        charts.append(draw_chart(scores, bare, score_axis(heights, f"score at {probed}"), named, 112))
    if depths:
        what = " or ".join(dict.fromkeys(entry.loss_name for entry in entries))
        named = f"Training loss ({what}), {name}"
        charts.append(draw_chart(losses, x, log_axis(depths, f"loss: {what}"), named, 112))
    return tuple(charts)


def _spread(entries: Sequence[Entry], colour: str, name: str) -> list[Line]:
    """Return a faint curve for each seed, and their median."""
    lengths = sorted({length for entry in entries for length in entry.scores})
    middle = [
        (length, statistics.median(entry.scores[length] for entry in entries if length in entry.scores))
        for length in lengths
    ]
    if not middle:
        return []
    rate, seeds = entries[0].options.lr, f"{len(entries)} seed{'s' if len(entries) > 1 else ''}"
    end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in middle)
    each = [
        Line([(length, score) for length, score in sorted(entry.scores.items())], colour, "", "faint")
        for entry in entries
        if len(entries) > 1
    ]
    return [*each, Line(middle, colour, f"{name}, rate {rate:g}, median of {seeds}: {end}")]


def _medians(
    points: Mapping[int, list[Entry]],
    colour: str,
    name: str,
    score: Callable[[Entry], float | None] = _SCORE,
) -> list[Line]:
    """Return all seeds at the best rate as dots, and a curve through their medians."""
    seeds, middle = [], []
    for place, entries in sorted(points.items()):
        best = [found for entry in at_best_rate(entries) if (found := score(entry)) is not None]
        if best:
            seeds += [(place, score) for score in best]
            middle.append((place, statistics.median(best)))
    end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in middle)
    if not middle:
        return []
    return [Line(seeds, colour, kind="dots"), Line(middle, colour, f"{name}: {end}")]


def _ended(entries: Iterable[Entry]) -> list[Entry]:
    """Return the runs that count where rates are compared: what diverged has no curve, and counts as chance."""
    return [entry for entry in entries if entry.scores or entry.status == "diverged"]


def _heights(lines: Iterable[Line]) -> list[Number]:
    """Return how high the points of curves lie, so that an axis goes only as far as they do."""
    return [up for line in lines for _, up in line.points]


def _behind(lines: Sequence[Line]) -> list[Line]:
    """Put medians in front of what they are medians of."""
    return sorted(lines, key=lambda line: line.kind == "line")


def _families(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    return list(grouped(entries, lambda entry: entry.subject.family).items())


def _models(entries: Sequence[Entry]) -> list[tuple[tuple[str, str], list[Entry]]]:
    """Group runs by model and training, from the highest level of the hierarchy down, then the others."""
    groups = grouped(entries, lambda entry: (entry.label, entry.training))
    return sorted(groups.items(), key=lambda item: (model_order(item[1][0]), item[0]))


def _largest_design(entries: Sequence[Entry]) -> list[Entry]:
    """Return the runs of the options, up to rates, seeds and machines, that most of them share."""
    return max(grouped(entries, _design).values(), key=len, default=[])


def _samples(entry: Entry) -> int:
    """Return the number of training sequences of a run whose set of them is fixed; 0 where it is not."""
    return entry.options.samples or 0


def _design(entry: Entry, *but: str) -> Hashable:
    """Return the options without what varies inside of a group."""
    # what is polished afterwards is trained alike
    varied = {"task", "seed", "lr", "polish", *but}
    return tuple((name, value) for name, value in entry.options if name not in varied)


def _none_first(size: int | None) -> int:
    return -1 if size is None else size
