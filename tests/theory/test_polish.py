"""Polish: trained on sequences of ten symbols, exact to machine precision, and proven to ten billion."""

import json
import math
from functools import cache

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError, StatewiseError
from statewise.machines import Machine, access_words, machine, minimise
from statewise.runs.directory import read_record
from statewise.store import Store
from statewise.sweep import EngineOptions, run_grid
from statewise.tasks import Task, legal_moves
from statewise.theory import compile_machine
from statewise.theory.polish import OwnSequences, TaskSequences, polish_tracker
from statewise.theory.polish.automaton import AutomatonProblem, TrainedAutomaton, as_given, tracker_of
from statewise.theory.polish.coherence import Visits, dense_rotation, transitions
from statewise.theory.polish.edges import EdgeProblem
from statewise.theory.polish.factors import Factors, factor_near
from statewise.theory.polish.least_squares import LeastSquares, solve_least_squares
from statewise.training.options import resolve
from statewise.transitions import CP, Block, Diagonal, Full, Rotation
from tests.command import statewise

# rounds bound the work, whatever the computer
ALWAYS = 1e9
MAP = "random_machine(5, seed=3, kind=map)"
KINDS = {"full": Full, "cp": CP, "block": Block, "rotation": Rotation, "diagonal": Diagonal}
# a machine, a level, and the steps in which it is learned at length 10
POLISHABLE = [
    ("parity", "full", 300),
    ("modular_addition(5)", "full", 600),
    (MAP, "full", 600),
    ("modular_arithmetic(3)", "full", 1_000),
    ("modular_addition(3)", "cp(64)", 600),
    ("modular_addition(3)", "block(2)", 600),
    ("modular_addition(5)", "block(2)", 600),
    (MAP, "block(8)", 800),
    ("modular_addition(5)", "rotation", 600),
    ("parity", "diagonal", 300),
]
PLAN = {"hidden": 32, "probe": [10], "test_lengths": [10, 10_000], "words": 50}


@cache
def trained(task, model, steps):
    return sw.train(config=PLAN | {"task": task, "model": model, "steps": steps, "seed": 1})


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


@pytest.mark.parametrize("supervision", ["final", "aligned"])
def test_a_fixed_training_set_is_all_that_polish_sees(monkeypatch, supervision):
    seen = []

    def record_source(model, source, *rest, **options):
        seen.append(source)
        return polish_tracker(model, source, *rest, **options)

    monkeypatch.setattr("statewise.theory.polish.recording.polish_tracker", record_source)
    plan = {"task": "modular_addition(3)", "model": "full", "hidden": 8, "steps": 5, "samples": 50, "shortest": 4}
    run = sw.train(config=plan | {"longest": 4, "supervision": supervision, "probe": [4], "test_lengths": [4]})
    sw.polish(run, seconds=ALWAYS)
    known = seen[0]._known
    whole = {word for word in known if len(word) == 4}
    assert len(whole) == 50
    assert set(known) == whole | ({w[:t] for w in whole for t in (1, 2, 3)} if supervision == "aligned" else set())
    assert all(sum(word) % 3 == answer for word, answer in known.items())


def check_structure(model, result, spec):
    """A network is of its level still, and a block that was reduced has zeros where nothing is left."""
    name = spec.split("(")[0]
    assert type(model.transition) is KINDS[name]
    assert result["level"] == spec
    hidden = len(model.initial_state)
    assert (model.transition.hidden_size, result["rank"]) == (hidden, hidden)
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    if name == "cp":
        assert f"cp({model.transition.rank})" == spec
    if name == "block":
        size = model.transition.size
        assert spec == f"block({size})"
        assert hidden % size == 0
        kept = int(result["reason"].split()[0])
        matrices = TrainedAutomaton(model).matrices
        used = matrices.abs().sum(dim=0)
        alive = (used.sum(dim=0) > 0) & (used.sum(dim=1) > 0)
        assert int(alive.sum()) == kept < hidden
        for dead in torch.arange(hidden)[~alive].tolist():
            assert not matrices[:, dead].any()
            assert not matrices[:, :, dead].any()
            assert model.initial_state[dead] == 0


@pytest.mark.parametrize(("task", "spec", "steps"), POLISHABLE)
def test_every_level_is_right_at_ten_thousand_and_proven_far_beyond(task, spec, steps):
    run = trained(task, spec, steps)
    assert run.record.scores[0].score == 1.0
    fine = sw.polish(run, seconds=ALWAYS)
    result = fine.to_dict()
    assert (result["status"], result["objective"]) == ("converged", "closure")
    assert "functionals" in result["reason"]
    assert "take one value for each label" in result["reason"]
    assert result["residual"] < 1e-24
    assert result["horizon"] >= 10**10
    assert not fine.failed
    check_structure(fine.model, result, spec)
    assert [score.score for score in sw.evaluate(fine, lengths=[1, 10, 10_000], words=50).scores] == [1.0] * 3
    assert json.loads(json.dumps(result)) == result
    assert fine.shortest == 1
    verdict = sw.certify(fine, work=0)
    assert verdict.status in ("proven", "horizon")
    assert verdict.verdict.shortest == 1
    assert verdict.horizon is None or verdict.horizon >= 10**10


def test_polish_is_what_makes_trained_networks_right_at_ten_thousand():
    short = [trained(*case).record.scores[-1].score for case in POLISHABLE]
    assert sum(score < 0.7 for score in short) >= 4


def test_a_polished_network_is_kept_opened_and_polished_again(tmp_path):
    run = trained("modular_addition(5)", "full", 600)
    seen = []
    fine = sw.polish(run, out=tmp_path / "fine", seconds=ALWAYS, show=seen.append)
    rounds = fine.to_dict()["rounds"]
    assert len(seen) == rounds
    assert all("residual" in line for line in seen)
    again = sw.load(tmp_path / "fine")
    assert (again.manifest.origin, again.name, again.shortest) == ("polished", "full", 1)
    assert again.manifest.facts["horizon"] == fine.to_dict()["horizon"]
    assert sw.evaluate(again, lengths=[10_000], words=30).scores[0].score == 1.0
    twice = sw.polish(again, seconds=ALWAYS).to_dict()
    assert (twice["status"], twice["rank"]) == ("converged", fine.to_dict()["rank"])
    assert twice["rounds"] <= rounds


@pytest.mark.parametrize(
    ("task", "rank", "steps"), [("modular_addition(5)", 5, 600), ("modular_arithmetic(3)", 8, 1_000), (MAP, 5, 600)]
)
def test_values_are_solved_for_at_the_hankel_rank(task, rank, steps):
    run = trained(task, "full", steps)
    found = polish_tracker(run.model, run.task, seconds=ALWAYS, objective="values")
    assert (found.outcome, found.objective, found.rank) == ("converged", "values", rank)
    assert found.reason == f"the Hankel rank of the answers on short sequences is {rank}"
    # values are one-hot, and stay so
    polished, batch = TrainedAutomaton(found.model), run.task.test(0, 2_000, 20)
    h = polished.initial.expand(20, -1)
    for symbols in batch.tokens.T:
        h = (polished.matrices[symbols] @ h.unsqueeze(2)).squeeze(2)
    one_hot = torch.eye(run.machine.classes, dtype=torch.float64)[batch.finals]
    torch.testing.assert_close(h @ polished.readout.T, one_hot, rtol=0, atol=1e-6)


def words_with_prefixes(m, count, longest, seed=0):
    """Labelled sequences drawn by hand, and all their prefixes, the empty one included."""
    random, found = np.random.default_rng(seed), {}
    for _ in range(count):
        word = tuple(random.integers(0, m.symbols, int(random.integers(1, longest + 1))).tolist())
        for end in range(len(word) + 1):
            found[word[:end]] = m.answer(np.array(word[:end], dtype=np.int64))
    return found


@pytest.mark.parametrize(
    ("task", "spec", "steps"),
    [
        case
        for case in POLISHABLE
        if case[:2] in [("modular_addition(5)", "full"), (MAP, "block(8)"), ("modular_addition(5)", "rotation")]
    ],
)
def test_labelled_sequences_suffice_and_no_machine_is_used(task, spec, steps):
    run = trained(task, spec, steps)
    labelled = words_with_prefixes(run.machine, 600, 6)
    source = OwnSequences(list(labelled), list(labelled.values()), run.machine.classes)
    found = polish_tracker(run.model, source, seconds=ALWAYS)
    drawn = polish_tracker(run.model, run.task, seconds=ALWAYS)
    assert (found.outcome, found.objective, found.rank) == (drawn.outcome, drawn.objective, drawn.rank)
    assert found.outcome == "converged"
    polished = sw.Run(run.machine, held=found.model)
    assert sw.evaluate(polished, lengths=[10, 10_000], words=50).scores[1].score == 1.0
    assert sw.certify(polished, shortest=1, work=0).horizon >= 10**10


def test_own_sequences_know_the_labels_of_prefixes_that_were_given():
    source = OwnSequences([(0, 1, 1), (0, 1), (1,), ()], [2, 1, 0, 1], 3)
    data = source.draw(0, 10)
    rows = {
        tuple(tokens[:n]): row for row, (tokens, n) in enumerate(zip(data.tokens.tolist(), data.lengths, strict=True))
    }
    assert data.path[rows[0, 1, 1]].tolist() == [-1, 1, 2]
    assert data.path[rows[1,]].tolist()[:1] == [0]
    assert sorted(data.answers.tolist()) == [0, 1, 2]
    assert (source.start, source.answer_of.tolist(), source.hankel_rank()) == (1, [0, 1, 2], None)
    assert OwnSequences([(0,)], [0], 2).start == -1
    assert source.draw(0, 1).tokens.shape[0] == 1
    assert source.draw(0, 10, longest=1).lengths.tolist() == [1]
    with pytest.raises(NetworkError, match="no labelled sequences"):
        OwnSequences([()], [0], 2)


def write_words(file, m, labelled):
    """Write labelled sequences by the names of the machine."""
    pairs = [(list(m.decode(word)), m.output_names[answer]) for word, answer in labelled.items()]
    if file.suffix == ".csv":
        file.write_text("word,label\n" + "".join(f"{' '.join(word)},{label}\n" for word, label in pairs))
    else:
        file.write_text("".join(json.dumps({"word": word, "label": label}) + "\n" for word, label in pairs))


def test_the_command_polishes_with_a_file_of_labelled_sequences(tmp_path):
    m = machine("modular_addition(5)")
    run = sw.train(config=PLAN | {"task": m.name, "model": "full", "steps": 600}, out=tmp_path / "run")
    labelled, files = words_with_prefixes(m, 600, 6), [tmp_path / "words.jsonl", tmp_path / "words.csv"]
    for file in files:
        write_words(file, m, labelled)
    ended = statewise("polish", run.path, "--data", files[0], "--out", tmp_path / "fine", "--seconds", ALWAYS, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)
    assert (result["status"], result["run"]) == ("converged", str(tmp_path / "fine"))
    assert result["horizon"] >= 10**10
    assert sw.evaluate(tmp_path / "fine", lengths=[10_000], words=50).scores[0].score == 1.0
    # the other format holds the same sequences
    same = sw.polish(run, data=files[1], seconds=ALWAYS).to_dict()
    changing = {"run", "seconds"}
    assert {k: v for k, v in same.items() if k not in changing} == {
        k: v for k, v in result.items() if k not in changing
    }


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_strange_names_in_a_file_are_one_sentence(ending, tmp_path):
    run, file = trained("parity", "full", 300), tmp_path / f"words.{ending}"
    for symbol, label, message in [("2", "even", 'symbol "2"'), ("1", "strange", 'label "strange"')]:
        write_words(file, machine("parity"), words_with_prefixes(machine("parity"), 20, 4))
        line = f"{symbol} 1,{label}\n" if ending == "csv" else json.dumps({"word": [symbol], "label": label}) + "\n"
        file.write_text(file.read_text() + line.replace("even", machine("parity").output_names[0]))
        with pytest.raises(NetworkError, match=message) as raised:
            sw.polish(run, data=file)
        assert "\n" not in str(raised.value)
        assert "expected" in str(raised.value)


@pytest.mark.parametrize(
    ("task", "spec", "hidden", "outcome", "objective"),
    [
        ("modular_addition(3)", "block(2)", 8, "rank not found", "closure"),
        ("modular_addition(3)", "rotation", 8, "rank not found", "closure"),
        ("parity", "block(2)", 8, "rank not found", "closure"),
        # six states do not fit into four dimensions
        ("symmetric(3)", "full", 4, "not converged", "values"),
    ],
)
def test_what_was_not_learned_is_an_outcome(task, spec, hidden, outcome, objective):
    run = sw.train(task, spec, steps=1, hidden=hidden)
    fine = sw.polish(run, seconds=ALWAYS)
    result = fine.to_dict()
    assert (result["status"], result["objective"], result["horizon"]) == (outcome, objective, None)
    assert fine.failed
    assert result["reason"]
    if outcome == "rank not found":
        before, after = (sw.evaluate(network, lengths=[3], words=200).scores[0].correct for network in (run, fine))
        assert before == after


def test_a_rank_that_is_given_is_kept():
    run = trained("modular_addition(5)", "full", 600)
    # two dimensions hold one character of Z_5, which separates the answers
    for rank in (2, 5, 7):
        result = sw.polish(run, rank=rank, seconds=ALWAYS).to_dict()
        assert (result["status"], result["rank"]) == ("converged", rank)
    small = sw.polish(run, rank=1, seconds=ALWAYS).to_dict()
    assert (small["status"], small["reason"], small["horizon"]) == ("not converged", "as given", None)
    assert small["residual"] > 1e-3


def test_what_cannot_be_polished_gets_one_sentence():
    small = {"steps": 2, "hidden": 8}
    for task, model, options, rank, message in [
        ("parity", "lstm", {}, None, "not bilinear"),
        ("parity", "full", {"additive": "input"}, None, "additive"),
        ("parity", "positive", {}, None, "positive networks cannot be polished; use full, cp, block"),
        ("parity", "full", {"supervision": "chain"}, None, "chains of thought"),
        ("parity", "full", {}, 9, "rank is 9; expected 1 to 8"),
        ("parity", "full", {}, 0, "rank is 0; expected 1 to 8"),
        ("parity", "block(2)", {}, 2, "take no rank"),
        ("parity", "rotation", {}, 2, "take no rank"),
        ("parity", "full", {"lr": 1e30, "readout": "plain", "steps": 50}, None, "diverged"),
    ]:
        run = sw.train(task, model, **small | options)
        with pytest.raises(StatewiseError, match=message) as raised:
            sw.polish(run, rank=rank)
        assert "\n" not in str(raised.value)
    with pytest.raises(NetworkError, match="full and cp networks only"):
        polish_tracker(trained("parity", "diagonal", 300).model, Task(machine("parity")), objective="values")
    broken = sw.train("parity", "full", **small).model
    with torch.no_grad():
        broken.readout[0, 0] = math.nan
    with pytest.raises(NetworkError, match="not finite"):
        polish_tracker(broken, Task(machine("parity")))


SMALL = PLAN | {"task": "modular_addition(3)", "model": "full", "steps": 300, "polish": True}


def test_a_polish_that_was_interrupted_is_done_again_and_nothing_else(tmp_path, monkeypatch):
    def interrupt(*anything):
        raise KeyboardInterrupt

    def refuse(*anything):
        raise AssertionError("it was done again")

    with monkeypatch.context() as patch:
        patch.setattr("statewise.theory.polish.recording.polish_network", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sw.train(config=SMALL, out=tmp_path / "run")
    half = read_record(tmp_path / "run")
    assert half.polished is None
    assert not (tmp_path / "run" / "polished").exists()
    with monkeypatch.context() as patch:
        patch.setattr("statewise.training.loop.advance", refuse)
        whole = sw.train(config=SMALL, out=tmp_path / "run").record
    assert whole.model_copy(update={"polished": None}) == half
    assert whole.polished.status == "converged"
    assert whole == read_record(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("statewise.training.loop.advance", refuse)
        patch.setattr("statewise.theory.polish.recording.polish_network", refuse)
        assert sw.train(config=SMALL, out=tmp_path / "run").record == whole


def test_a_run_records_what_polish_reached_beside_its_own_scores(tmp_path):
    run = sw.train(config=SMALL, out=tmp_path / "run")
    reached = run.record.polished
    assert reached.horizon >= 10**10
    assert [(score.length, score.count) for score in reached.scores] == [(10, 50), (10_000, 50)]
    assert all(score.score == 1.0 for score in reached.scores)
    assert run.to_dict()["polished"]["horizon"] == reached.horizon
    assert any(label == "polished" for label, _ in run.lines())
    fine = sw.load(tmp_path / "run" / "polished")
    assert (fine.manifest.origin, fine.shortest) == ("polished", 1)
    assert sw.evaluate(fine, lengths=[10_000], words=20).scores[0].score == 1.0
    plain = sw.train(config=SMALL | {"polish": False}, out=tmp_path / "plain").record
    assert plain.polished is None
    assert plain.scores == run.record.scores
    assert plain.config.key() != run.record.config.key()
    # a level that cannot be polished is a run like any other, with the reason on record
    positive = sw.train(config=SMALL | {"task": "flip_flop", "model": "positive", "steps": 2}).record
    assert positive.polished.status.startswith("positive networks cannot be polished")
    assert (positive.polished.residual, positive.polished.scores) == (None, ())


def test_a_sweep_records_polished_scores_and_horizons(tmp_path):
    given = {"task": "modular_addition(3)", "hidden": 16, "steps": 400, "polish": True, "words": 40}
    runs = [
        resolve(given | {"model": model, "test_lengths": [10, 2_000], "probe": [10]}) for model in ("full", "rotation")
    ]
    outcome = run_grid(tmp_path / "store", runs, EngineOptions(workers=1))
    assert (outcome.ran, outcome.failed) == (2, False)
    with Store.open(tmp_path / "store") as store:
        records = {record.config.model: record for record in store.records()}
    assert records.keys() == {"full", "rotation"}
    for record in records.values():
        assert record.polished.status == "converged"
        assert record.polished.horizon >= 10**10
        assert [(score.length, score.score) for score in record.polished.scores] == [(10, 1.0), (2_000, 1.0)]


def test_tasks_follow_only_what_they_draw():
    task = Task(machine("modular_arithmetic(3)"))
    start = np.array([task.machine.start])
    number, plus = task.machine.encode(["1"]), task.machine.encode(["+"])
    assert task.follow(start, number)[0] >= 0
    assert task.follow(start, np.concatenate([number, number]))[0] == -1
    assert task.follow(start, np.concatenate([number, plus]))[0] >= 0
    free = Task(Machine([[0, 1], [1, 0]]))
    assert free.follow(np.array([0, 1]), np.array([1, 1, 1])).tolist() == [1, 0]
