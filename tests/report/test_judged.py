"""Where runs are judged: at the paper's length where any was tested there, and what is said of runs that were not."""

import pytest

from statewise.report.entries import FAR, at_best_rate, judged_at, read_runs
from statewise.report.levels import ladder
from statewise.report.listing import listing
from statewise.report.panels import data_sheets, learning_sheets, length_sheets
from statewise.store import Store, key_of
from tests.report.synthetic import record_of
from tests.report.test_page import Tags, config_of, data_of, page_of


def record(score=1.0, status="done", **given):
    """A record with one score at all of its lengths."""
    made = record_of(config_of(**given)) | {"status": status}
    lengths = made["config"]["test_lengths"] if status == "done" else []
    return made | {"scores": [{"length": length, "score": score} for length in lengths]}


def eight(**given):
    return [record(model="rotation", seed=seed, test_lengths=[10, 100], probe=[10, 100], **given) for seed in range(8)]


def rung(records, name="rotation"):
    return next(rung for rung in ladder(read_runs(records)) if rung.name == name)


def test_the_paper_s_length_is_taken_where_any_run_was_tested_there():
    assert judged_at([{10: 0.1, 500: 0.1, 10_000: 0.1}, {100: 0.1}]) == FAR
    assert judged_at([{10: 0.1}, {100: 0.1}, {}]) == 100
    assert judged_at([]) == judged_at([{}]) == FAR


def test_a_store_without_the_paper_s_length_is_judged_at_the_longest(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([made | {"probe": [10, 100]} for made in eight()])
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "judged at length 100, the longest that was tested: no run of this store was tested at 500" in text
    assert "at length 100 by its best run" in text
    assert "perfect at 100 need" in text
    assert "its score at length 100 as" in text
    assert ">score at 100<" in text
    assert "score at 500" not in text
    assert "no runs in this store" in text
    assert "Scores as words grow" in text
    assert data_of(text)["far"] == 100


def test_a_store_with_the_paper_s_length_says_nothing_of_others(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([record(), *eight()])
    text = page_of(tmp_path / "store", tmp_path)
    assert "judged at length 500. How long" in text
    assert "8 runs, none tested at 500" in text
    assert data_of(text)["far"] == 500


def test_a_level_whose_runs_have_other_lengths_says_how_many_there_are():
    assert rung(eight()).silent == ""
    assert rung(eight()).tracked == 1
    mixed = rung([*eight(), record()])
    assert (mixed.outcomes, mixed.silent) == ([], "8 runs, none tested at 500")
    further = rung([*eight(task="modular_addition(3)"), record(model="rotation")])
    assert len(further.outcomes) == 1
    assert further.silent == "8 runs of further tasks, none tested at 500"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no runs in this store"),
        ([record(model="rotation", additive="input")], "1 run, all with an additive term"),
        ([record(model="rotation", status="diverged")], "1 run, none with a score, 1 diverged"),
    ],
)
def test_a_level_without_scores_says_why(records, said):
    assert rung(records).silent == said


def test_runs_that_do_nothing_or_fail_are_counted(tmp_path):
    null = [config_of(model="rotation", seed=seed) | {"task": "null"} for seed in range(3)]
    failed = config_of(model="rotation")
    records = [{"key": key_of(config), "status": "done", "config": config, "steps": 0} for config in null]
    assert rung(records).silent == "3 runs, none with a score"
    records.append({"key": key_of(failed), "status": "failed", "config": failed, "reason": "no memory"})
    assert rung(records).silent == "4 runs, none with a score, 1 failed"
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records)
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    assert "None of the runs of this store has a score." in text
    assert "4 runs, none with a score, 1 failed" in text


def test_curves_over_length_need_no_score_at_the_paper_s_length():
    (sheet,) = length_sheets(read_runs([record(), *eight()]))
    assert [panel.title for panel in sheet.panels] == ["full", "rotation"]


def test_looks_at_other_lengths_are_drawn_with_their_own_label(tmp_path):
    looked = record() | {"probe": [10, 300]}
    (sheet,) = learning_sheets(read_runs([looked]))
    assert ">score at 300<" in sheet.panels[0].charts[0]
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([looked])
    assert "its score at length 300, at which looks were taken, as training" in page_of(tmp_path / "store", tmp_path)
    assert read_runs([looked])[0].judged == FAR


def test_where_no_rate_is_above_chance_the_one_counts_that_learned_most():
    # noise at the far length would choose 0.1
    scores = {0.1: (0.03, 0.2), 0.01: (0.01, 0.9), 0.001: (-0.02, 0.5)}
    made = []
    for rate, (far, near) in scores.items():
        made += [
            record(far, lr=rate, seed=seed) | {"in_distribution": {"length": 10, "score": near}} for seed in range(3)
        ]
    assert {run.rate for run in at_best_rate(read_runs(made))} == {0.01}
    # what diverged has learned nothing
    gone = [record(lr=0.5, seed=seed, status="diverged") | {"in_distribution": None} for seed in range(3)]
    assert {run.rate for run in at_best_rate(read_runs([*gone, *made]))} == {0.01}


@pytest.mark.parametrize(("draw", "given"), [(length_sheets, {}), (data_sheets, {"samples": 512})])
def test_seeds_that_survive_do_not_speak_for_those_that_diverged(draw, given):
    made = [record(1.0, lr=0.1, seed=0, **given), *(record(0.5, lr=0.01, seed=seed, **given) for seed in range(3))]
    made += [record(status="diverged", lr=0.1, seed=seed, **given) for seed in (1, 2)]
    ((panel,),) = [sheet.panels for sheet in draw(read_runs(made))]
    assert "0.50 at" in panel.charts[0]
    assert "1.00 at" not in panel.charts[0]


def test_the_listing_names_the_length_at_which_runs_are_judged():
    assert '"far":100' in listing(read_runs(eight()))
    assert '"far":500' in listing(read_runs([]))
