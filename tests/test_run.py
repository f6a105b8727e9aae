"""Runs from the command line and inside: resume, interruption, damage, divergence."""

import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from statewise.assemble import build_plan, build_training
from statewise.checkpoint import read_checkpoint, write_checkpoint
from statewise.config import RECIPES, resolve
from statewise.errors import RunError, StatewiseError
from statewise.evaluate import evaluate
from statewise.machines import machine, write_machine
from statewise.plan import Plan
from statewise.run import run
from statewise.task import Task

SMALL = {"hidden": 8, "steps": 30, "every": 10, "words": 50, "late": 20}
PLAN = Plan(every=10, words=50)


def options(**changes):
    given = {"task": "parity", "model": "full"} | SMALL | changes
    return resolve(None, given).model_dump(mode="json")


def quiet(look, steps):
    pass


def statewise(*arguments, **extra):
    command = [sys.executable, "-c", "from statewise.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, **extra)


MODELS = ["full", "cp(4)", "block(2)", "rotation", "diagonal", "positive", "rnn", "lstm", "gru", "mamba", "transformer"]


@pytest.mark.parametrize("model", MODELS)
def test_resuming_is_bit_for_bit_not_having_stopped(tmp_path, model):
    torch.set_num_threads(1)
    given = options(model=model, average=0.5, weight_decay=0.1, readout_decay=0.1, clip=1.0, warmup=3)
    whole = build_training(given)
    run(whole, PLAN, given, tmp_path / "whole", quiet)

    def stop(look, steps):
        raise KeyboardInterrupt

    pieces = build_training(given)
    with pytest.raises(KeyboardInterrupt):
        run(pieces, PLAN, given, tmp_path / "pieces", stop)
    # and once between two looks, in the middle of a step
    pieces = build_training(given)
    with pytest.MonkeyPatch.context() as patch:
        calls = iter(range(4))
        batch = type(pieces.task).batch
        patch.setattr(type(pieces.task), "batch", lambda *a: batch(*a) if next(calls, None) is not None else stop(0, 0))
        with pytest.raises(KeyboardInterrupt):
            run(pieces, PLAN, given, tmp_path / "pieces", quiet)
    # a new process would build a new training
    again = build_training(given)
    record = run(again, PLAN, given, tmp_path / "pieces", quiet)
    assert [look["step"] for look in record["history"]] == [10, 20, 30]
    for (name, a), (_, b) in zip(whole.model.state_dict().items(), again.model.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_a_finished_run_gives_its_record_back(tmp_path):
    given = options()
    first = run(build_training(given), PLAN, given, tmp_path, quiet)
    assert run(build_training(given), PLAN, given, tmp_path, quiet) == first
    assert {"config", "versions", "history", "scores", "seconds", "tokens_per_second", "commit"} <= first.keys()
    assert {"length", "count", "correct", "accuracy", "score"} <= first["scores"][0].keys()
    assert first["in_distribution"]["count"] == 9 * 6


def test_another_config_is_refused(tmp_path):
    given = options()
    run(build_training(given), PLAN, given, tmp_path, quiet)
    other = options(seed=1)
    with pytest.raises(RunError, match="holds a run with seed=0, not 1"):
        run(build_training(other), PLAN, other, tmp_path, quiet)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        run(build_training(given), PLAN, given, tmp_path / "foreign", quiet)
    assert (tmp_path / "foreign" / "file").read_text() == "mine"


def test_divergence_is_an_outcome(tmp_path):
    given = options(lr=1e30, readout="plain", schedule="constant", recipe="stated", embedding=4)
    record = run(build_training(given), PLAN, given, tmp_path, quiet)
    assert record["status"] == "diverged"
    assert record["loss"] is None or math.isfinite(record["loss"])
    assert record["scores"] == []


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    given = options(lr=1e38, steps=1, every=1, late=0, growth_share=0.0)
    record = run(build_training(given), build_plan(given), given, tmp_path / "run", quiet)
    assert record["status"] == "diverged"
    assert read_checkpoint(tmp_path / "run") is None


def test_early_stop_on_score_and_on_loss(tmp_path):
    given = options(steps=400, lr=0.01, late=0)
    stopped = Plan(every=20, words=50, probe=(10,), stop_score=0.99, patience=2)
    record = run(build_training(given), stopped, given, tmp_path / "score", quiet)
    assert record["status"] == "stopped"
    assert all(look["scores"][-1] >= 0.99 for look in record["history"][-2:])
    assert record["steps"] < 400
    settled = Plan(every=20, words=50, probe=(10,), settle=0.5, patience=2)
    assert run(build_training(given), settled, given, tmp_path / "loss", quiet)["status"] == "stopped"


def test_checkpoints_notice_damage_and_survive_failures(tmp_path):
    tensors, values = {"a": torch.arange(5.0)}, {"step": 1}
    assert read_checkpoint(tmp_path) is None
    write_checkpoint(tmp_path, "step-1", tensors, values)
    again, held = read_checkpoint(tmp_path)
    assert torch.equal(again["a"], tensors["a"])
    assert held == values
    # a kill before the manifest is replaced leaves the old checkpoint
    (tmp_path / "step-2-0").mkdir()
    (tmp_path / "step-2-0" / "tensors.safetensors").write_bytes(b"half")
    assert read_checkpoint(tmp_path)[1] == values
    write_checkpoint(tmp_path, "step-2", tensors, {"step": 2})
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-2-1"]
    # the same step once more: the folder that counts stands until the manifest names another
    write_checkpoint(tmp_path, "step-2", tensors, {"step": 2})
    assert [p.name for p in tmp_path.glob("step-*")] == ["step-2-0"]
    file = tmp_path / "step-2-0" / "tensors.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(RunError, match="damaged"):
        read_checkpoint(tmp_path)
    file.write_bytes(bytes(content[:10]))
    with pytest.raises(RunError, match="damaged"):
        read_checkpoint(tmp_path)
    file.unlink()
    with pytest.raises(RunError, match="incomplete"):
        read_checkpoint(tmp_path)


def test_a_full_disk_keeps_the_former_checkpoint(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, "step-1", {"a": torch.zeros(3)}, {"step": 1})

    def full(file, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("statewise.checkpoint._write_through", full)
    for name in ("step-2", "step-1"):
        with pytest.raises(RunError, match="no space left"):
            write_checkpoint(tmp_path, name, {"a": torch.ones(3)}, {"step": 2})
        assert read_checkpoint(tmp_path)[1] == {"step": 1}
        assert [p.name for p in tmp_path.glob("step-*")] == ["step-1-0"]


def test_evaluation_counts_and_normalises():
    given = options(task="modular_addition(5)", longest=6)
    training = build_training(given)
    scores = evaluate(training.model.eval(), training.task, [1, 7, 3000], 40, 0)
    assert [s.length for s in scores] == [1, 7, 3000]
    for s in scores:
        assert s.accuracy == s.correct / 40
        assert s.score == pytest.approx((s.accuracy - 0.2) / 0.8)


def test_aligned_supervision_trains(tmp_path):
    given = options(supervision="aligned", steps=150, lr=0.01)
    record = run(build_training(given), Plan(every=50, words=50), given, tmp_path, quiet)
    assert record["history"][-1]["loss"] < record["history"][0]["loss"]


def test_a_chain_of_thought_is_written_by_the_model():
    """A model that knows the rule writes any chain; one that is wrong once goes on from its own mistake."""

    class Adder:
        def __init__(self, mistake):
            self.mistake = mistake

        def init_state(self, batch):
            return torch.zeros(batch, 0, dtype=torch.long)

        def advance(self, tokens, state):
            seen = torch.cat([state, tokens], dim=1)
            return self.logits(seen), seen

        def step(self, token, state):
            return self.advance(token[:, None], state)

        def logits(self, seen):
            answers = []
            for row in seen.tolist():
                word = [t for t in row if t < 5]
                written = [t - 6 for t in row if t > 5]
                if 5 not in row or len(written) == len(word):
                    answers.append(0)
                    continue
                last = written[-1] if written else 0
                slip = self.mistake if len(written) == 2 else 0
                answers.append((last + word[len(written)] + slip) % 5)
            return torch.nn.functional.one_hot(torch.tensor(answers), 5).float()

        def words_at_once(self, length):
            return 7

        def tokens_at_once(self):
            return 20

    task = Task(machine("modular_addition(5)"), supervision="chain")
    assert evaluate(Adder(0), task, [1, 6], 30, 0)[1].correct == 30
    wrong = evaluate(Adder(1), task, [2, 6], 30, 0)
    assert [s.correct for s in wrong] == [30, 0]


def test_chain_supervision_trains(tmp_path):
    given = options(supervision="chain", model="lstm", hidden=16, steps=200, lr=0.01, late=0, probe=(4,))
    training = build_training(given)
    assert training.model.embedding.num_embeddings == training.task.tokens
    record = run(training, build_plan(given), given, tmp_path, quiet)
    assert record["history"][-1]["loss"] < 0.5 * record["history"][0]["loss"]


def test_validation_words_are_reported_and_can_end_a_run(tmp_path):
    given = options(steps=2_000, lr=0.01, late=0, samples=400, validation=60, longest=8, every=50, settle=0.2)
    training = build_training(given)
    record = run(training, build_plan(given), given, tmp_path, quiet)
    assert record["status"] == "stopped"
    assert record["validation"]["count"] == 60
    assert record["validation"]["loss"] == pytest.approx(record["history"][-1]["validation"])
    assert record["history"][-1]["validation"] <= 0.2 < record["history"][0]["validation"]
    held = training.task.held_out(training.seed)
    logits = training.model.eval()(torch.from_numpy(held.words)).detach()
    right = sum(int(logits[i, n - 1].argmax()) == held.finals[i] for i, n in enumerate(held.lengths))
    assert record["validation"]["accuracy"] == pytest.approx(right / 60)


def test_scalars_for_tensorboard_hold_every_look(tmp_path):
    given = ["--task", "parity", "--model", "full", "--hidden", "8", "--steps", "500", "--samples", "100"]
    given += ["--late", "0", "--validation", "20", "--tensorboard"]
    done = statewise("train", *given, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "events")).Reload()
    history = json.loads((tmp_path / "run" / "record.json").read_text())["history"]
    assert set(events.Tags()["scalars"]) == {"loss/train", "loss/validation", "score/length 10", "score/length 500"}
    for tag, values in {
        "loss/train": [look["loss"] for look in history],
        "score/length 500": [look["scores"][1] for look in history],
    }.items():
        assert [(e.step, e.value) for e in events.Scalars(tag)] == [
            (look["step"], pytest.approx(value)) for look, value in zip(history, values, strict=True)
        ]


def test_recipes_resolve_to_the_papers_protocol_and_to_ours():
    stated = resolve(None, {"task": "parity", "model": "full", "recipe": "stated"})
    assert (stated.hidden, stated.embedding, stated.steps, stated.batch, stated.readout) == (
        256,
        256,
        100_000,
        64,
        "plain",
    )
    assert (stated.shortest, stated.longest, stated.schedule, stated.weight_decay, stated.late) == (
        2,
        10,
        "constant",
        0.0,
        0,
    )
    ours = resolve(None, {"task": "parity", "model": "rotation"})
    assert (ours.readout, ours.lr) == ("normalised", 0.01)
    assert set(RECIPES) == {"stated", "statewise"}


def test_train_and_eval_from_the_command_line(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('task = "parity"\nmodel = "diagonal"\nsteps = 60\nevery = 20\nhidden = 8\nwords = 50\n')
    done = statewise("train", "--config", file, "--seed", "1", "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"run", "score_id", "score_ood", "steps", "seconds"} <= result.keys()
    assert done.stderr == ""
    assert json.loads((tmp_path / "run" / "config.json").read_text())["seed"] == 1
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
    (["--config", "looks.toml"], "config key every"),
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
    (tmp_path / "looks.toml").write_text('task = "parity"\nmodel = "full"\nevery = 0')
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


def test_a_file_in_the_way_and_a_damaged_record_are_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = statewise("train", "--task", "parity", "--model", "full", "--out", tmp_path / "file")
    assert done.returncode == 2
    assert "is a file" in done.stderr
    given = options()
    run(build_training(given), PLAN, given, tmp_path / "run", quiet)
    (tmp_path / "run" / "record.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        run(build_training(given), PLAN, given, tmp_path / "run", quiet)


def test_ctrl_c_saves_and_a_second_call_goes_on(tmp_path):
    command = [sys.executable, "-c", "from statewise.cli import main; main()", "train", "--task", "parity"]
    command += ["--model", "full", "--hidden", "8", "--steps", "100000", "--out", str(tmp_path / "run")]
    # a shell without job control starts what is in the background with Ctrl-C turned off
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **heard)
    manifest = Path(tmp_path / "run" / "manifest.json")
    for _ in range(600):
        if manifest.exists():
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    step = read_checkpoint(tmp_path / "run")[1]["step"]
    # taken up again, and killed without warning: what was saved stays whole
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        if read_checkpoint(tmp_path / "run")[1]["step"] > step:
            break
        time.sleep(0.1)
    process.kill()
    process.communicate()
    assert read_checkpoint(tmp_path / "run")[1]["step"] > step


def test_progress_shows_on_a_terminal(tmp_path):
    master, slave = pty.openpty()
    command = [sys.executable, "-c", "from statewise.cli import main; main()", "train", "--task", "parity"]
    command += ["--model", "full", "--hidden", "8", "--steps", "250", "--late", "0", "--out", str(tmp_path / "run")]
    subprocess.run(command, stderr=slave, stdout=subprocess.PIPE, timeout=120, check=True)
    shown = os.read(master, 10_000).decode()
    assert re.search(r"step 250/250  loss .* scores .* steps/s  0 s left", shown)


def test_a_machine_file_that_changes_is_noticed(tmp_path):
    file = tmp_path / "m.json"
    write_machine(machine("parity"), file)
    given = options(task=str(file))
    run(build_training(given), PLAN, given, tmp_path / "run", quiet)
    write_machine(machine("cyclic(3)"), file)
    with pytest.raises(RunError, match="another machine"):
        run(build_training(given), PLAN, given, tmp_path / "run", quiet)
    done = statewise("eval", tmp_path / "run", "--lengths", "5", "--words", "20", "--json")
    assert done.returncode == 0, done.stderr


def test_lengths_that_a_model_cannot_read_are_refused_before_training(tmp_path):
    given = options(model="transformer", test_lengths=(10, 5_000))
    plan = Plan(every=10, words=50, lengths=(10, 5_000))
    with pytest.raises(RunError, match="at most 1024"):
        run(build_training(given), plan, given, tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_read_only_directories_are_refused():
    training = build_training(options())
    with pytest.raises(StatewiseError, match="cannot write"):
        run(training, PLAN, options(), Path("/proc/none"), quiet)
