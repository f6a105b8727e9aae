"""The parts of polish: the solver, its problems, labels of sequences, coherent functionals and edges."""

import math

import numpy as np
import pytest
import torch

from statewise.machines import Machine, access_words, machine, minimise
from statewise.tasks import Task, legal_moves
from statewise.theory import compile_machine
from statewise.theory.polish import TaskSequences, polish_tracker
from statewise.theory.polish.automaton import AutomatonProblem, TrainedAutomaton, as_given, tracker_of
from statewise.theory.polish.coherence import Visits, dense_rotation, transitions
from statewise.theory.polish.edges import EdgeProblem
from statewise.theory.polish.factors import Factors, factor_near
from statewise.theory.polish.least_squares import LeastSquares, solve_least_squares
from statewise.transitions import Diagonal, Full

# rounds bound the work, whatever the computer
ALWAYS = 1e9
MAP = "random_machine(5, seed=3, kind=map)"


class Roots(LeastSquares):
    """r(x) = x^2 - a for each entry: Newton's method for square roots."""

    def __init__(self, a):
        self.a = a

    def residual(self, parameters):
        return (parameters[0] ** 2 - self.a).unsqueeze(1)

    def linearise(self, parameters):
        slope = 2 * parameters[0]
        return (lambda d: (slope * d[0]).unsqueeze(1)), (lambda r: (slope * r.squeeze(1),))


def test_the_solver_converges_quadratically():
    a = torch.tensor([4.0, 9.0, 2.0], dtype=torch.float64)
    costs = []
    solution = solve_least_squares(Roots(a), (torch.ones_like(a),), show=lambda n, cost: costs.append((n, cost)))
    assert solution.stopped == "converged"
    torch.testing.assert_close(solution.parameters[0], a.sqrt())
    assert [n for n, _ in costs] == list(range(1, solution.rounds + 1))
    assert costs[-1][1] == solution.cost
    # what follows is rounding
    assert costs[-2][1] < costs[-3][1] ** 1.5
    there = solve_least_squares(Roots(a), (a.sqrt(),))
    assert (there.stopped, there.rounds) == ("converged", 0)


def test_a_solver_that_cannot_go_on_returns_why():
    impossible = solve_least_squares(Roots(torch.tensor([-1.0], dtype=torch.float64)), (torch.ones(1).double(),))
    assert impossible.stopped == "stalled"
    assert impossible.cost == pytest.approx(1.0, rel=1e-3)
    a, one = torch.tensor([2.0, 1e6], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    few = solve_least_squares(Roots(a), (one,), rounds=2)
    assert (few.stopped, few.rounds) == ("rounds", 2)
    begun = float((one**2 - a).square().mean())
    assert 0 < few.cost < begun
    # a moment that has passed leaves everything as it was
    late = solve_least_squares(Roots(a), (one,), until=-math.inf)
    assert (late.stopped, late.rounds, late.cost) == ("time", 1, begun)
    assert torch.equal(late.parameters[0], one)


def automaton_problem(kind):
    """A small problem and where it begins: one-hot values, or closure along sequences or edges, of a level."""
    generator = torch.Generator().manual_seed(0)
    data = TaskSequences(Task(machine("modular_addition(3)"))).draw(0, 20, 5)
    targets = torch.nn.functional.one_hot(data.labels, 3).double()
    size = 2 if "rotation" in kind else 4
    initial, last = (torch.randn(shape, generator=generator).double() for shape in ((size,), (3, size)))
    matrices = torch.randn(3, size, size, generator=generator).double()
    if kind == "values":
        return AutomatonProblem(data, targets), (matrices, initial, last)
    angles = torch.randn(3, generator=generator).double()
    # of 3 x 3 edges, one is missing
    edges = torch.tensor([(q, a, (q + a) % 3) for q in range(3) for a in range(3)][:-1])
    if kind == "edges":
        return EdgeProblem(edges, as_given, 3, last, 1), (matrices, last)
    if kind == "edges, rotation":
        return EdgeProblem(edges, dense_rotation, 3, last, 1), (angles, last)
    if kind == "rotation":
        return AutomatonProblem(data, targets, dense_rotation, initial), (angles, last)
    return AutomatonProblem(data, targets, as_given, initial), (matrices, last)


@pytest.mark.parametrize("kind", ["values", "closure", "rotation", "edges", "edges, rotation"])
def test_products_with_the_jacobian_are_those_of_finite_differences(kind):
    problem, parameters = automaton_problem(kind)
    generator = torch.Generator().manual_seed(1)
    direction = tuple(torch.randn(p.shape, generator=generator).double() for p in parameters)
    forward, backward = problem.linearise(parameters)
    step = 1e-6
    moved = [
        problem.residual(tuple(p + s * d for p, d in zip(parameters, direction, strict=True))) for s in (step, -step)
    ]
    torch.testing.assert_close(forward(direction), (moved[0] - moved[1]) / (2 * step), rtol=1e-5, atol=1e-5)
    towards = torch.randn(moved[0].shape, generator=generator).double()
    left = float((forward(direction) * towards).sum())
    assert left == pytest.approx(float(sum((a * b).sum() for a, b in zip(backward(towards), direction, strict=True))))
    metric = problem.metric(parameters)
    for part, back in zip(direction, metric.invert(metric.apply(direction)), strict=True):
        torch.testing.assert_close(back, part, rtol=1e-8, atol=1e-8)
    assert float(sum((a * b).sum() for a, b in zip(direction, metric.apply(direction), strict=True))) > 0


def test_factors_are_exact_where_there_are_as_many_as_entries_of_a_matrix():
    generator = torch.Generator().manual_seed(0)

    def factors(symbols, size, rank):
        return Factors(*(torch.randn(n, rank, generator=generator).double() for n in (size, symbols, size)))

    matrices = torch.randn(5, 4, 4, generator=generator).double()
    for rank in (16, 20):
        near = factors(5, 4, rank)
        found = factor_near(matrices, near, math.inf)
        torch.testing.assert_close(found.dense(), matrices, rtol=1e-9, atol=1e-9)
        assert torch.equal(found.left, near.left)
        assert torch.equal(found.right, near.right)
    # fewer are as near as their rank allows: exact where the matrices have that rank
    truth = factors(6, 4, 3)
    near = Factors(*(part + 0.05 * torch.randn(part.shape).double() for part in (truth.left, truth.gate, truth.right)))
    found = factor_near(truth.dense(), near, math.inf)
    torch.testing.assert_close(found.dense(), truth.dense(), rtol=1e-9, atol=1e-9)
    assert float((factor_near(matrices, factors(5, 4, 3), math.inf).dense() - matrices).norm()) > 0.1


@pytest.mark.parametrize(
    ("task", "rank"),
    [
        ("modular_addition(5)", 5),
        ("symmetric(3)", 6),
        ("modular_arithmetic(2)", 4),
        ("modular_arithmetic(3)", 8),
        ("modular_arithmetic(5)", 14),
        ("modular_arithmetic(10)", 28),
        ("tomita(3)", 5),
    ],
)
def test_the_rank_of_answers_is_the_smallest_hidden_size(task, rank):
    assert TaskSequences(Task(machine(task))).hankel_rank() == rank


def merged(m, classes):
    return m.replace(outputs=m.outputs % classes, output_names=None)


@pytest.mark.parametrize(
    "m",
    [
        *map(machine, ("modular_arithmetic(2)", "modular_arithmetic(3)", "modular_arithmetic(3, precedence=true)")),
        *map(machine, ("tomita(3)", "tomita(5)", "tomita(5)*parity", "flip_flop", "even_pairs")),
        merged(machine("random_machine(7, seed=2, kind=map)"), 2),
        merged(machine("random_machine(8, seed=1, kind=permutation)"), 2),
        # the cyclic group of six, of which only parity is asked
        merged(machine("cyclic(6)"), 2),
    ],
    ids=lambda m: f"{m.name}-{m.classes}",
)
def test_labels_are_the_classes_of_myhill_and_nerode(m):
    source, minimal = TaskSequences(Task(m)), minimise(m)
    reached = access_words(minimal, legal_moves(minimal))
    assert len(source.answer_of) == len(reached)
    data = source.draw(0, 300)
    seen: dict[int, int] = {minimal.start: source.start}
    states = minimal.track(data.tokens.numpy())
    for state, label in zip(states[data.path.numpy() >= 0], data.path[data.path >= 0].tolist(), strict=True):
        assert seen.setdefault(int(state), label) == label
        assert source.answer_of[label] == minimal.outputs[state]
    assert len(set(seen.values())) == len(seen) == len(reached)
    assert source.answer_of[source.start] == minimal.outputs[minimal.start]
    assert torch.equal(source.answer_of[data.labels], data.answers)


@pytest.mark.parametrize("name", ["modular_addition(3)", "symmetric(3)", MAP])
def test_coherent_functionals_are_those_of_a_machine_hidden_in_a_larger_network(name):
    m, random = machine(name), np.random.default_rng(0)
    exact = compile_machine(m, "full").model
    states, junk = m.states, 5
    # what the machine does not know turns about with every symbol, beside it and read from its states
    matrices = torch.zeros(m.symbols, states + junk, states + junk, dtype=torch.float64)
    matrices[:, :states, :states] = TrainedAutomaton(exact).matrices
    for a in range(m.symbols):
        matrices[a, states:, states:] = torch.from_numpy(np.linalg.qr(random.standard_normal((junk, junk)))[0])
    initial = torch.cat([exact.initial_state.detach().double(), torch.ones(junk, dtype=torch.float64) / junk**0.5])
    turn = torch.from_numpy(np.linalg.qr(random.standard_normal((states + junk,) * 2))[0])
    network = tracker_of(
        Full.from_dense((turn @ matrices @ turn.T).permute(1, 2, 0)),
        turn @ initial,
        torch.zeros(m.classes, states + junk, dtype=torch.float64),
    )
    source = TaskSequences(Task(m))
    visits = Visits(TrainedAutomaton(network), source.draw(0, 2_000), states)
    functionals, spreads, _ = visits.functionals(0)
    assert int((spreads < 1e-6).sum()) == states
    assert float(spreads[states:].min()) > 0.3
    kept = functionals[:states]
    for matrix in TrainedAutomaton(network).matrices:
        image = kept @ matrix
        inside = torch.linalg.lstsq(kept.T, image.T).solution
        torch.testing.assert_close(kept.T @ inside, image.T, rtol=1e-6, atol=1e-6)
    # and so polish keeps the machine alone, although the readout reads nothing
    found = polish_tracker(network, source, seconds=ALWAYS, objective="closure")
    assert (found.outcome, found.rank) == ("converged", states)


def test_a_block_that_shrinks_beside_another_is_followed():
    """State 1 is never left: the symbol that leads there divides every other coordinate by 20."""
    m = Machine([[0, 1], [1, 1]])
    ones, fall = torch.ones(4, dtype=torch.float64), torch.tensor([1, 0.05, 1, 0.05], dtype=torch.float64)
    weight = torch.stack([ones, fall], dim=1)
    readout = torch.tensor([[-0.3, 1.0, 0, 0], [0.3, -1.0, 0, 0]], dtype=torch.float64)
    network = tracker_of(Diagonal.from_dense(torch.diag_embed(weight.T).permute(1, 2, 0)), ones, readout)
    found = polish_tracker(network, TaskSequences(Task(m)), seconds=ALWAYS)
    assert found.outcome == "converged"
    # what shrank is forgotten altogether
    assert float(TrainedAutomaton(found.model).matrices[1].diagonal().abs().min()) < 1e-12


def test_edges_between_labels_are_the_moves_of_the_machine():
    m = machine("random_machine(6, seed=2, kind=map)")
    source = TaskSequences(Task(m))
    edges = transitions(source.draw(0, 2_000), source.start)
    state_of = {int(label): state for state, label in enumerate(source._label_of_state)}
    moves = {(state_of[q], a, state_of[p]) for q, a, p in edges.tolist()}
    assert moves == {(q, a, int(m.delta[q, a])) for q in range(m.states) for a in range(m.symbols)}


def test_edges_are_met_exactly_when_sequences_are():
    """A character of Z_5, turned a little: what is solved along edges holds along sequences, and the start stays."""
    source = TaskSequences(Task(machine("modular_addition(5)")))
    label_of = torch.from_numpy(source._label_of_state)
    turns = torch.arange(5, dtype=torch.float64) * 2 * math.pi / 5
    circle = torch.stack([turns.cos(), turns.sin()], dim=1)
    prototypes = torch.empty_like(circle)
    prototypes[label_of] = circle + 0.05 * torch.randn(5, 2, generator=torch.Generator().manual_seed(3)).double()
    edges = transitions(source.draw(0, 500), source.start)
    problem = EdgeProblem(edges, dense_rotation, 5, prototypes, source.start)
    found = solve_least_squares(problem, (turns + 0.05, prototypes))
    assert found.stopped == "converged"
    angles, solved = found.parameters
    torch.testing.assert_close(angles, turns, rtol=0, atol=1e-13)
    assert torch.equal(solved[source.start], prototypes[source.start])
    data = source.draw(1, 300)
    known = torch.nn.functional.one_hot(data.labels, 5).double()
    along = AutomatonProblem(data, known, dense_rotation, solved[source.start])
    assert float(along.residual((angles, solved)).abs().max()) < 1e-13


def test_tasks_follow_only_what_they_draw():
    task = Task(machine("modular_arithmetic(3)"))
    start = np.array([task.machine.start])
    number, plus = task.machine.encode(["1"]), task.machine.encode(["+"])
    assert task.follow(start, number)[0] >= 0
    assert task.follow(start, np.concatenate([number, number]))[0] == -1
    assert task.follow(start, np.concatenate([number, plus]))[0] >= 0
    free = Task(Machine([[0, 1], [1, 0]]))
    assert free.follow(np.array([0, 1]), np.array([1, 1, 1])).tolist() == [1, 0]
