"""Evidence-driven merging owes a machine that answers every word, in a bounded number of steps."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import statewise as sw
from statewise.machines import Machine, machine, minimise, read_machine
from statewise.theory import LabelledWords, learn, read_words
from statewise.theory.learning import edsm
from statewise.theory.learning.edsm import BudgetError, merge_by_evidence
from statewise.theory.learning.mealy import from_mealy, mealy_states, table_bits
from statewise.theory.learning.state_merging import merge_states
from statewise.theory.learning.tables import labels_can_be_states

TCP = Path(__file__).parents[1] / "data" / "tcp_server_ubuntu_trans.dot"

labelled = st.dictionaries(st.text("ab", max_size=6), st.sampled_from("xyz"), min_size=2, max_size=30).filter(
    lambda words: len(set(words.values())) > 1 and any(words)
)


@settings(max_examples=40)
@given(labelled)
def test_every_word_is_answered_as_it_is_labelled(words):
    data = LabelledWords.from_pairs(words.items())
    assert data.explained(merge_by_evidence(data).machine) == data.total


@settings(max_examples=40)
@given(labelled)
def test_auto_fits_all_words_that_do_not_contradict_each_other(words):
    learned = learn(LabelledWords.from_pairs(words.items()))
    assert learned.consistent == learned.words
    assert learned.status in ("exact", "undetermined")
    assert "nois" not in learned.reason


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_mealy_machine_and_its_moore_machine_answer_alike(seed, states):
    generator = np.random.default_rng(seed)
    delta, outputs = generator.integers(0, states, (states, 2)), generator.integers(0, 3, (states, 2))
    made = from_mealy(delta, outputs, ("a", "b"), ("x", "y", "z"))
    for word in generator.integers(0, 2, (20, 7)):
        state = 0
        for symbol in word[:-1]:
            state = delta[state, symbol]
        assert made.answer(word) == outputs[state, word[-1]]
    assert mealy_states(minimise(made)) <= states


def test_the_size_as_a_mealy_machine_is_known_for_small_machines():
    assert mealy_states(machine("parity")) == 2
    assert mealy_states(machine("flip_flop")) <= machine("flip_flop").states
    last = Machine([[0, 1], [0, 1]], 0, [0, 1])
    assert mealy_states(last) == 1
    assert table_bits(last) == 2


def traces(tmp_path, truth, count, seed=0):
    sw.sample(truth, tmp_path / "traces.jsonl", count=count, length=20, shortest=1, labels="aligned", seed=seed)
    return read_words(tmp_path / "traces.jsonl")


def turnstile(places):
    """A Mealy machine in which outputs say little of the state: a counter that shows what the symbol did."""
    delta = [[min(q + 1, places - 1), max(q - 1, 0)] for q in range(places)]
    outputs = [[0 if q < places - 1 else 1, 2 if q else 1] for q in range(places)]
    return minimise(from_mealy(np.array(delta), np.array(outputs), ("coin", "push"), ("paid", "no", "go")))


def test_traces_of_a_mealy_machine_are_merged_as_such(tmp_path):
    truth = turnstile(8)
    data = traces(tmp_path, truth, 300)
    learned = learn(data)
    assert learned.method == "edsm"
    words = np.random.default_rng(1).integers(0, 2, (500, 30))
    given_names = [learned.machine.output_names[label] for label in learned.machine.answer(words)]
    assert given_names == [truth.output_names[label] for label in truth.answer(words)]
    assert table_bits(learned.machine) <= table_bits(minimise(merge_states(data)))


def test_traces_of_a_protocol_give_a_machine_that_fits_them_all(tmp_path):
    data = traces(tmp_path, read_machine(str(TCP)), 300)
    found = merge_by_evidence(data)
    assert data.explained(found.machine) == data.total
    assert table_bits(found.machine) < table_bits(minimise(merge_states(data)))


def test_the_same_words_give_the_same_machine_in_any_order():
    truth = machine("tomita(5)")
    words = [tuple(word) for word in np.random.default_rng(0).integers(0, 2, (300, 8)).tolist()]
    pairs = [(word, truth.answer(word)) for word in words]
    assert len({str(merge_by_evidence(LabelledWords.from_pairs(p)).machine.delta) for p in (pairs, pairs[::-1])}) == 1


def test_steps_that_are_used_up_give_no_machine_or_say_so(tmp_path):
    data = traces(tmp_path, turnstile(8), 300)
    with pytest.raises(
        BudgetError, match=r"edsm ended without a machine, at \d+ states? with \d+ open.*--work"
    ) as caught:
        learn(data, "edsm", work=10)
    assert caught.value.exit_code == 1
    with pytest.raises(BudgetError, match=r"edsm ended.*hankel needs"):
        learn(data, work=10)
    # enough for the first search, and not for the last
    whole = merge_by_evidence(data)
    assert whole.ended is None
    some = next(work for work in range(1_000, edsm.WORK, 1_000) if not ends(data, work))
    learned = learn(data, work=some)
    assert learned.consistent == learned.words
    assert re.search("steps were used up", learned.reason)


def ends(data, work):
    try:
        return merge_by_evidence(data, work) is None
    except BudgetError:
        return True


def test_interrupts_end_the_search(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(edsm, "_compare", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learn(LabelledWords.from_pairs([("a", "x"), ("b", "y")]))


def test_labels_that_cannot_be_states_are_known_to_be_none():
    assert labels_can_be_states(LabelledWords.from_pairs([("", "0"), ("a", "1"), ("aa", "0")]))
    # two words of one label, after which the same symbol leads to different ones
    assert not labels_can_be_states(LabelledWords.from_pairs([("", "0"), ("a", "0"), ("aa", "1")]))
    # though no label is known in between
    assert not labels_can_be_states(LabelledWords.from_pairs([("a", "0"), ("b", "0"), ("acc", "1"), ("bcc", "2")]))
