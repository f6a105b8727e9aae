"""Where runs are judged: at the paper's length where any was tested there, and what is said of runs that were not."""

import json

import pytest

from statewise.report.entries import at_best_rate, judged_at, read_entries
from statewise.report.hierarchy import summarise_levels
from statewise.report.listing import listing
from statewise.report.panels import data_sheets, learning_sheets, length_sheets
from statewise.runs import parse_record
from statewise.store import LENGTH, Store
from tests.report.synthetic import failed_record, record_of
from tests.report.test_page import Tags, data_of, options_of, page_of


def record(score=1.0, status="done", changed=(), **given):
    """A record with one score at all of its lengths, and with some of it changed."""
    options = options_of(**given)
    lengths = options.test_lengths if status == "done" else []
    scores = [{"length": length, "score": score} for length in lengths]
    return record_of(options, **({"status": status, "scores": scores} | dict(changed)))


def eight(changed=(), **given):
    lengths = {"test_lengths": [10, 100], "probe": [10, 100]}
    return [record(changed=changed, model="rotation", seed=seed, **lengths, **given) for seed in range(8)]


def level(records, name="rotation"):
    return next(summary for summary in summarise_levels(read_entries(records)) if summary.name == name)


def test_the_paper_s_length_is_taken_where_any_run_was_tested_there():
    assert judged_at([{10: 0.1, 500: 0.1, 10_000: 0.1}, {100: 0.1}]) == LENGTH
    assert judged_at([{10: 0.1}, {100: 0.1}, {}]) == 100
    assert judged_at([]) == judged_at([{}]) == LENGTH


def test_a_store_without_the_paper_s_length_is_judged_at_the_longest(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(eight({"probe": [10, 100]}))
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "judged at length 100, the longest that was tested: no run of this store was tested at 500" in text
    assert "at length 100 by its best run" in text
    assert "perfect at 100 need" in text
    assert "its score at length 100 as" in text
    assert ">score at 100<" in text
    assert "score at 500" not in text
    assert "no runs in this store" in text
    assert "Length generalisation" in text
    assert data_of(text)["far"] == 100


def test_a_store_with_the_paper_s_length_says_nothing_of_others(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([record(), *eight()])
    text = page_of(tmp_path / "store", tmp_path)
    assert "judged at length 500. Training" in text
    assert "8 runs, none tested at 500" in text
    assert data_of(text)["far"] == 500


def test_a_level_whose_runs_have_other_lengths_says_how_many_there_are():
    assert level(eight()).untested == ""
    assert level(eight()).tracked == 1
    mixed = level([*eight(), record()])
    assert (mixed.outcomes, mixed.untested) == ([], "8 runs, none tested at 500")
    further = level([*eight(task="modular_addition(3)"), record(model="rotation")])
    assert len(further.outcomes) == 1
    assert further.untested == "8 runs of further tasks, none tested at 500"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no runs in this store"),
        ([record(model="rotation", additive="input")], "1 run, all with an additive term"),
        ([record(model="rotation", status="diverged")], "1 run, none with a score, 1 diverged"),
    ],
)
def test_a_level_without_scores_says_why(records, said):
    assert level(records).untested == said


def test_runs_that_do_nothing_or_fail_are_counted(tmp_path):
    null = [options_of(model="rotation", seed=seed, task="null") for seed in range(3)]
    written = [{"key": run.key(), "status": "done", "config": run.to_dict(), "steps": 0} for run in null]
    records = [parse_record(json.dumps(one)) for one in written]
    assert level(records).untested == "3 runs, none with a score"
    records.append(failed_record(options_of(model="rotation"), "no memory"))
    assert level(records).untested == "4 runs, none with a score, 1 failed"
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records)
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "None of the runs of this store has a score." in text
    assert "4 runs, none with a score, 1 failed" in text


def test_curves_over_length_need_no_score_at_the_paper_s_length():
    (sheet,) = length_sheets(read_entries([record(), *eight()]))
    assert [panel.title for panel in sheet.panels] == ["full", "rotation"]


def test_evaluations_at_other_lengths_are_drawn_with_their_own_label(tmp_path):
    probed = record(changed={"probe": [10, 300]})
    (sheet,) = learning_sheets(read_entries([probed]))
    assert ">score at 300<" in sheet.panels[0].charts[0]
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([probed])
    assert "its score at length 300, at which it was evaluated, as training" in page_of(tmp_path / "store", tmp_path)
    assert read_entries([probed])[0].judged == LENGTH


def test_where_no_rate_is_above_chance_the_one_counts_that_learned_most():
    # noise at the far length would choose 0.1
    scores = {0.1: (0.03, 0.2), 0.01: (0.01, 0.9), 0.001: (-0.02, 0.5)}
    made = []
    for rate, (far, near) in scores.items():
        inside = {"in_distribution": {"length": 10, "score": near}}
        made += [record(far, changed=inside, lr=rate, seed=seed) for seed in range(3)]
    assert {entry.options.lr for entry in at_best_rate(read_entries(made))} == {0.01}
    # what diverged has learned nothing
    gone = [record(status="diverged", changed={"in_distribution": None}, lr=0.5, seed=seed) for seed in range(3)]
    assert {entry.options.lr for entry in at_best_rate(read_entries([*gone, *made]))} == {0.01}


@pytest.mark.parametrize(("draw", "given"), [(length_sheets, {}), (data_sheets, {"samples": 512})])
def test_seeds_that_survive_do_not_stand_for_those_that_diverged(draw, given):
    made = [record(1.0, lr=0.1, seed=0, **given), *(record(0.5, lr=0.01, seed=seed, **given) for seed in range(3))]
    made += [record(status="diverged", lr=0.1, seed=seed, **given) for seed in (1, 2)]
    ((panel,),) = [sheet.panels for sheet in draw(read_entries(made))]
    assert "0.50 at" in panel.charts[0]
    assert "1.00 at" not in panel.charts[0]


def test_the_listing_names_the_length_at_which_runs_are_judged():
    assert '"far":100' in listing(read_entries(eight()))
    assert '"far":500' in listing(read_entries([]))
