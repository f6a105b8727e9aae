"""Balanced sequences: uniform among those that end in a state, states and outputs as equally frequent as can be."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from statewise.errors import TaskError
from statewise.machines import Machine, machine
from statewise.tasks import Task, legal_moves
from statewise.tasks.balance import PathCounts
from statewise.training import resolve
from tests.catalogues import MACHINES

SMALL = ["tomita(1)", "tomita(4)", "modular_arithmetic(3)", "random_machine(5, seed=1, kind=map)", "parity"]


def by_end(m, legal, length):
    """All sequences of a length that are part of the task, by the state they end in."""
    found = {}
    for word in itertools.product(range(m.symbols), repeat=length):
        q = m.start
        for symbol in word:
            if not legal[q, symbol]:
                break
            q = int(m.delta[q, symbol])
        else:
            found.setdefault(q, []).append(word)
    return found


@pytest.mark.parametrize("name", SMALL)
def test_sequences_that_end_in_a_state_are_equally_likely(name):
    m, length, count = machine(name), 5, 20_000
    legal = legal_moves(m)
    words = by_end(m, legal, length)
    drawn = Counter(map(tuple, PathCounts(m, legal).draw(np.random.default_rng(0), length, count).tolist()))
    assert set(drawn) <= {word for ending in words.values() for word in ending}
    outputs = Counter(int(m.outputs[q]) for q in words)
    for q, ending in words.items():
        total = sum(drawn[word] for word in ending)
        share = count / len(outputs) / outputs[int(m.outputs[q])]
        assert abs(total - share) <= 1
        # each count is binomial: none is seven standard deviations away
        expected = total / len(ending)
        assert max(abs(drawn[word] - expected) for word in ending) < 7 * math.sqrt(expected) + 1


@pytest.mark.parametrize("name", SMALL)
def test_counts_are_those_of_all_sequences(name):
    m = machine(name)
    legal = legal_moves(m)
    paths = PathCounts(m, legal)
    counts = paths.begin()
    for length in range(1, 6):
        counts = paths.longer(counts)
        words = {q: len(ending) for q, ending in by_end(m, legal, length).items()}
        largest = max(words.values())
        expected = [math.log(words[q] / largest) if q in words else -math.inf for q in range(m.states)]
        assert counts.tolist() == pytest.approx(expected)


def test_counts_that_differ_by_thousands_of_digits_are_kept_apart():
    """Of all words of zeros and ones, the one without a zero is drawn as often as all others together."""
    m = machine("tomita(1)")
    tokens = PathCounts(m, legal_moves(m)).draw(np.random.default_rng(0), 5_000, 40)
    ones = (tokens == 1).all(axis=1)
    assert ones.sum() == 20
    assert len({row.tobytes() for row in tokens[~ones]}) == 20


@pytest.mark.parametrize("name", [name for name in MACHINES if machine(name).states > 1])
@pytest.mark.parametrize("length", [10, 200])
def test_a_constant_answer_is_at_chance_on_balanced_tests(name, length):
    task = Task(machine(name), tests="balanced")
    finals = task.test(0, length, 200).finals
    reached = len(np.unique(finals))
    most = np.bincount(finals).max()
    assert most <= math.ceil(200 / reached)


def test_tests_are_uniform_unless_they_are_asked_to_be_balanced():
    m = machine("tomita(1)")
    uniform, balanced = (Task(m, tests=how).test(3, 50, 100) for how in ("uniform", "balanced"))
    assert np.array_equal(Task(m).test(3, 50, 100).tokens, uniform.tokens)
    assert np.bincount(uniform.finals).max() == 100
    assert np.bincount(balanced.finals).tolist() == [50, 50]
    assert np.array_equal(Task(m, tests="balanced").test(3, 50, 100).tokens, balanced.tokens)


def test_a_length_without_a_sequence_is_one_sentence():
    m = Machine([[1], [1]])
    legal = np.array([[True], [False]])
    with pytest.raises(TaskError, match="no sequence of this length is part of the task"):
        PathCounts(m, legal).draw(np.random.default_rng(0), 2, 5)


@pytest.mark.parametrize("name", ["tomita(1)", "tcp"])
def test_balanced_training_sequences_end_in_every_output_alike(name):
    m = machine(name)
    task = Task(m, draws="balanced")
    batches = [task.batch(0, position, 512) for position in range(8)]
    long = np.concatenate([batch.finals[batch.lengths == 10] for batch in batches])
    shares = np.bincount(long, minlength=m.classes) / len(long)
    assert shares.max() < 1.3 / task.classes
    uniform = np.concatenate([Task(m).batch(0, position, 512).finals for position in range(8)])
    assert np.bincount(uniform).max() / len(uniform) > 1.2 * shares.max()


def test_balanced_batches_are_a_function_of_seed_and_position():
    task, again = (Task(machine("tcp"), draws="balanced") for _ in range(2))
    expected = task.batch(3, 70)
    again.batch(3, 5)
    found = again.batch(3, 70)
    assert np.array_equal(found.tokens, expected.tokens)
    assert not np.array_equal(task.batch(4, 70).tokens, expected.tokens)


@pytest.mark.parametrize("name", [name for name in MACHINES if machine(name).classes > 1])
def test_the_constant_answer_of_a_task_is_what_uniform_sequences_give(name):
    task = Task(machine(name))
    drawn = task.test(0, 10, 4_000).finals
    share = np.bincount(drawn).max() / len(drawn)
    assert task.constant == pytest.approx((share - 1 / task.classes) / (1 - 1 / task.classes), abs=0.07)


@pytest.mark.parametrize(
    ("name", "draws"), [("tomita(1)", "balanced"), ("modular_addition(5)", "uniform"), ("tcp", "balanced")]
)
def test_our_recipe_balances_the_training_of_skewed_machines(name, draws):
    assert resolve({"task": name, "model": "full"}).draws == draws
    assert resolve({"task": name, "model": "full", "recipe": "stated"}).draws == "uniform"
    assert resolve({"task": name, "model": "full", "draws": "uniform"}).draws == "uniform"
    # a machine whose name does not build it counts by itself
    assert resolve({"task": "mine", "model": "full"}, kept=machine(name)).draws == draws
