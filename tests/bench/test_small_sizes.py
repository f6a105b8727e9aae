"""Benchmarks at tiny sizes: what they check and what their rows are; no time is asserted."""

import math

import pytest
import torch

from statewise.bench import baselines, ensemble, polish, rivals, steps, timing
from statewise.errors import WrongAnswerError
from statewise.models.table import BASELINES
from statewise.models.tracker import StateTracker
from statewise.theory.network import network_of
from statewise.training import advance


def without_decay(adam_step):
    """Return AdamW that forgets its weight decay."""

    def step(parameter, grad, moments, count, rates, decays, *rest):
        adam_step(parameter, grad, moments, count, rates, [0.0] * len(decays), *rest)

    return step


def test_steps_of_both_losses_are_timed_in_one_run():
    rows = steps.measure_table(sizes=((8, 3, 1.0), (6, 5, 1.0)), repeats=1)
    assert len(rows) == 4
    for lstm, squared in (rows[:2], rows[2:]):
        assert squared.case == f"{lstm.case}, squared error, weight decay 0.1"
        assert squared.rival == "ours, cross-entropy"
        # the rival is the row of cross-entropy itself
        assert squared.rival_s == lstm.ours_s
        assert squared.target == 0.95


def test_the_limit_has_a_row_for_each_loss():
    limit, squared = steps.measure_limit(hidden=8, symbols=3, repeats=1)
    assert limit.rival == "30 products of 64 x 8 x 8"
    assert squared.rival_s == limit.ours_s


@pytest.mark.parametrize(
    "benchmark",
    [
        lambda: steps.measure_table(sizes=((64, 5, 1.0),), repeats=1),
        lambda: steps.measure_limit(hidden=64, repeats=1),
        lambda: ensemble.measure(steps=3, turns=1),
    ],
)
def test_no_row_is_made_without_weight_decay(monkeypatch, benchmark):
    monkeypatch.setattr("statewise.bench.steps.adam_step", without_decay(steps.adam_step))
    monkeypatch.setattr("statewise.training.step.adam_step", without_decay(steps.adam_step))
    with pytest.raises(WrongAnswerError, match="differ from the reference"):
        benchmark()


def test_no_row_is_made_of_another_loss(monkeypatch):
    half = lambda *args: steps.plain_loss(*args) / 2  # noqa: E731
    monkeypatch.setattr(steps, "answer_loss", half)
    with pytest.raises(WrongAnswerError, match="differ from the reference"):
        steps.measure_limit(hidden=8, symbols=3, repeats=1)


def test_an_ensemble_of_each_loss_is_timed():
    rows = ensemble.measure(hidden=8, steps=3, turns=1)
    assert [row.target for row in rows] == [3.0, 1.0, 0.95]
    assert rows[2].rival_s == rows[0].ours_s
    assert rows[2].case.endswith("squared error, weight decay 0.1")


def test_scores_that_differ_are_refused():
    trained, other = (ensemble._members(16, 400, "cross-entropy")[3:4] for _ in range(2))
    advance(trained, 400)
    ensemble._require_same_scores(trained, trained)
    with pytest.raises(WrongAnswerError, match="alone"):
        ensemble._require_same_scores(trained, other)


def test_polish_is_timed_where_it_makes_a_network_exact():
    time, memory, solver = polish.measure(states=3, hidden=12, steps=600, small=(3,))
    assert "to 1.00" in time.case
    assert time.rival_s == 120.0
    assert timing.unit_of(memory.case)[1] == "GB"
    assert 0.05 < memory.ours_s < 2.0
    assert solver.target is None


def test_polish_that_does_not_converge_is_not_timed():
    with pytest.raises(WrongAnswerError, match="time says nothing"):
        polish.measure(states=5, hidden=1, steps=1, small=())


def test_the_hidden_machine_is_exact_but_for_its_noise():
    exact, task = polish.hidden_machine(5, 0.0)
    assert isinstance(exact, StateTracker)
    assert polish._score(exact, task) == 1.0
    noisy, _ = polish.hidden_machine(5, 0.03)
    away = network_of(noisy).matrices - network_of(exact).matrices
    assert away.std() == pytest.approx(0.03, rel=0.2)


def test_lbfgs_reaches_the_same_residual():
    row = polish.compare_solvers(3, turns=1)
    assert math.isfinite(row.ratio)
    assert float(row.rival.rsplit(" ", 1)[1]) < 1e-15


@pytest.mark.filterwarnings("ignore")
def test_every_rival_is_timed_against_another():
    rows = rivals.measure_rivals(batch=2, times=(3,), repeats=1)
    assert [row.case.split(", H 64")[0] for row in rows] == list(rivals.CASES)
    assert {name.split("(")[0] for name in rivals.CASES} == set(BASELINES) - {
        "rnn",
        "lstm",
        "gru",
        "mamba",
        "transformer",
    }
    assert all(row.target == 1.0 and row.ratio > 0 for row in rows)


@pytest.mark.filterwarnings("ignore")
def test_published_networks_are_timed_with_the_same_weights():
    rows = baselines.measure_published(batch=2, widths=(16,), depths=(2,), repeats=1)
    assert [row.case.split(",")[0] for row in rows] == ["transformer(2)", "mamba(2)"]
    assert all(row.target == 1.0 and row.ratio > 0 for row in rows)


@pytest.mark.filterwarnings("ignore")
def test_no_network_is_timed_whose_weights_are_others(monkeypatch):
    monkeypatch.setattr(baselines, "copy_weights", lambda pairs: None)
    with pytest.raises(WrongAnswerError, match="transformer"):
        baselines.measure_published(batch=2, widths=(16,), depths=(1,), repeats=1)


class WrongGradient(torch.autograd.Function):
    """The right value, with twice its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, to_x):
        return 2 * to_x


@pytest.mark.filterwarnings("ignore")
def test_no_rival_is_timed_whose_gradient_differs(monkeypatch):
    right = rivals.gated_attention
    monkeypatch.setattr(rivals, "gated_attention", lambda q, *rest: right(WrongGradient.apply(q), *rest))
    with pytest.raises(WrongAnswerError, match="gla"):
        rivals.measure_rivals(batch=2, times=(3,), repeats=1)


@pytest.mark.filterwarnings("ignore")
def test_no_rival_is_timed_that_differs_from_the_other(monkeypatch):
    forgetful = lambda q, k, v, decay, state: rivals.delta_rule(q, k, v, decay.sum(-1).exp(), decay.sum(-1), state)  # noqa: E731
    monkeypatch.setattr(rivals, "gated_attention", forgetful)
    with pytest.raises(WrongAnswerError, match="gla"):
        rivals.measure_rivals(batch=2, times=(3,), repeats=1)
