"""Active learning owes the system's machine, within its budget, and says what its equality rests on."""

import builtins
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statewise.errors import ProgramError
from statewise.machines import Machine, machine, minimise
from statewise.theory.learning.active import Asking, LearnerMissingError, ask
from statewise.theory.learning.mealy import from_mealy, mealy_states
from statewise.theory.learning.mealy_suites import SUITES, Mealy, suite_words


def system_of(truth, each=True):
    """A system that answers as a machine does: after each symbol, or at the end alone."""

    def answer(word):
        states = truth.track(truth.encode(word)[None])[0]
        outputs = [truth.output_names[truth.outputs[q]] for q in states]
        return outputs if each else outputs[-1]

    return answer


def random_mealy(seed, states, symbols, outputs):
    generator = np.random.default_rng(seed)
    delta = generator.integers(0, states, (states, symbols))
    made = generator.integers(0, outputs, (states, symbols))
    return delta, made


def same_after_symbols(one, other, count=300, length=15):
    words = np.random.default_rng(5).integers(0, one.symbols, (count, length))
    names = [[m.output_names[c] for c in m.answer(words)] for m in (one, other)]
    return names[0] == names[1]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
def test_a_system_of_at_most_the_tested_states_is_found(seed, states, each):
    delta, outputs = random_mealy(seed, states, 2, 2)
    truth = minimise(from_mealy(delta, outputs, ("a", "b"), ("x", "y")))
    taught = ask(system_of(truth, each), truth.alphabet, Asking(suite="w-method", extra=2))
    assert taught.status == "tested"
    # the theorem of the W-method
    if mealy_states(truth) <= taught.mealy_states + 2:
        assert same_after_symbols(taught.machine, truth)
    assert f"at most {taught.mealy_states + 2} states" in taught.reason


def test_states_that_only_long_words_tell_apart_are_found_by_random_words():
    """A lock of eight steps: the W-method for one state more sees none of them."""
    delta = [[(q + 1) % 8, 0] for q in range(8)]
    outputs = [[int(q == 7), 0] for q in range(8)]
    truth = minimise(from_mealy(np.array(delta), np.array(outputs), ("a", "b"), ("shut", "open")))
    few = ask(system_of(truth), truth.alphabet, Asking(suite="w-method"))
    assert (few.mealy_states, few.status) == (1, "tested")
    assert "at most 2 states" in few.reason
    found = ask(system_of(truth), truth.alphabet, Asking())
    assert found.mealy_states == 8
    assert same_after_symbols(found.machine, truth, length=40)


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_finds_a_small_system_and_says_what_it_shows(suite):
    truth = machine("modular_addition(3)")
    taught = ask(system_of(truth), truth.alphabet, Asking(suite=suite))
    assert same_after_symbols(taught.machine, truth)
    assert (taught.status, taught.extra) == ("tested", {"random": None, "transition-cover": 0}.get(suite, 1))
    assert f"{suite} suite" in taught.reason
    assert ("does not rule out others" in taught.reason) == (taught.extra is None)


def test_answers_at_the_end_take_more_queries_and_give_the_same_machine():
    truth = machine("tomita(5)")
    one, other = (ask(system_of(truth, each), truth.alphabet, Asking(suite="w-method")) for each in (True, False))
    assert one.machine == other.machine
    assert one.queries < other.queries


@pytest.mark.parametrize("queries", [4, 7, 10, 20, 60, 200])
def test_a_budget_is_kept_and_its_end_is_said(queries):
    delta, outputs = random_mealy(3, 12, 2, 2)
    truth = minimise(from_mealy(delta, outputs, ("a", "b"), ("x", "y")))
    asked = []
    taught = ask(lambda word: asked.append(word) or system_of(truth)(word), truth.alphabet, Asking(queries=queries))
    assert len(asked) == taught.queries == queries
    assert taught.status == "undetermined"
    assert f"budget of {queries:,} queries ended" in taught.reason
    # all that was answered is answered alike
    for word in asked:
        assert (
            taught.machine.output_names[taught.machine.answer(taught.machine.encode(word))]
            == system_of(truth)(word)[-1]
        )


def test_a_system_that_always_answers_alike_has_one_state():
    for queries in (4, 10, 1_000):
        taught = ask(lambda word: "x", ("a", "b"), Asking(queries=queries, suite="w-method"))
        assert taught.machine.states == taught.mealy_states == 1


def flipping():
    """A system that is not reset between words."""
    state = itertools.count()
    return lambda word: ["x" if next(state) % 3 else "y" for _ in word]


@pytest.mark.parametrize(
    ("system", "message"),
    [
        (flipping(), "differently when it is asked again.*reset it between words"),
        (lambda word: [], "with 0 outputs"),
        (lambda word: ["x"] * 7, "with 7 outputs"),
        (lambda word: "x" if len(word) < 3 else ["x"] * 3, "with 3 outputs"),
        (lambda word: None, "with None"),
        (lambda word: 0.5, r"with 0\.5"),
        (lambda word: "", "an output of 0 characters"),
        (lambda word: 1 // 0, "raises ZeroDivisionError"),
    ],
)
def test_systems_out_of_protocol_get_one_sentence(system, message):
    with pytest.raises(ProgramError, match=message) as caught:
        ask(system, ("a", "b"), Asking())
    assert caught.value.exit_code == 2


def test_a_system_that_turns_random_late_is_found_out():
    generator = np.random.default_rng(0)
    with pytest.raises(ProgramError, match="differently"):
        ask(lambda word: "x" if len(word) < 3 else f"{generator.integers(5)}", ("a", "b"), Asking())


def test_interrupts_pass_through():
    def interrupt(word):
        if len(word) > 1:
            raise KeyboardInterrupt
        return "x"

    with pytest.raises(KeyboardInterrupt):
        ask(interrupt, ("a", "b"), Asking())


def test_numbers_and_truth_values_are_outputs():
    taught = ask(lambda word: [len(word[:end]) % 2 == 0 for end in range(1, len(word) + 1)], ("a",), Asking())
    assert taught.machine.output_names == ("false", "true")


@given(st.integers(0, 10_000), st.integers(1, 7))
def test_separating_words_separate_and_access_words_reach(seed, states):
    mealy = Mealy.reduced(*random_mealy(seed, states, 2, 2))
    answers = {
        tuple(Mealy(mealy.delta, mealy.outputs)._last(state, word) for word in mealy.separating_words())
        for state in range(len(mealy.delta))
    }
    assert len(answers) == len(mealy.delta) == len(mealy.access)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_the_w_method_finds_every_machine_of_one_state_more(seed):
    """Chow's theorem, on machines that differ from a given one and have at most one state more."""
    mealy = Mealy.reduced(*random_mealy(seed, 3, 2, 2))
    words = [word for _, word in suite_words(mealy, "w-method", 1, 0)]
    generator = np.random.default_rng(seed)
    for _ in range(30):
        other = Mealy.reduced(*random_mealy(int(generator.integers(10**6)), len(mealy.delta) + 1, 2, 2))
        same = mealy.delta.tolist() == other.delta.tolist() and mealy.outputs.tolist() == other.outputs.tolist()
        assert same or any(mealy.answer(word) != other.answer(word) for word in words)


def test_without_aalpy_the_package_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **more):
        if name.startswith("aalpy"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(LearnerMissingError, match=r"aalpy.*install statewise\[learn\]") as caught:
        ask(lambda word: "x", ("a",), Asking())
    assert caught.value.exit_code == 2


def test_a_machine_of_states_alone_is_the_same_after_symbols():
    truth = Machine([[0, 1], [1, 0]], 0, [0, 1])
    assert same_after_symbols(ask(system_of(truth), truth.alphabet, Asking()).machine, truth)
