"""Cards of the ladder as pictures and as one self-contained page."""

import textwrap
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import BaseLoader, Environment, StrictUndefined
from markupsafe import Markup

from statewise.errors import RunError, shorten
from statewise.files import write_whole
from statewise.models.table import label_of
from statewise.papers.architectures import known_of, legend_of, predicted, reported_of, statement_of
from statewise.papers.cards import FAR, LENGTHS, REACHED, Card, Standing
from statewise.papers.rungs import RUNGS, Rung
from statewise.report.figure import picture_of, pyplot_for_files
from statewise.report.heat import step_of
from statewise.report.palette import light_scale
from statewise.wording import counted, duration, fixed, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = {True: "✓", False: "✗", None: "·"}
_PAGES = (".html", ".htm")
_PICTURES = (".png", ".svg")
_INK, _SOFT, _EMPTY = "#0a0f18", "#5b6674", "#f3f4f6"


def check_card_file(file: Path) -> None:
    """Refuse a file that is neither a page nor a picture before any work is done for it."""
    if file.suffix not in (*_PAGES, *_PICTURES):
        raise RunError(f'"{shorten(file)}" is not an .html, .png or .svg file; choose one of these endings')
    pyplot_for_files()


def write_cards(file: Path, cards: Sequence[Card], terms: str) -> None:
    """Write cards by the file's ending: a page of all, a picture of one card, or of an overview of several."""
    check_card_file(file)
    if file.suffix in _PAGES:
        write_page(file, cards, terms)
    elif len(cards) == 1:
        draw_card(file, cards[0], terms)
    else:
        draw_overview(file, cards, terms)


def name_of(model: str) -> str:
    """Return how a card calls a model: its name, and its label where that says more."""
    label, short = label_of(model).removesuffix(", layers: ").removesuffix(", n: "), short_name(model)
    return short if label.lower() == short.lower() else f"{short}: {label}"


def short_name(model: str) -> str:
    """Return a model's name; of a user's own, that of its class."""
    return model.rpartition(":")[2]


def headline(card: Card) -> str:
    """Return where a model stands in one line."""
    highest = "none" if card.reached is None else card.reached.label
    first = "" if card.failed is None else f", first not reached: {card.failed.label}"
    return f"{card.count} of {len(card.standings)} rungs reached, highest: {highest}{first}"


def size_of(card: Card) -> str:
    """Return parameters and time in one line."""
    span = card.parameters
    many = "" if span is None else f"{span[0]:,} to {span[1]:,} parameters, "
    seeds = max((len(standing.trial.seeds) for standing in card.standings), default=0)
    return f"{many}{counted(seeds, 'seed')}, {duration(card.seconds)} of one core"


def theory_of(card: Card) -> list[str]:
    """Return what theory says of a model, and what papers report."""
    said, reported, known = statement_of(card.model), reported_of(card.model), known_of(card.model)
    lines = [] if said is None else [f"theory: {said}"]
    if known is not None and reported:
        lines.append(f"reported: {reported} ({'; '.join(legend_of(reported)) or known.source})")
    return lines


def draw_card(file: Path, card: Card, terms: str) -> None:
    """Draw one card: a strip of scores for each rung, beside its algebra and what is known of it."""
    rows, columns = len(card.standings), 1 + len(LENGTHS)
    height = 0.36 * rows + 2.5
    with picture_of(file, (11.6, height)) as axes:
        axes.set_xlim(-3.9, columns + 7.8)
        axes.set_ylim(rows + 2.3, -2.6)
        axes.set_axis_off()
        axes.text(-3.85, -2.05, name_of(card.model), fontsize=17, weight="bold", color=_INK, va="center")
        axes.text(-3.85, -1.15, f"{headline(card)}; {size_of(card)}", fontsize=9, color=_SOFT, va="center")
        for place, title in enumerate(("2 to 10", *(f"{length:,}" for length in LENGTHS))):
            axes.text(place + 0.5, -0.35, title, fontsize=8.5, ha="center", va="center", color=_SOFT)
        axes.text(columns + 0.5, -0.35, "theory", fontsize=8.5, ha="center", va="center", color=_SOFT)
        before = ""
        for row, standing in enumerate(card.standings):
            algebra = standing.rung.algebra
            if algebra != before:
                axes.plot([-3.85, columns + 7.7], [row, row], color="#d5dae1", linewidth=0.7)
                axes.text(-3.85, row + 0.5, algebra, fontsize=8, color=_SOFT, va="center")
                before = algebra
            reached = standing.reached
            axes.text(-0.2, row + 0.5, standing.rung.label, fontsize=9.5, ha="right", va="center", color=_INK)
            _draw_cells(axes, row, [standing.train, *(standing.middle(length) for length in LENGTHS)], reached)
            said = predicted(card.model, standing.rung)
            axes.text(columns + 0.5, row + 0.5, MARKS[said], fontsize=10, ha="center", va="center", color=_INK)
            axes.text(columns + 1.1, row + 0.5, shorten(_brief(standing), 88), fontsize=7, va="center", color=_SOFT)
        notes = [*theory_of(card), f"✓ reached: median over seeds at least {REACHED:g} at {FAR}. Terms: {terms}"]
        text = "\n".join(line for note in notes for line in textwrap.wrap(note, 190))
        axes.text(-3.85, rows + 0.35, text, fontsize=7, color=_SOFT, va="top", linespacing=1.35)


def draw_overview(file: Path, cards: Sequence[Card], terms: str) -> None:
    """Draw models against rungs: the median score at the longest length, bold where a rung was reached."""
    rows = len(cards)
    rungs = _rungs_of(cards)
    names = [shorten(short_name(card.model), 34) for card in cards]
    left = 0.135 * max(map(len, names)) + 0.4
    width, height = 0.74 * (len(rungs) + left + 1.3), 0.34 * (rows + 6.2)
    with picture_of(file, (width, height)) as axes:
        axes.set_xlim(-left, len(rungs) + 1.3)
        axes.set_ylim(rows + 3.2, -3.0)
        axes.set_axis_off()
        for place, rung in enumerate(rungs):
            axes.text(place + 0.4, -0.2, rung.label, fontsize=9, rotation=35, ha="left", va="bottom", color=_INK)
        axes.text(len(rungs) + 0.5, -0.2, "reached", fontsize=9, rotation=35, ha="left", va="bottom", color=_INK)
        for row, (card, name) in enumerate(zip(cards, names, strict=True)):
            axes.text(-0.15, row + 0.5, name, fontsize=9, ha="right", va="center", color=_INK)
            by_rung = {standing.rung: standing for standing in card.standings}
            for place, rung in enumerate(rungs):
                found = by_rung.get(rung)
                score, reached = (None, False) if found is None else (found.middle(FAR), found.reached)
                _draw_cell(axes, row, place, score, reached)
            axes.text(len(rungs) + 0.6, row + 0.5, str(card.count), fontsize=9.5, ha="center", va="center", color=_INK)
        _draw_classes(axes, rows, [rung.algebra for rung in rungs])
        note = f"Median score over seeds at length {FAR} (0 chance, 1 perfect); ✓ at least {REACHED:g}. Terms: {terms}."
        text = "\n".join(textwrap.wrap(note, round(15.5 * width)))
        axes.text(-left + 0.1, rows + 1.1, text, fontsize=6.5, color=_SOFT, va="top", linespacing=1.35)


def _rungs_of(cards: Sequence[Card]) -> list[Rung]:
    """Return the rungs of any card, in their order."""
    return [rung for rung in RUNGS if any(rung == standing.rung for card in cards for standing in card.standings)]


def _draw_classes(axes: "Axes", rows: int, classes: Sequence[str]) -> None:
    """Draw a line and a name below the rungs of each class."""
    for name in dict.fromkeys(classes):
        first, after = classes.index(name), len(classes) - list(reversed(classes)).index(name)
        axes.plot([first + 0.05, after - 0.05], [rows + 0.2, rows + 0.2], color="#9aa5b1", linewidth=0.9)
        short = name.removesuffix(" group") if after - first == 1 else name
        axes.text((first + after) / 2, rows + 0.6, short, fontsize=7.5, ha="center", va="center", color=_SOFT)


def write_page(file: Path, cards: Sequence[Card], terms: str) -> None:
    """Write cards as one self-contained page, an overview first where there are several."""
    made = Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"step": lambda score: "none" if score is None else f"h{step_of(score)}", "score": _score}
    made.globals |= {"name_of": name_of, "headline": headline, "size_of": size_of, "theory_of": theory_of}
    made.globals |= {"on": lambda card, rung: next((s for s in card.standings if s.rung == rung), None)}
    made.globals |= {"predicted": lambda card, rung: MARKS[predicted(card.model, rung)]}
    scale = "\n".join(
        f".h{step} {{ background: {cell}; color: {ink}; }}" for step, (cell, ink) in enumerate(light_scale())
    )
    page = made.from_string(_template()).render(
        cards=cards, rungs=_rungs_of(cards), lengths=LENGTHS, far=FAR, least=REACHED, terms=terms, scale=Markup(scale)
    )
    write_whole(file, visible(page))


def _draw_cells(axes: "Axes", row: int, scores: Sequence[float | None], reached: bool) -> None:
    for place, score in enumerate(scores):
        _draw_cell(axes, row, place, score, reached and place == len(scores) - 1)


def _draw_cell(axes: "Axes", row: int, place: int, score: float | None, reached: bool) -> None:
    from matplotlib.patches import Rectangle

    step = step_of(score)
    cell, ink = (_EMPTY, _SOFT) if step is None else light_scale()[step]
    axes.add_patch(Rectangle((place + 0.03, row + 0.05), 0.94, 0.9, color=cell, linewidth=0))
    text = _score(score) + (" ✓" if reached else "")
    weight = "bold" if reached else "normal"
    axes.text(place + 0.5, row + 0.5, text, fontsize=8.5, ha="center", va="center", color=ink, weight=weight)


def _brief(standing: Standing) -> str:
    """Return why a model could not be tested, or what is known of the rung."""
    trial = standing.trial
    if trial.reason is not None:
        return trial.reason
    if trial.reads is not None and trial.reads < FAR:
        return f"the model reads at most {trial.reads:,} symbols"
    return standing.rung.fact


def _score(score: float | None) -> str:
    return "–" if score is None else fixed(score)


def _template() -> str:
    return (resources.files("statewise.report") / "template" / "card.html.j2").read_text(encoding="utf-8")
