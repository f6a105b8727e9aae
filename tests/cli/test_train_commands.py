"""Runs from the command line: train and eval, bad calls, Ctrl-C, progress."""

import json
import os
import pty
import re
import signal
import subprocess
from contextlib import suppress

import pytest

import statewise as sw
from statewise.errors import RunError
from statewise.training.checkpoints import read_checkpoint
from tests.command import STATEWISE, started, statewise, until


def test_train_and_eval_from_the_command_line(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "parity"\nmodel = "diagonal"\nsteps = 60\nevery = 20\nhidden = 8\nwords = 50\n')
    done = statewise("train", "--config", file, "--seed", "1", "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"run", "score_id", "score_ood", "steps", "seconds"} <= result.keys()
    assert done.stderr == ""
    assert json.loads((tmp_path / "run" / "config.json").read_text())["options"]["seed"] == 1
    plot = tmp_path / "scores.png"
    done = statewise("eval", tmp_path / "run", "--lengths", "10,500", "--words", "50", "--plot", plot, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["lengths"] == [10, 500]
    assert len(result["accuracy"]) == len(result["score"]) == 2
    assert plot.read_bytes().startswith(b"\x89PNG")


BAD_CALLS = [
    (["--model", "full"], "no task"),
    (["--task", "parity"], "no model"),
    (["--task", "party", "--model", "full"], 'did you mean "parity"'),
    (["--task", "parity", "--model", "ful"], 'did you mean "full"'),
    (["--task", "modular_addition(1)", "--model", "full"], "at least 2"),
    (["--task", "parity", "--model", "full", "--hidden", "0"], "hidden"),
    (["--task", "parity", "--model", "rotation", "--hidden", "7"], "even hidden size"),
    (["--task", "parity", "--model", "full", "--longest", "1"], "swap them"),
    (["--task", "parity", "--model", "full", "--lr", "nan"], "lr is nan"),
    (["--task", "parity", "--model", "full", "--threads", "0"], "threads"),
    (["--task", "parity", "--model", "full", "--seed", "99999999999999999999"], "seed"),
    (["--task", "parity", "--model", "full", "--samples", "9", "--late", "20"], "one distribution"),
    (["--config", "evaluations.toml"], "config key every"),
    (["--task", "parity", "--model", "full", "--steps", "x"], "steps"),
    (["--task", "parity", "--model", "full", "--recipe", "statd"], 'did you mean "stated"'),
    (["--task", "parity", "--model", "full", "--readout", "soft"], "readout"),
    (["--task", "parity", "--model", "lstm", "--embedding", "3"], "embeds tokens in its hidden size"),
    (["--task", "parity", "--model", "full", "--validation", "3"], "give samples too"),
    (["--task", "parity", "--model", "full", "--supervision", "chains"], "supervision"),
    (["--config", "none.toml"], "no such file"),
    (["--config", "listed.toml"], "recipe"),
    (["--config", "steep.toml"], "length_power"),
    (["--task", "parity", "--model", "full", "--weight-decay", "nan"], "weight_decay"),
    (["--task", "parity", "--model", "transformer", "--late", "5000"], "at most 1024"),
    (["--task", "parity", "--model", "full", "--hidden", "1000000"], "hidden"),
    (["--task", "parity", "--model", "full", "--steps", "1" + "0" * 400], "steps"),
    (["--config", "bad.toml"], "not TOML"),
    (["--config", "unknown.toml"], 'did you mean "hidden"'),
    (["--config", "wrong.toml"], "config key hidden"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_CALLS)
def test_bad_runs_get_one_line_and_code_2(tmp_path, arguments, message):
    (tmp_path / "bad.toml").write_text("= 3")
    (tmp_path / "evaluations.toml").write_text('task = "parity"\nmodel = "full"\nevery = 0')
    (tmp_path / "unknown.toml").write_text('task = "parity"\nmodel = "full"\nhiden = 3')
    (tmp_path / "wrong.toml").write_text('task = "parity"\nmodel = "full"\nhidden = "many"')
    (tmp_path / "listed.toml").write_text('task = "parity"\nmodel = "full"\nrecipe = ["stated"]')
    (tmp_path / "steep.toml").write_text('task = "parity"\nmodel = "block(2)"\nlength_power = 1e6')
    done = statewise("train", "--out", "run", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_bad_evaluations_get_one_line_and_code_2(tmp_path):
    for arguments, message in [
        ([tmp_path], "not the directory of a run"),
        ([tmp_path, "--lengths", "a"], "whole numbers"),
        ([tmp_path, "--lengths", "0"], "at least 1"),
        ([tmp_path, "--words", "0"], "words is 0"),
        ([tmp_path, "--plot", "x.txt"], ".png or .svg"),
    ]:
        done = statewise("eval", *arguments)
        assert done.returncode == 2
        assert message in done.stderr


def test_ctrl_c_saves_and_a_second_call_goes_on(tmp_path):
    command = [*STATEWISE, "train", "--task", "parity"]
    command += ["--model", "full", "--hidden", "8", "--steps", "1000000", "--out", str(tmp_path / "run")]

    def step():
        # the process may replace its checkpoint just now
        with suppress(RunError):
            saved = read_checkpoint(tmp_path / "run")
            return 0 if saved is None else saved[1]["step"]
        return 0

    with started(command) as process:
        until(lambda: step() > 0, process)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    before = step()
    # resumed, and killed without warning: what was saved stays whole
    with started(command) as process:
        until(lambda: step() > before, process)
        process.kill()
    assert step() > before


def test_progress_shows_on_a_terminal(tmp_path):
    master, slave = pty.openpty()
    command = [*STATEWISE, "train", "--task", "parity"]
    command += ["--model", "full", "--hidden", "8", "--steps", "250", "--late", "0", "--out", str(tmp_path / "run")]
    subprocess.run(command, stderr=slave, stdout=subprocess.PIPE, timeout=600, check=True)
    os.close(slave)
    shown = os.read(master, 10_000).decode()
    os.close(master)
    assert re.search(r"step 250 of 250  loss .* score .* at 500  .* steps/s", shown)


def test_scalars_for_tensorboard_hold_every_evaluation(tmp_path):
    given = ["--task", "parity", "--model", "full", "--hidden", "8", "--steps", "500", "--samples", "100"]
    given += ["--late", "0", "--validation", "20", "--tensorboard"]
    done = statewise("train", *given, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "events")).Reload()
    history = json.loads((tmp_path / "run" / "record.json").read_text())["history"]
    assert set(events.Tags()["scalars"]) == {"loss/train", "loss/validation", "score/length 10", "score/length 500"}
    for tag, values in {
        "loss/train": [metrics["loss"] for metrics in history],
        "score/length 500": [metrics["scores"][1] for metrics in history],
    }.items():
        assert [(e.step, e.value) for e in events.Scalars(tag)] == [
            (metrics["step"], pytest.approx(value)) for metrics, value in zip(history, values, strict=True)
        ]


def test_a_suite_tries_every_transition_and_names_a_wrong_sequence(tmp_path):
    made = sw.compile("tcp", out=tmp_path / "net")
    found = sw.evaluate(made, lengths=[10], suite="w-method")
    assert found.suite.accuracy == 1.0
    assert found.suite.transitions == 99
    assert found.to_dict()["suite"]["wrong"] is None
    poor = sw.train("tcp", "positive", out=tmp_path / "poor", steps=5)
    done = statewise("evaluate", tmp_path / "poor", "--lengths", "10", "--suite", "transition-cover", "--json")
    assert done.returncode == 0, done.stderr
    wrong = json.loads(done.stdout)["suite"]["wrong"]
    assert wrong
    assert set(wrong) <= set(poor.machine.alphabet)
    done = statewise("evaluate", tmp_path / "poor", "--suite", "everything")
    assert done.returncode == 2
    assert "transition-cover" in done.stderr
