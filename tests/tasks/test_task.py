import numpy as np
import pytest

from statewise.errors import TaskError
from statewise.machines import Machine, machine
from statewise.machines.dot import from_dot
from statewise.randomness import stream
from statewise.tasks import Lengths, Task
from statewise.tasks.batches import FORMATS


def same(a, b):
    return all(np.array_equal(getattr(a, key), getattr(b, key)) for key in ("tokens", "lengths", "outputs"))


TASKS = [
    Task(machine("modular_addition(5)")),
    Task(machine("modular_arithmetic(5)"), Lengths(3, 9), "aligned"),
    Task(machine("tomita(3)"), Lengths(4, 4)),
    Task(machine("parity"), Lengths(2, 6), samples=40, validation=20),
    Task(machine("modular_addition(5)"), supervision="chain"),
]
WORDS = TASKS[:4]


@pytest.mark.parametrize("task", TASKS, ids=range(len(TASKS)))
def test_batches_depend_on_seed_and_position_alone(task):
    before = np.random.get_state()[1].copy()
    later = [task.batch(7, position, 16) for position in (5, 2, 9)]
    fresh = Task(task.machine, task.lengths, task.supervision, task.samples, task.validation)
    for position, batch in zip((5, 2, 9), later, strict=True):
        assert same(fresh.batch(7, position, 16), batch)
    assert not same(task.batch(8, 5, 16), later[0])
    assert not same(task.batch(7, 6, 16), later[0])
    assert np.array_equal(np.random.get_state()[1], before)


def test_batches_of_a_block_are_those_of_their_positions():
    """Early, late and growing batches, in any order, whatever was drawn before."""
    lengths = Lengths(2, 10, growth=50, late=400, late_from=150, late_to=200)
    task = Task(machine("modular_addition(3)"), lengths)
    order = np.random.default_rng(0).permutation(260)
    drawn = {int(p): task.batch(0, int(p), 16) for p in order}
    for position in (0, 49, 63, 64, 149, 150, 151, 200, 259):
        assert same(Task(task.machine, lengths).batch(0, position, 16), drawn[position])
        shortest, longest = lengths.bounds(position)
        assert drawn[position].lengths.max() <= longest
        assert drawn[position].tokens.shape[1] == drawn[position].lengths.max()
        assert drawn[position].lengths.min() >= (shortest if position < 150 else 2)
    texts = {drawn[p].tokens.tobytes() for p in drawn}
    assert len(texts) == 260


@pytest.mark.parametrize("task", WORDS, ids=range(len(WORDS)))
def test_answers_are_the_machines(task):
    batch = task.batch(0, 3, 32)
    for word, length, outputs, final in zip(batch.tokens, batch.lengths, batch.outputs, batch.finals, strict=True):
        assert task.lengths.shortest <= length <= task.lengths.longest
        assert np.array_equal(outputs[:length], task.machine.outputs[task.machine.track(word[:length])])
        assert final == task.machine.answer(word[:length])


@pytest.mark.parametrize("supervision", ["final", "aligned"])
def test_answers_are_asked_for_at_the_end_or_after_each_symbol(supervision):
    batch = Task(machine("parity"), Lengths(1, 7), supervision).batch(0, 0, 50)
    if supervision == "final":
        assert batch.asked is None
        return
    for asked, length in zip(batch.asked, batch.lengths, strict=True):
        assert np.flatnonzero(asked).tolist() == list(range(length))


def test_a_chain_is_the_word_then_its_outputs():
    task = TASKS[4]
    assert task.vocabulary == 5 + 1 + 5
    assert task.written_length(500) == 1000
    plain, chain = Task(task.machine).batch(3, 2, 40), task.batch(3, 2, 40)
    for row in range(40):
        n = int(plain.lengths[row])
        outputs = plain.outputs[row, :n].tolist()
        expected = [*plain.tokens[row, :n].tolist(), 5, *(6 + o for o in outputs[:-1])]
        assert chain.lengths[row] == 2 * n
        assert chain.tokens[row, : 2 * n].tolist() == expected
        assert not chain.tokens[row, 2 * n :].any()
        assert np.flatnonzero(chain.asked[row]).tolist() == list(range(n, 2 * n))
        assert chain.outputs[row, n : 2 * n].tolist() == outputs
    assert np.array_equal(chain.finals, plain.finals)
    # test words are plain: a model writes the chain itself
    assert same(task.test(0, 9, 4), Task(task.machine).test(0, 9, 4))


def test_a_closed_sequence_has_one_more_token_after_which_its_output_is_asked_for():
    task = Task(machine("modular_addition(5)"), Lengths(1, 7), "closed")
    assert (task.vocabulary, task.written_length(500)) == (6, 501)
    plain, closed = Task(task.machine, Lengths(1, 7)).batch(3, 2, 40), task.batch(3, 2, 40)
    for row in range(40):
        n = int(plain.lengths[row])
        assert closed.tokens[row].tolist() == [
            *plain.tokens[row, :n].tolist(),
            5,
            *[0] * (closed.tokens.shape[1] - n - 1),
        ]
        assert closed.outputs[row, n] == plain.outputs[row, n - 1]
    assert closed.asked is None
    assert np.array_equal(closed.lengths, plain.lengths + 1)
    assert np.array_equal(closed.finals, plain.finals)
    # test sequences are plain: evaluation closes them
    assert same(task.test(0, 9, 4), Task(task.machine).test(0, 9, 4))


def test_a_closed_batch_worked_by_hand():
    tokens, outputs = np.array([[3, 4, 1], [2, 0, 0]]), np.array([[3, 2, 3], [2, 2, 2]])
    batch = FORMATS["closed"](tokens, np.array([3, 1]), outputs, 5)
    assert batch.tokens.tolist() == [[3, 4, 1, 5], [2, 5, 0, 0]]
    assert batch.lengths.tolist() == [4, 2]
    assert batch.finals.tolist() == [3, 2]


def test_with_a_stride_lengths_that_lie_between_are_shortened():
    odd = Lengths(3, 40, stride=2)
    assert list(odd.every()) == list(range(3, 40, 2))
    batch = Task(machine("modular_arithmetic(5, precedence=true)"), odd).batch(0, 0, 20_000)
    counts = np.bincount(batch.lengths, minlength=41)
    assert not counts[::2].any()
    # each odd length stands for itself and for the even one above it
    expected = 20_000 / 19
    assert abs(counts[3::2] - expected).max() < 5 * expected**0.5
    # an expression of odd length ends in a number
    assert (batch.tokens[np.arange(20_000), batch.lengths - 1] < 5).all()
    growing = Task(machine("parity"), Lengths(3, 40, growth=10, stride=2))
    assert all((growing.batch(0, p, 500).lengths % 2 == 1).all() for p in range(12))
    with pytest.raises(TaskError, match="stride"):
        Lengths(3, 40, stride=0)


def test_words_never_reach_the_error_output():
    task = TASKS[1]
    error = task.machine.output_names.index("error")
    for position in range(20):
        batch = task.batch(0, position)
        inside = np.arange(batch.tokens.shape[1]) < batch.lengths[:, None]
        assert not (batch.outputs[inside] == error).any()
    assert task.classes == 5


def test_dead_ends_are_not_entered():
    # 0 leads to 1 or 2; from 1 all moves are errors
    m = Machine([[1, 2], [3, 3], [2, 0], [3, 3]], outputs=[0, 1, 1, 2], output_names=["a", "b", "error"])
    batch = Task(m).batch(0, 0, 200)
    inside = np.arange(batch.tokens.shape[1]) < batch.lengths[:, None]
    visited = m.track(batch.tokens)[inside]
    assert set(visited.tolist()) == {0, 2}


def test_chance_counts_the_outputs_that_words_end_in():
    mealy = from_dot('digraph { __start0 -> a; a -> b [label="x/0"]; b -> a [label="x/1"]; }')
    assert mealy.classes == 3
    assert Task(mealy).classes == 2


def test_lengths_are_uniform_and_symbols_too():
    task = TASKS[0]
    batch = task.batch(0, 0, 20_000)
    counts = np.bincount(batch.lengths, minlength=11)[2:]
    assert abs(counts - 20_000 / 9).max() < 5 * (20_000 / 9) ** 0.5
    symbols = np.bincount(batch.tokens[:, 0], minlength=5)
    assert abs(symbols - 4_000).max() < 5 * 4_000**0.5


def test_lengths_grow_early_and_late():
    growing = Lengths(2, 10, growth=80)
    assert [growing.bounds(p) for p in (0, 40, 79, 80, 500)] == [(2, 2), (2, 6), (2, 9), (2, 10), (2, 10)]
    late = Lengths(2, 10, late=80, late_from=100, late_to=160)
    assert [late.bounds(p)[1] for p in (0, 99, 100, 119, 120, 140, 200)] == [10, 10, 20, 20, 40, 80, 80]
    assert late.bounds(200) == (40, 80)
    lengths = Task(machine("parity"), late).batch(0, 200, 4_000).lengths
    assert lengths.min() >= 2
    assert lengths.max() == 80
    # three quarters are long by themselves, and a fifth of the last quarter by chance
    share = 0.75 + 0.25 * np.log(81 / 40) / np.log(81 / 2)
    assert abs((lengths >= 40).mean() - share) < 0.03
    assert (lengths < 10).sum() > 200


def test_fixed_sets_are_different_words_and_epochs_use_each_once():
    task = TASKS[3]
    held = task.held_out(1)
    held_words = {(int(n), tuple(w[:n])) for w, n in zip(held.tokens, held.lengths, strict=True)}
    assert len(held_words) == 20
    seen = [task.batch(1, position, 10) for position in range(8)]
    words = [(int(n), tuple(w[:n])) for b in seen for w, n in zip(b.tokens, b.lengths, strict=True)]
    assert len(set(words[:40])) == 40
    assert set(words[:40]) == set(words[40:])
    assert words[:40] != words[40:]
    assert not set(words) & held_words


def test_streams_of_different_names_differ():
    draws = [stream(0, *names).integers(0, 2**60) for names in [("a",), ("b",), ("a", 1), ("a", "1"), ()]]
    assert len(set(draws)) == 5
    assert stream(0, "a").integers(0, 2**60) == draws[0]


BAD = [
    (lambda: Lengths(5, 2), "swap them"),
    (lambda: Lengths(0, 2), "expected 1 or more"),
    (lambda: Lengths(2, 10, growth=-1), "negative"),
    (lambda: Lengths(2, 10, late=20, late_from=9, late_to=5), "earlier"),
    (lambda: Task(machine("cyclic(1)")), "one output only"),
    (lambda: Task(machine("parity").replace(output_names=["ok", "error"])), "one output only"),
    (lambda: Task(machine("parity"), Lengths(2, 6, growth=5), samples=9), "one distribution"),
    (lambda: Task(machine("parity"), samples=0), "samples is 0"),
    (lambda: Task(machine("parity"), validation=3), "give samples too"),
    (lambda: Task(machine("parity"), Lengths(2, 3), samples=50).batch(0, 0), "only about 12 different sequences"),
    (lambda: Task(machine("parity")).held_out(0), "no validation"),
    (lambda: Task(machine("parity")).test(0, 0, 5), "test length is 0"),
]


@pytest.mark.parametrize(("build", "message"), BAD)
def test_bad_tasks_get_one_sentence(build, message):
    with pytest.raises(TaskError, match=message):
        build()
