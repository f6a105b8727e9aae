"""What a training will take: steps and tests are timed, on a clock that counts work, and multiplied."""

import pytest

import statewise as sw
from statewise.sweep.jobs import make_jobs
from statewise.sweep.packs import Pack
from statewise.sweep.timing import time_packs
from statewise.training import build_training, estimate
from statewise.training.options import resolve
from tests.cli.test_progress import Clock

STEP, SYMBOL = 0.01, 1e-6


@pytest.fixture
def clock(monkeypatch):
    """A clock on which a step takes a hundredth of a second, and a tested symbol a millionth."""
    clock = Clock()

    def advance(trainings, steps):
        clock.now += STEP * steps * len(trainings)
        for training in trainings:
            assert training.step + steps <= training.optimisation.steps + 30

    def evaluate_batch(model, task, length, batch):
        clock.now += SYMBOL * length * len(batch.tokens)

    monkeypatch.setattr(estimate, "advance", advance)
    monkeypatch.setattr(estimate, "evaluate_batch", evaluate_batch)
    return clock


def options(**given):
    return resolve({"task": "parity", "model": "diagonal", "steps": 1_000, **given})


def test_steps_evaluations_and_tests_are_counted(clock):
    asked = options(every=100, probe=[10, 50], probe_words=40, test_lengths=[10, 10_000], words=200)
    found = estimate.training_seconds([build_training(asked)], asked.evaluation, clock)
    steps, probes, tests = 1_000 * STEP, 10 * 60 * 40 * SYMBOL, 10_010 * 200 * SYMBOL
    assert found == pytest.approx(steps + probes + tests)


def test_members_of_an_ensemble_are_tested_one_by_one(clock):
    asked = [
        options(seed=seed, every=500, probe=[10], probe_words=10, test_lengths=[100], words=100) for seed in range(3)
    ]
    found = estimate.training_seconds([build_training(each) for each in asked], asked[0].evaluation, clock)
    assert found == pytest.approx(3 * (1_000 * STEP + 2 * 100 * SYMBOL + 10_000 * SYMBOL))


def test_each_kind_of_runs_is_timed_once_and_what_is_not_timed_is_corrected(monkeypatch):
    timed = []

    def seconds(trainings, plan, clock):
        clock.now += 6.0
        timed.append(len(trainings))
        return 30.0 * len(trainings)

    monkeypatch.setattr(estimate, "training_seconds", seconds)
    jobs = make_jobs(
        [options(seed=seed) for seed in range(4)]
        + [options(hidden=hidden) for hidden in (4, 6, 8)]
        + [options(model="rnn")]
    )
    packs = [Pack(tuple(jobs[:2]), 20.0), Pack(tuple(jobs[2:4]), 20.0), *(Pack((job,), 10.0) for job in jobs[4:])]
    # two kinds fit into ten seconds: the costliest of each model
    assert time_packs(packs, Clock(), 10.0) == [60.0, 60.0, 30.0, 30.0, 30.0, 30.0]
    assert timed == [2, 1]


def test_a_run_that_cannot_be_built_keeps_its_guess():
    (job,) = make_jobs([options(model="transformer(layers=1, longest=4)", longest=10)])
    assert time_packs([Pack((job,), 7.0)], Clock()) == [7.0]


def test_a_dry_run_of_a_training_trains_nothing(tmp_path):
    run = sw.train("parity", "diagonal", steps=40, hidden=4, out=tmp_path / "run", dry_run=True)
    assert not (tmp_path / "run").exists()
    assert run.to_dict()["steps"] == 40
    assert run.to_dict()["estimate_s"] >= 0
    fresh = build_training(options(steps=40, hidden=4)).model
    assert all((one == other).all() for one, other in zip(run.model.parameters(), fresh.parameters(), strict=True))


def test_a_dry_run_of_a_comparison_counts_what_may_be_needed():
    found = sw.compare(["parity"], ["diagonal", "rnn"], seeds=3, steps=20, hidden=4, lengths=[10], dry_run=True)
    plan = found.to_dict()
    # four settings, and two more seeds, of two models; a perfect first setting leaves out three
    assert (plan["to_run"], plan["timed"]) == (12, True)
    assert 0 < plan["least_s"] < plan["estimate_s"]
    assert "up to 12" in str(found)
