"""The table that a page leads with: what is one cell, which setting counts, and what beats a constant answer."""

import itertools
import math
import re

import numpy as np
import pytest

from statewise.report.certified import MOST_NETWORKS, NOT_CERTIFIED, RunVerdict, summarise, verdicts_of
from statewise.report.entries import read_entries
from statewise.report.hierarchy import summarise_levels
from statewise.report.listing import listing
from statewise.report.page import MOST_ROWS
from statewise.report.result_curves import CONSTANT, curves_of, result_sheets
from statewise.report.results import MOST_LENGTHS, length_names, results_of, shown_lengths, training_lengths
from statewise.store import Store
from tests.report.synthetic import failed_record, fill, full_weights, record_of, saved, untrained_weights
from tests.report.test_page import Tags, options_of, page_of


def scored(length, score, majority=0.2, count=500, classes=5):
    """A score as a record has it, beside the answer that a constant gets right so often."""
    accuracy = score * (1 - 1 / classes) + 1 / classes
    counts = {"count": count, "correct": round(count * accuracy), "classes": classes, "majority": majority}
    return {"length": length, "score": score, "accuracy": accuracy, "score_majority": 0.0} | counts


def record(inside=1.0, far=1.0, majority=0.2, changed=(), **given):
    """A record with a score on training lengths and one at length 500."""
    near = scored(10, inside, majority)
    made = {"status": "done", "in_distribution": near, "scores": [near, scored(500, far, majority)]}
    return record_of(options_of(**given), **(made | dict(changed)))


def diverged(**given):
    return record_of(options_of(**given), status="diverged", scores=[], in_distribution=None)


def rows_of(*records):
    (task,) = results_of(read_entries(records))
    return task.rows


def row_of(*records):
    (row,) = rows_of(*records)
    return row


def page_with(tmp_path, *records, weights=None):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(records, weights)
    text = page_of(tmp_path / "store", tmp_path)
    Tags(text)
    return text


def test_runs_that_differ_in_their_seed_are_one_cell():
    row = row_of(*(record(far=far, seed=seed) for seed, far in enumerate((1.0, 0.5, 0.0))))
    spread = row.best.scores[500]
    assert (len(row.best.entries), row.best.name, len(row.settings)) == (3, "", 1)
    assert (spread.mean, spread.deviation) == (0.5, pytest.approx(math.sqrt(1 / 6)))


def test_a_cell_shows_the_setting_that_is_best_on_training_lengths_even_if_another_is_better_far_away():
    settings = {(0.1, "squared"): (0.9, 1.0), (0.01, "squared"): (0.95, 0.3), (0.01, "cross-entropy"): (0.8, 0.9)}
    made = [
        record(inside, far, lr=lr, loss=loss, seed=seed)
        for (lr, loss), (inside, far) in settings.items()
        for seed in (0, 1)
    ]
    row = row_of(*made)
    assert (row.best.name, row.best.scores[500].mean) == ("rate 0.01, squared error", 0.3)
    assert [setting.inside.mean for setting in row.settings] == [0.95, 0.9, 0.8]


def test_among_settings_equal_on_training_lengths_squared_error_then_the_highest_rate_counts_and_no_test_length():
    settings = ((0.1, "cross-entropy", 1.0), (0.001, "squared", 1.0), (0.01, "squared", 0.0))
    made = [record(1.0, far, loss=loss, lr=lr) for lr, loss, far in settings]
    for order in itertools.permutations(made):
        best = row_of(*order).best.entries[0].options
        assert (best.loss, best.lr) == ("squared", 0.01)


def test_a_run_that_diverged_counts_as_chance_and_is_named(tmp_path):
    made = [record(seed=0), diverged(seed=1)]
    row = row_of(*made)
    assert (row.best.inside.mean, row.best.scores[500].mean, row.best.diverged) == (0.5, 0.5, 1)
    assert ">2, 1 diverged<" in page_with(tmp_path, *made)


def test_the_same_seed_measured_twice_is_one_seed():
    assert len(row_of(record(far=1.0), record(far=1.0, test_lengths=[10, 500, 1000])).best.entries) == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"longest": 20}, "2 to 20"),
        ({"late": 40}, "late to 40"),
        ({"growth_share": 0.0}, "2 to 10"),
        ({"samples": 64, "growth_share": 0.3}, "64 sequences"),
    ],
)
def test_training_lengths_are_not_mixed(tmp_path, changed, named):
    made = [record(0.9, 0.1), record(1.0, 1.0, **changed)]
    rows = rows_of(*made)
    assert sorted(row.best.scores[500].mean for row in rows) == [0.1, 1.0]
    assert len({row.lengths for row in rows}) == 2
    assert named in training_lengths(made[1].config)
    # a figure names them too
    ((names, _),) = curves_of(results_of(read_entries(made)))
    assert len(set(names)) == 2
    assert all("2 to" in name for name in names)
    assert named in page_with(tmp_path, *made)


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({"hidden": 8}, ["H 64", "H 8"]),
        ({"batch": 32}, ["batch 64", "batch 32"]),
        ({"tests": "uniform"}, ["balanced tests", "uniform tests"]),
        ({"late_share": 0.2, "late": 0}, ["late share 0.5", "late share 0.2"]),
    ],
)
def test_rows_that_would_look_alike_are_told_apart(changed, note):
    assert sorted(row.note for row in rows_of(record(), record(**changed))) == sorted(note)


def test_steps_tell_rows_apart():
    rows = rows_of(record(), record(steps=500, changed={"steps": 500}))
    assert {row.steps for row in rows} == {"2,000", "500"}


def test_random_machines_that_differ_in_their_seed_are_one_task_which_says_so():
    made = [record(task=f"random_machine(5, seed={seed}, kind=map)", seed=seed) for seed in range(3)]
    (task,) = results_of(read_entries(made))
    assert task.title == "random machine (map), m = 5: 3 machines"
    assert len(task.rows[0].best.entries) == 3
    (alone,) = results_of(read_entries(made[:1]))
    assert alone.title == "random_machine(5, seed=0, kind=map)"


def test_models_of_one_s_own_have_the_name_of_their_class():
    made = [record().model_copy(update={"config": options_of().change(model=f"/a/{folder}/net.py:Net(layers=2)")})
            for folder in ("x", "y")]  # fmt: skip
    assert row_of(made[0]).model == "Net(layers=2)"
    assert [row.model for row in rows_of(*made)] == [one.config.model for one in made]


def test_a_constant_answer_on_a_skewed_task_gets_no_mark(tmp_path):
    skewed = record(inside=1.0, far=1.0, majority=1.0)
    row = row_of(skewed)
    assert row.best.scores[500].mean == 1.0
    assert (row.best.scores[500].beats, row.best.scores[500].learned) == (False, False)
    (level,) = [level for level in summarise_levels(read_entries([skewed])) if level.outcomes]
    assert (level.tracked, level.outcomes[0].constant) == (0, 1.0)
    text = page_with(tmp_path, skewed)
    results = re.search(r'id="results".*?</table>', text, re.DOTALL).group()
    assert 'title="learned"' not in results
    assert results.count('title="no better than the constant answer"') == 3
    assert "const. 1.00" in results
    assert 'class="chip yes"' not in text


def test_two_standard_errors_are_no_victory_over_a_constant_answer():
    # the constant answer is right on 0.99 of 200 sequences, with a standard error of 0.007
    near, far = (
        row_of(record(changed={"scores": [scored(500, 1.0, 0.99, count)]})).best.scores[500] for count in (200, 20_000)
    )
    assert (near.learned, far.learned) == (False, True)


def test_a_learned_cell_beats_its_constant_answer(tmp_path):
    text = page_with(tmp_path, record(far=0.2))
    results = re.search(r'id="results".*?</table>', text, re.DOTALL).group()
    assert results.count('title="learned"') == 2
    assert results.count("const. 0.00") == 3


def test_a_constant_that_was_not_recorded_is_a_dash(tmp_path):
    bare = [{"length": 500, "score": 1.0}]
    assert "const. –" in page_with(tmp_path, record(changed={"scores": bare}))


def test_the_results_stand_before_everything_else_and_no_paper_table_without_its_runs(tmp_path):
    text = page_with(tmp_path, record(), record(model="rotation"), failed_record(options_of(task="parity"), "no"))
    assert text.index('id="results"') < text.index('id="lengths"') < text.index('id="hierarchy"')
    assert 'id="tables"' not in text
    assert "paper’s" not in text
    assert "statewise reproduce" not in text


def test_a_paper_table_stands_below_the_results_where_the_store_has_its_runs(tmp_path):
    fill(tmp_path / "store", names=("table-addition",), every=40)
    text = page_of(tmp_path / "store", tmp_path)
    assert text.index('id="results"') < text.index('id="lengths"') < text.index('id="tables"')
    assert 'id="table-machine"' not in text
    # they are the runs of the preset quick alone
    assert 'id="tables"' not in page_of(tmp_path / "store", tmp_path, preset="paper")


def test_runs_of_no_figure_of_the_paper_have_no_figure_number(tmp_path):
    text = page_with(tmp_path, *(record(samples=count, far=0.5) for count in (64, 128)))
    assert "Further figures" in text
    assert "Figure 2" not in text
    assert "How many training sequences are enough" in text


TWO_TASKS = ("modular_addition(5)", "symmetric(3)")


def test_all_models_of_a_task_are_in_one_panel_with_the_constant_answer():
    models = ("full", "rotation", "lstm")
    made = [record(model=model, seed=seed, task=task) for model in models for seed in (0, 1) for task in TWO_TASKS]
    (sheet,) = result_sheets(results_of(read_entries(made)))
    assert [panel.title for panel in sheet.panels] == list(TWO_TASKS)
    assert [key.text.split(",")[0] for key in sheet.legend] == [*models, CONSTANT]
    for panel in sheet.panels:
        assert panel.charts[0].count('class="line ') == 3
        assert panel.charts[0].count('class="guide ') == 1


def test_a_colour_is_used_once_in_a_panel():
    models = [f"block({size})" for size in (1, 2, 4, 8, 16, 32, 64)] + ["full", "lstm", "gru", "rnn"]
    made = [record(model=model, hidden=64) for model in models]
    sheets = result_sheets(results_of(read_entries(made)))
    assert len(sheets) == 2
    for sheet in sheets:
        colours = [key.colour for key in sheet.legend]
        assert len(set(colours)) == len(colours)
    assert sum(len(sheet.legend) - 1 for sheet in sheets) == len(models)


def test_columns_are_the_lengths_that_most_rows_have_with_the_judged_one():
    many = [{"scores": [scored(length, 1.0) for length in (*range(10, 90, 10), *extra)]} for extra in ([], [500])]
    tasks = results_of(read_entries([record(changed=many[0]), record(changed=many[1], model="lstm")]))
    lengths = shown_lengths(tasks)
    assert len(lengths) == MOST_LENGTHS
    assert 500 in lengths


def test_a_page_of_very_many_rows_says_how_many_there_are(tmp_path, monkeypatch):
    monkeypatch.setattr("statewise.report.page.MOST_ROWS", 3)
    text = page_with(tmp_path, *(record(task=f"cyclic({n})") for n in range(2, 7)))
    assert "The first 3 of 5 rows are shown" in text
    assert MOST_ROWS >= 100


def test_a_polished_run_has_its_proven_length(tmp_path):
    polished = {"status": "converged", "horizon": 1_600_000_000_000, "residual": 1e-29, "rank": 5}
    made = [record(0.9, changed={"polished": polished}), record(0.9, seed=1), record(1.0, 0.5, seed=2, model="lstm")]
    text = page_with(tmp_path, *made)
    assert "1 polished: proven to length 1.6e12" in text
    assert "1 wrong on training lengths" in text
    assert "wrong on tests of length 500" in text


def test_kept_weights_are_certified_within_the_budget(tmp_path, monkeypatch):
    made = [record(seed=seed, task=task, hidden=8) for task in TWO_TASKS for seed in range(3)]
    weights = {one.key: full_weights(one.config) for one in made}
    monkeypatch.setattr("statewise.report.certified.MOST_NETWORKS", 4)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add(made, weights)
        entries = read_entries(store.records())
        tasks = results_of(entries)
        verdicts = verdicts_of(store, entries, tasks)
    assert set(verdicts.values()) == {RunVerdict("proven")}
    # two of each task: the first seeds come before any second
    for task in tasks:
        assert summarise(task.rows[0].best.entries, verdicts) == ["1 not certified", "2 proven at every length"]
    assert MOST_NETWORKS <= 30


def test_a_network_that_is_wrong_is_refuted_and_weights_that_cannot_be_read_decide_nothing(tmp_path):
    made, other = record(hidden=8), record(hidden=8, task="symmetric(3)")
    weights = {made.key: saved(untrained_weights(made.config)), other.key: b"no weights"}
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([made, other], weights)
        entries = read_entries(store.records())
        verdicts = verdicts_of(store, entries, results_of(entries))
    assert verdicts[made.key].kind == "refuted"
    assert other.key not in verdicts


def test_every_run_of_the_list_has_its_constants_and_its_verdict():
    made = record(0.9, majority=0.6)
    entries = read_entries([made])
    text = str(listing(entries, {made.key: RunVerdict("horizon", 7, 500)}))
    assert '"w":"proven to length 7, wrong on tests of length 500"' in text
    assert '"b":{"10":0.5,"500":0.5}' in text
    assert '"j":0.5' in text
    assert str(NOT_CERTIFIED) not in text


def test_scores_that_are_odd_make_a_page(tmp_path):
    odd = [
        record(changed={"in_distribution": None}),
        record(changed={"scores": []}, seed=1, model="lstm"),
        record(changed={"loss": None, "seconds": None, "parameters": None}, seed=2, model="gru"),
        diverged(model="rnn"),
    ]
    assert np.isinf(row_of(diverged()).best.rank[0])
    text = page_with(tmp_path, *odd)
    assert "nan" not in re.search(r'id="results".*?</table>', text, re.DOTALL).group().lower()


def test_models_are_called_as_compare_calls_them():
    made = [record(seed=seed, supervision="aligned") for seed in (0, 1)]
    own = options_of(supervision="aligned").change(model="/a/net.py:Net")
    made.append(record().model_copy(update={"config": own}))
    (task,) = results_of(read_entries(made))
    assert {row.name for row in task.rows} == {"full", "Net"}
    mixed = [record(seed=0, supervision="aligned"), record(seed=0, supervision="final")]
    (task,) = results_of(read_entries(mixed))
    assert {row.name for row in task.rows} == {"full, supervision aligned", "full, supervision final"}


def test_lengths_of_several_are_called_by_what_they_are():
    spanned = record()
    scores = tuple(score.model_copy(update={"span": (300, 499)}) for score in spanned.scores if score.length == 500)
    tasks = results_of(read_entries([spanned.model_copy(update={"scores": scores})]))
    assert length_names(tasks) == {500: "300 to 499"}
    assert length_names(results_of(read_entries([record()])))[500] == "500"


def test_the_loss_is_named_on_the_axis_of_training(tmp_path):
    text = page_with(
        tmp_path, *(record(loss=loss, seed=seed) for loss in ("squared", "cross-entropy") for seed in (0, 1))
    )
    assert "loss: squared error" in text
    assert "loss: cross-entropy" in text
