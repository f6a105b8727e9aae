"""Write docs/ladder.md and the pictures of results/ladder from the records of results/ladder.jsonl.gz.

The records are exported from the store of `statewise ladder`: `statewise runs STORE --out results/ladder.jsonl.gz`. The
rows of the learner without gradients are those of benchmarks/ladder_learner.py.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from statewise.models.table import BASELINES, LEVELS, kind_of
from statewise.papers.architectures import legend_of, predicted, reported_of, statement_of
from statewise.papers.cards import FAR, LEARN, LENGTHS, REACHED, Card, cards_of
from statewise.papers.ladder_learner import SEQUENCES, LearnerRow, learner_card, read_rows
from statewise.papers.rungs import RUNGS
from statewise.report.ladder_cards import MARKS, draw_card, draw_overview, headline, short_name, size_of
from statewise.store.record_files import read_records
from statewise.sweep.terms import Terms
from statewise.sweep.trial_records import trials_of
from statewise.wording import fixed

ROOT = Path(__file__).parents[1]
PAGE, RECORDS, PICTURES = ROOT / "docs" / "ladder.md", ROOT / "results" / "ladder.jsonl.gz", ROOT / "results" / "ladder"
ROWS = ROOT / "results" / "ladder-learner.jsonl"
TERMS = Terms(3_000, LENGTHS, 500)

HEAD = """# The ladder

Which models track state, and how far? Tasks are ordered by the algebra of their transition monoids. Every model trains
on 2 to 10 symbols, on [equal terms](comparing.md), and is tested at up to 50 times that length.
`statewise ladder --model NAME` makes the card of any model.

![Models against rungs: median score at length 500](../results/ladder/overview.png)
"""


def read_cards(file: Path) -> list[Card]:
    """Read the cards of all models that have every rung, levels first, then baselines and rivals."""
    cards = [card for card in cards_of(trials_of(read_records(file), TERMS)) if len(card.standings) == len(RUNGS)]
    order = [*LEVELS, *BASELINES]
    return sorted(cards, key=lambda card: (_place(card.model, order), card.model))


def overview(cards: Sequence[Card]) -> str:
    """Return a row for each model: the median score at the longest length on every rung."""
    lines = [_line(["model", *(rung.label for rung in RUNGS), "reached"]), "|" + " --- |" * (len(RUNGS) + 2)]
    for card in cards:
        scores = [
            _bold(fixed(s.middle(FAR) or 0.0), s.reached) if s.middle(FAR) is not None else "–" for s in card.standings
        ]
        lines.append(_line([f"`{short_name(card.model)}`", *scores, str(card.count)]))
    return "\n".join(lines)


def beside_theory(cards: Sequence[Card]) -> str:
    """Return a row for each model: what theory says, how often training agrees with it, and what papers report."""
    lines = [_line(["model", "theory", "can, and did", "can, and did not", "cannot, but did", "reported"])]
    lines.append("|" + " --- |" * 6)
    for card in cards:
        if card.model == LEARN:
            continue
        said = [(predicted(card.model, standing.rung), standing.reached) for standing in card.standings]
        counts = [str(sum(pair == wanted for pair in said)) for wanted in ((True, True), (True, False), (False, True))]
        reported = reported_of(card.model) or "–"
        lines.append(_line([f"`{short_name(card.model)}`", statement_of(card.model) or "–", *counts, reported]))
    letters = dict.fromkeys(text for card in cards for text in _legend(card))
    return "\n".join([*lines, "", *(f"{text}." for text in letters)])


def details(card: Card) -> str:
    """Return the section of one model: its card, then every rung with its setting and the constant answer."""
    file = f"../results/ladder/{_file(card)}"
    head = [
        "rung",
        "theory",
        "2 to 10",
        *(f"{length:,}" for length in LENGTHS),
        f"each seed at {FAR}",
        "constant",
        "loss, rate",
    ]
    lines = [f"### {short_name(card.model)}", "", f"{headline(card)}. {size_of(card)}.", "", f"![Card]({file})", ""]
    lines += ["<details><summary>Every rung and seed</summary>", "", _line(head), "|" + " --- |" * len(head)]
    for standing in card.standings:
        trial = standing.trial
        each = " ".join(fixed(score) for score in trial.scores(FAR) or ()) or "–"
        scores = [standing.train, *(standing.middle(length) for length in LENGTHS)]
        constant = trial.constant(FAR)
        lines.append(
            _line(
                [
                    standing.rung.label,
                    MARKS[predicted(card.model, standing.rung)],
                    *("–" if score is None else fixed(score) for score in scores),
                    each,
                    "–" if constant is None else fixed(constant),
                    "–" if trial.setting is None else str(trial.setting),
                ]
            )
        )
    return "\n".join([*lines, "", "</details>"])


def without_gradients(rows: Sequence[LearnerRow]) -> str:
    """Return what the learner found on each rung: medians over seeds, and every method that was chosen."""
    lines = [_line(["rung", "method", "states", "answers explained", "transitions not walked", "seconds"])]
    lines.append("|" + " --- |" * 6)
    for rung in RUNGS:
        found = [row for row in rows if row.task == rung.task]
        reason = next((row.reason for row in found if row.reason is not None), None)
        if reason is not None or not found:
            lines.append(_line([rung.label, reason or "–", *["–"] * 4]))
            continue
        methods = ", ".join(dict.fromkeys(str(row.method) for row in found))
        states, explained, open_edges = (
            median(getattr(row, name) for row in found) for name in ("states", "explained", "undetermined")
        )
        seconds = f"{median(row.seconds for row in found):.1f}"
        lines.append(_line([rung.label, methods, f"{states:g}", fixed(explained), f"{open_edges:g}", seconds]))
    return "\n".join(lines)


def rungs() -> str:
    """Return what each rung is, and what is known of it."""
    lines = [_line(["rung", "task", "transition monoid", "what is known"]), "|" + " --- |" * 4]
    lines += [_line([rung.label, f"`{rung.task}`", rung.algebra, rung.fact]) for rung in RUNGS]
    return "\n".join(lines)


def page(cards: Sequence[Card], rows: Sequence[LearnerRow] = ()) -> str:
    """Return the whole page; the rows are those of the learner."""
    bold = (
        f"Medians over seeds at length {FAR}; 0 is chance, 1 is perfect. Bold: at least {REACHED:g}, and better than "
        "the constant answer."
    )
    parts = [
        HEAD,
        bold,
        "",
        overview(cards),
        "",
        "## The rungs",
        "",
        rungs(),
        "",
        "## Beside theory and the literature",
        "",
    ]
    parts += [
        "Counts are of rungs that theory decides; training need not find what exists.",
        "",
        beside_theory(cards),
        "",
    ]
    if rows:
        about = (
            f"`{LEARN}` trains no network: it merges states that the answers after each symbol of {SEQUENCES:,} "
            "training sequences do not tell apart, and tries least squares too where some transitions are not walked. "
            "Medians over seeds. State merging lets a transition that no sequence walks lead back to its own state."
        )
        parts += ["## Without gradients", "", about, "", without_gradients(rows), ""]
    parts += [f"Terms, the same for every model: {TERMS}.", "", "## Cards", ""]
    parts += ["\n\n".join(details(card) for card in cards), ""]
    parts.append(
        "The records behind every number are `results/ladder.jsonl.gz` and `results/ladder-learner.jsonl`; "
        "`docs/make_ladder.py` writes this page."
    )
    return "\n".join(parts) + "\n"


def draw(cards: Sequence[Card]) -> None:
    """Draw the overview and every card."""
    draw_overview(PICTURES / "overview.png", cards, str(TERMS))
    for card in cards:
        draw_card(PICTURES / _file(card), card, str(TERMS))


def _file(card: Card) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in short_name(card.model))
    return f"{kept.strip('-')}.png"


def _legend(card: Card) -> list[str]:
    return legend_of(reported_of(card.model))


def _place(model: str, order: Sequence[str]) -> int:
    kind = kind_of(model)
    return len(order) if kind is None else order.index(kind.name)


def _bold(text: str, reached: bool) -> str:
    return f"**{text}**" if reached else text


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"


if __name__ == "__main__":
    learned = read_rows(ROWS)
    found = [*read_cards(RECORDS), learner_card(learned, TERMS)]
    draw(found)
    PAGE.write_text(page(found, learned))
