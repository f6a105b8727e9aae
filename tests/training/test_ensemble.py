"""Members of an ensemble are what they would be alone."""

import json

import pytest
import torch

from statewise.errors import RunError
from statewise.runs.run import Story, begin, run
from statewise.training.assemble import build_plan, build_training
from statewise.training.ensemble import advance_together, run_together
from statewise.training.options import resolve
from tests.catalogues import need_kernels

SMALL = {"hidden": 8, "steps": 60, "every": 20, "words": 60, "late": 24, "probe_words": 40}


def options(**changes):
    given = {"task": "modular_addition(3)", "model": "full"} | SMALL | changes
    return resolve(None, given).model_dump(mode="json")


def quiet(*anything):
    pass


def story(given, directory):
    return Story(build_training(given), build_plan(given), given, directory)


@pytest.mark.parametrize("model", ["full", "block(2)", "block(8)", "rotation", "diagonal", "positive"])
@pytest.mark.parametrize("changes", [{}, {"embedding": 4, "readout": "plain"}])
def test_members_are_what_they_are_alone(tmp_path, model, changes):
    members = [options(model=model, seed=seed, lr=lr, **changes) for seed in (0, 1) for lr in (0.01, 0.003)]
    members[3]["weight_decay"] = 0.1
    together = run_together([story(g, tmp_path / f"t{i}") for i, g in enumerate(members)], quiet)
    for index, given in enumerate(members):
        training = build_training(given)
        alone = run(training, build_plan(given), given, tmp_path / f"a{index}", quiet)
        record = together[index]
        assert record["config"] == given
        assert [s["step"] for s in record["history"]] == [20, 40, 60]
        for a, b in zip(alone["history"], record["history"], strict=True):
            assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        kept = json.loads((tmp_path / f"t{index}" / "record.json").read_text())
        assert kept == record


@pytest.mark.parametrize("readout", ["plain", "normalised"])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_steps_agree_to_rounding(monkeypatch, readout, backend):
    need_kernels(backend)
    monkeypatch.setenv("STATEWISE_BACKEND", backend)
    given = [options(seed=seed, lr=0.01, readout=readout) for seed in range(3)]
    together, alone = [build_training(g) for g in given], [build_training(g) for g in given]
    for training in together + alone:
        training.model.double()
    advance_together(together, 25)
    for a, b in zip(together, alone, strict=True):
        b.advance(25)
        assert (a.step, a.tokens) == (b.step, b.tokens)
        assert a.loss == pytest.approx(b.loss, rel=1e-12)
        for (name, x), (_, y) in zip(a.state()[0].items(), b.state()[0].items(), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-11, msg=name)


def test_a_member_that_diverges_touches_no_other(tmp_path):
    good = options(seed=0, readout="plain", lr=0.001)
    bad = options(seed=1, readout="plain", lr=1e30)
    stories = [story(g, tmp_path / f"m{i}") for i, g in enumerate([good, bad, good | {"seed": 2}])]
    records = run_together(stories, quiet)
    assert [record["status"] for record in records] == ["done", "diverged", "done"]
    alone = run(build_training(good), build_plan(good), good, tmp_path / "alone", quiet)
    assert alone["loss"] == pytest.approx(records[0]["loss"], rel=1e-3)


def test_members_stop_each_by_itself(tmp_path):
    easy = options(task="parity", model="diagonal", steps=400, lr=0.03, late=0, probe=[10], stop_score=0.99, clip=0)
    hard = easy | {"seed": 1, "lr": 1e-7}
    records = run_together([story(g, tmp_path / f"m{i}") for i, g in enumerate([easy, hard])], quiet)
    assert [record["status"] for record in records] == ["stopped", "done"]
    assert records[0]["steps"] < records[1]["steps"] == 400


def test_what_was_cut_short_is_taken_up(tmp_path):
    given = [options(seed=seed) for seed in range(2)]

    def stop(member, look, steps):
        if look.step == 40 and member == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_together([story(g, tmp_path / f"m{i}") for i, g in enumerate(given)], stop)
    again = run_together([story(g, tmp_path / f"m{i}") for i, g in enumerate(given)], quiet)
    whole = run_together([story(g, tmp_path / f"w{i}") for i, g in enumerate(given)], quiet)
    for a, b in zip(again, whole, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
    assert run_together([story(g, tmp_path / f"m{i}") for i, g in enumerate(given)], quiet) == again


def test_what_cannot_be_stacked_is_refused(tmp_path):
    for changes, message in [
        ({"model": "lstm"}, "trackers"),
        ({"model": "cp(4)"}, "one by one"),
        ({"additive": "input"}, "additive"),
        ({"supervision": "aligned"}, "final"),
        ({"average": 0.5}, "average"),
    ]:
        with pytest.raises(RunError, match=message):
            advance_together([build_training(options(**changes))], 1)
    with pytest.raises(RunError, match="one shape"):
        advance_together([build_training(options()), build_training(options(hidden=4))], 1)
    assert begin(story(options(), tmp_path)) is None


@pytest.mark.parametrize("model", ["full", "block(2)", "block(8)", "rotation", "diagonal", "positive"])
@pytest.mark.parametrize("late", [0, 40])
def test_a_member_does_not_depend_on_its_companions(model, late):
    """Bit for bit: a sweep may pack its runs in any way."""

    def member(seed, lr):
        options = {"task": "modular_addition(7)", "model": model, "hidden": 24, "steps": 20, "late": late}
        return build_training(resolve(None, options | {"seed": seed, "lr": lr}).model_dump(mode="json"))

    ends = []
    for companions in (0, 1, 6):
        members = [member(0, 1e-2), *(member(seed, seed * 1e-3) for seed in range(1, companions + 1))]
        advance_together(members, 20)
        ends.append([weight.detach() for weight in members[0].model.parameters()])
    for other in ends[1:]:
        assert all(torch.equal(one, same) for one, same in zip(ends[0], other, strict=True))
