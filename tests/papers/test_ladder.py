"""The ladder: rungs are of the class that they claim, and a card says what its records say."""

import pytest

from statewise.machines import analyse, machine
from statewise.models import TABLE
from statewise.papers.architectures import KNOWN, known_of, predicted, statement_of
from statewise.papers.cards import LENGTHS, Card, Standing
from statewise.papers.rungs import RUNGS
from statewise.sweep.terms import SETTINGS
from statewise.sweep.trials import Trial
from tests.command import ROOT
from tests.sweep.test_trials import recorded

CLASSES = {
    "aperiodic": lambda algebra: algebra.aperiodic,
    "Abelian group": lambda algebra: algebra.abelian,
    "solvable group": lambda algebra: algebra.group and algebra.solvable and not algebra.abelian,
    "non-solvable group": lambda algebra: algebra.group and algebra.solvable is False,
    "other monoid": lambda algebra: not algebra.group and not algebra.aperiodic,
    "protocol": lambda algebra: not algebra.group,
}


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.label)
def test_a_rung_is_of_the_class_that_it_claims(rung):
    assert CLASSES[rung.algebra](analyse(machine(rung.task)))


def test_rungs_are_ordered_by_class():
    order = [rung.algebra for rung in RUNGS]
    assert sorted(order, key=list(CLASSES).index) == order


@pytest.mark.parametrize("kind", [kind for kind in TABLE if not kind.is_level], ids=lambda kind: kind.name)
def test_every_baseline_has_its_known_results(kind):
    assert known_of(kind.name) is not None
    assert statement_of(kind.name)


def test_known_results_are_of_models_of_the_table():
    assert {entry.kind for entry in KNOWN} <= {kind.name for kind in TABLE}
    assert known_of("mamba(2, eigenvalues=signed)") != known_of("mamba(2)")
    assert known_of("file.py:Net") is None
    assert statement_of("file.py:Net") is None


@pytest.mark.parametrize(
    ("model", "can"),
    [
        ("positive", set()),
        ("diagonal", {"parity"}),
        ("rotation", {"parity", "Z3", "Z5", "Z60"}),
        ("block(3)", {"flip-flop", "parity", "Z3", "Z5", "Z60", "S3", "S4", "A5"}),
        ("full", {rung.label for rung in RUNGS}),
    ],
)
def test_theory_says_which_rungs_a_level_can_reach(model, can):
    assert {rung.label for rung in RUNGS if predicted(model, rung)} == can


def test_nothing_is_predicted_of_a_class_of_ones_own():
    assert all(predicted("file.py:Net", rung) is None for rung in RUNGS)


def standing(place, *scores, reads=None):
    runs = tuple(recorded(SETTINGS[0], seed, 1.0, score) for seed, score in enumerate(scores))
    return Standing(RUNGS[place], Trial("parity", "full", SETTINGS[0], runs, runs[:1], reads))


def test_a_rung_is_reached_by_the_median_over_seeds():
    assert standing(0, 1.0, 0.995, 0.0).reached
    assert not standing(0, 1.0, 0.98, 0.9).reached
    assert not standing(0, 1.0, 1.0, 1.0, reads=LENGTHS[0]).reached


def test_a_card_names_the_highest_rung_reached_and_the_first_that_was_not():
    card = Card("full", (standing(0, 1.0), standing(1, 0.2), standing(2, 1.0), standing(3, 0.0)))
    assert card.reached == RUNGS[2]
    assert card.failed == RUNGS[1]
    assert card.count == 2
    assert card.to_dict()["reached"] == RUNGS[2].task


def test_the_page_of_the_ladder_has_every_score_of_its_cards(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = __import__("make_ladder")
    card = Card("full", (standing(0, 1.0, 0.996, 0.0), standing(1, 0.21, 0.21, 0.2)))
    page = made.page([card])
    assert "| `full` | **1.00** | 0.21 | 1 |" in page
    assert "| Tomita 4 | ✓ | 1.00 | 0.00 | 0.00 | 0.21 | 0.21 0.21 0.20 |" in page
    assert "highest: flip-flop, first not reached: Tomita 4" in page
