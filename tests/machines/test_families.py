"""Each family against a predicate written without a table."""

import itertools
import math
import re

import numpy as np
import pytest

from statewise.machines import Machine, analyse, equivalent, identical, machine


def every_word(symbols, longest):
    for length in range(longest + 1):
        yield from itertools.product(range(symbols), repeat=length)


def no_odd_zeros_after_odd_ones(word):
    runs = [(symbol, len(list(run))) for symbol, run in itertools.groupby(word)]
    odd = [symbol for symbol, length in runs if length % 2]
    return 1 not in odd or 0 not in odd[odd.index(1) :]


TOMITA = {
    1: lambda w: 0 not in w,
    2: lambda w: w == (1, 0) * (len(w) // 2),
    3: no_odd_zeros_after_odd_ones,
    4: lambda w: "000" not in "".join(map(str, w)),
    5: lambda w: w.count(0) % 2 == 0 and w.count(1) % 2 == 0,
    6: lambda w: (w.count(0) - w.count(1)) % 3 == 0,
    7: lambda w: re.fullmatch("0*1*0*1*", "".join(map(str, w))) is not None,
}


@pytest.mark.parametrize("number", range(1, 8))
def test_tomita_languages_are_as_defined(number):
    m = machine(f"tomita({number})")
    for word in every_word(2, 9):
        assert bool(m.answer(np.array(word, dtype=int))) == TOMITA[number](word), word


def test_even_pairs_counts_changes():
    m = machine("even_pairs")
    for word in every_word(2, 9):
        changes = sum(a != b for a, b in itertools.pairwise(word))
        assert m.answer(np.array(word, dtype=int)) == (changes % 2 == 0)


@pytest.mark.parametrize(("depth", "kinds", "longest"), [(1, 1, 8), (3, 1, 10), (2, 2, 6)])
def test_dyck_accepts_balanced_words_up_to_its_depth(depth, kinds, longest):
    m = machine(f"dyck({depth}, kinds={kinds})")

    def balanced(word):
        stack = []
        for symbol in word:
            kind, closes = divmod(symbol, 2)
            if closes:
                if not stack or stack.pop() != kind:
                    return False
            else:
                stack.append(kind)
                if len(stack) > depth:
                    return False
        return not stack

    for word in every_word(2 * kinds, longest):
        assert bool(m.answer(np.array(word, dtype=int))) == balanced(word)


@pytest.mark.parametrize("precedence", [False, True])
@pytest.mark.parametrize("modulus", [2, 3, 5])
def test_modular_arithmetic_is_python_arithmetic(modulus, precedence):
    m = machine(f"modular_arithmetic({modulus}, precedence={str(precedence).lower()})")
    generator = np.random.default_rng(modulus)
    for _ in range(300):
        length = int(generator.integers(1, 8))
        numbers = generator.integers(0, modulus, size=length).tolist()
        operators = generator.integers(0, 3, size=length - 1).tolist()
        word = [str(numbers[0])]
        value = numbers[0]
        for op, number in zip(operators, numbers[1:], strict=True):
            word += ["+-x"[op], str(number)]
            value = [value + number, value - number, value * number][op]
        if precedence:
            value = eval("".join(word).replace("x", "*"))
        assert m.output_names[int(m.answer(m.encode(word)))] == str(value % modulus)
    assert m.output_names[int(m.answer(m.encode(["1", "1"])))] == "error"
    assert m.output_names[int(m.answer(m.encode(["+", "1", "x"])))] == "error"
    assert m.output_names[int(m.answer(m.encode(["1", "x"])))] == "1"


def test_worked_examples_of_the_docstrings():
    assert machine("parity").answer([1, 1, 0, 1]) == 1
    assert machine("modular_addition(5)").answer([3, 4, 1]) == 3
    left, bound = machine("modular_arithmetic(5)"), machine("modular_arithmetic(5, precedence=true)")
    word = ["3", "+", "4", "x", "2"]
    assert (left.answer(left.encode(word)), bound.answer(bound.encode(word))) == (4, 1)
    assert machine("cycle_navigation").answer([1, 1, 0, 2]) == 1
    flip = machine("flip_flop")
    assert flip.answer(flip.encode(["set 1", "hold", "hold"])) == 1


@pytest.mark.parametrize("kind", ["map", "permutation"])
def test_random_machines_are_seeded_reached_and_of_their_kind(kind):
    a, b = (machine(f"random_machine(10, seed=3, kind={kind})") for _ in range(2))
    assert identical(a, b)
    assert not identical(a, machine(f"random_machine(10, seed=4, kind={kind})"))
    algebra = analyse(a)
    assert algebra.minimal_states == 10
    assert algebra.group == (kind == "permutation")


GROUPS = [
    ("cyclic(12)", 12, True, True),
    ("dihedral(1)", 2, True, True),
    ("dihedral(2)", 4, True, True),
    ("dihedral(4)", 8, False, True),
    ("dihedral(7)", 14, False, True),
    ("quaternion", 8, False, True),
    ("symmetric(3)", 6, False, True),
    ("symmetric(4)", 24, False, True),
    ("symmetric(5)", 120, False, False),
    ("alternating(3)", 3, True, True),
    ("alternating(4)", 12, False, True),
    ("alternating(5)", 60, False, False),
    ("cyclic(4)*cyclic(6)", 24, True, True),
    ("alternating(5)*parity", 120, False, False),
]


@pytest.mark.parametrize(("expression", "order", "abelian", "solvable"), GROUPS)
def test_groups_have_their_order_and_algebra(expression, order, abelian, solvable):
    algebra = analyse(machine(expression))
    facts = (algebra.minimal_states, algebra.monoid, algebra.group, algebra.abelian, algebra.solvable)
    assert facts == (order, order, True, abelian, solvable)


@pytest.mark.parametrize("expression", [g[0] for g in GROUPS if "*" not in g[0] and g[1] <= 60])
def test_word_problems_multiply_in_a_group(expression):
    """The table is that of a group: an identity, inverses, and an associative product."""
    m = machine(expression)
    # state s.g is reached from g by symbol s; symbols are the states in the same order
    product = m.delta.T
    n = m.states
    assert np.array_equal(product[m.start], np.arange(n))
    assert np.array_equal(product[:, m.start], np.arange(n))
    assert all(sorted(row) == list(range(n)) for row in product.tolist())
    assert np.array_equal(product[product], product[np.arange(n)[:, None, None], product[None]])


@pytest.mark.parametrize("family", ["cyclic(6", "dihedral(5", "symmetric(4", "alternating(5", "quaternion("])
def test_standard_generators_reach_the_whole_group(family):
    few = machine(family + ("generators=standard)" if family.endswith("(") else ", generators=standard)"))
    everything = machine(family.removesuffix("(") if family.endswith("(") else family + ")")
    assert few.states == everything.states == analyse(few).monoid
    for a, name in enumerate(few.alphabet):
        assert np.array_equal(few.delta[:, a], everything.delta[:, everything.alphabet.index(name)])


def test_names_tell_variants_apart():
    for expression in ['regex("a*", alphabet="ab")', 'permutation_group("(0 1 2)", states=points)', "regex('a\"b')"]:
        assert identical(machine(machine(expression).name), machine(expression))


def test_periods_pass_any_machine_word():
    lengths = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]
    column = np.concatenate([sum(lengths[:i]) + np.roll(np.arange(n), -1) for i, n in enumerate(lengths)])
    m = Machine(np.stack([column, np.roll(np.arange(sum(lengths)), -1)], axis=1))
    assert max(analyse(m, limit=10).periods) == math.prod(lengths)


def test_quaternions_multiply_as_hamilton_wrote():
    m = machine("quaternion")

    def product(*word):
        return m.state_names[int(m.final(m.encode(word)))]

    # the newest symbol stands on the left
    assert [product(u, u) for u in "ijk"] == ["-1"] * 3
    assert [product("j", "i"), product("k", "j"), product("i", "k")] == ["k", "i", "j"]
    assert product("i", "j") == "-k"


def test_permutation_groups_from_cycles():
    assert machine('permutation_group("(0 1 2)", "(0 1)")').states == 6
    assert machine('permutation_group("(0,1)(2 3)")').states == 2
    assert machine('permutation_group("e")').states == 1
    points = machine('permutation_group("(0 1 2)", states=points)')
    assert points.final([0, 0]) == 2
    assert equivalent(points, machine('permutation_group("(0 1 2)", states=points)'))


ALGEBRA = [
    ("parity", {"aperiodic": False, "synchronising": False, "commutative": True}),
    ("flip_flop", {"aperiodic": True, "synchronising": True, "commutative": False, "group": False}),
    ('regex("(ab)*")', {"aperiodic": True, "solvable": True}),
    ("tomita(5)", {"group": True, "abelian": True, "monoid": 4}),
    ("tomita(1)", {"aperiodic": True, "commutative": True, "monoid": 2}),
    ("dyck(3)", {"aperiodic": True}),
    ("even_pairs", {"aperiodic": True, "synchronising": False}),
    ("modular_arithmetic(5)", {"aperiodic": False, "solvable": True, "synchronising": True}),
    ("random_machine(10, kind=permutation)", {"monoid": None, "group": True, "solvable": False}),
    ("random_machine(9, kind=map)", {"monoid": None, "group": False}),
    ("symmetric(5, states=points)", {"monoid": 120, "minimal_states": 5, "solvable": False}),
    ("cyclic(300)", {"monoid": 300, "abelian": True}),
]


@pytest.mark.parametrize(("expression", "facts"), ALGEBRA)
def test_algebra_of_known_machines(expression, facts):
    algebra = analyse(machine(expression))
    assert {key: getattr(algebra, key) for key in facts} == facts


@pytest.mark.parametrize(
    ("events", "state"),
    [
        (["passive open", "SYN", "ACK", "FIN", "close", "ACK"], "CLOSED"),
        (["active open", "SYN+ACK", "close", "ACK", "FIN"], "TIME-WAIT"),
        (["active open", "SYN+ACK", "close", "FIN", "ACK", "timeout"], "CLOSED"),
        (["passive open", "SYN", "RST"], "LISTEN"),
        (["ACK", "FIN", "timeout"], "CLOSED"),
    ],
)
def test_tcp_follows_the_life_of_a_connection(events, state):
    m = machine("tcp")
    assert m.output_names[m.answer(events)] == state
