import json
from typing import Any

import pytest

from statewise.papers import Cell, Table, as_json, read_paper, table_of
from statewise.papers.paper import PlannedCell
from statewise.papers.verdicts import Evidence, explain, judge
from tests.papers.synthetic import failed, record

PAPER = read_paper()


def planned(model: str, recipe: str, m: int, name: str = "table-addition", label: str = "") -> PlannedCell:
    rows = [
        row for row in PAPER.plan(name, "quick") if (row.model, row.recipe) == (model, recipe) and label in row.label
    ]
    return next(cell for cell in rows[0].cells if cell.column == m)


def cell_of(table: Table, model: str, recipe: str, m: int) -> Cell:
    row = next(row for row in table.rows if (row.model, row.recipe) == (model, recipe))
    return next(cell for cell in row.cells if cell.m == m)


def made(model: str, recipe: str, m: int, records: list[dict[str, Any]], name: str = "table-addition") -> Cell:
    return cell_of(table_of(PAPER, name, "quick", records), model, recipe, m)


def test_the_best_rate_is_that_of_the_highest_median() -> None:
    scores = {3e-3: [1.0, 0.0, 0.1], 1e-3: [0.5, 0.6, 0.4], 3e-4: [0.0, 0.0, 0.9]}
    configs = planned("full", "stated", 5).configs
    records = [record(config, scores[config["lr"]][config["seed"]]) for config in configs]
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
    records = [record(config, score) for config in planned("rotation", "statewise", 10).configs]
    cell = made("rotation", "statewise", 10, records)
    assert cell.verdict == verdict
    assert bool(cell.note) == (verdict != "agrees")


def test_above_the_paper_says_what_the_algebra_allows() -> None:
    records = [record(config, 1.0) for config in planned("rotation", "statewise", 3).configs]
    cell = made("rotation", "statewise", 3, records)
    assert cell.verdict == "above the paper"
    assert "the algebra allows 1.00" in cell.note
    assert "the last hidden state is normalised, and words grow to 10,240" in cell.note
    assert cell.budget == "H 64, 2,000 steps, words up to 10,240, 1 rate x 3 seeds"
    assert cell.ceiling == 1


def test_no_record_is_not_run_and_no_published_number_is_said_so() -> None:
    table = table_of(PAPER, "table-addition", "quick", [])
    assert {cell.verdict for row in table.rows for cell in row.cells} == {"not run"}
    assert all(cell.best is None and not cell.scores and not cell.runs for row in table.rows for cell in row.cells)
    records = [record(config, 0.0) for config in planned("positive", "statewise", 5).configs]
    assert made("positive", "statewise", 5, records).verdict == "not published"


def test_runs_that_diverged_count_as_chance_and_those_that_failed_not_at_all() -> None:
    configs = planned("full", "statewise", 5).configs
    assert len(configs) == 3
    broken = record(configs[1], 0.0, status="diverged", scores=[], in_distribution=None)
    cell = made("full", "statewise", 5, [record(configs[0], 1.0), broken, failed(configs[2])])
    assert sorted(cell.scores) == [0.0, 1.0]
    assert cell.best == 0.5
    assert "1 run diverged" in cell.note
    assert "there was no memory" in cell.note
    cell = made("full", "statewise", 5, [failed(config) for config in configs])
    assert cell.verdict == "not run"
    assert "3 could not be run" in cell.note


def test_a_run_that_failed_gives_way_to_one_that_did_not() -> None:
    configs = planned("full", "statewise", 5).configs
    records = [failed(configs[0]), record(configs[0], 1.0), failed(configs[0])]
    cell = made("full", "statewise", 5, records)
    assert cell.scores == [1.0]
    assert cell.budget.endswith("1 of 3 runs so far")


def test_records_of_other_runs_are_left_out() -> None:
    config = planned("full", "statewise", 5).configs[0]
    others = [
        record(config | {"hidden": 32}, 1.0),
        record(config | {"seed": 77}, 1.0),
        {"key": "0" * 32, "status": "done", "config": {"task": "null"}},
        record(config, 1.0) | {"config": config | {"lr": "fast"}},
    ]
    assert made("full", "statewise", 5, others).verdict == "not run"


def test_a_record_older_than_an_option_still_counts() -> None:
    config = planned("full", "statewise", 5).configs[0]
    older = {key: value for key, value in config.items() if key != "late_until"}
    assert made("full", "statewise", 5, [record(config, 1.0) | {"config": older}]).scores == [1.0]


def test_machines_drawn_per_run_share_a_cell_and_its_ceiling() -> None:
    configs = planned("rotation", "statewise", 10, "table-machine").configs
    cell = made("rotation", "statewise", 10, [record(config, 0.0) for config in configs], "table-machine")
    assert cell.task == "random_machine(10, seed={seed}, kind=permutation)"
    assert cell.ceiling == pytest.approx(0)
    below = [record(config, 0.4, inside=0.6) for config in planned("full", "statewise", 10, "table-machine").configs]
    assert "permutations or maps" in made("full", "statewise", 10, below, "table-machine").note


def test_scores_at_longer_words_are_kept_beside() -> None:
    configs = planned("full", "statewise", 5).configs
    records = [record(config, 1.0) for config in configs]
    for one in records:
        one["scores"][-1]["score"] = 0.25
    cell = made("full", "statewise", 5, records)
    assert cell.longest == 10_000
    assert cell.longer == [0.25, 0.25, 0.25]
    assert cell.best == 1


def test_a_table_is_plain_values() -> None:
    table = table_of(PAPER, "figure2", "quick", [])
    assert table.column == "samples"
    written = json.loads(json.dumps(as_json(table)))
    assert written["columns"] == table.columns
    assert {"label", "model", "recipe", "cells"} == written["rows"][0].keys()


@pytest.mark.parametrize(("score", "said"), [(0.11, "at the algebraic ceiling of 0.11"), (0.4, "above 0.11")])
def test_a_score_is_set_beside_its_ceiling(score: float, said: str) -> None:
    evidence = Evidence(
        config=planned("diagonal", "statewise", 10).configs[0],
        recipe="statewise",
        best=score,
        published=0.0,
        ceiling=1 / 9,
        ceiling_reason="it sees whether counts of symbols are even",
        inside=score,
        guess=0.0,
        loss=1.0,
        diverged=0,
        failed=[],
        paper_hidden=256,
        paper_steps=100_000,
    )
    assert said in explain(evidence, judge(score, 0.0, 0.05, score, 1 / 9))


def test_where_all_rates_are_at_chance_the_one_that_learned_most_speaks() -> None:
    configs = planned("rotation", "stated", 25).configs
    fast = max(config["lr"] for config in configs)
    records = [record(c, -0.01, inside=1.0) if c["lr"] == fast else record(c, 0.03, inside=0.1) for c in configs]
    cell = made("rotation", "stated", 25, records)
    assert cell.inside == [1.0, 1.0, 1.0]
    assert cell.best == -0.01
    assert "drift: 1.00 on short words" in cell.note
    # among equals the highest score speaks
    equal = [record(c, 0.01 if c["lr"] == 1e-3 else -0.2) for c in configs]
    assert made("rotation", "stated", 25, equal).best == 0.01
    above = [record(c, 0.3 if c["lr"] != fast else 0.0, inside=0.4 if c["lr"] != fast else 1.0) for c in configs]
    assert made("rotation", "stated", 25, above).best == 0.3


@pytest.mark.parametrize(
    ("best", "published", "inside", "ceiling", "verdict"),
    [
        (0.02, 0.0, 0.3, None, "not learned"),
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
    records = [record(config, 0.2, loss=loss) for config in planned("full", "stated", 5).configs]
    assert said in made("full", "stated", 5, records).note


def test_what_a_level_lacks_is_named() -> None:
    configs = planned("cp(64)", "statewise", 10, "table-machine").configs
    cell = made("cp(64)", "statewise", 10, [record(config, 0.0, inside=0.2) for config in configs], "table-machine")
    assert "one-hot states need rank" in cell.note
    assert "whether rank 64 is enough" in cell.note


def scored(config: dict[str, Any], correct: int, count: int, classes: int, majority: float = 0.0) -> dict[str, Any]:
    one = record(config, 0.0)
    accuracy, chance = correct / count, 1 / classes
    words = {"count": count, "classes": classes, "majority": majority or chance, "accuracy": accuracy}
    one["scores"] = [{"length": 500, "score": (accuracy - chance) / (1 - chance), **words}]
    return one


def test_few_words_tell_no_small_difference() -> None:
    configs = planned("lstm", "baseline", 50).configs
    assert made("lstm", "baseline", 50, [scored(c, 55, 100, 2) for c in configs]).verdict == "agrees"
    assert made("lstm", "baseline", 50, [scored(c, 5500, 10_000, 2) for c in configs]).verdict == "above the paper"


def test_a_constant_guess_is_told() -> None:
    configs = planned("full", "statewise", 2, "table-machine").configs
    records = [scored(config, 500, 500, 2, majority=1.0) for config in configs]
    cell = made("full", "statewise", 2, records, "table-machine")
    assert cell.guess == 1.0
    assert "the most frequent output scores 1.00" in cell.note
    assert made("full", "statewise", 2, [scored(c, 500, 500, 2, 0.5) for c in configs], "table-machine").note == ""
