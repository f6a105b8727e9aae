"""Runs from inside: resume, interruption, damage, divergence."""

import math
from pathlib import Path

import pytest
import torch

from statewise.errors import RunError, StatewiseError
from statewise.machines import machine, write_machine
from statewise.models import TABLE, SequenceModel
from statewise.runs import PlannedRun, Record, RecordedScore, Run, execute_one, load
from statewise.tasks import Task
from statewise.training import (
    RECIPES,
    build_training,
    evaluate_model,
    read_checkpoint,
    resolve,
    write_checkpoint,
)

SMALL = {"hidden": 12, "steps": 30, "every": 10, "words": 50, "late": 20}


def options(**changes):
    return resolve({"task": "parity", "model": "full"} | SMALL | changes)


def quiet(member, metrics, steps):
    pass


def run(given, directory, show=quiet):
    """Do a run in a directory, and return its record and its model."""
    done = execute_one(PlannedRun(given, directory), show)
    return done.record, None if done.failed else done.model


@pytest.mark.parametrize("model", [kind.examples[-1] for kind in TABLE])
@pytest.mark.parametrize("average", [0.0, 0.5])
def test_resuming_is_bit_for_bit_not_having_stopped(tmp_path, model, average, monkeypatch):
    torch.set_num_threads(1)
    given = options(model=model, average=average, weight_decay=0.1, readout_decay=0.1, clip=1.0, warmup=3)
    _, whole = run(given, tmp_path / "whole")

    def stop(*anything):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(given, tmp_path / "pieces", stop)
    # and once between two evaluations, in the middle of a step
    with monkeypatch.context() as patch:
        calls = iter(range(4))
        batch = Task.batch
        patch.setattr(Task, "batch", lambda *a: batch(*a) if next(calls, None) is not None else stop())
        with pytest.raises(KeyboardInterrupt):
            run(given, tmp_path / "pieces")
    record, again = run(given, tmp_path / "pieces")
    assert [metrics.step for metrics in record.history] == [10, 20, 30]
    for (name, a), (_, b) in zip(whole.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(a, b), name


def test_a_finished_run_gives_its_record_back(tmp_path):
    given = options()
    first, model = run(given, tmp_path)
    again, loaded = run(given, tmp_path)
    assert again == first
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), loaded.parameters(), strict=True))
    written = first.to_dict()
    assert {"config", "versions", "history", "scores", "seconds", "tokens_per_second", "commit"} <= written.keys()
    assert {"length", "count", "correct", "accuracy", "score"} <= written["scores"][0].keys()
    assert first.in_distribution.count == 9 * 6


def test_another_config_is_refused(tmp_path):
    given = options()
    run(given, tmp_path)
    with pytest.raises(RunError, match="holds a run with seed=0, not 1"):
        run(options(seed=1), tmp_path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        run(given, tmp_path / "foreign")
    assert (tmp_path / "foreign" / "file").read_text() == "mine"


def test_divergence_is_an_outcome(tmp_path):
    given = options(lr=1e30, readout="plain", schedule="constant", recipe="stated", embedding=4)
    record, _ = run(given, tmp_path)
    assert record.status == "diverged"
    assert record.loss is None or math.isfinite(record.loss)
    assert record.scores == ()


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    given = options(lr=1e38, steps=1, every=1, late=0, growth_share=0.0)
    record, _ = run(given, tmp_path / "run")
    assert record.status == "diverged"
    assert read_checkpoint(tmp_path / "run") is None


def test_early_stop_on_score_and_on_loss(tmp_path):
    common = {"steps": 400, "lr": 0.01, "late": 0, "every": 20, "probe": (10,), "patience": 2}
    record, _ = run(options(**common, stop_score=0.99), tmp_path / "score")
    assert record.status == "stopped"
    assert all(metrics.scores[-1] >= 0.99 for metrics in record.history[-2:])
    assert record.steps < 400
    assert run(options(**common, settle=0.5), tmp_path / "loss")[0].status == "stopped"


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

    monkeypatch.setattr("statewise.training.checkpoints._write_through", full)
    for name in ("step-2", "step-1"):
        with pytest.raises(RunError, match="no space left"):
            write_checkpoint(tmp_path, name, {"a": torch.ones(3)}, {"step": 2})
        assert read_checkpoint(tmp_path)[1] == {"step": 1}
        assert [p.name for p in tmp_path.glob("step-*")] == ["step-1-0"]


def test_evaluation_counts_and_normalises():
    given = options(task="modular_addition(5)", longest=6)
    training = build_training(given)
    scores = evaluate_model(training.model.eval(), training.task, [1, 7, 3000], 40, 0)
    assert [s.length for s in scores] == [1, 7, 3000]
    for s in scores:
        assert s.accuracy == s.correct / 40
        assert s.score == pytest.approx((s.accuracy - 0.2) / 0.8)


def test_aligned_supervision_trains(tmp_path):
    given = options(supervision="aligned", steps=150, lr=0.01)
    record, _ = run(given.change(every=50), tmp_path)
    assert record.history[-1].loss < record.history[0].loss


def test_a_chain_of_thought_is_written_by_the_model():
    """A model that knows the rule writes any chain; one that is wrong once goes on from its own mistake."""

    class Adder(SequenceModel):
        def __init__(self, mistake):
            super().__init__()
            self.mistake = mistake

        def forward(self, tokens):
            return torch.stack([self.logits(tokens[:, : t + 1]) for t in range(tokens.shape[1])], dim=1)

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

        def sequences_at_once(self, length):
            return 7

        def tokens_at_once(self):
            return 20

    task = Task(machine("modular_addition(5)"), supervision="chain")
    assert evaluate_model(Adder(0), task, [1, 6], 30, 0)[1].correct == 30
    wrong = evaluate_model(Adder(1), task, [2, 6], 30, 0)
    assert [s.correct for s in wrong] == [30, 0]


def test_chain_supervision_trains(tmp_path):
    given = options(supervision="chain", model="lstm", hidden=16, steps=200, lr=0.01, late=0, probe=(4,))
    record, model = run(given, tmp_path)
    assert model.embedding.num_embeddings == given.build_task().vocabulary
    assert record.history[-1].loss < 0.5 * record.history[0].loss


def test_validation_words_are_reported_and_can_end_a_run(tmp_path):
    given = options(steps=2_000, lr=0.01, late=0, samples=400, validation=60, longest=8, every=50, settle=0.2, hidden=8)
    record, model = run(given, tmp_path)
    assert record.status == "stopped"
    assert record.validation.count == 60
    assert record.validation.loss == pytest.approx(record.history[-1].validation)
    assert record.history[-1].validation <= 0.2 < record.history[0].validation
    held = given.build_task().held_out(given.seed)
    logits = model(torch.from_numpy(held.tokens)).detach()
    right = sum(int(logits[i, n - 1].argmax()) == held.finals[i] for i, n in enumerate(held.lengths))
    assert record.validation.accuracy == pytest.approx(right / 60)


def test_recipes_resolve_to_the_papers_protocol_and_to_ours():
    stated = resolve({"task": "parity", "model": "full", "recipe": "stated"})
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
    ours = resolve({"task": "parity", "model": "rotation"})
    assert (ours.readout, ours.lr) == ("normalised", 0.01)
    assert set(RECIPES) == {"stated", "statewise"}


def test_a_file_in_the_way_and_a_damaged_record_are_one_line(tmp_path):
    given = options()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="is a file"):
        run(given, tmp_path / "file")
    run(given, tmp_path / "run")
    (tmp_path / "run" / "record.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        run(given, tmp_path / "run")


def test_a_machine_file_that_changes_is_noticed(tmp_path):
    file = tmp_path / "m.json"
    write_machine(machine("parity"), file)
    given = options(task=str(file))
    run(given, tmp_path / "run")
    write_machine(machine("cyclic(3)"), file)
    with pytest.raises(RunError, match="another machine"):
        run(given, tmp_path / "run")
    # the run keeps a copy of its own
    assert load(tmp_path / "run").machine == machine("parity")


def test_lengths_that_a_model_cannot_read_are_refused_before_training(tmp_path):
    with pytest.raises(RunError, match="at most 1024"):
        run(options(model="transformer", test_lengths=(10, 5_000)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_read_only_directories_are_refused():
    with pytest.raises(StatewiseError, match="cannot write"):
        run(options(), Path("/proc/none"))


def test_every_printed_score_stands_beside_the_best_constant_answer():
    options = resolve({"task": "parity", "model": "full"})
    skewed = RecordedScore(length=500, score=1.0, count=200, correct=200, classes=2, majority=0.99, accuracy=1.0)
    bare = RecordedScore(length=900, score=0.5)
    record = Record(status="done", config=options, seconds=1.0, in_distribution=skewed, scores=(skewed, bare))
    run = Run(machine("parity"), options=options, record=record)
    shown = dict(run.lines())
    assert shown["training lengths"] == shown["length 500"] == "score 1.000  constant answer 0.980"
    assert shown["length 900"] == "score 0.500"
    assert (run.to_dict()["constant_id"], run.to_dict()["constant_ood"]) == (skewed.constant, None)
