import math

import pytest

from statewise.errors import UnknownNameError
from statewise.machines import machine
from statewise.papers import read_paper
from statewise.papers.paper import PRESETS
from statewise.training import validate_options

PAPER = read_paper()
# a second transcription of some published rows
TRANSCRIBED = [
    ("table-addition", "full", {2: 1, 3: 1, 5: 1, 10: 1, 25: 1, 50: 1}),
    ("table-addition", "diagonal", {2: 1, 3: 0, 5: 0, 10: 0.10, 25: 0, 50: 0.02}),
    ("table-addition", "block(2)", {2: 1, 3: 1, 5: 1, 10: 1, 25: 1, 50: 1}),
    ("table-addition", "rotation", {2: 1, 3: 0, 5: 1, 10: 0.66, 25: 0.37, 50: 0}),
    ("table-addition", "lstm", {2: 1, 3: 1, 5: 0.98, 10: 1, 25: 0, 50: 0.02}),
    ("table-addition", "mamba(2)", {2: 0, 3: 0.01, 5: 0.01, 10: 0, 25: 0, 50: 0}),
    ("table-addition", "transformer(4)", {2: 0.03, 3: 0.01, 5: 0, 10: 0, 25: 0, 50: 0}),
    ("table-addition", "positive", {}),
    ("table-machine", "full", {2: 1, 5: 1, 10: 1, 25: 1}),
    ("table-machine", "cp(64)", {2: 1, 5: 1, 10: 1, 25: 0.5}),
    ("table-machine", "block(2)", {2: 1, 5: 0, 10: 0, 25: 0}),
    ("table-machine", "lstm", {2: 1, 5: 1, 10: 0, 25: 0}),
    ("table-machine", "mamba(4)", {2: 0, 5: 0, 10: 0, 25: 0}),
    ("table-machine", "mamba(1)", {}),
]
NAMES = [
    "table-addition",
    "table-machine",
    "table-arithmetic",
    "parameters",
    "figure2",
    "figure3",
    "figure4",
    "parity",
    "propositions",
]


@pytest.mark.parametrize(("table", "model", "scores"), TRANSCRIBED)
def test_published_numbers_are_those_of_a_second_transcription(
    table: str, model: str, scores: dict[int, float]
) -> None:
    for column in (2, 3, 5, 10, 25, 50):
        found = PAPER.published(table, model, column)
        assert (found is not None) == (column in scores)
        if found is not None:
            assert found.score == scores[column]
            assert found.where


def test_every_published_number_stands_beside_some_run() -> None:
    planned = {
        name: {row.model for preset in PRESETS for row in PAPER.plan(name, preset)}
        for name in ("table-addition", "table-machine", "table-arithmetic")
    }
    for row in PAPER.published_rows:
        assert set(row.models) <= planned[row.table]
        assert set(row.scores) <= set(PAPER.columns(row.table, "quick"))


def test_every_item_of_the_protocol_is_marked() -> None:
    marks = {item.mark for item in PAPER.protocol.values()}
    assert marks == {"stated", "derived", "follow-up", "unknown"}


def test_names_are_all_that_can_be_repeated() -> None:
    assert sorted(PAPER.names()) == sorted(NAMES)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_every_grid_is_valid_and_the_only_one_of_its_kind(name: str, preset: str) -> None:
    runs = PAPER.runs(name, preset)
    assert bool(runs) == PAPER.trained(name)
    assert len({run.key() for run in runs}) == len(runs)
    for run in runs:
        assert validate_options(run.to_dict()) == run
        assert 500 in run.evaluation.lengths
    for task in {run.task for run in runs if "50" not in run.task}:
        assert machine(task).states >= 2


def test_tables_hold_every_level_under_both_recipes_and_every_baseline() -> None:
    for name in NAMES[:3]:
        rows = {(row.model, row.recipe) for row in PAPER.plan(name, "quick")}
        levels = ["full", "cp(64)", "block(2)", "block(8)", "rotation", "diagonal", "positive"]
        assert {(level, recipe) for level in levels for recipe in ("stated", "statewise")} <= rows
        assert {("lstm", "baseline"), ("mamba(4)", "baseline"), ("transformer(1)", "baseline")} <= rows
        assert PAPER.columns(name, "quick") == (2, 3, 5, 10, 25, 50)


def test_the_paper_preset_is_the_stated_protocol() -> None:
    for row in PAPER.plan("table-addition", "paper"):
        if row.recipe == "statewise":
            continue
        for cell in row.cells:
            assert sorted(run.lr for run in cell.runs) == sorted([1e-5, 1e-4, 1e-3] * 3)
            for run in cell.runs:
                wanted = {"hidden": 256, "embedding": 256, "steps": 100_000, "batch": 64, "supervision": "final"}
                wanted |= {"shortest": 2, "longest": 10, "schedule": "constant", "readout": "plain", "late": 0}
                assert {key: getattr(run, key) for key in wanted} == wanted


def test_a_random_machine_is_drawn_by_each_run_s_seed() -> None:
    for run in PAPER.runs("table-machine", "quick"):
        assert f"seed={run.seed}," in run.task


@pytest.mark.parametrize(("preset", "machines"), [("quick", 3), ("paper", 5)])
def test_no_random_permutation_machine_is_decided_by_the_length_of_sequences_alone(preset: str, machines: int) -> None:
    tasks = {run.task for run in PAPER.runs("table-machine", preset) if "permutation" in run.task}
    assert len({task for task in tasks if "(2," in task}) == machines
    for task in tasks:
        arrows = machine(task).delta
        assert any(len(set(row)) > 1 for row in arrows.tolist()), task


def test_figure4_is_of_runs_of_the_table() -> None:
    table = {run.key() for run in PAPER.runs("table-addition", "quick")}
    assert {run.key() for run in PAPER.runs("figure4", "quick")} <= table


@pytest.mark.parametrize("name", ["", "tabel-addition", "../ebrahimi2025", "figure2\n", "x" * 10_000, "figure1"])
def test_unknown_names_are_refused_in_one_sentence(name: str) -> None:
    for ask in (
        lambda: PAPER.runs(name, "quick"),
        lambda: PAPER.runs("figure2", name),
        lambda: PAPER.plan(name, "quick"),
        lambda: PAPER.title(name),
        lambda: read_paper(name),
    ):
        with pytest.raises(UnknownNameError) as caught:
            ask()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_a_preset_is_refused_for_what_takes_no_runs_too() -> None:
    with pytest.raises(UnknownNameError, match="preset"):
        PAPER.runs("parity", "slow")


def test_the_tolerance_and_the_length_are_the_paper_s() -> None:
    assert PAPER.length == 500
    assert math.isclose(PAPER.tolerance, 0.05)
    assert (PAPER.hidden, PAPER.steps) == (256, 100_000)
