"""Horizons among atoms are sound: no judged word within a claimed length is wrong, in exact arithmetic."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest

from statewise.machines import Machine, access_words, machine, minimise
from statewise.tasks import legal_moves
from statewise.theory import Network
from statewise.theory.balls import Balls
from statewise.theory.certify import Word, prove_horizon, replay, search
from statewise.theory.certify.atoms import _Room, growth_of_errors, rooms

AMOUNTS = (1e-1, 1e-2, 1e-3, 1e-6, 1e-10, 1e-14)
# hidden-state updates of a search, and all words that are tried for one network
WORK, MOST_WORDS = 40_000, 300


def random_machine(kind, random):
    """A minimal machine of a few states: permutations, maps with merged outputs, or one with sequences to avoid."""
    while True:
        states, symbols = int(random.integers(2, 5)), int(random.integers(2, 4))
        if kind == "permutations":
            made = Machine(np.stack([random.permutation(states) for _ in range(symbols)], axis=1))
        elif kind == "maps":
            delta = random.integers(0, states, (states, symbols))
            made = Machine(delta, outputs=random.permutation(np.arange(states) % max(2, states - 1)))
        else:
            # the last state is the error, and the last symbol never leads there
            delta = random.integers(0, states + 1, (states + 1, symbols))
            delta[:, -1] = random.integers(0, states, states + 1)
            delta[states] = states
            made = Machine(delta, output_names=[*map(str, range(states)), "error"])
        made = minimise(made)
        legal = legal_moves(made)
        if made.states > 1 and len(set(made.outputs.tolist())) > 1 and legal.all() == (kind != "errors"):
            return made, legal


def one_hot(m, junk=0, moves=None):
    """One-hot states, and entries beside them that hold nothing; moves that are left out lead to 0."""
    hidden = m.states + junk
    matrices = np.zeros((m.symbols, hidden, hidden))
    for q, a in np.argwhere(np.ones(m.delta.shape) if moves is None else moves):
        matrices[a, m.delta[q, a], q] = 1
    readout = np.zeros((m.classes, hidden))
    readout[m.outputs, np.arange(m.states)] = 1
    return Network(matrices, np.eye(hidden)[m.start], readout)


def near(m, amount, random, junk=0, moves=None):
    """One-hot states with relative errors, in random coordinates."""
    exact = one_hot(m, junk, moves)
    parts = [exact.matrices, exact.initial, exact.readout]
    parts = [part + amount * random.standard_normal(part.shape) for part in parts]
    left, right = (np.linalg.qr(random.standard_normal((exact.hidden,) * 2))[0] for _ in range(2))
    stretch = random.uniform(0.3, 3, exact.hidden)
    turn, back = left * stretch @ right, right.T / stretch @ left.T
    return Network(turn @ parts[0] @ back, turn @ parts[1], parts[2] @ back)


def is_right(network, output, h):
    logits = (network.integers[2] @ h).tolist()
    return all(logit < logits[output] for c, logit in enumerate(logits) if c != output)


def first_wrong(network, m, legal, most):
    """The length of a shortest wrong word among all legal ones, in whole numbers; None up to the length that fits."""
    layer = [(network.integers[1], m.start)]
    for length in itertools.count():
        if not all(is_right(network, int(m.outputs[q]), h) for h, q in layer):
            return length, length
        if length >= most or len(layer) * m.symbols > MOST_WORDS:
            return None, length
        layer = [
            (network.integers[0][a] @ h, int(m.delta[q, a]))
            for h, q in layer
            for a in np.flatnonzero(legal[q]).tolist()
        ]
    raise AssertionError


def legal_loops(m, legal, longest=3):
    """For each state that is reached, its access word and short legal words that lead from it to itself."""
    for q, prefix in access_words(m, legal).items():
        for length in range(1, longest + 1):
            for loop in itertools.product(range(m.symbols), repeat=length):
                here, inside = q, True
                for a in loop:
                    inside = inside and bool(legal[here, a])
                    here = int(m.delta[here, a])
                if inside and here == q:
                    yield prefix, loop


def random_legal_word(m, legal, length, random):
    state, word = m.start, []
    for _ in range(length):
        word.append(int(random.choice(np.flatnonzero(legal[state]))))
        state = int(m.delta[state, word[-1]])
    return tuple(word)


def assert_sound(network, m, legal, length, random):
    """Whatever is claimed up to a length holds: all short words, sampled long ones, and powers, replayed exactly."""
    longest = 10**15 if length is None else length
    wrong, tried = first_wrong(network, m, legal, min(longest, 6))
    assert wrong is None, f"a word of {wrong} symbols is wrong, {length} are claimed"
    assert tried >= min(longest, 2)
    words = [Word(random_legal_word(m, legal, min(longest, 150), random)) for _ in range(2)]
    loops = list(legal_loops(m, legal))
    for index in random.permutation(len(loops))[:3].tolist():
        prefix, loop = loops[index]
        for most in (100, 4_000):
            times = (min(longest, most) - len(prefix)) // len(loop)
            if times > 0:
                words.append(Word(prefix, loop, times))
    for word in words:
        assert len(word) <= longest
        replayed = replay(network, m, word)
        assert replayed is None or replayed.given == replayed.right, (length, len(word), word)


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("kind", ["permutations", "maps", "errors"])
def test_no_legal_word_within_a_claimed_horizon_is_wrong(kind, amount):
    pytest.importorskip("flint", reason="needs python-flint; install statewise[certify]")
    random = np.random.default_rng([int(1 / amount), len(kind)])
    for junk in (0, 0, 1, 2):
        m, legal = random_machine(kind, random)
        network = near(m, amount, random, junk)
        claimed = prove_horizon(network, m, legal=None if kind != "errors" else legal)
        if amount <= 1e-3 and not junk and kind != "errors":
            # the bounds are not empty: what is nearly a machine is proven far
            assert claimed is not None
            assert claimed.length is None or claimed.length > min(10**9, 1e-3 / amount)
        if claimed is None:
            continue
        assert_sound(network, m, legal, claimed.length, random)
        found = search(network, m, work=WORK, legal=legal).counterexample
        if found is not None:
            assert claimed.length is not None
            assert claimed.length < len(found.word)


@pytest.mark.parametrize("kind", ["permutations", "maps", "errors"])
def test_rooms_are_the_coarsest_congruence(kind):
    random = np.random.default_rng(0)
    several = 0
    for trial in range(60):
        m, legal = random_machine(kind, random)
        if trial % 2:
            # any set of moves has its rooms
            legal = random.random(legal.shape) < 0.6
        found = rooms(m, legal)
        for room in np.unique(found):
            inside = np.flatnonzero(found == room)
            assert (legal[inside] == legal[inside[0]]).all()
            for a in np.flatnonzero(legal[inside[0]]):
                assert len(set(found[m.delta[inside, a]].tolist())) == 1
        # two states in different rooms differ in what may follow, now or after some word
        apart = (legal[:, None] != legal[None]).any(axis=2)
        while True:
            both = legal[:, None] & legal[None]
            wider = apart | (both & apart[m.delta[:, None], m.delta[None]]).any(axis=2)
            if (wider == apart).all():
                break
            apart = wider
        assert ((found[:, None] != found[None]) == apart).all()
        several += found.max() > 0
    assert several >= 20


def test_rooms_of_arithmetic_are_where_a_number_and_where_an_operator_may_follow():
    for name in ("modular_arithmetic(2)", "modular_arithmetic(3)", "modular_arithmetic(3, precedence=true)"):
        m = machine(name)
        legal = legal_moves(m)
        found = rooms(m, legal)
        number = legal[:, m.encode(["0"])[0]]
        operator = legal[:, m.encode(["+"])[0]]
        assert len(np.unique(found)) == 3
        assert len(set(found[number])) == len(set(found[operator])) == 1
        assert not (number & operator).any()
    free = machine("symmetric(3)")
    assert (rooms(free, legal_moves(free)) == 0).all()


def test_sizes_and_duals_of_a_room_bound_every_functional():
    """w . e <= |w|* |e|, in fractions: both are bounds to the safe side."""
    random = np.random.default_rng(0)

    def product(a, b):
        return sum((Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)), Fraction(0))

    tight = 0.0
    for atoms, hidden in ((1, 3), (3, 3), (2, 4), (5, 3)):
        for scale in (1e-6, 1.0, 1e6):
            room = _Room(scale * random.standard_normal((atoms, hidden)))
            room.beside = 2 * room.widest
            errors = np.concatenate([random.standard_normal((4, hidden)), room.atoms])
            weights = random.standard_normal((4, hidden))
            sizes, duals = room.bound(Balls.exactly(errors)), room.dual(Balls.exactly(weights))
            for (e, size), (w, dual) in itertools.product(
                zip(errors, sizes.tolist(), strict=True), zip(weights, duals.tolist(), strict=True)
            ):
                value = abs(product(w, e))
                assert value <= Fraction(dual) * Fraction(size)
                tight = max(tight, float(value) / (dual * size))
            # an atom has size 1, where it is no sum of others; and what a vector may be off by counts
            assert atoms > hidden or np.allclose(sizes[4:], 1, rtol=1e-6)
            wider = room.bound(Balls(errors, np.full_like(errors, scale)))
            assert (wider > sizes).all()
    assert tight > 0.99


@pytest.mark.parametrize("name", ["symmetric(3)", "random_machine(6, seed=2, kind=map)", "tomita(5)"])
def test_errors_of_exact_networks_do_not_grow(name):
    """Among atoms every symbol of a machine has the factor 1 up to rounding, whatever the coordinates."""
    m = minimise(machine(name))
    network = near(m, 0.0, np.random.default_rng(1))
    vectors = np.zeros((m.states, network.hidden))
    for state, word in access_words(m).items():
        vectors[state] = network.initial
        for a in word:
            vectors[state] = network.matrices[a] @ vectors[state]
    growth = growth_of_errors(network, m, vectors, legal_moves(m))
    assert 1 - 1e-9 < growth.kappa < 1 + 1e-9
    assert growth.rho < 1e-9
    assert growth.first < 1e-9
    assert growth.radius > 1e-3
    assert prove_horizon(network, m).length > 10**9


def test_a_wrong_answer_is_never_bounded():
    random = np.random.default_rng(2)
    for _ in range(30):
        m, legal = random_machine("errors", random)
        network = near(m, 1e-6, random)
        reached = list(access_words(m, legal))
        wrong = m.outputs.copy()
        state = int(random.choice(reached))
        wrong[state] = (wrong[state] + 1) % m.classes
        assert prove_horizon(network, m.replace(outputs=wrong), legal=legal) is None
        # what no legal word reaches is not judged
        unreached = sorted(set(range(m.states)) - set(reached))
        for q in unreached:
            other = m.outputs.copy()
            other[q] = (other[q] + 1) % m.classes
            assert prove_horizon(network, m.replace(outputs=other), legal=legal) is not None


def test_a_single_class_is_right_for_ever():
    m = machine("cyclic(1)")
    claimed = prove_horizon(Network(np.ones((m.symbols, 1, 1)), np.ones(1), np.ones((1, 1))), m)
    assert claimed is not None
    assert claimed.length is None


@pytest.mark.parametrize("kind", ["permutations", "errors"])
def test_positive_factors_of_weights_lead_to_no_wrong_claim(kind):
    random = np.random.default_rng(4)
    for trial in range(6):
        m, legal = random_machine(kind, random)
        network = near(m, 10.0 ** -(2 * (trial // 2) + 2), random, junk=trial % 2)
        plain = prove_horizon(network, m, legal=legal)
        factors = 2.0 ** random.integers(-60, 60, (m.symbols, 1, 1))
        first, last = 2.0 ** random.integers(-60, 60, 2)
        scaled = Network(network.matrices * factors, network.initial * first, network.readout * last)
        claimed = prove_horizon(scaled, m, legal=legal)
        assert trial < 2 or (claimed is not None and plain is not None)
        if claimed is not None:
            assert_sound(scaled, m, legal, claimed.length, random)


def leaking(gain, amount):
    """Parity with an entry beside its states that every 1 adds to, and that is read: wrong after 1 / amount ones."""
    matrices = np.stack([np.eye(3), np.array([[0, 1, 0], [1, 0, 0], [amount, amount, 1]])])
    matrices[1] *= gain
    return Network(matrices, np.array([1.0, 0, 0]), np.array([[1.0, 0, 0], [0, 1, 1]]))


@pytest.mark.parametrize("power", [-50, -90, -200, -500, -530, -535, -600, -1_000])
def test_weights_whose_squares_vanish_lead_to_the_same_claim(power):
    """A norm whose squares are below 2^-1074 would be 0, and no bound at all."""
    m, network = machine("modular_addition(2)"), leaking(2.0**power, 1e-3)
    replayed = replay(network, m, Word((), (1,), 1_000))
    assert replayed.given != replayed.right
    claimed, plain = prove_horizon(network, m), prove_horizon(leaking(1.0, 1e-3), m)
    assert claimed.length < 1_000
    assert claimed.length > 0.9 * plain.length


@pytest.mark.parametrize("gain", [1.0, 1e-10, 1e-20, 1e-70, 1e-82, 1e-90])
def test_errors_beside_vectors_whose_products_vanish_are_counted(gain):
    """From the start to one of two states, which a third symbol swaps, at a tenth of a state beside them."""
    m = Machine([[1, 2, 3], [3, 3, 2], [3, 3, 1], [3, 3, 3]], output_names=["0", "1", "2", "error"])
    matrices = np.zeros((3, 4, 4))
    matrices[[0, 1, 2, 2], [1, 2, 2, 1], [0, 0, 1, 2]] = 1
    matrices[2, 3] = [0, 0.1, 0.1, 0.4]
    network = Network(gain * matrices, np.eye(4)[0], np.eye(4))
    vectors = np.diag([1.0, gain, gain, 0])
    growth = growth_of_errors(network, m, vectors, legal_moves(m))
    # what lies beside the states counts twice at least
    assert growth.rho >= 0.2
    assert growth.kappa >= 1.2


@pytest.mark.parametrize("kind", ["permutations", "maps", "errors"])
def test_weights_of_any_size_lead_to_an_outcome_and_to_no_wrong_claim(kind):
    random = np.random.default_rng(5)
    claims = 0
    for trial in range(60):
        m, legal = random_machine(kind, random)
        network = near(m, 10.0 ** -(trial % 5 + 1), random, junk=trial % 2, moves=legal)
        widest = (30, 90, 300, 900)[trial % 4]
        factors = 2.0 ** random.integers(-widest, min(widest, 300), (m.symbols, 1, 1))
        first, last = 2.0 ** random.integers(-widest, min(widest, 300), 2)
        scaled = Network(network.matrices * factors, network.initial * first, network.readout * last)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            claimed = prove_horizon(scaled, m, legal=legal)
        claims += claimed is not None
        if claimed is not None:
            # positive factors change no answer
            found = search(network, m, work=WORK, legal=legal).counterexample
            assert found is None or (claimed.length is not None and claimed.length < len(found.word))
    assert claims >= 15
