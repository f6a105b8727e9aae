"""Run directories written by format 1 still open, resume, evaluate and certify."""

import json
import shutil
from pathlib import Path

import pytest

import statewise as sw
from statewise.errors import RunError
from statewise.runs import PlannedRun, execute_one
from statewise.training import evaluate_model

FILES = Path(__file__).parent / "format1"
EXPECTED = json.loads((FILES / "expected.json").read_text())
DIRECTORIES = [name for name in EXPECTED if (FILES / name).is_dir()]
MADE = {"compiled": "compiled", "snapped": "snapped", "learned": "learned"}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories_open_and_score_as_they_did(name):
    run = sw.load(FILES / name)
    scores = evaluate_model(run.model, run.task, [10, 40], 100, 1)
    assert [score.correct for score in scores] == pytest.approx(EXPECTED[name], abs=2)
    assert run.trained == (name not in MADE)
    if name in MADE:
        assert run.manifest.origin == MADE[name]
        assert run.manifest.format == 1
        assert sw.certify(run, seconds=0.0).status == "proven"


@pytest.mark.parametrize("name", ["halfway-full", "halfway-lstm"])
def test_interrupted_runs_are_resumed(name, tmp_path):
    shutil.copytree(FILES / name, tmp_path / "run")
    options = sw.load(tmp_path / "run").options
    steps = []
    run = execute_one(PlannedRun(options, tmp_path / "run"), lambda member, metrics, total: steps.append(metrics.step))
    assert steps == [60]
    assert [metrics.step for metrics in run.record.history] == [20, 40, 60]
    expected = EXPECTED[f"{name}-finished"]
    assert run.record.loss == pytest.approx(expected["loss"], rel=1e-6)
    assert [score.correct for score in run.record.scores] == pytest.approx(expected["correct"], abs=2)


def test_finished_runs_are_not_trained_again(tmp_path):
    shutil.copytree(FILES / "trained-full", tmp_path / "run")
    before = json.loads((tmp_path / "run" / "record.json").read_text())
    run = sw.load(tmp_path / "run")
    again = execute_one(PlannedRun(run.options, tmp_path / "run"), lambda *anything: pytest.fail("it was trained"))
    assert again.record.to_dict() == before == run.record.to_dict()
    assert run.record.format == 1
    with pytest.raises(RunError, match="holds a run with seed=0, not 7"):
        execute_one(PlannedRun(run.options.change(seed=7), tmp_path / "run"), lambda *anything: None)


def test_a_run_on_a_file_that_is_gone_has_its_machine():
    run = sw.load(FILES / "trained-file")
    assert run.options.task == "cyc.json"
    assert run.machine == sw.machine("cyclic(3)")
    assert sw.evaluate(run, lengths=[10], words=20).scores[0].count == 20
