"""Sequences that a function draws with their answers: a task without a machine."""

import numpy as np
import pytest

import statewise as sw
from statewise.errors import RunError, TaskError
from statewise.tasks import SOURCES, Drawn, GeneratedSource, Lengths, build_source, has_machine
from statewise.training import resolve


def last_symbol(symbols: int = 3) -> GeneratedSource:
    """Answer with the last symbol; lengths are odd, the next shorter one where an even one is asked for."""
    names = tuple("abcdefgh"[:symbols])

    def draw(generator: np.random.Generator, lengths: np.ndarray) -> Drawn:
        odd = lengths - (lengths % 2 == 0)
        tokens = generator.integers(0, symbols, size=(len(odd), int(odd.max())))
        tokens[np.arange(tokens.shape[1]) >= odd[:, None]] = 0
        return Drawn(tokens, odd, tokens)

    return GeneratedSource(f"last_symbol({symbols})", names, names, draw, options={"longest": 5, "test_lengths": (5,)})


@pytest.fixture
def named(monkeypatch):
    monkeypatch.setitem(SOURCES, "last_symbol", last_symbol)


def test_a_name_of_the_catalogue_is_a_task_and_no_machine(named):
    assert build_source("last_symbol(4)").alphabet == ("a", "b", "c", "d")
    assert not has_machine("last_symbol(4)")
    assert has_machine("parity")
    assert resolve({"task": "last_symbol", "model": "lstm"}).longest == 5


def test_batches_are_a_function_of_seed_and_position():
    one, other = (last_symbol().task(Lengths(1, 6), "final", None, 0) for _ in range(2))
    one.batch(0, 0)
    np.testing.assert_array_equal(one.batch(0, 7).tokens, other.batch(0, 7).tokens)
    assert (one.batch(0, 7).tokens.shape != one.batch(0, 8).tokens.shape) or (
        one.batch(0, 7).tokens != one.batch(0, 8).tokens
    ).any()


def test_answers_within_sequences_are_asked_for_only_where_they_are_known():
    with pytest.raises(TaskError, match="use supervision final"):
        last_symbol().task(Lengths(), "aligned", None, 0)


def test_a_run_without_a_machine_is_trained_loaded_and_evaluated(named, tmp_path):
    out = tmp_path / "run"
    run = sw.train("last_symbol(3)", "full", out=out, hidden=8, steps=200, config={"test_lengths": (5, 6), "words": 50})
    assert run.record is not None
    again = sw.load(out)
    assert again.source.alphabet == ("a", "b", "c")
    # sequences of length 6 are of length 5, and their ends are where they are
    assert sw.evaluate(again, lengths=[5, 6], words=50).scores[1].accuracy == 1
    with pytest.raises(RunError, match="give --machine"):
        _ = again.machine
    assert sw.extract(again).machine.output_names == ("a", "b", "c")
