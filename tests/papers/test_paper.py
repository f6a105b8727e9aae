import json
import math
import tomllib
from importlib import resources

import pytest
from pydantic import ValidationError

from statewise.errors import UnknownNameError
from statewise.machines import machine
from statewise.models.table import BASELINES, kind_of
from statewise.papers import Paper, read_paper
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
    ("table-machine", "cp(512)", {2: 1, 5: 1, 10: 1, 25: 0.5}),
    ("table-machine", "block(2)", {2: 1, 5: 0, 10: 0, 25: 0}),
    ("table-machine", "lstm", {2: 1, 5: 1, 10: 0, 25: 0}),
    ("table-machine", "mamba(4)", {2: 0, 5: 0, 10: 0, 25: 0}),
    ("table-machine", "mamba(1)", {}),
]
NAMES = [
    "table-addition",
    "table-machine",
    "table-arithmetic",
    "losses",
    "parameters",
    "figure2",
    "figure3",
    "figure4",
    "audit",
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
        assert set(row.scores) <= set(PAPER.columns(row.table, "paper"))


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


READINGS = ("stated", "normalised", "squared", "statewise")


def test_tables_hold_every_level_under_all_readings_and_every_baseline_under_both_losses() -> None:
    for name in NAMES[:3]:
        rows = {(row.model, row.reading) for row in PAPER.plan(name, "quick")}
        levels = ["full", "cp(64)", "block(2)", "block(8)", "rotation", "diagonal"]
        assert {(level, reading) for level in levels for reading in READINGS} <= rows
        # nothing is published of Mamba and the Transformer on arithmetic
        slow = () if name == "table-arithmetic" else ("mamba", "transformer")
        for kind in ("rnn", "lstm", *slow):
            assert {reading for model, reading in rows if model.split("(")[0] == kind} == {"stated", "squared"}


@pytest.mark.parametrize("preset", PRESETS)
def test_readings_of_the_protocol_differ_in_nothing_but_what_they_set(preset: str) -> None:
    """Each run to the letter has its counterpart under the other readings, with one option changed."""
    for name in (*NAMES[:3], "figure2", "figure3"):
        rows = {(row.label, row.reading): row for row in PAPER.plan(name, preset)}
        for (label, reading), row in rows.items():
            if reading not in ("normalised", "squared"):
                continue
            letter = rows[label, "stated"]
            changed = {"readout": "normalised"} if reading == "normalised" else {"loss": "squared"}
            assert [cell.column for cell in row.cells] == [cell.column for cell in letter.cells]
            for cell, plain in zip(row.cells, letter.cells, strict=True):
                assert [run.change(**changed) for run in plain.runs] == list(cell.runs)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_protocol_keeps_lengths_batch_and_a_constant_rate(preset: str) -> None:
    for name in NAMES[:3]:
        for row in PAPER.plan(name, preset):
            # quick baselines get what they need to learn the training lengths, the same for all
            if row.reading == "statewise" or (preset == "quick" and row.model.split("(")[0] in BASELINES):
                continue
            wanted = {"recipe": "stated", "batch": 64, "shortest": 2, "longest": 10, "schedule": "constant", "late": 0}
            for run in (run for cell in row.cells for run in cell.runs):
                assert {key: getattr(run, key) for key in wanted} == wanted
                assert not run.polish
                assert run.growth_share == 0


def test_the_paper_preset_is_the_stated_protocol() -> None:
    for row in PAPER.plan("table-addition", "paper"):
        if row.reading == "statewise":
            continue
        for cell in row.cells:
            assert sorted(run.lr for run in cell.runs) == sorted([1e-5, 1e-4, 1e-3] * 3)
            for run in cell.runs:
                wanted = {"hidden": 256, "embedding": 256, "steps": 100_000, "supervision": "final"}
                assert {key: getattr(run, key) for key in wanted} == wanted


def test_ours_is_on_seeds_of_its_own_and_polished_where_that_can_be() -> None:
    for name in NAMES[:3]:
        for row in PAPER.plan(name, "quick"):
            for run in (run for cell in row.cells for run in cell.runs):
                assert (run.seed >= 30) == (row.reading == "statewise")
                assert run.polish == (row.reading == "statewise" and row.model != "positive")
    for run in PAPER.runs("figure3", "quick"):
        assert not run.polish


@pytest.mark.parametrize("name", NAMES[:3])
def test_baselines_of_a_table_have_one_supervision(name: str) -> None:
    rows = [row for row in PAPER.plan(name, "quick") if kind_of(row.model) in BASELINES.values()]
    assert {run.supervision for row in rows for cell in row.cells for run in cell.runs} == {"aligned"}


def test_factored_rows_have_rank_enough_for_addition() -> None:
    ranks = {}
    for row in PAPER.plan("table-addition", "quick"):
        if row.model.startswith("cp("):
            ranks |= {cell.column: int(row.model[3:-1]) for cell in row.cells}
    assert ranks.keys() == {2, 3, 5, 10, 25, 50}
    assert all(rank >= 2 * m - m // 2 - 1 for m, rank in ranks.items())


def test_a_block_may_name_its_columns() -> None:
    rows = {row.model: row for row in PAPER.plan("table-machine", "quick") if row.reading == "stated"}
    assert [cell.column for cell in rows["cp(512)"].cells] == [10, 25]
    assert [cell.column for cell in rows["full"].cells] == list(PAPER.columns("table-machine", "quick"))


def test_on_equal_terms_runs_differ_in_model_task_rate_seed_readout_and_loss_alone() -> None:
    may = {"task", "model", "lr", "seed", "readout", "loss", "test_lengths"}
    runs = PAPER.runs("losses", "quick")
    same = {tuple((name, value) for name, value in run if name not in may) for run in runs}
    assert len(same) == 1
    for row in PAPER.plan("losses", "quick"):
        assert {run.readout for cell in row.cells for run in cell.runs} == {
            "normalised" if row.model in ("full", "block(2)") else "plain"
        }
        for cell in row.cells:
            assert len({run.lr for run in cell.runs}) == 2
    assert {row.reading for row in PAPER.plan("losses", "quick")} == {"equal-cross-entropy", "equal-squared"}
    assert all(isinstance(column, str) for column in PAPER.columns("losses", "quick"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('readings = ["stated", "squared"], models = "slow"', 'readings = ["squred"], models = "slow"', "reading"),
        ('models = "slow", columns', 'models = "fast", columns', "list of models"),
        ('models = ["cp(128)"], columns = [50]', 'models = ["cp(128)"], columns = [51]', "column"),
        ('readings = ["stated", "normalised", "squared"]\nrates', 'readings = ["baseline"]\nrates', "reading"),
        ('grids = ["losses"]\nseeds', 'grids = ["loses"]\nseeds', "grid"),
    ],
)
def test_a_file_that_names_what_it_does_not_have_is_refused(old: str, new: str, said: str) -> None:
    text = (resources.files("statewise.papers") / "ebrahimi2025.toml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(ValidationError, match=f"unknown {said}"):
        Paper.model_validate_json(json.dumps(tomllib.loads(text.replace(old, new))))


def test_a_random_machine_is_drawn_by_each_run_s_seed() -> None:
    for run in PAPER.runs("table-machine", "quick"):
        assert f"seed={run.seed}," in run.task


@pytest.mark.parametrize(("preset", "machines"), [("quick", 8), ("paper", 8)])
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


def test_slow_models_are_run_only_where_that_is_asked_for():
    every, quick = PAPER.runs("table-addition", "quick"), PAPER.runs("table-addition", "quick", slow=False)
    assert [run for run in every if not run.model.startswith(("mamba", "transformer"))] == quick
    assert len(quick) < len(every)
    # the published budget leaves nothing out
    assert PAPER.runs("table-addition", "paper", slow=False) == PAPER.runs("table-addition", "paper")
