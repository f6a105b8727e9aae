"""Which curves a page shows: scores against length, learning, and the paper's Figures 2 and 3."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from markupsafe import Markup

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
from statewise.report.entries import Run, Subject, at_best_rate, grouped, thinned
from statewise.report.levels import LADDER

_FAR = attrgetter("far")
_LEAST_LOSS = 1e-8
# of all learning curves together, so that thousands of runs still make a page that opens at once
_MOST_POINTS = 40_000
_MODELS = [*LADDER, "rnn", "lstm", "gru", "mamba", "transformer"]


@dataclass(frozen=True)
class Sheet:
    """Panels that share a subject and a legend."""

    title: str
    legend: tuple[Key, ...]
    panels: tuple[Panel, ...]


def length_sheets(runs: Iterable[Run]) -> list[Sheet]:
    """Draws score against length: a sheet for each family of tasks, a panel for each model, a curve for each size."""
    plain = [run for run in _ended(runs) if run.config.get("samples") is None and run.additive == "none"]
    sheets = []
    for family, members in _families(plain):
        sizes = sorted({run.subject.size for run in members}, key=_none_first)
        colour = dict(zip(sizes, degrees(len(sizes)), strict=True))
        lengths = sorted({length for run in members for length in run.scores})
        x = log_axis(lengths, "length of words", None if len(lengths) > 4 else lengths)
        panels = []
        for (label, recipe), some in _models(members):
            lines = []
            for size in sizes:
                best = at_best_rate(_largest_design([run for run in some if run.subject.size == size]))
                lines += _spread(best, colour[size], f"{label} on {Subject(family, size)}")
            if lines:
                name = f"Score against length, {label}, {recipe} recipe, {family}"
                y = score_axis(_heights(lines), "score")
                panels.append(Panel(label, f"{recipe} recipe", (draw_chart(_behind(lines), x, y, name, 150),)))
        legend = tuple(Key(colour[size], f"m = {size}") for size in sizes if size is not None)
        sheets.append(Sheet(family, legend, tuple(panels)))
    return [sheet for sheet in sheets if sheet.panels]


def learning_sheets(runs: Iterable[Run]) -> list[Sheet]:
    """Draws how runs learned: a sheet for each task, a panel for each model, a curve for every run."""
    plain = [run for run in runs if run.history and run.config.get("samples") is None]
    most = max(8, _MOST_POINTS // max(1, len(plain)))
    sheets = []
    for family, members in _families(plain):
        for size in sorted({run.subject.size for run in members}, key=_none_first):
            subject = Subject(family, size)
            some = [run for run in members if run.subject == subject]
            rates = sorted({run.rate for run in some})
            colour = dict(zip(rates, kinds(len(rates)), strict=True))
            panels = [
                Panel(
                    label, f"{recipe} recipe", _learning(of_model, colour, most, f"{label} on {Subject(family, size)}")
                )
                for (label, recipe), of_model in _models(some)
            ]
            legend = tuple(Key(colour[rate], f"rate {rate:g}") for rate in rates)
            sheets.append(Sheet(str(subject), legend, tuple(panels)))
    return sheets


def data_sheets(runs: Iterable[Run]) -> list[Sheet]:
    """Draws Figure 2: scores far away, and on unseen words of training lengths, against the number of words."""
    few = [run for run in _ended(runs) if run.config.get("samples") is not None]
    if all(run.far is None for run in few):
        return []
    far = f"{few[0].judged:,}"
    labels = [label for label, _ in _models(few)]
    models = list(dict.fromkeys(model for model, _ in labels))
    colour = dict(zip(models, kinds(len(models)), strict=True))
    sizes = sorted({run.config["samples"] for run in few})
    x = log_axis(sizes, "training words", sizes if len(sizes) <= 6 else None)
    panels = []
    for subject, some in grouped(few, lambda run: run.subject).items():
        charts = []
        for where, score in ((f"at {far}", _FAR), ("on training lengths", attrgetter("near"))):
            lines = []
            for label, of_model in _models(some):
                points = grouped(of_model, lambda run: run.config["samples"])
                name = f"{label[0]}, {label[1]} recipe"
                lines += _medians(points, colour[label[0]], name, label[1] == "stated", score)
            name = f"Score {where} against the number of training words, {subject}"
            y = score_axis(_heights(lines), f"score {where}")
            charts += [draw_chart(_behind(lines), x, y, name, 190)] if lines else []
        panels += [Panel(str(subject), "", tuple(charts))] if charts else []
    legend = tuple(Key(colour[model], f"{model}, {recipe}", recipe == "stated") for model, recipe in labels)
    return [Sheet("Figure 2: how many words are enough", legend, tuple(panels))]


def additive_sheets(runs: Iterable[Run], frozen: Sequence[dict[str, Any]] = ()) -> list[Sheet]:
    """Draws Figure 3: what additive terms do, against the size of the task and against length.

    Args:
        runs: of a store.
        frozen: scores of frozen random networks on parity, for the figure's right half.
    """
    plain = [run for run in _ended(runs) if run.config.get("samples") is None]
    seen = {run.additive for run in plain} | {row["additive"] for row in frozen}
    terms = sorted(seen, key=lambda term: (term != "none", term))
    colour = dict(zip(terms, kinds(len(terms)), strict=True))
    panels = []
    for (family, _), some in grouped(plain, lambda run: (run.subject.family, _design(run, "additive"))).items():
        if all(run.additive == "none" for run in some):
            continue
        config = some[0].config
        budget = f"{config.get('recipe')} recipe, H {config.get('hidden')}, {some[0].record.get('steps') or 0:,} steps"
        title, note = some[0].model, f"{family}, {budget}"
        sized = [run for run in some if run.subject.size is not None]
        sizes = sorted({run.subject.size or 0 for run in sized})
        if len(sizes) > 1:
            by_term = grouped(sized, lambda run: run.additive)
            lines = [
                line
                for term, of_term in by_term.items()
                for line in _medians(grouped(of_term, lambda run: run.subject.size), colour[term], f"term {term}")
            ]
            y = score_axis(_heights(lines), f"score at {sized[0].judged:,}")
            chart = draw_chart(_behind(lines), log_axis(sizes, "m", sizes), y, f"Additive terms, {title}")
        else:
            lengths = sorted({length for run in some for length in run.scores})
            lines = [
                line
                for term, of_term in grouped(some, lambda run: run.additive).items()
                for line in _spread(at_best_rate(of_term) or of_term, colour[term], f"term {term}")
            ]
            y = score_axis(_heights(lines), "score")
            chart = draw_chart(_behind(lines), log_axis(lengths, "length of words"), y, f"Additive terms, {title}")
            note = f"{some[0].subject}, {budget}"
        panels += [Panel(title, note, (chart,))] if lines else []
    panels += [_frozen(rows, colour) for rows in grouped(frozen, lambda row: row["examples"]).values()]
    legend = tuple(Key(colour[term], "no additive term" if term == "none" else f"{term} term") for term in terms)
    return [Sheet("Figure 3: additive terms", legend, tuple(panels))] if panels else []


def _frozen(rows: Sequence[dict[str, Any]], colour: dict[str, str]) -> Panel:
    """Draws parity by frozen random diagonals against length: medians over draws."""
    lines = []
    for term, some in grouped(rows, lambda row: row["additive"]).items():
        points = [(row["length"], row["score"]) for row in some]
        end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in points)
        lines.append(Line(points, colour[term], f"term {term}: {end}"))
    name = "frozen random diagonals"
    x, y = log_axis(sorted({row["length"] for row in rows}), "length of words"), score_axis(_heights(lines), "score")
    note = f"parity, a readout fitted to {rows[0]['examples']:,} words, the median of {rows[0]['draws']:,} draws"
    return Panel(name, note, (draw_chart(lines, x, y, f"Additive terms, {name}, {note}"),))


def _learning(runs: Sequence[Run], colour: dict[float, str], most: int, name: str) -> tuple[Markup, ...]:
    x = step_axis(max(seen.step for run in runs for seen in run.history))
    bare = Axis(x.low, x.high, x.ticks)
    scores, losses = [], []
    for run in runs:
        title = f"rate {run.rate:g}, seed {run.config.get('seed')}, {run.status}"
        ended = run.status == "diverged"
        looks = thinned(run.history, most)
        score = [(seen.step, seen.score) for seen in looks if seen.score is not None]
        loss = [(seen.step, max(seen.loss, _LEAST_LOSS)) for seen in looks if seen.loss is not None]
        scores.append(Line(score, colour[run.rate], title, "faint", ended, marked=True))
        losses.append(Line(loss, colour[run.rate], title, "faint", ended, marked=True))
    heights, depths = _heights(scores), _heights(losses)
    charts = []
    if heights:
        looked = f"{runs[0].looked:,}"
        named = f"Score at length {looked} while learning, {name}"
        charts.append(draw_chart(scores, bare, score_axis(heights, f"score at {looked}"), named, 112))
    if depths:
        charts.append(draw_chart(losses, x, log_axis(depths, "loss"), f"Loss while learning, {name}", 112))
    return tuple(charts)


def _spread(runs: Sequence[Run], colour: str, name: str) -> list[Line]:
    """Gives a faint curve for each seed, and their median."""
    lengths = sorted({length for run in runs for length in run.scores})
    middle = [
        (length, statistics.median(run.scores[length] for run in runs if length in run.scores)) for length in lengths
    ]
    if not middle:
        return []
    rate, seeds = runs[0].rate, f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
    end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in middle)
    each = [
        Line([(length, score) for length, score in sorted(run.scores.items())], colour, "", "faint")
        for run in runs
        if len(runs) > 1
    ]
    return [*each, Line(middle, colour, f"{name}, rate {rate:g}, median of {seeds}: {end}")]


def _medians(
    points: dict[Any, list[Run]],
    colour: str,
    name: str,
    dashed: bool = False,
    score: Callable[[Run], float | None] = _FAR,
) -> list[Line]:
    """Gives all seeds at the best rate as dots, and a curve through their medians."""
    seeds, middle = [], []
    for place, runs in sorted(points.items()):
        best = [found for run in at_best_rate(runs) if (found := score(run)) is not None]
        if best:
            seeds += [(place, score) for score in best]
            middle.append((place, statistics.median(best)))
    end = ", ".join(f"{fixed(up)} at {short_number(across)}" for across, up in middle)
    if not middle:
        return []
    return [Line(seeds, colour, kind="dots"), Line(middle, colour, f"{name}: {end}", dashed=dashed)]


def _ended(runs: Iterable[Run]) -> list[Run]:
    """Gives the runs that count where rates are compared: what diverged has no curve, and counts as chance."""
    return [run for run in runs if run.scores or run.status == "diverged"]


def _heights(lines: Iterable[Line]) -> list[Number]:
    """Gives how high the points of curves lie, so that an axis goes only as far as they do."""
    return [up for line in lines for _, up in line.points]


def _behind(lines: Sequence[Line]) -> list[Line]:
    """Puts medians in front of what they are medians of."""
    return sorted(lines, key=lambda line: line.kind == "line")


def _families(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    return list(grouped(runs, lambda run: run.subject.family).items())


def _models(runs: Sequence[Run]) -> list[tuple[tuple[str, str], list[Run]]]:
    """Groups runs by model and recipe, from the highest level of the hierarchy down, then the others."""
    groups = grouped(runs, lambda run: (run.label, str(run.config.get("recipe"))))

    def order(item: tuple[tuple[str, str], list[Run]]) -> tuple[Any, ...]:
        first = item[1][0]
        place = _MODELS.index(first.level) if first.level in _MODELS else len(_MODELS)
        return place, first.model, first.additive != "none", item[0]

    return sorted(groups.items(), key=order)


def _largest_design(runs: Sequence[Run]) -> list[Run]:
    """Gives the runs of the config, up to rates, seeds and machines, that most of them share."""
    return max(grouped(runs, _design).values(), key=len, default=[])


def _design(run: Run, *but: str) -> str:
    """Writes a config without what varies inside of a group."""
    varied = {"task", "seed", "lr", *but}
    return json.dumps({name: value for name, value in run.config.items() if name not in varied}, sort_keys=True)


def _none_first(size: int | None) -> int:
    return -1 if size is None else size
