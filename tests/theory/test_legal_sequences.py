"""Trained networks are judged on sequences of their task: those that lead to no output named "error"."""

import itertools

import numpy as np
import pytest

import statewise as sw
from statewise.machines import Machine, access_words, machine, minimise
from statewise.tasks import legal_moves
from statewise.theory import Network, compile_machine, network_of
from statewise.theory.certify import certify, decide_by_orbit, decide_by_series, prove_horizon, search

WORK = 200_000
# rounds bound the work of a polish, whatever the computer
ALWAYS = 1e9
ARITHMETIC = ["modular_arithmetic(2)", "modular_arithmetic(3)", "modular_arithmetic(3, precedence=true)"]


def legal_words(m, legal, longest, shortest=0):
    """All legal words with the states that they lead to, shortest first."""
    layer = [((), m.start)]
    for length in range(longest + 1):
        if length >= shortest:
            yield from layer
        layer = [((*word, a), int(m.delta[q, a])) for word, q in layer for a in np.flatnonzero(legal[q]).tolist()]


def is_legal(m, legal, word):
    state = m.start
    for a in word:
        if not legal[state, a]:
            return False
        state = int(m.delta[state, a])
    return True


def is_right(network, word, output):
    matrices, h, readout = network.integers
    for a in word:
        h = matrices[a] @ h
    logits = (readout @ h).tolist()
    return output < len(logits) and all(value < logits[output] for c, value in enumerate(logits) if c != output)


def first_wrong(network, m, legal, longest, shortest=0):
    """A shortest wrong word among the legal ones, by trying them all."""
    words = legal_words(m, legal, longest, shortest)
    return next((word for word, q in words if not is_right(network, word, int(m.outputs[q]))), None)


def with_errors(random, classes, symbols):
    """A machine some of whose moves lead to an error, and some sequences of which do not."""
    while True:
        states = int(random.integers(2, 5))
        delta = random.integers(0, states, (states, symbols))
        outputs = np.append(random.integers(0, classes - 1, states - 1), classes - 1)
        m = minimise(Machine(delta, 0, outputs, output_names=[*map(str, range(classes - 1)), "error"]))
        legal = legal_moves(m)
        if m.states > 1 and legal[m.start].any() and not legal.all():
            return m, legal


def small_networks(count, seed):
    """Random networks of small whole numbers, a third of them machines in one-hot states, with machines to judge by."""
    random = np.random.default_rng(seed)
    for trial in range(count):
        symbols = int(random.integers(2, 4))
        m, legal = with_errors(random, 3, symbols)
        if trial % 3 == 0:
            made = network_of(compile_machine(m, "full").model)
            matrices = made.matrices.copy()
            if random.random() < 0.5:
                # what happens after an error is anybody's guess
                for q, a in np.argwhere(~legal):
                    matrices[a, :, q] = random.integers(-1, 2, made.hidden)
            if random.random() < 0.5:
                matrices[random.integers(symbols)][tuple(random.integers(0, made.hidden, 2))] += 1
            yield Network(matrices, made.initial, made.readout), m, legal
        else:
            hidden = int(random.integers(1, 4))
            parts = (random.choice([-1.0, 0.0, 0.0, 1.0], (symbols, hidden, hidden)), random.integers(-2, 3, hidden))
            yield Network(parts[0], parts[1].astype(float), random.integers(-3, 4, (3, hidden)).astype(float)), m, legal


def test_a_move_is_legal_if_a_sequence_can_go_on_for_ever_without_an_error():
    random = np.random.default_rng(0)
    for _ in range(100):
        states, symbols = int(random.integers(2, 6)), int(random.integers(1, 4))
        m = Machine(
            random.integers(0, states, (states, symbols)),
            outputs=np.append(np.zeros(states - 1, dtype=int), 1),
            output_names=["fine", "error"],
        )
        # a path that is longer than there are states comes round
        alive = m.outputs == 0
        for _ in range(states + 1):
            alive = (m.outputs == 0) & alive[m.delta].any(axis=1)
        assert (legal_moves(m) == alive[m.delta]).all()
        assert legal_moves(m.replace(output_names=["fine", "wrong"])).all()


def by_orbit(network, m, shortest, legal=None):
    return decide_by_orbit(network, m, shortest, limit=500, legal=legal)


@pytest.mark.parametrize("shortest", [0, 2])
@pytest.mark.parametrize(
    # of all words a series may decide nothing, where an orbit decides against the network
    ("decide", "seed", "undecided"),
    [(by_orbit, 1, False), (decide_by_series, 2, True)],
    ids=["orbit", "series"],
)
def test_decisions_agree_with_all_legal_words(decide, seed, undecided, shortest):
    decisions, restricted = set(), 0
    for network, m, legal in small_networks(240, seed):
        decided = decide(network, m, shortest, legal)
        if decided is None:
            continue
        wrong = first_wrong(network, m, legal, 4, shortest)
        if decided.equal:
            assert wrong is None
        else:
            assert is_legal(m, legal, decided.word)
            assert not is_right(network, decided.word, m.answer(decided.word))
            assert len(decided.word) >= shortest
            assert len(wrong or decided.word) == len(decided.word)
        everything = decide(network, m, shortest)
        restricted += decided.equal and (undecided if everything is None else not everything.equal)
        decisions.add(decided.equal)
    assert decisions == {True, False}
    assert restricted > 5


@pytest.mark.parametrize("shortest", [0, 2])
def test_searches_agree_with_all_legal_words(shortest):
    outcomes = set()
    for network, m, legal in small_networks(45, 3):
        searched = search(network, m, shortest, work=20_000, legal=legal)
        found, wrong = searched.counterexample, first_wrong(network, m, legal, 4, shortest)
        if found is not None:
            word = found.word.symbols()
            assert is_legal(m, legal, word)
            assert not is_right(network, word, m.answer(word))
            assert len(word) >= shortest
            # shortest words come first
            assert wrong is None or len(word) == len(wrong)
        else:
            assert wrong is None
        if searched.proven is not None and wrong is not None:
            assert searched.proven < len(wrong)
        outcomes.add(found is None)
        claimed = prove_horizon(network, m, legal=legal)
        if claimed is not None:
            assert first_wrong(network, m, legal, 4 if claimed.length is None else min(4, claimed.length)) is None
    assert outcomes == {True, False}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_what_no_task_draws_refutes_nothing_unless_all_words_are_judged(name):
    m = minimise(machine(name))
    legal = legal_moves(m)
    made = network_of(compile_machine(m, "full").model)
    matrices = made.matrices.copy()
    for q, a in np.argwhere(~legal):
        # errors are taken for the start
        matrices[a, :, q] = made.initial
    network = Network(matrices, made.initial, made.readout)
    verdict = certify(network, m, work=0)
    assert (verdict.status, verdict.restricted, verdict.counterexample) == ("proven", True, None)
    every = certify(network, m, work=0, all_words=True)
    assert (every.status, every.restricted) == ("refuted", False)
    word = every.counterexample.word.symbols()
    assert not is_legal(m, legal, word)
    assert not is_right(network, word, m.answer(word))
    assert is_right(network, word[:-1], m.answer(word[:-1]))


@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_network_that_is_wrong_on_a_legal_word_is_refuted_by_one(name):
    m, random = minimise(machine(name)), np.random.default_rng(0)
    legal = legal_moves(m)
    made = network_of(compile_machine(m, "full").model)
    moves = [(q, a) for q in access_words(m, legal) for a in np.flatnonzero(legal[q]).tolist()]
    for noise, index in itertools.product((0.0, 1e-3), random.permutation(len(moves))[:4].tolist()):
        q, a = moves[index]
        matrices = made.matrices + noise * random.standard_normal(made.matrices.shape)
        there = int(m.delta[q, a])
        # to a state of another answer, where what may follow is the same
        other = next(
            p for p in range(m.states) if m.outputs[p] != m.outputs[there] and (legal[p] == legal[there]).all()
        )
        matrices[a, there, q], matrices[a, other, q] = 0, 1
        network = Network(matrices, made.initial, made.readout)
        verdict = certify(network, m, work=WORK)
        assert (verdict.status, verdict.restricted) == ("refuted", True)
        word = verdict.counterexample.word.symbols()
        assert is_legal(m, legal, word)
        assert not is_right(network, word, m.answer(word))
        assert verdict.horizon is None or verdict.horizon < len(word)
        shortest = len(access_words(m, legal)[q]) + 1
        assert len(word) == shortest


def test_a_horizon_over_sequences_of_a_task_holds_for_them():
    m, random = minimise(machine("modular_arithmetic(2)")), np.random.default_rng(3)
    legal = legal_moves(m)
    made = network_of(compile_machine(m, "full").model)
    for noise in (0.05, 1e-2, 1e-4):
        matrices = made.matrices.copy()
        for q, a in np.argwhere(~legal):
            # nothing is known of errors
            matrices[a, :, q] = 0
        matrices += noise * random.standard_normal(matrices.shape)
        network = Network(matrices, made.initial, made.readout)
        claimed = prove_horizon(network, m, legal=legal)
        assert claimed is not None
        assert first_wrong(network, m, legal, min(claimed.length, 5)) is None
        found = search(network, m, work=WORK, legal=legal).counterexample
        assert found is None or claimed.length < len(found.word)
        assert found is None or is_legal(m, legal, found.word.symbols())
        # over all words nothing holds, and the horizon says so
        assert prove_horizon(network, m) is None
    assert claimed.length > 100


def test_the_command_judges_networks_by_what_they_were_made_from(tmp_path):
    given = {"task": "modular_arithmetic(3)", "model": "full", "hidden": 32, "steps": 1_000, "probe": [10], "words": 20}
    run = sw.train(config=given | {"test_lengths": [10], "seed": 1})
    fine = sw.polish(run, out=tmp_path / "fine", seconds=ALWAYS)
    verdict = sw.certify(tmp_path / "fine", work=0)
    assert (verdict.status, verdict.to_dict()["judged"]) == ("horizon", "sequences of the task")
    assert verdict.horizon >= 10**10
    assert "all sequences of the task" in str(verdict)
    # no polished network has learned what no sequence shows
    every = sw.certify(fine, work=WORK, all_words=True)
    assert (every.status, every.to_dict()["judged"]) == ("refuted", "all words")
    assert not is_legal(run.machine, legal_moves(run.machine), every.counterexample.word.symbols())
    assert sw.certify(run, work=WORK).to_dict()["judged"] == "sequences of the task"
    # what is written from a machine has its errors too
    written = sw.certify(sw.compile("modular_arithmetic(3)"), work=0)
    assert (written.status, written.to_dict()["judged"]) == ("proven", "all words")
    plain = sw.certify(sw.train("parity", "full", steps=1, hidden=4), work=0)
    assert plain.to_dict()["judged"] == "all words"
