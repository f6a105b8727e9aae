import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statewise.errors import StatewiseError
from statewise.expressions import Call, Product, parse
from statewise.machines import FAMILIES, identical, machine
from tests.catalogues import MACHINES

BAD = [
    ("", "empty"),
    ("   ", "empty"),
    ("symetric(5)", 'unknown machine "symetric"; did you mean "symmetric"?'),
    ("zzz", "use one of alternating"),
    ("cyclic", r"cyclic needs the argument order; write it as cyclic\(order, generators=all\)"),
    ("cyclic()", "needs the argument order"),
    ("cyclic(3", r'expected "\)" at the end'),
    ("cyclic 3", "does not belong"),
    ("cyclic(3))", "does not belong"),
    ("cyclic(,)", 'expected a value before ","'),
    ("cyclic(3, 4)", "generators"),
    ("cyclic(3, all, 5)", "at most 2 arguments, got 3"),
    ("cyclic(order=3, order=4)", "twice"),
    ("cyclic(3, order=4)", "twice"),
    ("cyclic(ordr=3)", 'did you mean "order"'),
    ("cyclic(generators=all, 3)", "after a named one"),
    ("cyclic(2.5)", "whole number for order, got 2.5"),
    ('cyclic("3")', "whole number"),
    ("cyclic(true)", "whole number"),
    ("cyclic(0)", "at least 1, got 0"),
    ("cyclic(-3)", "at least 1, got -3"),
    ("cyclic(99999999999999999999999)", "too long"),
    ("cyclic(999999999)", "entries"),
    ("cyclic(3, generators=al)", 'did you mean "all"'),
    ("modular_addition(1)", "at least 2, got 1"),
    ("modular_arithmetic(5, precedence=maybe)", "true or false"),
    ("random_machine(10, kind=permutaton)", 'did you mean "permutation"'),
    ("random_machine(30, symbols=1, kind=map)", "use more symbols"),
    ("random_machine(10, seed=-1)", "seed"),
    ("symmetric(9)", "entries"),
    ("symmetric(30, generators=standard)", "over 10"),
    ("symmetric(2000)", "entries"),
    ("symmetric(9999999)", "entries"),
    ("alternating(99999)", "entries"),
    ("flip_flop(100000)", "entries"),
    ("modular_arithmetic(100000)", "entries"),
    ("modular_arithmetic(1000, precedence=true)", "entries"),
    ("modular_addition(5000)", "modular_addition would have 5,000 states"),
    ("cycle_navigation(9999999)", "entries"),
    ('permutation_group("(0 9999)")', "points below"),
    ("regex('[')", "never closes"),
    ("regex('}')", "where a symbol should stand"),
    ("symmetric(7)", "generators=standard"),
    ("tomita(8)", "from 1 to 7, got 8"),
    ("dyck(0)", "at least 1"),
    ("dyck(40, kinds=3)", "smaller depth"),
    ('permutation_group("(0 0)")', "moves a point twice"),
    ('permutation_group("0 1")', "cycle notation"),
    ("permutation_group()", "at least one"),
    ("cyclic(3)*", "expected a name at the end"),
    ("*cyclic(3)", "expected a name"),
    ("cyclic(3)+cyclic(4)", "not a name"),
    ('regex("ab', "not a name"),
    ("(" * 100 + "parity" + ")" * 100, "nest"),
    ("*".join(["parity"] * 100), "factors"),
    ("a" * 20_000, "characters"),
    ("symmetric(5)*symmetric(5)", "entries"),
    ("none.json", "no such file"),
    ('read("none.dot")', "no such file"),
    ('read("none.dot", kind=mealie)', 'did you mean "mealy"'),
    ("parity\0", "not a name"),
]


@pytest.mark.parametrize(("expression", "message"), BAD)
def test_bad_expressions_get_one_clear_sentence(expression, message):
    with pytest.raises(StatewiseError, match=message) as caught:
        machine(expression)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_spaces_quotes_and_parentheses_do_not_matter():
    assert identical(machine(" ( cyclic( 4 ) ) "), machine("cyclic(4)"))
    assert machine("regex('a\"b')").alphabet == ('"', "a", "b")
    assert machine(r'regex("a\"b")').alphabet == ('"', "a", "b")
    assert machine("(parity*parity)*parity").states == 8


@pytest.mark.parametrize("expression", MACHINES)
def test_expressions_are_written_as_they_are_read(expression):
    parsed = parse(expression)
    written = "*".join(map(str, parsed.factors)) if isinstance(parsed, Product) else str(parsed)
    assert parse(written) == parsed


def test_calls_keep_their_arguments():
    assert parse('f(1, 2.5, "x y", g, k=true, m=-3)') == Call("f", (1, 2.5, "x y", "g"), {"k": True, "m": -3})


pieces = st.sampled_from(
    [*FAMILIES, "(", ")", ",", "=", "*", "3", "0", "-1", "2.5", '"(ab)*"', "true", "all", " ", "'"]
)


@given(st.lists(pieces, max_size=9).map("".join) | st.text(max_size=20))
@settings(max_examples=10_000)
def test_any_expression_builds_or_is_refused(expression):
    try:
        machine(expression)
    except StatewiseError as error:
        assert "\n" not in str(error)
