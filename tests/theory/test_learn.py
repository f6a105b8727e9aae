"""Learners owe the machine that labelled the words, and an honest word where the words do not determine it."""

import builtins
import itertools

import numpy as np
import pytest

from statewise.errors import ToolMissingError, UnknownNameError, WordsError
from statewise.machines import Machine, distinguish, equivalent, machine, minimise
from statewise.theory import LabelledWords, learn
from statewise.theory.learning.hankel import MissingLabelError
from statewise.theory.learning.labelled import count_words
from statewise.theory.learning.search import Searched, search_other
from statewise.theory.learning.tables import fit_tables
from statewise.theory.learning.uniqueness import check_uniqueness

EXACT = ["edsm", "rpni", "hankel", "auto"]


def answers(truth, words):
    """Labels of words, those of one length at once."""
    labels = {}
    for _, group in itertools.groupby(sorted(words, key=len), key=len):
        same = list(group)
        labels |= zip(same, truth.answer(np.array(same, dtype=np.int64)).tolist(), strict=True)
    return [labels[word] for word in words]


def label(truth, words):
    """Words, with the labels of a machine."""
    return count_words(truth.alphabet, truth.output_names, words, answers(truth, words))


def all_words(truth, longest):
    """Every word of up to so many symbols, with its label."""
    return label(truth, [w for n in range(longest + 1) for w in itertools.product(range(truth.symbols), repeat=n)])


def some_words(truth, count, seed=0, noise=0.0, shortest=2, longest=10):
    """Random words; of a share `noise` the label is drawn at random."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(shortest, longest + 1, count)
    words = [tuple(generator.integers(0, truth.symbols, length).tolist()) for length in lengths]
    drawn = np.where(
        generator.random(count) < noise, generator.integers(0, truth.classes, count), answers(truth, words)
    )
    return count_words(truth.alphabet, truth.output_names, words, drawn.tolist())


def partial_machine(states, symbols, labels, seed):
    """A minimal machine with fewer outputs than states."""
    generator = np.random.default_rng(seed)
    while True:
        drawn = Machine(generator.integers(0, states, (states, symbols)), 0, generator.integers(0, labels, states))
        if (found := minimise(drawn)).states == states:
            return found


FULL = ["modular_addition(5)", *(f"random_machine(5, symbols=3, seed={s}, kind=map)" for s in range(2))]
PARTIAL = [(5, 2, 2, 0), (7, 3, 2, 1), (10, 2, 3, 3)]


@pytest.mark.parametrize("expression", FULL)
@pytest.mark.parametrize("method", [*EXACT, "least-squares"])
def test_state_tracking_is_recovered_from_all_short_words(expression, method):
    truth = machine(expression)
    learned = learn(all_words(truth, 4 if truth.symbols > 3 else 6), method)
    assert learned.machine == truth
    assert (learned.status, learned.machine.states) == ("exact", minimise(truth).states)


@pytest.mark.parametrize("expression", FULL[:3])
@pytest.mark.parametrize("method", ["edsm", "rpni", "least-squares", "auto"])
def test_state_tracking_is_recovered_from_random_words(expression, method):
    truth = machine(expression)
    learned = learn(some_words(truth, 600), method)
    assert learned.machine == truth
    assert learned.consistent == learned.words == 600


@pytest.mark.parametrize("expression", FULL[:2])
@pytest.mark.parametrize("method", ["least-squares", "auto"])
def test_least_squares_forgives_a_fifth_of_wrong_labels(expression, method):
    truth = machine(expression)
    learned = learn(some_words(truth, 1_600, noise=0.2), method)
    assert learned.machine == truth
    assert (learned.status, learned.method) == ("noisy", "least-squares")
    # a fifth of the labels is drawn, and some of these are right by chance
    assert 0.75 < learned.consistent / learned.words < 0.95


def test_words_that_do_not_contradict_each_other_are_fitted_and_never_called_noisy():
    truth = machine("modular_addition(5)")
    noisy = some_words(truth, 400, noise=0.2, longest=6)
    once = count_words(noisy.alphabet, noisy.output_names, noisy.words, [noisy.label_of[word] for word in noisy.words])
    assert once.contradiction is None
    learned = learn(once)
    assert learned.consistent == learned.words
    assert learned.status in ("exact", "undetermined")
    # who knows that labels are wrong asks for the method that tolerates them
    asked = learn(once, "least-squares")
    assert (asked.machine, asked.status) == (truth, "approximate")
    assert not any("nois" in found.reason for found in (learned, asked))


@pytest.mark.parametrize(("states", "symbols", "labels", "seed"), PARTIAL)
@pytest.mark.parametrize("method", EXACT)
def test_machines_with_fewer_outputs_than_states_are_recovered(states, symbols, labels, seed, method):
    truth = partial_machine(states, symbols, labels, seed)
    learned = learn(all_words(truth, 8 if symbols == 2 else 6), method)
    assert learned.machine == truth
    assert (learned.status, learned.machine.states) == ("exact", states)


def test_least_squares_does_not_claim_machines_with_fewer_outputs_than_states():
    assert learn(all_words(partial_machine(5, 2, 2, 0), 7), "least-squares").status == "approximate"


@pytest.mark.parametrize("method", ["edsm", "rpni", "hankel"])
def test_exact_methods_refuse_contradictions(method):
    data = LabelledWords.from_pairs([("ab", "x"), ("b", "y"), ("ab", "z")])
    with pytest.raises(WordsError, match=r'"ab" is labelled both "x" and "z".*least-squares'):
        learn(data, method)
    assert "two labels" in learn(data).reason


def test_words_are_names_strings_or_numbers_and_labels_text_or_numbers():
    strings = LabelledWords.from_pairs([("ab", "1"), ("b", "2"), ("", "10")])
    named = LabelledWords.from_pairs([(["a", "b"], 1), (("b",), 2), ([], 10)])
    assert (strings.alphabet, strings.output_names) == (named.alphabet, named.output_names)
    assert strings.output_names == ("1", "2", "10")
    assert strings.words == named.words == ((0, 1), (1,), ())
    numbers = LabelledWords.from_pairs([([10, 9], True), ([9], False)])
    assert (numbers.alphabet, numbers.output_names) == (("9", "10"), ("false", "true"))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no labelled words"),
        ([("", "x"), ("", "y")], "no word has a symbol"),
        ([("a", "x"), ("b", "x")], 'all words have the label "x"'),
        ([("a", None), ("b", "x")], "label null"),
        ([("a", 0.5), ("b", "x")], r"label 0\.5"),
        ([("a", ""), ("b", "x")], "label without a name"),
        ([(["a", ""], "y"), ("b", "x")], "symbol without a name"),
        ([(["a" * 300], "y"), ("b", "x")], "300 characters"),
    ],
)
def test_bad_pairs_are_refused(pairs, message):
    with pytest.raises(WordsError, match=message):
        LabelledWords.from_pairs(iter(pairs))


def test_equal_words_with_one_label_are_one_word_that_counts_twice():
    data = LabelledWords.from_pairs([("ab", "x"), ("b", "y"), ("ab", "x")])
    assert (len(data.words), data.total, data.contradiction) == (2, 3, None)
    assert learn(data, "rpni").words == 3


@pytest.mark.parametrize("hidden", [(0,), (1, 0), (1, 1)])
def test_hankel_names_the_word_that_is_missing_and_that_word_helps(hidden):
    truth = machine("cyclic(3, generators=standard)*parity").replace(outputs=[0, 1, 1, 0, 0, 1])
    kept = [word for word in all_words(truth, 5).words if word != hidden]
    with pytest.raises(MissingLabelError, match="hankel needs the label of the word") as caught:
        learn(label(truth, kept), "hankel")
    assert caught.value.word == hidden
    assert learn(label(truth, [*kept, hidden]), "hankel").machine == truth


def test_a_transition_that_no_word_uses_is_undetermined():
    truth = machine("modular_addition(3)")
    # symbol 2 is never read after a sum of 1
    kept = [w for w in all_words(truth, 4).words if all(sum(w[:t]) % 3 != 1 for t in range(len(w)) if w[t] == 2)]
    learned = learn(label(truth, kept), "rpni")
    assert learned.status == "undetermined"
    state = int(learned.machine.final([1]))
    assert learned.undetermined == ((state, "2"),)
    assert learned.helpful_word == ("1", "2")
    assert "1 of its 9 transitions is used by no word" in learned.reason
    assert learn(label(truth, [*kept, (1, 2)]), "rpni").machine == truth


@pytest.mark.parametrize("expression", ["modular_addition(3)", "tomita(4)", "flip_flop"])
@pytest.mark.parametrize("method", ["auto", "rpni"])
def test_asking_for_helpful_words_leads_to_the_machine(expression, method):
    truth = minimise(machine(expression))
    # two words with different labels, and nothing else
    words = all_words(truth, 4).words
    other = next(w for w in words if truth.answer(w) != truth.answer(words[0]))
    data = label(truth, [words[0], other])
    for _ in range(80):
        learned = learn(data, method)
        word = learned.helpful_word and tuple(truth.encode(learned.helpful_word).tolist())
        if word is None:
            assert learned.status == "exact"
            # the smallest machine that fits may be smaller than the truth, never larger; a teacher then knows better
            assert learned.machine.states <= truth.states
            word = distinguish(learned.machine, truth)
            if word is None:
                break
        assert word not in data.label_of
        data = data.adding(word, truth.answer(word))
    assert learned.machine == truth
    assert data.total < 60


@pytest.mark.parametrize("seed", range(4))
def test_a_helpful_word_rules_a_machine_out(seed):
    truth = partial_machine(5, 2, 2, seed)
    words = some_words(truth, 60, seed, shortest=0).words
    # both labels from the first
    differing = next(w for w in words if truth.answer(w) != truth.answer(words[0]))
    words = [differing, *words]
    for count in range(8, 60, 4):
        data = label(truth, words[:count])
        learned = learn(data, "rpni")
        if learned.status == "undetermined":
            break
    assert learned.helpful_word is not None
    word = tuple(truth.encode(learned.helpful_word).tolist())
    # whichever label it gets, all words before and this one can still be explained
    for answer in range(2):
        again = learn(data.adding(word, answer), "rpni")
        assert again.consistent == again.words == data.total + 1
        assert again.machine.output_names[again.machine.answer(word)] == data.output_names[answer]


def smaller_or_equal_machines(states, symbols, labels):
    for n in range(1, states + 1):
        for table in itertools.product(range(n), repeat=n * symbols):
            for outputs in itertools.product(range(labels), repeat=n):
                yield Machine(
                    np.array(table).reshape(n, symbols), 0, list(outputs), output_names=map(str, range(labels))
                )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_open_is_what_a_list_of_all_machines_shows(seed):
    truth = partial_machine(2, 2, 2, seed)
    everything = list(smaller_or_equal_machines(2, 2, 2))
    seen = set()
    for count in range(10):
        # both labels are among the words of one symbol
        data = label(truth, [*all_words(truth, 1).words, *some_words(truth, 20, seed, longest=3).words[:count]])
        unique = check_uniqueness(data, truth)
        others = [m for m in everything if data.explained(m) == data.total and m != truth]
        assert unique.determined == unique.proven == (not others)
        seen.add(unique.determined)
        if others:
            assert unique.helpful is not None
            assert any(truth.answer(unique.helpful) != m.answer(unique.helpful) for m in others)
    assert seen == {False, True}


@pytest.mark.parametrize("seed", range(3))
def test_the_search_finds_a_machine_that_differs_in_more_than_one_edge(seed):
    truth, rival = (partial_machine(4, 2, 2, 2 * seed + i) for i in range(2))
    # the words on which both answer alike
    data = all_words(truth, 6)
    data = label(truth, [word for word in data.words if truth.answer(word) == rival.answer(word)])
    searched = search_other(data, truth)
    assert searched.other is not None
    assert data.explained(searched.other) == data.total
    assert distinguish(searched.other, truth) is not None
    assert search_other(all_words(truth, 7), truth) == Searched(None, True)
    assert search_other(data, truth, visited=2) == Searched(None, False)


def test_test_words_prove_that_no_other_machine_fits():
    truth = machine("parity")
    proof = label(truth, [(), (0,), (1,), (1, 0), (1, 1)])
    assert check_uniqueness(proof, truth).proven
    others = [m for m in smaller_or_equal_machines(2, 2, 2) if proof.explained(m) == proof.total]
    assert others
    assert all(equivalent(m, truth) for m in others)


def test_two_machines_of_two_methods_are_told_apart_by_the_helpful_word():
    data = LabelledWords.from_pairs([("", "0"), ("a", "1"), ("aaa", "0")])
    learned = learn(data)
    assert learned.status == "undetermined"
    assert learned.helpful_word is not None


def test_tables_alone_need_every_pair_and_say_how_many_they_had():
    truth = machine("modular_addition(5)")
    assert fit_tables(all_words(truth, 2), sweeps=0).coverage == 1.0
    few = some_words(truth, 200)
    alone, whole = fit_tables(few, sweeps=0), fit_tables(few)
    assert alone.coverage == whole.coverage < 1.0
    assert few.explained(whole.machine) > few.explained(alone.machine)


def test_names_of_symbols_and_labels_are_kept():
    pairs = [(["set", "hold"], "on"), ([], "off"), (["set"], "on"), (["hold"], "off"), (["set", "set"], "on")]
    pairs += [(["hold", "set"], "on"), (["hold", "hold"], "off")]
    learned = learn(LabelledWords.from_pairs(pairs), name="lamp").machine
    assert (learned.alphabet, learned.output_names, learned.name) == (("hold", "set"), ("off", "on"), "lamp")
    assert learned.output_names[learned.answer(["set", "hold", "hold"])] == "on"


def test_without_aalpy_the_package_is_named_and_the_others_go_on(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("aalpy"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    truth = machine("modular_addition(5)")
    with pytest.raises(ToolMissingError, match="aalpy"):
        learn(all_words(truth, 3), "rpni")
    assert learn(all_words(truth, 3)).machine == truth
    assert learn(some_words(partial_machine(5, 2, 2, 0), 60)).method == "edsm"


def test_unknown_methods_get_the_nearest_name():
    with pytest.raises(UnknownNameError, match='did you mean "rpni"'):
        learn(LabelledWords.from_pairs([("a", "x"), ("b", "y")]), "rpn")


def test_distinguishing_words_are_never_labelled_already():
    truth = partial_machine(7, 3, 2, 1)
    data = some_words(truth, 40, shortest=0)
    learned = learn(data)
    assert learned.helpful_word is not None
    assert tuple(truth.encode(learned.helpful_word).tolist()) not in data.label_of
    assert distinguish(learned.machine, truth) is not None
