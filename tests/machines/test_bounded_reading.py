"""Reading DOT takes work in proportion to the file, whatever it holds; algebra leaves out what would take too long."""

import itertools
import re

import numpy as np
import pytest

import statewise as sw
from statewise.errors import MachineFileError, StatewiseError, TooLargeError
from statewise.machines import Machine, minimise
from statewise.machines import dot_graph as dot_graph_module
from statewise.machines.dot import _strip, from_dot
from statewise.machines.dot_graph import read_graph
from statewise.machines.machine_files import from_json
from statewise.theory.robust_machines import robustness

START = "__start0 -> 0;"
MEALY = 'digraph { 0 -> 0 [label="a/x"]; __start0 -> 0; }'


def test_marks_without_a_meaning_are_one_token():
    text = "digraph {" + "; \n;" * 500_000 + MEALY.removeprefix("digraph {")
    assert sum(1 for _ in dot_graph_module._tokens(text)) < 30
    assert from_dot(text) == from_dot(MEALY)


def test_strings_joined_by_plus_may_be_many():
    joined = "+".join(['"a"'] * 20_000)
    assert from_dot(f'digraph {{ 0 -> 0 [label={joined}+"/x"]; {START} }}').alphabet == ("a" * 20_000,)
    with pytest.raises(MachineFileError, match="after \\+"):
        from_dot('digraph { "a" + ; }')


@pytest.mark.parametrize(
    "text",
    [
        # a default label that each of many edges repeats
        'digraph { edge [label="' + "a" * 500_000 + '/x"];' + " 0 -> 0;" * 10_000 + START + "}",
        'digraph { node [label="' + "a" * 500_000 + '"];' + "".join(f" n{i};" for i in range(10_000)) + START + "}",
        "digraph { edge [label=<" + "a<br/>x</tr><tr>" * 1_000 + ">];" + " 0 -> 0;" * 10_000 + START + "}",
        # a name that its own label repeats
        'digraph { "' + "n" * 100_000 + '" [label="' + r"\N" * 100_000 + 'x|y"]; __start0 -> "' + "n" * 100_000 + '"; "'
        + "n" * 100_000 + '" -> "' + "n" * 100_000 + '" [label=a]; }',
        # HTML that is never closed, or long
        "digraph { 0 [label=<" + "<a" * 50_000 + ">]; }",
        "digraph { 0 [label=<" + "x<b>" * 50_000 + ">]; }",
        "digraph { 0 [label=<" + "<" * 100_000,
        # blanks, backslashes, quotes and comments without an end
        'digraph { 0 -> 0 [label="' + " " * 1_000_000 + '"]; ' + START + "}",
        'digraph { 0 -> 0 [label="' + "\\" * 300_001 + '"]; ' + START + "}",
        'digraph { "' + "a" * 1_000_000,
        "digraph { /*" + "*" * 1_000_000,
        "digraph { " + "1" * 1_000_000,
        "digraph { 0 -> 0 [label=\"" + "/:" * 300_000 + ".5\"]; " + START + "}",
        "digraph { 0" + " -> 0" * 200_000,
        "digraph { 0 [" + "a=b " * 200_000 + "]; }",
    ],
)  # fmt: skip
def test_files_made_to_be_slow_are_read_or_refused(text):
    """Each of these takes hours where anything is done over and over."""
    try:
        from_dot(text)
    except StatewiseError as error:
        assert len(str(error)) < 400


def test_default_attributes_of_no_meaning_are_dropped():
    graph = read_graph("digraph { edge [" + " ".join(f"k{i}=v" for i in range(100)) + ", label=x]; 0 -> 1; }")
    assert graph.edges == [("0", "1", {"label": "x"})]


def test_blanks_are_stripped_as_character_by_character():
    def slowly(label):
        characters = re.findall(r"\\.|.", label, re.DOTALL)
        while characters and characters[-1].isspace():
            characters.pop()
        while characters and characters[0].isspace():
            characters.pop(0)
        return "".join(characters)

    for length in range(6):
        for letters in itertools.product("a \\\n", repeat=length):
            assert _strip("".join(letters)) == slowly("".join(letters))


@pytest.mark.parametrize("states", [800, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("family", ["cyclic", "random_machine"])
def test_large_machines_are_described(family, states):
    found = sw.describe(f"{family}({states})")
    assert found.to_dict()["states"] == states
    assert str(found)


def test_a_fragile_word_is_short_however_long_the_cycles():
    """Cycles of 2, 3, 5, 7 ... have a common multiple past all bounds; one of them alone shows as much."""
    move, at = [], 0
    for length in (53, 59, 61):
        move += [at + (k + 1) % length for k in range(length)]
        at += length
    m = Machine(np.array(move)[:, None].repeat(2, axis=1), outputs=np.arange(at))
    # all states are to be reached
    delta = m.delta.copy()
    delta[0, 1], delta[53, 1], delta[112, 1] = 53, 112, 0
    judged = Machine(delta, outputs=np.arange(at))
    found = robustness(judged)
    assert not found.robust
    assert len(found.loop) <= at
    minimal = minimise(judged)
    assert {int(minimal.track(found.loop, start=q)[-1]) for q in found.states} == set(found.states)


def test_numbers_past_all_bounds_are_refused_in_json():
    text = '{"states": 1, "alphabet": ["a"], "start": 0, "delta": [[0]], "outputs": [' + "9" * 5_000 + "]}"
    with pytest.raises(MachineFileError):
        from_json(text)


def test_edges_that_many_labels_repeat_are_bounded():
    labels = "<tr><td>a / x</td></tr>" * 500
    text = "digraph { edge [label=<" + labels + ">];" + " 0 -> 0;" * 20_000 + START + "}"
    with pytest.raises(TooLargeError, match="default labels"):
        from_dot(text)


def test_shares_are_told_as_before():
    """The label is split at its last colon, and the symbol ends at the first slash."""
    graph = 'digraph { 0 -> 0 [label="a:b/x:0.5"]; 0 -> 1 [label="a:b/y:0.5"]; ' + START + "}"
    with pytest.raises(StatewiseError, match="Markov"):
        from_dot(graph)
