import json

import pytest

from statewise.papers import Cell, Table, headings_of, lines_of, read_paper, table_of
from statewise.papers.paper import PlannedCell
from statewise.papers.verdicts import Evidence, explain, judge
from statewise.runs import Record
from statewise.training import RunOptions
from tests.papers.synthetic import failed, record

PAPER = read_paper()


def planned(model: str, reading: str, m: int | str, name: str = "table-addition", label: str = "") -> PlannedCell:
    rows = [
        row for row in PAPER.plan(name, "quick") if (row.model, row.reading) == (model, reading) and label in row.label
    ]
    return next(cell for cell in rows[0].cells if cell.column == m)


def cell_of(table: Table, model: str, reading: str, m: int | str) -> Cell:
    row = next(row for row in table.rows if (row.model, row.reading) == (model, reading))
    return next(cell for cell in row.cells if cell.column == m)


def made(model: str, reading: str, m: int | str, records: list[Record], name: str = "table-addition") -> Cell:
    return cell_of(table_of(PAPER, name, "quick", records), model, reading, m)


def test_the_best_rate_is_that_of_the_highest_median() -> None:
    scores = {3e-3: [1.0, 0.0, 0.1], 1e-3: [0.5, 0.6, 0.4], 3e-4: [0.0, 0.0, 0.9]}
    options = planned("full", "stated", 5).runs
    records = [record(run, scores[run.lr][run.seed]) for run in options]
    # a store has them in any order
    cell = made("full", "stated", 5, records[::-1])
    assert cell.best == cell.median == 0.5
    assert sorted(cell.scores) == [0.4, 0.5, 0.6]
    assert {rate: sorted(values) for rate, values in cell.by_rate.items()} == {
        "0.003": [0.0, 0.1, 1.0],
        "0.001": [0.4, 0.5, 0.6],
        "0.0003": [0.0, 0.0, 0.9],
    }
    assert cell.verdict == "below the paper"
    assert cell.published == 1.0
    assert cell.budget == "H 64, 3,000 steps, 3 rates x 3 seeds"
    assert len(cell.runs) == cell.planned == 9
    assert "drift" in cell.note
    assert "3,000 of 100,000 steps" in cell.note


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(0.66, "agrees"), (0.61, "agrees"), (0.71, "agrees"), (0.6, "below the paper"), (0.72, "above the paper")],
)
def test_scores_within_the_tolerance_agree(score: float, verdict: str) -> None:
    records = [record(run, score) for run in planned("rotation", "statewise", 10).runs]
    cell = made("rotation", "statewise", 10, records)
    assert cell.verdict == verdict
    assert bool(cell.note) == (verdict != "agrees")


def test_above_the_paper_says_what_the_algebra_allows() -> None:
    records = [record(run, 1.0) for run in planned("rotation", "statewise", 3).runs]
    cell = made("rotation", "statewise", 3, records)
    assert cell.verdict == "above the paper"
    assert "the algebra allows 1.00" in cell.note
    assert "another training: " in cell.note
    assert "lengths follow a curriculum" in cell.note
    assert cell.budget.endswith("1 rate x 5 seeds")
    assert cell.ceiling == 1


def test_no_record_is_not_run_and_no_published_number_is_not_published() -> None:
    table = table_of(PAPER, "table-addition", "quick", [])
    assert {cell.verdict for row in table.rows for cell in row.cells} == {"not run"}
    assert all(cell.best is None and not cell.scores and not cell.runs for row in table.rows for cell in row.cells)
    records = [record(run, 0.0) for run in planned("cp(64)", "statewise", 5).runs]
    assert made("cp(64)", "statewise", 5, records).verdict == "not published"


def test_runs_that_diverged_count_as_chance_and_those_that_failed_not_at_all() -> None:
    options = planned("full", "statewise", 5).runs[:3]
    broken = record(options[1], 0.0, status="diverged", scores=[], in_distribution=None)
    cell = made("full", "statewise", 5, [record(options[0], 1.0), broken, failed(options[2])])
    assert sorted(cell.scores) == [0.0, 1.0]
    assert cell.best == 0.5
    assert "1 run diverged" in cell.note
    assert "there was no memory" in cell.note
    cell = made("full", "statewise", 5, [failed(run) for run in options])
    assert cell.verdict == "not run"
    assert "3 could not be run" in cell.note


def test_a_run_that_failed_gives_way_to_one_that_did_not() -> None:
    options = planned("full", "statewise", 5).runs
    records = [failed(options[0]), record(options[0], 1.0), failed(options[0])]
    cell = made("full", "statewise", 5, records)
    assert cell.scores == (1.0,)
    assert cell.budget.endswith("1 of 5 runs so far")


def test_records_of_other_runs_are_left_out() -> None:
    run = planned("full", "statewise", 5).runs[0]
    others = [record(run.change(**changed), 1.0) for changed in ({"hidden": 32}, {"seed": 77}, {"task": "null"})]
    assert made("full", "statewise", 5, others).verdict == "not run"


def test_a_record_older_than_an_option_still_counts() -> None:
    run = planned("full", "statewise", 5).runs[0]
    older = {key: value for key, value in run.to_dict().items() if key != "late_until"}
    assert made("full", "statewise", 5, [record(run, 1.0, config=older)]).scores == (1.0,)


def test_machines_drawn_per_run_share_a_cell_and_its_ceiling() -> None:
    options = planned("rotation", "statewise", 10, "table-machine").runs
    cell = made("rotation", "statewise", 10, [record(run, 0.0) for run in options], "table-machine")
    assert cell.task == "random_machine(10, seed={seed}, kind=permutation)"
    assert cell.ceiling == pytest.approx(0)
    below = [record(run, 0.4, inside=0.6) for run in planned("full", "statewise", 10, "table-machine").runs]
    assert "permutations or maps" in made("full", "statewise", 10, below, "table-machine").note


def test_scores_at_longer_lengths_are_kept_beside() -> None:
    options = planned("full", "statewise", 5).runs
    scores = [{"length": 500, "score": 1.0}, {"length": 10_000, "score": 0.25}]
    records = [record(run, 1.0, scores=scores) for run in options]
    cell = made("full", "statewise", 5, records)
    assert cell.longest == 10_000
    assert cell.longer == (0.25,) * 5
    assert cell.score_longest == 0.25
    assert cell.best == 1


def test_a_table_is_plain_values() -> None:
    table = table_of(PAPER, "figure2", "quick", [])
    assert table.column == "samples"
    written = json.loads(json.dumps(table.to_dict()))
    assert written == table.to_dict()
    assert tuple(written["columns"]) == table.columns
    assert {"label", "model", "reading", "cells"} == written["rows"][0].keys()
    assert written["readings"]["statewise"] == "ours"


@pytest.mark.parametrize(
    ("score", "said"), [(0.11, "at the algebraic ceiling of 0.11"), (0.4, "above the algebraic ceiling of 0.11")]
)
def test_a_score_is_set_beside_its_ceiling(score: float, said: str) -> None:
    evidence = Evidence(
        options=planned("diagonal", "statewise", 10).runs[0],
        best=score,
        published=0.0,
        ceiling=1 / 9,
        ceiling_reason="it sees whether counts of symbols are even",
        inside=score,
        constant=0.0,
        loss=1.0,
        diverged=0,
        failed=(),
        paper_hidden=256,
        paper_steps=100_000,
    )
    assert said in explain(evidence, judge(score, 0.0, 0.05, score, 1 / 9))


def test_where_all_rates_are_at_chance_the_one_that_learned_most_counts() -> None:
    options = planned("rotation", "stated", 25).runs
    fast = max(run.lr for run in options)
    records = [record(c, -0.01, inside=1.0) if c.lr == fast else record(c, 0.03, inside=0.1) for c in options]
    cell = made("rotation", "stated", 25, records)
    assert set(cell.inside) == {1.0}
    assert cell.best == -0.01
    assert "drift: 1.00 on training lengths" in cell.note
    # among equals the highest score counts
    equal = [record(c, 0.01 if c.lr == 1e-3 else -0.2) for c in options]
    assert made("rotation", "stated", 25, equal).best == 0.01
    above = [record(c, 0.3 if c.lr != fast else 0.0, inside=0.4 if c.lr != fast else 1.0) for c in options]
    assert made("rotation", "stated", 25, above).best == 0.3


@pytest.mark.parametrize(
    ("best", "published", "inside", "ceiling", "verdict"),
    [
        (0.02, 0.0, 0.3, None, "not learned"),
        (0.02, 0.0, 0.98, None, "not learned"),
        (0.02, 0.0, 0.99, None, "agrees"),
        (0.02, 0.0, 0.02, 0.0, "agrees"),
        (-0.2, 0.0, 0.99, None, "agrees"),
        (-0.2, 1.0, 0.99, 1.0, "below the paper"),
        (1.0, 0.37, 1.0, 1.0, "above the paper"),
        (None, 0.37, None, 1.0, "not run"),
        (1.0, None, 1.0, 1.0, "not published"),
    ],
)
def test_verdicts(
    best: float | None, published: float | None, inside: float | None, ceiling: float | None, verdict: str
):
    assert judge(best, published, 0.05, inside, ceiling) == verdict


@pytest.mark.parametrize(
    ("loss", "said"), [(1e-6, "until the loss vanishes"), (9720.0, "to 9,720"), (0.5, "normalised in training;")]
)
def test_the_reason_for_drift_is_what_the_loss_did(loss: float, said: str) -> None:
    records = [record(run, 0.2, loss=loss) for run in planned("full", "stated", 5).runs]
    assert said in made("full", "stated", 5, records).note


def test_what_a_level_lacks_is_named() -> None:
    options = planned("cp(64)", "statewise", 10, "table-machine").runs
    cell = made("cp(64)", "statewise", 10, [record(run, 0.0, inside=0.2) for run in options], "table-machine")
    assert "one-hot states need rank" in cell.note
    assert "whether rank 64 is enough" in cell.note


def scored(run: RunOptions, correct: int, count: int, classes: int, majority: float = 0.0) -> Record:
    accuracy, chance = correct / count, 1 / classes
    counts = {"count": count, "classes": classes, "majority": majority or chance, "accuracy": accuracy}
    return record(run, 0.0, scores=[{"length": 500, "score": (accuracy - chance) / (1 - chance), **counts}])


def test_few_sequences_show_no_small_difference() -> None:
    options = planned("lstm", "stated", 50).runs
    assert made("lstm", "stated", 50, [scored(c, 55, 100, 2) for c in options]).verdict == "agrees"
    assert made("lstm", "stated", 50, [scored(c, 5500, 10_000, 2) for c in options]).verdict == "above the paper"


def test_a_score_no_better_than_a_constant_answer_is_noted() -> None:
    options = planned("full", "statewise", 2, "table-machine").runs
    records = [scored(run, 500, 500, 2, majority=1.0) for run in options]
    cell = made("full", "statewise", 2, records, "table-machine")
    assert cell.guess == 1.0
    assert "the most frequent output scores 1.00" in cell.note
    assert made("full", "statewise", 2, [scored(c, 500, 500, 2, 0.5) for c in options], "table-machine").note == ""


def polish(horizon: int | None, score: float, status: str = "converged") -> dict[str, object]:
    scores = [{"length": length, "score": score} for length in (10, 500, 10_000)]
    return {"status": status, "horizon": horizon, "scores": scores}


def test_what_polish_reached_is_the_median_score_and_the_least_proven_length() -> None:
    options = planned("full", "statewise", 5).runs
    found = [
        polish(10**12, 1.0),
        polish(10**6, 1.0),
        polish(10**9, 0.8),
        polish(None, 1.0),
        polish(10**3, 0.0, "not converged"),
    ]
    records = [record(run, 0.5, polished=one) for run, one in zip(options, found, strict=True)]
    cell = made("full", "statewise", 5, records)
    assert cell.best == 0.5
    assert cell.score_polished == 1.0
    assert sorted(cell.polished) == [0.0, 0.8, 1.0, 1.0, 1.0]
    assert cell.converged == 4
    # a polish that did not converge proves nothing
    assert cell.horizon == 10**6
    assert len(cell.proven) == 3


def test_a_seed_whose_polish_had_nothing_to_solve_counts_as_it_was_trained() -> None:
    options = planned("block(2)", "statewise", 5).runs
    records = [record(run, 0.25, polished={"status": "refused", "reason": "no block is coherent"}) for run in options]
    cell = made("block(2)", "statewise", 5, records)
    assert cell.score_polished == 0.25
    assert (cell.converged, cell.horizon) == (0, None)
    assert made("block(2)", "statewise", 5, [record(run, 0.25) for run in options]).polished == ()


def test_on_equal_terms_the_rate_is_chosen_by_training_lengths_and_never_by_the_test() -> None:
    options = planned("lstm", "equal-squared", "addition 25", "losses").runs
    fast = max(run.lr for run in options)
    records = [record(run, 0.2, inside=1.0) if run.lr == fast else record(run, 1.0, inside=0.98) for run in options]
    cell = made("lstm", "equal-squared", "addition 25", records, "losses")
    assert (cell.best, cell.score_id) == (0.2, 1.0)
    # among equals the lower loss counts
    records = [record(run, 0.2 if run.lr == fast else 1.0, loss=1e-6 if run.lr == fast else 1e-3) for run in options]
    assert made("lstm", "equal-squared", "addition 25", records, "losses").best == 0.2


def test_lines_have_a_reading_beside_the_other_and_name_what_is_missing() -> None:
    options = [run for reading in ("stated", "statewise") for run in planned("full", reading, 5).runs]
    records = [
        record(run, 1.0, polished=polish(2 * 10**12, 1.0) if run.seed < 33 else polish(None, 0.9, "not converged"))
        if run.polish
        else record(run, 0.1)
        for run in options
    ]
    table = table_of(PAPER, "table-addition", "quick", records)
    (line,) = [line for line in lines_of(table) if (line.model, line.column) == ("full", 5)]
    shown = {heading.key: line.text(heading) for heading in headings_of(table)}
    assert shown == {
        "paper": "1.00",
        "stated_test": "0.10",
        "normalised_test": "–",
        "squared_test": "–",
        "statewise_test": "1.00",
        "statewise_longest": "1.00",
        "statewise_polished": "1.00",
        "statewise_proven": "2.0e12 (3/5)",
        "ceiling": "1.00",
    }
    assert line.has_run
    assert sum(line.has_run for line in lines_of(table)) == 1
    marks = {heading.key: line.mark(heading) for heading in headings_of(table)}
    assert (marks["stated_test"], marks["statewise_test"], marks["statewise_longest"]) == ("↓", "=", "")


def test_a_table_shows_only_what_its_runs_measure() -> None:
    keys = {name: [h.key for h in headings_of(table_of(PAPER, name, "quick", []))] for name in PAPER.grids}
    assert "statewise_polished" not in keys["figure3"]
    assert "statewise_longest" not in keys["figure2"]
    assert "statewise_polished" in keys["figure2"]
    assert keys["losses"][-2:] == ["constant", "ceiling"]
    assert "paper" not in keys["losses"]
