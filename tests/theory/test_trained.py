"""Proofs about trained networks hold: none is contradicted by exact arithmetic on all words, whatever the weights."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import statewise as sw
from statewise.machines import Machine, machine, minimise
from statewise.theory import Network, compile_machine, network_of
from statewise.theory.balls import Balls
from statewise.theory.certify import Word, certify, replay
from statewise.theory.certify.burn_in import answered_right, layers
from statewise.theory.certify.cones import edges, live, positive_definite, prove_cones
from statewise.theory.certify.drift import search_by_drift
from statewise.theory.certify.enclosures import enclosed, norm_bound
from statewise.theory.certify.frames import first_bounds
from statewise.theory.certify.meeting import longest_by_meeting
from statewise.theory.certify.planes import prove_by_planes
from statewise.theory.certify.trained import (
    growths,
    longest,
    prove_by_cones,
    prove_period,
    prove_trained_horizon,
)

WORK = 300_000
# small networks need few modes, and few words that are followed one by one
FEW = 2_000


def exact_states(network, longest, first=None):
    """Yield, for each length, {word: hidden state in whole numbers, times a positive number}."""
    matrices, h0, _ = network.integers
    now = {(): h0 if first is None else first}
    for length in range(longest + 1):
        yield length, now
        now = {(*word, a): matrices[a] @ h for word, h in now.items() for a in range(network.symbols)}


def strictly_largest(logits):
    best = max(logits)
    return logits.index(best) if logits.count(best) == 1 else None


def first_wrong_length(network, m, longest, shortest=0):
    """The length of a shortest wrong word, in whole numbers; None if there is none up to `longest`."""
    readout = network.integers[2]
    for length, states in exact_states(network, longest):
        if length < shortest:
            continue
        for word, h in states.items():
            if strictly_largest((readout @ h).tolist()) != int(m.answer(word)):
                return length
    return None


def perturbed(m, noise, random, extra=0, power=0):
    """One-hot weights of a machine in a random basis, with entries beside it, noise, and a power of two."""
    hidden = m.states + extra
    matrices = np.zeros((m.symbols, hidden, hidden))
    for a in range(m.symbols):
        matrices[a, m.delta[:, a], np.arange(m.states)] = 1.0
    basis = np.linalg.qr(random.normal(size=(hidden, hidden)))[0]
    matrices = basis @ (matrices + noise * random.normal(size=matrices.shape)) @ basis.T
    initial = basis[:, m.start] + noise * random.normal(size=hidden)
    readout = np.zeros((m.classes, hidden))
    readout[m.outputs, np.arange(m.states)] = 1.0
    readout = readout @ basis.T + noise * random.normal(size=readout.shape)
    return Network(np.ldexp(matrices, power), initial, readout)


MACHINES = ("modular_addition(3)", "flip_flop", "parity", "random_machine(3, seed=2)")


def test_the_bound_on_a_norm_is_above_it_and_tight():
    random = np.random.default_rng(0)
    for rows, columns in ((1, 1), (3, 5), (7, 2), (40, 40)):
        matrices = random.normal(size=(4, rows, columns)) * 10.0 ** random.integers(-3, 4, (4, 1, 1))
        true = np.linalg.norm(matrices, 2, axis=(1, 2))
        bound = norm_bound(Balls.exactly(matrices))
        assert (bound > true * (1 - 1e-15)).all()
        assert (bound < true * (1 + 1e-9)).all()
    # of small matrices nothing is known below the range of floats, but the bound stays a bound
    assert norm_bound(Balls.exactly(np.full((2, 2), 1e-200)))[()] >= 2e-200


def test_positive_definite_is_never_claimed_of_a_matrix_that_is_not():
    random = np.random.default_rng(1)
    decided = set()
    for _ in range(200):
        base = random.integers(-4, 5, (3, 3)).astype(float)
        matrix = base + base.T + np.eye(3) * random.integers(0, 9)
        minors = [round(np.linalg.det(matrix[:k, :k])) for k in (1, 2, 3)]
        true = all(minor > 0 for minor in minors)
        claimed = positive_definite(Balls.exactly(matrix))
        assert true or not claimed
        decided.add((true, claimed))
    assert (True, True) in decided
    assert (False, False) in decided
    # a radius as wide as the least eigenvalue leaves nothing certain
    assert not positive_definite(Balls(np.eye(2), np.full((2, 2), 1.0)))


@pytest.mark.parametrize("power", [0, -600, 200])
def test_layers_enclose_the_exact_states(power):
    random = np.random.default_rng(2)
    for name in MACHINES[:2]:
        m = minimise(machine(name))
        network = perturbed(m, 0.1, random, extra=1, power=power)
        within = enclosed(network)
        legal = np.ones(m.delta.shape, dtype=bool)
        for layer, (length, states) in zip(layers(within, m, legal), exact_states(network, 4), strict=False):
            assert layer.length == length
            for h, off, exact in zip(layer.h, layer.off, states.values(), strict=True):
                # the same direction: the exact state, scaled to agree with the layer's in its largest entry
                place = int(np.argmax(np.abs(h)))
                scale = Fraction(h[place]) / int(exact[place])
                assert scale > 0
                distance = float(sum((Fraction(x) - scale * int(y)) ** 2 for x, y in zip(h, exact, strict=True))) ** 0.5
                assert distance <= 2 * off + 1e-300


@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MACHINES)
def test_no_horizon_is_contradicted_by_exact_arithmetic(name, count):
    """Hundreds of perturbed networks, against all words of up to eight symbols in whole numbers."""
    m = minimise(machine(name))
    random = np.random.default_rng(3)
    longest_word = 8 if m.symbols == 2 else 6
    reached, contradictable = 0, 0
    for trial in range(count):
        network = perturbed(m, random.choice([0.02, 0.1, 0.2, 0.4]), random, extra=int(random.integers(0, 3)))
        proven = growths(network, m, work=FEW)
        horizon = prove_trained_horizon(network, m, shortest=trial % 2, proven=proven, most=FEW)
        wrong = first_wrong_length(network, m, longest_word, shortest=trial % 2)
        # not all words are followed here: bounds alone, from the second symbol on, must hold too
        within = enclosed(network)
        legal = np.ones(m.delta.shape, dtype=bool)
        early = [layer for layer in layers(within, m, legal, most=m.symbols**2 * network.hidden) if layer.length == 2]
        for growth in proven:
            if growth.frames.past > 2:
                continue
            steps = longest(growth, first_bounds(growth, early[0]))
            if steps is not None and all(answered_right(within, m, layer) for layer in early):
                reached = max(reached, steps)
                between = first_wrong_length(network, m, min(longest_word, 2 + steps), shortest=2)
                assert between is None
        if wrong is not None:
            contradictable += 1
            assert horizon is None or horizon.length < wrong
    assert reached > 2
    assert contradictable > count // 10


@pytest.mark.parametrize("name", MACHINES)
def test_words_that_meet_in_the_middle_are_those_that_are_right(name):
    m = minimise(machine(name))
    random = np.random.default_rng(14)
    legal = np.ones(m.delta.shape, dtype=bool)
    wrongs = 0
    for trial in range(8):
        network = perturbed(m, (0.1, 0.3)[trial % 2], random)
        within = enclosed(network)
        begun = next(layer for layer in layers(within, m, legal, most=FEW) if layer.length == 2)
        longest_word = 7 if m.symbols == 2 else 5
        words = len(begun.states) * float(m.symbols) ** (longest_word - 2)
        wrong = first_wrong_length(network, m, longest_word, shortest=3)
        # no margin is so small that its rounding errors would matter: what is right is found to be
        assert longest_by_meeting(within, m, legal, begun, 2, words) == (wrong or longest_word + 1) - 1
        wrongs += wrong is not None
    assert wrongs > 0


def test_horizons_of_nearly_exact_networks_reach_far_beyond_all_short_words():
    random = np.random.default_rng(4)
    m = minimise(machine("modular_addition(3)"))
    network = perturbed(m, 1e-5, random, extra=2)
    found = prove_trained_horizon(network, m, most=FEW)
    assert found is not None
    assert found.length > 1_000
    assert found.frames is not None
    shown = certify(network, m, work=WORK)
    assert shown.status == "refuted"
    assert shown.horizon >= found.length
    assert len(shown.counterexample.word) > shown.horizon


def test_powers_of_two_change_no_horizon():
    m = minimise(machine("flip_flop"))
    found = set()
    for power in (0, -900, -300, 250):
        network = perturbed(m, 1e-3, np.random.default_rng(5), power=power)
        horizon = prove_trained_horizon(network, m, proven=growths(network, m, work=FEW), most=FEW)
        assert horizon is not None
        found.add(horizon.length)
    assert len(found) == 1


def window(symbols, length):
    """The machine that remembers its last symbols."""
    states = symbols**length
    return minimise(Machine([[(q * symbols + a) % states for a in range(symbols)] for q in range(states)]))


@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("m", [minimise(machine("parity")), window(2, 1), window(3, 1), window(2, 2)])
def test_cones_prove_nothing_that_is_wrong(m, count):
    """Robust machines whose signed one-hot weights are perturbed, against all short words in whole numbers."""
    random = np.random.default_rng(6)
    proven, wrongs = 0, 0
    for trial in range(count):
        network = _robust_weights(m, (0.02, 0.1, 0.3, 1.0)[trial % 4], random)
        proof = prove_by_cones(network, m, 2, work=FEW * m.states**2)
        wrong = first_wrong_length(network, m, 8 if m.symbols == 2 else 6, shortest=2)
        if wrong is not None:
            wrongs += 1
            assert proof is None
        proven += proof is not None
    assert proven > count // 10
    assert wrongs > count // 10


def _robust_weights(m, noise, random):
    """Weights that are right with room to spare: parity as a sign, windows as what the last symbols write."""
    if m.states == 2 and m.delta[0].tolist() != m.delta[1].tolist():
        matrices = np.stack([np.diag([1.0, 0.2]), np.diag([-1.0, 0.2])])
        initial, readout = np.array([1.0, 0.0]), np.array([[1.0, 0.0], [-1.0, 0.0]])
        readout = readout[m.outputs] if m.start == 0 else readout[::-1][m.outputs]
    else:
        matrices = np.zeros((m.symbols, m.states, m.states))
        for a in range(m.symbols):
            matrices[a, m.delta[:, a], np.arange(m.states)] = 1.0
        initial, readout = np.eye(m.states)[m.start], np.eye(m.states)[np.argsort(m.outputs)]
    shake = lambda values: values + noise * random.normal(size=values.shape)  # noqa: E731
    return Network(shake(matrices), initial, shake(readout))


def test_tampered_cones_are_refused():
    m = window(2, 1)
    network = _robust_weights(m, 0.05, np.random.default_rng(7))
    proof = prove_by_cones(network, m, 2)
    within, legal = enclosed(network), np.ones(m.delta.shape, dtype=bool)
    cones = proof.cones
    assert prove_cones(within, m, legal, 2, cones) is not None
    assert edges(m, legal, cones)
    assert live(cones).any()
    changed = [
        replace(cones, factors=-cones.factors),
        replace(cones, factors=cones.factors * 100),
        replace(cones, points=-cones.points),
        replace(cones, shares=-cones.shares),
        replace(cones, shares=cones.shares * 100),
        replace(cones, rows=cones.rows[::-1]),
        replace(cones, rows=np.zeros_like(cones.rows)),
        replace(cones, rows=cones.rows * np.array([1.0] + [0.01] * (network.hidden - 1))[:, None]),
        replace(cones, rows=np.where(np.arange(network.hidden)[:, None] == 0, -cones.rows, cones.rows)),
    ]
    for other in changed:
        assert prove_cones(within, m, legal, 2, other) is None
    wrong = Machine(m.delta, m.start, m.outputs[::-1].copy())
    assert prove_cones(within, wrong, legal, 2, cones) is None


def test_machines_that_are_not_robust_are_not_searched_for_cones():
    for name in ("modular_addition(3)", "flip_flop"):
        m = minimise(machine(name))
        assert prove_by_cones(network_of(compile_machine(m).model), m) is None


@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MACHINES)
def test_periods_of_re_embedding_agree_with_exact_arithmetic(name, count):
    """From the start and from each prototype, all words of up to T symbols, in whole numbers; then long ones."""
    m = minimise(machine(name))
    random = np.random.default_rng(8)
    found = 0
    for trial in range(count):
        network = perturbed(m, (0.05, 0.15, 0.4)[trial % 3], random)
        vectors = np.stack([network.states(np.array([[*w]], dtype=np.int64))[0] for w in _access(m)])
        proof = prove_period(network, m, vectors, 1, proven=growths(network, m, work=FEW), most=FEW)
        if proof is None:
            continue
        found += 1
        period = min(proof.period, 6)
        whole = [np.array([int(Fraction(x) * 2**1074) for x in vector], dtype=object) for vector in vectors]
        beginnings = [(None, m.start), *zip(whole, range(m.states), strict=True)]
        for first, start in beginnings:
            for length, states in exact_states(network, period, first):
                for word, h in states.items():
                    there = start if not word else int(m.final(list(word), start))
                    if length:
                        answer = strictly_largest((network.integers[2] @ h).tolist())
                        assert answer == int(m.outputs[there])
                    if length == proof.period:
                        assert strictly_largest([int(v @ h) for v in whole]) == there
        sequences = random.integers(0, m.symbols, (20, 60))
        assert _reembedded(network, vectors, proof.period, sequences).tolist() == m.answer(sequences).tolist()
    assert found > count // 10


def _access(m):
    from statewise.machines import access_words

    words = access_words(m)
    return [words[q] for q in range(m.states)]


def _reembedded(network, vectors, period, sequences):
    h = np.broadcast_to(network.initial, (len(sequences), network.hidden))
    for t in range(sequences.shape[1]):
        h = np.einsum("bij,bj->bi", network.matrices[sequences[:, t]], h)
        answers = (h @ network.readout.T).argmax(axis=1)
        if (t + 1) % period == 0:
            h = vectors[(h @ vectors.T).argmax(axis=1)]
    return answers


def rotations(m, planes, noise, common, random):
    """Planes turned as a cyclic machine turns, each off by a drift of its own and by noise for each symbol."""
    states, symbols = m.states, m.symbols
    harmonics = random.integers(1, max(2, states), planes)
    angles = 2 * np.pi * np.outer(np.arange(symbols), harmonics) / states
    angles = angles + common * random.normal(size=planes) + noise * random.normal(size=(symbols, planes))
    matrices = np.zeros((symbols, 2 * planes, 2 * planes))
    even = np.arange(0, 2 * planes, 2)
    matrices[:, even, even] = matrices[:, even + 1, even + 1] = np.cos(angles)
    matrices[:, even + 1, even] = np.sin(angles)
    matrices[:, even, even + 1] = -np.sin(angles)
    initial = np.tile([1.0, 0.0], planes)
    turns = 2 * np.pi * np.outer(np.arange(states), harmonics) / states
    readout = np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(states, -1)
    return Network(matrices, initial, readout)


def test_horizons_by_planes_agree_with_all_counts_of_symbols():
    """Rotations commute: all counts of two symbols up to the horizon, with a hundred digits."""
    random = np.random.default_rng(9)
    m = _two_symbol_cycle(3)
    beyond = 0
    for trial in range(24):
        network = rotations(
            m, int(random.integers(1, 4)), random.choice([1e-3, 0.01, 0.05]), 0.05 * (trial % 3), random
        )
        found = prove_by_planes(network, enclosed(network), m, shortest=0, most=60)
        if found is None:
            continue
        wrong = _first_wrong_count(network, m, min(found.length, 24))
        assert wrong is None
        beyond += found.length > 12
    assert beyond > 4


def _two_symbol_cycle(states):
    return Machine([[q, (q + 1) % states] for q in range(states)])


def _first_wrong_count(network, m, longest):
    planes = network.hidden // 2
    with mpmath.workdps(100):
        z = [
            [mpmath.mpc(float(a[2 * p, 2 * p]), float(a[2 * p + 1, 2 * p])) for p in range(planes)]
            for a in network.matrices
        ]
        first = [mpmath.mpc(*map(float, network.initial[2 * p : 2 * p + 2])) for p in range(planes)]
        for length in range(longest + 1):
            for ones in range(length + 1):
                h = [first[p] * z[0][p] ** (length - ones) * z[1][p] ** ones for p in range(planes)]
                flat = [part for number in h for part in (number.real, number.imag)]
                logits = [sum(float(u) * x for u, x in zip(row, flat, strict=True)) for row in network.readout]
                if strictly_largest(logits) != int(m.answer([0] * (length - ones) + [1] * ones)):
                    return length
    return None


def test_a_drift_that_all_symbols_share_costs_no_horizon():
    random = np.random.default_rng(10)
    m = _two_symbol_cycle(5)
    network = rotations(m, 1, 0.0, 0.0, random)
    turned = rotations(m, 3, 1e-4, 0.02, np.random.default_rng(11))
    assert prove_by_planes(network, enclosed(network), m, most=500).length == 499
    # each plane drifts by about 1/50 a symbol, but all states together: planes are still told apart by their phases
    assert prove_by_planes(turned, enclosed(turned), m).length > 30


def test_a_wrong_power_of_more_than_a_million_million_symbols_is_found_and_holds():
    """Addition modulo 5 by rotations in float64: proven to 10^12 symbols and more, and wrong beyond."""
    m = minimise(machine("modular_addition(5)"))
    network = rotations(m, 1, 0.0, 0.0, np.random.default_rng(12))
    found = search_by_drift(network, m).counterexample
    assert found is not None
    word = found.word
    assert len(word) > 10**12
    assert found.replayed.given != found.replayed.right
    # once more, with two hundred digits, by another library
    with mpmath.workdps(200):
        h = mpmath.matrix(network.initial.tolist())
        matrices = [mpmath.matrix(a.tolist()) for a in network.matrices]
        for a in word.prefix:
            h = matrices[a] * h
        power = matrices[word.loop[0]]
        for a in word.loop[1:]:
            power = matrices[a] * power
        h = power**word.times * h
        logits = list(mpmath.matrix(network.readout.tolist()) * h)
    assert strictly_largest(logits) != found.replayed.right
    shown = certify(network, m, work=WORK)
    assert shown.status == "refuted"
    assert 10**12 < shown.horizon < len(shown.counterexample.word)


def test_exact_networks_have_no_wrong_power():
    for name in ("modular_addition(4)", "flip_flop"):
        m = minimise(machine(name))
        found = search_by_drift(network_of(compile_machine(m).model), m)
        assert found.counterexample is None
        assert found.loops > 0


def test_counterexamples_of_drift_count_only_from_the_shortest_length_on():
    m = minimise(machine("modular_addition(3)"))
    network = perturbed(m, 0.01, np.random.default_rng(13))
    free = search_by_drift(network, m).counterexample
    late = search_by_drift(network, m, shortest=len(free.word) + 10).counterexample
    assert late is None or len(late.word) >= len(free.word) + 10
    assert replay(network, m, Word(free.word.prefix, free.word.loop, free.word.times)).given == free.replayed.given


def test_certify_reports_the_period_and_evaluate_keeps_it(tmp_path):
    run = sw.train("modular_addition(3)", "full", hidden=16, steps=600, out=tmp_path / "run")
    shown = sw.certify(run, work=WORK)
    period = shown.to_dict()["reembed"]
    assert period >= 2
    assert f"with re-embedding every {period:,} symbols" in str(shown)
    scores = sw.evaluate(run, lengths=[period, 10 * period + 1, 1_000], words=50, reembed=period)
    assert all(score.accuracy == 1.0 for score in scores.scores)
    assert sw.certify(run, work=0).to_dict()["reembed"] is None
