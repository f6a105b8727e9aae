"""Members of an ensemble are what they would be alone."""

import json

import pytest
import torch

from statewise.errors import RunError
from statewise.models import TABLE
from statewise.runs import PlannedRun, execute, execute_one
from statewise.training import advance, build_training, resolve
from tests.catalogues import need_kernels

SMALL = {"hidden": 12, "steps": 60, "every": 20, "words": 60, "late": 24, "probe_words": 40}
STACKABLE = [spec for kind in TABLE if kind.stackable for spec in kind.examples]


def options(**changes):
    return resolve({"task": "modular_addition(3)", "model": "full"} | SMALL | changes)


def quiet(*anything):
    pass


def together(given, directory, show=quiet):
    """Do runs in one tensor program, and return their records in order."""
    plans = [PlannedRun(one, directory / f"{place}") for place, one in enumerate(given)]
    done = dict(execute(plans, show))
    return [done[place].record for place in range(len(given))]


def alone(given, directory):
    return execute_one(PlannedRun(given, directory), quiet).record


@pytest.mark.parametrize("model", STACKABLE)
@pytest.mark.parametrize("changes", [{}, {"embedding": 4, "readout": "plain"}])
def test_members_are_recorded_as_if_alone(tmp_path, model, changes):
    given = [options(model=model, seed=seed, lr=lr, **changes) for seed in (0, 1) for lr in (0.01, 0.003)]
    given[3] = given[3].change(weight_decay=0.1)
    records = together(given, tmp_path / "together")
    for place, (one, record) in enumerate(zip(given, records, strict=True)):
        single = alone(one, tmp_path / f"alone-{place}")
        assert record.config == one
        assert [metrics.step for metrics in record.history] == [20, 40, 60]
        for a, b in zip(single.history, record.history, strict=True):
            assert a.loss == pytest.approx(b.loss, rel=1e-6)
        kept = json.loads((tmp_path / "together" / f"{place}" / "record.json").read_text())
        assert kept == record.to_dict()


@pytest.mark.parametrize("model", STACKABLE)
@pytest.mark.parametrize("readout", ["plain", "normalised"])
@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("loss", ["cross-entropy", "squared"])
def test_stacked_steps_are_those_of_autograd_and_torchs_adamw(monkeypatch, model, readout, backend, loss):
    """The whole step against plain torch: the model's own forward, the loss, clipping and AdamW."""
    need_kernels(backend)
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    given = options(model=model, lr=0.01, readout=readout, weight_decay=0.1, clip=0.5, late=0, loss=loss)
    training, reference = build_training(given), build_training(given)
    training.model.double()
    model = reference.model.double().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(12):
        batch = reference.task.batch(reference.seed, step, 64)
        logits = model(torch.from_numpy(batch.tokens))[torch.arange(64), torch.from_numpy(batch.lengths) - 1]
        optimiser.zero_grad()
        right = torch.from_numpy(batch.finals)
        if loss == "squared":
            ((logits - torch.nn.functional.one_hot(right, 3)) ** 2).sum(dim=1).mean().backward()
        else:
            torch.nn.functional.cross_entropy(logits, right).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimiser.param_groups:
            group["lr"] = given.optimisation.rate(step)
        optimiser.step()
    advance([training], 12)
    assert training.step == 12
    for (name, x), (_, y) in zip(training.model.named_parameters(), model.named_parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-7, atol=1e-9, msg=name)


def test_a_member_that_diverges_touches_no_other(tmp_path):
    good = options(seed=0, readout="plain", lr=0.001)
    bad = options(seed=1, readout="plain", lr=1e30)
    records = together([good, bad, good.change(seed=2)], tmp_path / "together")
    assert [record.status for record in records] == ["done", "diverged", "done"]
    assert alone(good, tmp_path / "alone").loss == records[0].loss


def test_members_stop_each_by_itself(tmp_path):
    easy = options(task="parity", model="diagonal", steps=400, lr=0.03, late=0, probe=[10], stop_score=0.99, clip=0)
    hard = easy.change(seed=1, lr=1e-7)
    records = together([easy, hard], tmp_path)
    assert [record.status for record in records] == ["stopped", "done"]
    assert records[0].steps < records[1].steps == 400


def test_what_was_interrupted_is_resumed(tmp_path):
    given = [options(seed=seed) for seed in range(2)]

    def stop(member, metrics, steps):
        if metrics.step == 40 and member == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(given, tmp_path / "cut", stop)
    again = together(given, tmp_path / "cut")
    whole = together(given, tmp_path / "whole")
    for a, b in zip(again, whole, strict=True):
        assert a.loss == b.loss
    assert together(given, tmp_path / "cut") == again


def test_what_cannot_be_stacked_is_refused():
    for changes, message in [
        ({"model": "lstm"}, "trackers"),
        ({"model": "cp(4)"}, "one by one"),
        ({"additive": "input"}, "additive"),
        ({"supervision": "aligned"}, "final"),
        ({"average": 0.5}, "average"),
    ]:
        members = [build_training(options(seed=seed, **changes)) for seed in range(2)]
        with pytest.raises(RunError, match=message):
            advance(members, 1)
    with pytest.raises(RunError, match="one shape"):
        advance([build_training(options()), build_training(options(hidden=4))], 1)


@pytest.mark.parametrize("model", STACKABLE)
@pytest.mark.parametrize("late", [0, 40])
def test_a_member_does_not_depend_on_its_companions(model, late):
    """Bit for bit: a sweep may pack its runs in any way."""

    def member(seed, lr):
        given = {"task": "modular_addition(7)", "model": model, "hidden": 24, "steps": 20, "late": late}
        return build_training(resolve(given | {"seed": seed, "lr": lr}))

    ends = []
    for companions in (0, 1, 6):
        members = [member(0, 1e-2), *(member(seed, seed * 1e-3) for seed in range(1, companions + 1))]
        advance(members, 20)
        ends.append([weight.detach() for weight in members[0].model.parameters()])
    for other in ends[1:]:
        assert all(torch.equal(one, same) for one, same in zip(ends[0], other, strict=True))


@pytest.mark.parametrize("model", ["full", "block(2)", "lstm"])
def test_training_goes_on_after_a_change_of_type(model):
    training = build_training(options(model=model))
    advance([training], 3)
    training.model.double()
    advance([training], 3)
    assert training.step == 6
    assert {moment.dtype for moments in training.moments.values() for moment in moments} == {torch.float64}
    assert not training.diverged
