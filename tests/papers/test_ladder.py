"""The ladder: rungs are of the class that they claim, and a card says what its records say."""

import pytest

from statewise.errors import StatewiseError
from statewise.machines import Machine, analyse, machine
from statewise.models import TABLE
from statewise.papers.architectures import KNOWN, known_of, legend_of, predicted, reported_of, statement_of
from statewise.papers.cards import LENGTHS, Card, Standing
from statewise.papers.ladder_learner import choose_machine, learn_rung, learner_card, read_rows
from statewise.papers.paper import read_paper
from statewise.papers.rungs import RUNGS
from statewise.sweep.terms import SETTINGS, Terms
from statewise.sweep.trial_records import Trial
from statewise.theory.learning.labelled import count_words
from statewise.theory.learning.tables import Fitted
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
    ("model", "reported"),
    [
        ("lstm", "W 100/100/99.9/100"),
        ("slstm(2)", "G 1/0.787/0.178; W 32.5/100/27.7/100"),
        ("mamba(4, eigenvalues=signed)", "G 1/0.241/0.116"),
        ("deltanet(2, negative=true)", "G 1/0.971/0.26; W 46.7/100/66.4/97.7"),
        ("deltaproduct(2)", "W 46.3/100/78.4/98; n = 4: A5 97.9 % (2 generators), S5 88.7 % (4)"),
        ("slice(4)", "blocks of 4: W 99.8/85.9/54/95.3"),
        ("gru", ""),
        ("full", ""),
        ("file.py:Net", ""),
    ],
)
def test_reported_numbers_are_those_of_the_files_of_data(model, reported):
    assert reported_of(model) == reported
    assert [text[0] for text in legend_of(reported)] == [letter for letter in "GW" if f"{letter} " in reported]


def test_every_row_of_a_file_of_data_is_reported_of_its_models():
    for paper, letter in (("grazzi2024", "G"), ("chomsky", "W")):
        rows = read_paper(paper).published_rows
        assert rows
        for row in rows:
            assert all(f"{letter} " in reported_of(model) for model in row.models), row.where


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


TERMS = Terms(3_000, LENGTHS, 20)


@pytest.mark.parametrize("task", ["parity", "symmetric(3)", "modular_arithmetic(5)"])
def test_the_learner_finds_the_machine_from_the_sequences_that_networks_read(task):
    row = learn_rung(task, 1, TERMS)
    assert row.explained == 1
    assert [score.score for score in row.scores] == [1, 1, 1]
    assert [score.length for score in row.scores] == list(LENGTHS)
    assert row == learn_rung(task, 1, TERMS).model_copy(update={"seconds": row.seconds})


def test_the_learner_is_tested_on_the_sequences_of_networks():
    row = learn_rung("tomita(4)", 0, TERMS)
    task = TERMS.options("tomita(4)", "lstm", SETTINGS[0], 0).build_task()
    for score in row.scores:
        finals = task.test(0, score.length, TERMS.words).finals.tolist()
        assert score.majority == max(finals.count(0), finals.count(1)) / TERMS.words


# they answer b with y; the first stays in y, the second leaves it by a, and the third by b for ever
STAYS, LEAVES, SINKS = (
    Machine(delta, outputs=outputs, alphabet=("a", "b"), output_names=("x", "y"))
    for delta, outputs in (
        ([[0, 1], [1, 1]], [0, 1]),
        ([[0, 1], [0, 1]], [0, 1]),
        ([[0, 1], [1, 2], [2, 2]], [0, 1, 0]),
    )
)


@pytest.mark.parametrize(
    ("merged", "fitted", "after_b", "method"),
    [
        # nothing is read after b, where all explain alike
        (STAYS, LEAVES, [], "rpni"),
        (SINKS, LEAVES, [], "least-squares"),
        (LEAVES, SINKS, [], "rpni"),
        # b a ends in y, which is wrong for one of them
        (STAYS, LEAVES, [((1, 0), 1)], "rpni"),
        (LEAVES, STAYS, [((1, 0), 1)], "least-squares"),
        # every transition is walked, so that least squares is not asked
        (LEAVES, STAYS, [((1, 0), 1), ((1, 1), 1)], "rpni"),
    ],
)
def test_the_learner_keeps_what_explains_more_then_the_smaller_then_state_merging(
    merged, fitted, after_b, method, monkeypatch
):
    pairs = [((0,), 0), ((1,), 1), *after_b]
    data = count_words(("a", "b"), ("x", "y"), *zip(*pairs, strict=True))
    monkeypatch.setattr("statewise.papers.ladder_learner.merge_states", lambda data: merged)
    monkeypatch.setattr("statewise.papers.ladder_learner.fit_tables", lambda data: Fitted(fitted, 1.0))
    found = choose_machine(data)
    assert found == (method, {"rpni": merged, "least-squares": fitted}[method])


def test_large_alphabets_are_not_run_and_have_no_score_on_the_card():
    rows = [learn_rung(task, seed, TERMS) for task in ("parity", "symmetric(5)") for seed in range(2)]
    card = learner_card(rows, TERMS)
    parity, s5 = card.standings
    assert (parity.reached, parity.trial.seeds, card.count) == (True, (0, 1), 1)
    assert s5.middle(500) is None
    assert s5.trial.reason == "not run: 120 symbols"
    assert card.seconds == pytest.approx(sum(row.seconds for row in rows))


def test_rows_of_the_learner_are_written_and_read_and_others_refused(tmp_path):
    rows, file = [learn_rung(task, 0, TERMS) for task in ("parity", "symmetric(5)")], tmp_path / "rows.jsonl"
    file.write_text("".join(row.model_dump_json(exclude_unset=True) + "\n" for row in rows))
    assert read_rows(file) == rows
    file.write_text('{"task": "parity"}\n')
    with pytest.raises(StatewiseError, match="no rows of the learner"):
        read_rows(file)


def test_the_page_has_the_learner_beside_the_models(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = __import__("make_ladder")
    rows = read_rows(made.ROWS)
    assert {(row.task, row.seed) for row in rows} == {(rung.task, seed) for rung in RUNGS for seed in range(3)}
    page = made.page([learner_card(rows, made.TERMS)], rows)
    assert "| `learn` | **1.00** |" in page
    assert "| S5 | not run: 120 symbols |" in page
