"""Polish: trained on sequences of ten symbols, exact to machine precision, and proven to a trillion."""

import json

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import StatewiseError
from statewise.machines import Machine, machine
from statewise.tasks import Task
from statewise.theory.automaton import AutomatonProblem, draw_labelled, hankel_rank
from statewise.theory.least_squares import LeastSquares, solve_least_squares

SQUARED = {"loss": "squared", "lr": 4e-3, "weight_decay": 0.1, "late": 0}


class Curve(LeastSquares):
    """r(x) = x^2 - a for each entry: Newton's method for square roots."""

    def __init__(self, a):
        self.a = a

    def residual(self, parameters):
        return (parameters[0] ** 2 - self.a).unsqueeze(1)

    def linearise(self, parameters):
        slope = 2 * parameters[0]
        return (lambda d: (slope * d[0]).unsqueeze(1)), (lambda r: (slope * r.squeeze(1),))


def test_the_solver_converges_quadratically_and_stops_where_it_cannot():
    a = torch.tensor([4.0, 9.0, 2.0], dtype=torch.float64)
    costs = []
    solution = solve_least_squares(Curve(a), (torch.ones_like(a),), show=lambda n, cost: costs.append(cost))
    assert solution.stopped == "converged"
    torch.testing.assert_close(solution.parameters[0], a.sqrt())
    assert costs[-1] < costs[-2] ** 1.5
    impossible = solve_least_squares(Curve(torch.tensor([-1.0], dtype=torch.float64)), (torch.ones(1).double(),))
    assert impossible.stopped != "converged"
    assert impossible.cost == pytest.approx(1.0, rel=1e-3)
    there = solve_least_squares(Curve(a), (a.sqrt(),))
    assert (there.stopped, there.rounds) == ("converged", 0)


@pytest.mark.parametrize("closure", [False, True])
def test_products_with_the_jacobian_are_those_of_autograd(closure):
    generator = torch.Generator().manual_seed(0)
    data = draw_labelled(Task(machine("modular_addition(3)")), 0, 20, 5)
    matrices, initial = torch.randn(3, 4, 4, generator=generator).double(), torch.randn(4, generator=generator).double()
    last = torch.randn(3, 4, generator=generator).double()
    problem = AutomatonProblem(data, 3, lambda a: a, initial if closure else None)
    parameters = (matrices, last) if closure else (matrices, initial, last)
    direction = tuple(torch.randn(p.shape, generator=generator).double() for p in parameters)
    forward, backward = problem.linearise(parameters)
    step = 1e-6
    moved = [
        problem.residual(tuple(p + s * d for p, d in zip(parameters, direction, strict=True))) for s in (step, -step)
    ]
    torch.testing.assert_close(forward(direction), (moved[0] - moved[1]) / (2 * step), rtol=1e-5, atol=1e-5)
    towards = torch.randn(moved[0].shape, generator=generator).double()
    left = float((forward(direction) * towards).sum())
    right = sum(float((a * b).sum()) for a, b in zip(backward(towards), direction, strict=True))
    assert left == pytest.approx(right)


@pytest.mark.parametrize(
    ("task", "rank"),
    [
        ("modular_addition(5)", 5),
        ("symmetric(3)", 6),
        ("modular_arithmetic(2)", 4),
        ("modular_arithmetic(3)", 8),
        ("modular_arithmetic(5)", 14),
        ("tomita(3)", 5),
    ],
)
def test_the_rank_of_answers_is_the_smallest_hidden_size(task, rank):
    assert hankel_rank(Task(machine(task))) == rank


@pytest.mark.parametrize(
    ("task", "model", "options"),
    [
        ("modular_addition(5)", "full", SQUARED),
        ("random_machine(5, seed=3, kind=map)", "full", SQUARED),
        ("modular_addition(5)", "rotation", {"late": 0}),
        ("modular_addition(3)", "block(2)", {"late": 0}),
        ("parity", "diagonal", {}),
    ],
)
def test_networks_trained_on_ten_symbols_are_right_at_a_hundred_thousand(task, model, options, tmp_path):
    run = sw.train(task, model, seed=41, steps=1_500, **options)
    fine = sw.polish(run, out=tmp_path / "fine", seconds=1e9)
    result = fine.to_dict()
    assert result["status"] == "converged"
    assert result["residual"] < 1e-24
    assert fine.name.split("(")[0] == model.split("(")[0]
    assert [score.score for score in sw.evaluate(fine, lengths=[10, 500, 100_000], words=30).scores] == [1.0] * 3
    if model in ("full", "rotation"):
        assert result["horizon"] > 10**11
    again = sw.load(tmp_path / "fine")
    assert again.manifest.origin == "polished"
    assert sw.evaluate(again, lengths=[500], words=30).scores[0].score == 1.0
    json.dumps(result)


def test_a_rank_that_is_too_small_does_not_converge():
    run = sw.train("modular_addition(5)", "full", seed=41, steps=1_000, **SQUARED)
    result = sw.polish(run, rank=3, seconds=1e9).to_dict()
    assert result["status"] == "not converged"
    assert result["residual"] > 1e-3


def test_what_cannot_be_polished_gets_one_sentence(tmp_path):
    small = {"steps": 5, "hidden": 8, "late": 0}
    for task, model, options, message in [
        ("parity", "lstm", {}, "not bilinear"),
        ("parity", "full", {"additive": "input"}, "additive"),
        ("parity", "positive", {}, "cannot be polished"),
        ("parity", "full", {"supervision": "chain"}, "chains of thought"),
        ("modular_addition(3)", "rotation", {}, "coherent"),
    ]:
        with pytest.raises(StatewiseError, match=message):
            sw.polish(sw.train(task, model, **small, **options))
    with pytest.raises(StatewiseError, match="rank is 9"):
        sw.polish(sw.train("parity", "full", **small), rank=9)
    with pytest.raises(StatewiseError, match="diverged"):
        sw.polish(sw.train("parity", "full", **small | {"lr": 1e30, "readout": "plain", "steps": 50}))


def test_tasks_follow_only_what_they_draw():
    task = Task(machine("modular_arithmetic(3)"))
    start = np.array([task.machine.start])
    number, plus = task.machine.encode(["1"]), task.machine.encode(["+"])
    assert task.follow(start, number)[0] >= 0
    assert task.follow(start, np.concatenate([number, number]))[0] == -1
    assert task.follow(start, np.concatenate([number, plus]))[0] >= 0
    free = Task(Machine([[0, 1], [1, 0]]))
    assert free.follow(np.array([0, 1]), np.array([1, 1, 1])).tolist() == [1, 0]
