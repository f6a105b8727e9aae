"""Every statement of docs/theory/length-generalisation.md: values on short words decide, residuals give horizons."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from statewise.machines import Machine, access_words, machine
from statewise.theory import Network
from statewise.theory.certify import prove_horizon
from statewise.training.adam import adam_step
from statewise.training.plans import Optimisation

MACHINES = [
    f"random_machine({states}, seed={seed}, kind={kind})"
    for states, seed in ((4, 1), (7, 2))
    for kind in ("permutation", "map")
]


def words_up_to(symbols, longest, shortest=0):
    return [w for n in range(shortest, longest + 1) for w in itertools.product(range(symbols), repeat=n)]


def state_of(network, word):
    h = network.initial
    for a in word:
        h = network.matrices[a] @ h
    return h


def value(network, word):
    return network.readout @ state_of(network, word)


def one_hot(m):
    """The network of one-hot states, and the one-hot answers."""
    matrices = np.zeros((m.symbols, m.states, m.states))
    for q, a in itertools.product(range(m.states), range(m.symbols)):
        matrices[a, m.delta[q, a], q] = 1
    return Network(matrices, np.eye(m.states)[m.start], np.eye(m.classes)[m.outputs].T.copy())


def target(m, word):
    return np.eye(m.classes)[m.answer(np.array(word, dtype=np.int64))]


def in_coordinates(network, turn):
    back = np.linalg.inv(turn)
    return Network(turn @ network.matrices @ back, turn @ network.initial, network.readout @ back)


def moved(network, amount, random):
    parts = (network.matrices, network.initial, network.readout)
    return Network(*(part + amount * random.standard_normal(part.shape) for part in parts))


def small_automata(hidden, symbols, entries=(-1, 0, 1), readouts=None):
    """All automata with these whole numbers as entries: matrices, first states and readouts, one automaton a row."""
    numbers = np.array(list(itertools.product(entries, repeat=hidden * hidden * symbols)), dtype=np.int64)
    starts = np.array(list(itertools.product(entries, repeat=hidden)), dtype=np.int64)
    readouts = starts[:, None] if readouts is None else np.array(readouts, dtype=np.int64)
    index = np.indices((len(numbers), len(starts), len(readouts))).reshape(3, -1)
    return numbers[index[0]].reshape(-1, symbols, hidden, hidden), starts[index[1]], readouts[index[2]]


def values_of(automata, words):
    """The values of every automaton on every word, in whole numbers."""
    matrices, starts, readouts = automata
    rows = []
    for word in words:
        h = starts
        for a in word:
            h = np.einsum("nij,nj->ni", matrices[:, a], h)
        rows.append(np.einsum("nci,ni->nc", readouts, h))
    return np.stack(rows, axis=1)


def decide(window, beyond):
    """Whether automata with equal values in the window have equal values beyond."""
    window, beyond = (part.reshape(len(part), -1) for part in (window, beyond))
    short = np.unique(window, axis=0, return_inverse=True)[1].ravel()
    both = np.unique(np.column_stack([short, beyond]), axis=0)
    return len(both) == short.max() + 1


@pytest.mark.parametrize("first", [0, 1, 2])
def test_words_of_r_plus_s_minus_d_more_symbols_decide_and_fewer_do_not(first):
    unary = [(0,) * n for n in range(10)]
    # scalar values, d = 1: r = s = 2
    two = values_of(small_automata(2, 1), unary)
    assert decide(two[:, first : first + 4], two[:, first:])
    assert not decide(two[:, first : first + 3], two[:, first:])
    # r = 2 and s = 1: pairs of one of each
    one = values_of(small_automata(1, 1, range(-2, 3)), unary)
    agree = (two[:, None] == one[None])[..., 0]
    assert (agree[..., first : first + 3].all(axis=-1) == agree[..., first:].all(axis=-1)).all()
    assert (agree[..., first : first + 2].all(axis=-1) != agree[..., first:].all(axis=-1)).any()
    # the readout is the state itself, d = 2: two symbols fewer
    seen = values_of(small_automata(2, 1, readouts=[np.eye(2)]), unary)
    assert decide(seen[:, first : first + 3], seen[:, first:])
    assert not decide(seen[:, first : first + 2], seen[:, first:])


def test_words_over_two_symbols_decide_by_the_same_bound():
    words = words_up_to(2, 5)
    parts = small_automata(2, 2, (0, 1))
    random = np.random.default_rng(0)
    negative = tuple(part.copy() for part in parts)
    negative[0][...] *= random.choice([-1, 1], negative[0].shape)
    values = values_of(tuple(np.concatenate(both) for both in zip(parts, negative, strict=True)), words)
    upto = [sum(len(w) <= n for w in words) for n in range(6)]
    assert decide(values[:, : upto[3]], values)
    assert not decide(values[:, : upto[2]], values)


@pytest.mark.parametrize(("r", "s"), [(1, 1), (2, 3), (4, 2), (3, 5)])
def test_divided_differences_agree_below_r_plus_s_minus_1_and_differ_there(r, s):
    nodes = [Fraction(a) for a in range(-2, r + s - 2)]
    weights = [1 / math.prod(a - b for b in nodes if b != a) for a in nodes]
    f = [sum(c * a**k for c, a in zip(weights[:r], nodes[:r], strict=True)) for k in range(r + s)]
    g = [-sum(c * a**k for c, a in zip(weights[r:], nodes[r:], strict=True)) for k in range(r + s)]
    assert f[:-1] == g[:-1]
    assert f[-1] == g[-1] + 1
    # no coefficient vanishes, so the ranks are r and s: Hankel matrices are products with Vandermonde matrices
    assert all(weights)
    assert len(set(nodes)) == r + s


def test_shorter_words_follow_if_a_symbol_acts_invertibly():
    automata = small_automata(2, 1)
    values = values_of(automata, [(0,) * n for n in range(8)])
    determinants = automata[0][:, 0, 0, 0] * automata[0][:, 0, 1, 1] - automata[0][:, 0, 0, 1] * automata[0][:, 0, 1, 0]
    invertible = values[determinants != 0]
    assert decide(invertible[:, 2:], invertible[:, :2])
    assert not decide(values[:, 2:], values[:, :2])


def test_legal_words_decide_by_a_bound_for_each_state_of_their_language():
    # legal words alternate: a, ab, aba, ...; two states, r = s = d = 1
    words = [tuple(t % 2 for t in range(n)) for n in range(8)]
    values = values_of(small_automata(1, 2, range(-2, 3)), words)
    assert decide(values[:, :3], values)
    assert not decide(values[:, :2], values)


def realise(m, prefixes, suffixes):
    """Return a network from the answers on P, P Sigma S, and S alone, with the columns of P as its states."""
    block = np.stack([np.concatenate([target(m, (*u, *v)) for v in suffixes]) for u in prefixes], axis=1)
    left, sizes, right = np.linalg.svd(block, full_matrices=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    rows, columns = left[:, :rank] * sizes[:rank], right[:rank]
    matrices = []
    for a in range(m.symbols):
        after = np.stack([np.concatenate([target(m, (*u, a, *v)) for v in suffixes]) for u in prefixes], axis=1)
        matrices.append(np.linalg.pinv(rows) @ after @ columns.T)
    return Network(np.stack(matrices), columns[:, 0].copy(), rows[: m.classes].copy()), rows, columns


def merged(m, classes=2):
    return Machine(m.delta, outputs=np.arange(m.states) % classes)


@pytest.mark.parametrize("name", [*MACHINES, "tomita(3)", "modular_addition(5)"])
def test_a_block_of_full_rank_and_its_symbols_decide_every_word(name):
    m = machine(name)
    for truth in (m, merged(m)) if m.classes == m.states else (m,):
        random = np.random.default_rng(5)
        access = sorted(access_words(truth).values(), key=len)
        suffixes = [()] if truth.classes == truth.states else words_up_to(truth.symbols, 2 if truth.symbols > 2 else 4)
        network, rows, _ = realise(truth, access, suffixes)
        if truth.classes == truth.states:
            assert network.hidden == truth.states
        words = [random.integers(0, truth.symbols, 60).tolist() for _ in range(10)]
        for word in words:
            np.testing.assert_allclose(value(network, word), target(truth, word), atol=1e-6)
        # without some prefixes the rank is too small, and something is wrong
        fewer, _, _ = realise(truth, access[: network.hidden - 1], suffixes)
        assert fewer.hidden < network.hidden
        wrong = [np.abs(value(fewer, word[:n]) - target(truth, word[:n])).max() for word in words for n in range(12)]
        assert max(wrong) > 0.1
        # any network of this size that agrees is the same in other coordinates, which the suffixes give
        same = in_coordinates(network, random.standard_normal((network.hidden, network.hidden)))
        turn = np.linalg.pinv(rows_of(same, suffixes)) @ rows
        np.testing.assert_allclose(turn @ network.matrices @ np.linalg.inv(turn), same.matrices, atol=1e-6)


def rows_of(network, suffixes):
    """The rows U A_v of some suffixes."""
    made = []
    for word in suffixes:
        matrix = np.eye(network.hidden)
        for a in word:
            matrix = network.matrices[a] @ matrix
        made.append(network.readout @ matrix)
    return np.concatenate(made)


def test_lengths_two_and_three_decide_addition_from_two_symbols_on():
    m = machine("modular_addition(5)")
    prefixes = words_up_to(5, 2, 2)
    network, _, columns = realise(m, prefixes, [()])
    assert network.hidden == 5
    random = np.random.default_rng(0)
    for column, prefix in enumerate(prefixes):
        word = random.integers(0, 5, 80).tolist()
        started = Network(network.matrices, columns[:, column].copy(), network.readout)
        np.testing.assert_allclose(value(started, word), target(m, (*prefix, *word)), atol=1e-9)


def test_spare_dimensions_can_hide_an_error_beyond_the_training_lengths():
    m, spare = machine("modular_addition(5)"), 12
    exact = one_hot(m)
    matrices = np.zeros((5, 5 + spare, 5 + spare))
    matrices[:, :5, :5] = exact.matrices
    matrices[:, 5:, 5:] = np.eye(spare, k=-1)
    readout = np.concatenate([exact.readout, np.zeros((5, spare))], axis=1)
    readout[0, -1], readout[1, -1] = 2, -2
    network = Network(matrices, np.concatenate([exact.initial, np.eye(spare)[0]]), readout)
    random = np.random.default_rng(0)
    for length in range(15):
        for word in random.integers(0, 5, (20, length)).tolist():
            assert (value(network, word) == target(m, word)).all() == (length != 11)
    # m.answer is 1: logits are 2, -1, 0, 0, 0
    assert value(network, [0] * 10 + [1]).argmax() != 1


def jacobian_rank(network, words):
    parts = [torch.from_numpy(part) for part in (network.matrices, network.initial, network.readout)]

    def all_values(matrices, initial, readout):
        rows = []
        for word in words:
            h = initial
            for a in word:
                h = matrices[a] @ h
            rows.append(readout @ h)
        return torch.cat(rows)

    columns = torch.autograd.functional.jacobian(all_values, tuple(parts))
    return int(np.linalg.matrix_rank(torch.cat([c.flatten(1) for c in columns], dim=1).numpy()))


def test_samples_decide_nearby_where_their_jacobian_has_the_rank_of_unknowns_less_coordinates():
    network, random = one_hot(machine("modular_addition(3)")), np.random.default_rng(0)
    unknowns = sum(part.size for part in (network.matrices, network.initial, network.readout))
    sample = [random.integers(0, 3, random.integers(2, 9)).tolist() for _ in range(60)]
    assert jacobian_rank(network, words_up_to(3, 3, 2)) == unknowns - 9
    assert jacobian_rank(network, sample) == unknowns - 9
    assert jacobian_rank(network, sample[:8]) < unknowns - 9


@pytest.mark.parametrize(("m", "eta"), [(3, 0.05), (5, 0.01), (10, 0.003)])
def test_rotations_by_a_wrong_angle_have_any_cross_entropy_and_fail_later(m, eta):
    assert 10 * eta < math.pi / m
    gamma = math.cos(10 * eta) - math.cos(2 * math.pi / m - 10 * eta)
    assert gamma > 0
    classes = np.arange(m)

    def logits(k, scale, angle=eta):
        return scale * np.cos(2 * np.pi * (k - classes) / m + k * angle)

    def loss(k, scale, angle=eta):
        z = logits(k, scale, angle)
        return np.log1p(np.exp(np.delete(z - z[k % m], k % m)).sum())

    for scale in (1, 10, 40):
        for k in range(11):
            assert loss(k, scale) <= (m - 1) * math.exp(-scale * gamma) * (1 + 1e-9)
            slope = (loss(k, scale, eta + 1e-6) - loss(k, scale, eta - 1e-6)) / 2e-6
            assert abs(slope) <= 20 * scale * (m - 1) * math.exp(-scale * gamma) + 1e-9
    first = math.ceil(math.pi / (m * eta))
    right = [logits(k, 1.0).argmax() == k % m for k in range(first + 1)]
    assert all(right[:-1])
    assert not right[-1]
    if (m, eta) == (5, 0.01):
        assert first == 63


def test_slow_growth_of_errors_gives_a_horizon_of_radius_over_rho():
    random = np.random.default_rng(0)
    for _ in range(500):
        rho, radius, b = 10 ** random.uniform(-6, -1), random.uniform(0.1, 2), 10 ** random.uniform(-2, 1)
        kappa = 1 + b * rho
        steps = math.exp(-b * radius) * radius / rho

        def error(t, rho=rho, kappa=kappa):
            return rho * math.expm1(t * math.log(kappa)) / (kappa - 1)

        assert error(math.floor(steps)) < radius
        # b = 0.01 loses at most 2 %
        if b < 0.02:
            assert error(1.05 * steps + 1) >= radius


def theorem_4(network, m):
    """The length below which Theorem 4 proves every word, from n (K + 1) words."""
    words = [(*u, *a) for u in access_words(m).values() for a in words_up_to(m.symbols, 1)]
    off = max(float(np.abs(value(network, w) - target(m, w)).sum()) for w in words)
    return math.ceil((1 - off) / (2 * off) * math.log(2 / (1 + off))) - 1 if off < 1 else None


def first_wrong(network, m, longest):
    """The shortest wrong word among all powers x u^n, |u| <= 2, and some random words."""
    random, access = np.random.default_rng(1), access_words(m)
    loops = words_up_to(m.symbols, 2, 1)
    words = [[*u] * (longest // len(u)) for u in loops] + random.integers(0, m.symbols, (5, longest)).tolist()
    best = longest + 1
    for word in words:
        for q, x in access.items():
            h, state = state_of(network, x), q
            for length in range(len(x) + 1, min(best, len(x) + len(word) + 1)):
                a = word[length - len(x) - 1]
                h, state = network.matrices[a] @ h, m.delta[state, a]
                if (network.readout @ h).argmax() != m.outputs[state]:
                    best = length
                    break
    return best


@pytest.mark.parametrize("name", MACHINES)
def test_no_word_within_a_proven_horizon_is_wrong(name):
    m, random = machine(name), np.random.default_rng(7)
    ratios = []
    for amount in (0.1, 0.03, 0.01):
        network = in_coordinates(moved(one_hot(m), amount / m.states, random), random.standard_normal((m.states,) * 2))
        proven, horizon = theorem_4(network, m), prove_horizon(network, m)
        assert proven is not None
        assert horizon is not None
        assert horizon.length is not None
        most = max(proven, horizon.length)
        found = first_wrong(network, m, 12 * most)
        assert found > most
        ratios.append(found / most)
    # and the bound is not empty: some network fails at a length of the same order
    assert min(ratios) < 12


@pytest.mark.parametrize("name", MACHINES)
def test_errors_after_n_symbols_stay_below_the_recursion(name):
    m, random = machine(name), np.random.default_rng(8)
    exact = one_hot(m)
    network = moved(exact, 1e-3, random)
    # one-hot vectors and sums of absolute values: every matrix of the machine has norm 1
    rho = max(np.abs(network.matrices - exact.matrices).sum(axis=1).ravel())
    kappa = np.abs(network.matrices).sum(axis=1).max()
    bound = np.abs(network.initial - exact.initial).sum()
    h, q, largest = network.initial, m.start, 0.0
    for a in random.integers(0, m.symbols, 300).tolist():
        h, q, bound = network.matrices[a] @ h, m.delta[q, a], rho + kappa * bound
        off = np.abs(h - np.eye(m.states)[q]).sum()
        assert off <= bound
        largest = max(largest, off)
    assert largest > rho / 2


@pytest.mark.parametrize("name", MACHINES)
def test_weights_are_as_near_as_values_on_a_block(name):
    truth, random = merged(machine(name), 3), np.random.default_rng(9)
    prefixes, suffixes = sorted(access_words(truth).values(), key=len), words_up_to(truth.symbols, 1)
    exact, rows, columns = realise(truth, prefixes, suffixes)
    o, p = (np.linalg.svd(part, compute_uv=False)[-1] for part in (rows, columns))
    assert o * p > 1e-6
    turn = random.standard_normal((exact.hidden,) * 2)
    for amount in (1e-4, 1e-6):
        near = in_coordinates(moved(exact, amount * o * p, random), turn)
        words = [(*u, *a, *v) for u in prefixes for a in words_up_to(truth.symbols, 1) for v in suffixes]
        off = max(np.linalg.norm(value(near, w) - target(truth, w)) for w in words)
        size = off * math.sqrt(len(prefixes) * len(suffixes))
        assert size < o * p
        found = in_coordinates(near, np.linalg.pinv(rows) @ rows_of(near, suffixes))
        for a in range(truth.symbols):
            away = np.linalg.norm(found.matrices[a] - exact.matrices[a], 2)
            assert away <= (1 + np.linalg.norm(exact.matrices[a], 2)) * size / (o * p - size)
        assert np.linalg.norm(found.initial - exact.initial) <= size / o
        away = np.linalg.norm(found.readout - exact.readout, 2)
        assert away <= (o + np.linalg.norm(exact.readout, 2)) * size / (o * p - size)


def test_normalised_readouts_that_fit_are_right_at_every_length_whatever_their_gains():
    m, random = machine("random_machine(5, seed=3, kind=permutation)"), np.random.default_rng(2)
    vectors = random.standard_normal((5, 5))
    vectors /= np.linalg.norm(vectors, axis=0)
    gains = random.uniform(0.5, 2, (m.symbols, 5))
    exact = one_hot(m)
    network = in_coordinates(Network(exact.matrices * gains[:, None], exact.initial, np.eye(5)), vectors)
    for word in random.integers(0, m.symbols, (20, 100)).tolist():
        h = state_of(network, word)
        np.testing.assert_allclose(network.readout @ h / np.linalg.norm(h), target(m, word), atol=1e-9)
    # as a plain network its values are far from one-hot, unless gains are those of symbols and are divided out
    assert np.abs(value(network, [0, 1, 2]) - target(m, [0, 1, 2])).max() > 0.05
    gains[:] = gains[:, :1]
    alike = in_coordinates(
        Network(exact.matrices * gains[:, None] / gains[:, :1, None], exact.initial, np.eye(5)), vectors
    )
    np.testing.assert_allclose(value(alike, [0, 1, 2] * 20), target(m, [0, 1, 2] * 20), atol=1e-9)


def gradients(parts, words, m):
    leaves = [part.detach().requires_grad_() for part in parts]
    matrices, initial, readout = leaves
    total = torch.zeros(())
    for word in words:
        h = initial
        for a in word:
            h = matrices[a] @ h
        total = total + (readout @ h - torch.from_numpy(target(m, word))).square().sum() / len(words)
    return torch.autograd.grad(total, leaves)


def test_decay_alone_acts_outside_the_tracked_subspace():
    plan = Optimisation(lr=4e-3, steps=2_000, schedule="cosine", weight_decay=0.1)
    factor = math.prod(1 - plan.rate(step) * plan.weight_decay for step in range(plan.steps))
    assert factor == pytest.approx(math.exp(-0.4), rel=1e-3)
    assert factor**10 == pytest.approx(0.018, abs=1e-3)
    # T is spanned by the first three axes of an orthonormal frame
    m, random = machine("modular_addition(3)"), np.random.default_rng(4)
    exact, turn = one_hot(m), torch.from_numpy(np.linalg.qr(random.standard_normal((6, 6)))[0])
    matrices = torch.from_numpy(random.standard_normal((3, 6, 6)))
    matrices[:, :3, 3:] = matrices[:, 3:, :3] = 0
    parts = [matrices, torch.from_numpy(random.standard_normal(6)), torch.from_numpy(random.standard_normal((3, 6)))]
    parts[1][3:] = parts[2][:, 3:] = 0
    words = random.integers(0, exact.matrices.shape[0], (10, 4)).tolist()
    before, rate, decay = matrices[:, 3:, 3:].clone(), 1e-3, 0.5
    parts = [turn @ parts[0] @ turn.T, turn @ parts[1], parts[2] @ turn.T]
    first = [part.clone() for part in parts]
    for _ in range(20):
        parts = [(1 - rate * decay) * p - rate * g for p, g in zip(parts, gradients(parts, words, m), strict=True)]
    after = turn.T @ parts[0] @ turn
    torch.testing.assert_close(after[:, 3:, 3:], before * (1 - rate * decay) ** 20)
    assert float(after[:, :3, 3:].abs().max()) < 1e-12
    assert float((after[:, :3, :3] - (turn.T @ first[0] @ turn)[:, :3, :3]).abs().max()) > 1e-3
    # Adam rescales entry by entry, so this is no law of Adam unless the subspace is spanned by coordinates
    for frame, kept in ((turn, False), (torch.eye(6).double(), True)):
        there = [frame @ turn.T @ first[0] @ turn @ frame.T, frame @ turn.T @ first[1], first[2] @ turn @ frame.T]
        weights, slopes = there[0].clone()[None], gradients(there, words, m)[0][None]
        adam_step(weights, slopes, (torch.zeros_like(weights), torch.zeros_like(weights)), 1.0, [rate], [decay])
        outside = (frame.T @ weights[0] @ frame)[:, 3:, 3:]
        assert torch.allclose(outside, before * (1 - rate * decay), atol=1e-9) == kept
