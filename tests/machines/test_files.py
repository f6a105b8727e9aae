import json
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statewise.errors import (
    FileError,
    IncompleteMachineError,
    MachineFileError,
    NondeterministicMachineError,
    StatewiseError,
    TooLargeError,
    ToolMissingError,
)
from statewise.machines import (
    Machine,
    draw_svg,
    equivalent,
    identical,
    isomorphism,
    machine,
    read_machine,
    write_machine,
)
from statewise.machines.dot import from_dot, to_dot
from statewise.machines.machine_files import from_json, to_json
from tests import needs
from tests.catalogues import MACHINES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from aalpy.utils import load_automaton_from_file, save_automaton_to_file


@pytest.mark.parametrize("suffix", ["json", "dot", "gv"])
def test_files_are_written_whole_and_read_back(tmp_path, suffix):
    m = machine("modular_arithmetic(3)")
    path = tmp_path / f"machine.{suffix}"
    write_machine(m, path)
    assert identical(read_machine(str(path)), m)
    assert identical(machine(str(path)), m)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("expression", ["tomita(3)", "parity", "dihedral(3)", "flip_flop(3)"])
def test_aalpy_reads_what_we_write(tmp_path, expression):
    m = machine(expression)
    plain = m.replace(alphabet=[f"i{a}" for a in range(m.symbols)], state_names=[f"q{q}" for q in range(m.states)])
    write_machine(plain, tmp_path / "m.dot")
    theirs = load_automaton_from_file(tmp_path / "m.dot", "moore")
    for word in np.random.default_rng(0).integers(0, m.symbols, size=(20, 10)):
        theirs.reset_to_initial()
        given = [theirs.step(plain.alphabet[a]) for a in word]
        assert [str(output) for output in given] == [plain.output_names[c] for c in plain.outputs[plain.track(word)]]


@pytest.mark.parametrize("kind", ["dfa", "moore", "mealy"])
def test_we_read_what_aalpy_writes(tmp_path, kind, capsys):
    from aalpy.utils import generate_random_deterministic_automata

    for size in (1, 2, 5, 9):
        theirs = generate_random_deterministic_automata(kind, size, 3, 3)
        save_automaton_to_file(theirs, tmp_path / "theirs", file_type="dot")
        try:
            ours = read_machine(str(tmp_path / "theirs.dot"))
        except MachineFileError as error:
            # a dfa that accepts nothing, or everything without a mark, looks like a graph without outputs
            assert kind == "dfa"
            assert "kind=dfa" in str(error)
            ours = read_machine(str(tmp_path / "theirs.dot"), kind="dfa")
        for word in np.random.default_rng(size).integers(0, ours.symbols, size=(20, 8)):
            theirs.reset_to_initial()
            given = [theirs.step(name) for name in ours.decode(word)]
            given = [str(int(output)) if isinstance(output, bool) else str(output) for output in given]
            assert given == [ours.output_names[c] for c in ours.outputs[ours.track(word)]]


# as automata-lib 9.2 draws DFA.from_regex("(ab|c)*").to_complete(), laid out by graphviz
AUTOMATA_LIB = r"""digraph "" {
	graph [bb="0,0,165.6,79.66",
		rankdir=LR,
		ranksep=0.5
	];
	node [label="\N"];
	"f0d31b73-0c28-4f1b-a919-689102788637"	[fontsize=14.0,
		label="",
		shape=point,
		tooltip=".",
		width=0.05];
	1	[fontsize=14.0,
		shape=doublecircle,
		width=0.61111];
	"f0d31b73-0c28-4f1b-a919-689102788637" -> 1	[arrowsize=0.85,
		pos="e,40.315,22.41 3.8206,22.41 \
18.665,22.41 30.475,22.41",
		tooltip="->1"];
	1 -> 1	[label=c];
	2	[shape=circle];
	0	[shape=circle];
	1 -> 2	[label=a];
	1 -> 0	[label=b];
	2 -> 1	[label=b];
	2 -> 0	[label="a,c"];
	0 -> 0	[label="a,b,c"];
}
"""


def test_automata_lib_drawings_are_read():
    ours = from_dot(AUTOMATA_LIB)
    assert equivalent(ours, machine('regex("(ab|c)*")'))
    partial = "\n".join(line for line in AUTOMATA_LIB.splitlines() if not re.match(r"\s+0|.*-> 0", line))
    with pytest.raises(IncompleteMachineError, match='state "1" has no transition on "b"'):
        from_dot(partial)
    assert equivalent(from_dot(partial, complete=True), machine('regex("(ab|c)*")'))


def test_a_comma_can_be_a_symbol_of_automata_lib():
    text = """digraph { s [shape=point]; s -> 0; 0 [shape=doublecircle];
              0 -> 1 [label=a]; 0 -> 0 [label=",,b"]; 1 -> 0 [label=",,a,b"]; }"""
    assert sorted(from_dot(text).alphabet) == [",", "a", "b"]


READABLE = [
    # node defaults apply to the nodes that follow
    ("node [shape=doublecircle]; p; q; node [shape=circle]; r; P", "pq"),
    ('q [peripheries=2]; "node" [shape=doublecircle]; r; P', "q"),
    ("node [shape=circle]; p [shape=doublecircle]; r; q; P", "p"),
]


@pytest.mark.parametrize(("body", "accepting"), READABLE)
def test_defaults_and_quoted_keywords_are_understood(body, accepting):
    edges = "p -> q [label=a]; q -> r [label=a]; r -> p [label=a]"
    extra = '"node" -> p [label=a];' if '"node"' in body else ""
    m = from_dot(f"digraph {{ i [shape=point]; {body.replace('P', edges)}; {extra} i -> p; }}")
    shown = {name for name, c in zip(m.state_names, m.outputs, strict=True) if c == 1}
    assert shown == set(accepting) | ({"node"} if extra else set())


def test_texts_are_joined_and_ports_are_dropped():
    text = 'digraph { __start0 -> p; p [label="{<f0> b|<f1> 1}"]; p -> p [label="a" + "b"]; }'
    m = from_dot(text)
    assert (m.state_names, m.output_names, m.alphabet) == (("b",), ("1",), ("ab",))


def test_commas_separate_symbols_in_drawings_but_not_in_aalpys_files():
    edges = 'q [shape=doublecircle]; q -> p [label="0, 1"]; p -> q [label="0, 1"];'
    assert from_dot(f"digraph {{ i [shape=point]; i -> q; {edges} }}").alphabet == ("0", "1")
    assert from_dot(f"digraph {{ __start0 -> q; {edges} }}").alphabet == ("0, 1",)


def test_a_state_may_begin_with_start():
    loop = "__started [shape=doublecircle]; __started -> __started [label=a];"
    assert from_dot(f"digraph {{ i [shape=point]; i -> __started; {loop} }}").state_names == ("__started",)


@pytest.mark.parametrize("name", ["strict", "subgraph", "node", "a\nb", "\n", "a\r", "\r\n", " a", "\\n", "a\\"])
def test_strange_names_survive_dot(name, tmp_path):
    m = machine("parity").replace(state_names=[name, "x"], alphabet=[name, "y"], output_names=["z", name], name=name)
    write_machine(m, tmp_path / "m.dot")
    again = read_machine(str(tmp_path / "m.dot"))
    assert identical(again, m)
    assert again.name == name


def test_writing_follows_links_and_leaves_nothing_behind(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    write_machine(machine("parity"), link)
    assert link.is_symlink()
    assert identical(read_machine(str(real)), machine("parity"))
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(FileError, match="directory"):
        write_machine(machine("parity"), tmp_path / "folder.json")
    assert len(list(tmp_path.iterdir())) == 3


def test_mealy_machines_show_their_last_output():
    text = """digraph { __start0 -> a; a -> b [label="x / 1"]; a -> a [label="y/0"];
              b -> a [label="x/1"]; b -> b [label="y/1"]; }"""
    m = from_dot(text)
    assert m.output_names[m.outputs[m.start]] == "start"
    words = [["x", "y"], ["y"], ["x", "x", "y"]]
    assert [m.output_names[int(m.answer(m.encode(word)))] for word in words] == ["1", "0", "0"]


def test_an_empty_output_is_not_the_start():
    m = from_dot('digraph { __start0 -> p; p -> p [label="a/"]; p -> p [label="b/1"]; }')
    assert [m.output_names[int(m.answer(m.encode(word)))] for word in ("", "a", "b", "ba")] == ["start", "", "1", ""]


def test_completing_a_mealy_machine_gives_an_output_of_its_own():
    text = 'digraph { __start0 -> p; p -> q [label="a/missing"]; q -> p [label="b/1"]; }'
    m = from_dot(text, complete=True)
    assert m.output_names[int(m.answer(m.encode("b")))] == "missing'"


def test_ambiguous_drawings_are_refused():
    text = 'digraph { i [shape=point]; i -> p; p [shape=doublecircle]; p -> p [label="a/0"]; }'
    with pytest.raises(MachineFileError, match="kind=mealy"):
        from_dot(text)
    assert from_dot(text, kind="dfa").alphabet == ("a/0",)


def test_names_that_end_in_numbers_are_no_probabilities():
    text = 'digraph { __start0 -> a; a [label="p"]; a -> a [label="x:0.5"]; a -> a [label="x:0.7"]; }'
    assert from_dot(text, kind="states").alphabet == ("x:0.5", "x:0.7")
    plain = 'digraph { __start0 -> a; a -> a [label="set:1"]; a -> a [label="set:0"]; }'
    assert from_dot(plain, kind="states").alphabet == ("set:1", "set:0")
    m = Machine([[0, 1], [1, 0]], alphabet=("p:0.5", "p:.5"))
    assert identical(from_dot(to_dot(m)), m)


HTML_MEALY = """digraph g {
__start0 [label=<>, shape=none];
s0 [label=<0>];
s1 [label=<<b>1</b>>];
s0 -> s1 [label=<Hello &amp; go | Key<br />Alert / Closed>];
s0 -> s0 [label=<Done<br/>Empty>];
s1 -> s1 [label=<<table border="0"><tr><td>Key / Empty</td></tr><tr><td>Done / <!-- ">" -->A&gt;B</td></tr></table>>];
s1 -> s0 [label=<Hello &amp; go/x>];
__start0 -> s0;
}"""


def test_html_labels_of_mealy_machines_are_read():
    """One edge may carry several inputs with one output, or a table of transitions."""
    m = from_dot(HTML_MEALY)
    assert m.alphabet == ("Hello & go", "Key", "Done")
    words = {"Key": "Alert / Closed", "Done": "Empty", "Hello & go": "Alert / Closed"}
    assert {a: m.output_names[m.answer([a])] for a in m.alphabet} == words
    assert m.output_names[m.answer(["Key", "Done"])] == "A>B"
    assert m.output_names[m.answer(["Key", "Hello & go"])] == "x"
    assert identical(from_dot(to_dot(m)), m)


def test_html_labels_of_moore_machines_and_acceptors_are_read():
    moore = from_dot(
        "digraph { __start0 -> p; p [label=<p<br/>on>]; q [label=<<table><tr><td>q</td><td>o|f</td></tr></table>>];"
        "p -> q [label=<a>]; q -> p [label=<<i>a</i>>]; }"
    )
    assert (moore.alphabet, moore.state_names) == (("a",), ("p", "q"))
    assert [moore.output_names[c] for c in moore.outputs] == ["on", "o|f"]
    dfa = from_dot(
        "digraph { node [label=<x>]; i [shape=point]; i -> p; p [shape=doublecircle]; p -> p [label=<a,b>]; }"
    )
    assert (dfa.alphabet, dfa.outputs.tolist()) == (("a", "b"), [1])


SHARED = {
    "CC2650": (9, 5),
    "OpenSSL_1.0.2_server_regular": (7, 7),
    "TCP_Linux_Client": (10, 15),
    "mosquitto__two_client_will_retain": (9, 18),
    "tcp_server_ubuntu_trans": (12, 57),
}


@pytest.mark.parametrize("name", SHARED)
def test_protocol_machines_behave_as_aalpy_reads_them(machine_files, name):
    ours = machine(str(machine_files / f"{name}.dot"))
    theirs = load_automaton_from_file(machine_files / f"{name}.dot", "mealy")
    symbols, states = SHARED[name]
    assert (ours.symbols, len(theirs.states)) == (symbols, states)
    by_name = {str(symbol).strip(): symbol for symbol in theirs.get_input_alphabet()}
    for word in np.random.default_rng(0).integers(0, symbols, size=(30, 40)):
        theirs.reset_to_initial()
        given = [str(theirs.step(by_name[a])).strip() for a in ours.decode(word)]
        assert given == [ours.output_names[c] for c in ours.outputs[ours.track(word)]]
    assert identical(from_dot(to_dot(ours)), ours)
    assert identical(from_json(to_json(ours)), ours)


def test_textbook_machines_in_three_dialects(machine_files):
    tomita = machine(str(machine_files / "tomita_3.dot"))
    assert isomorphism(tomita, machine("tomita(3)")) is not None
    coffee = machine(str(machine_files / "coffee_moore.dot"))
    assert coffee.output_names[int(coffee.answer(coffee.encode(["coin", "button"])))] == "coffee"
    alarm = machine(str(machine_files / "car_alarm.dot"))
    assert alarm.output_names == ("N", "A")
    assert alarm.state_names[0] == "q1_locked_closed"


BAD_JSON = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[1]", "holds a list"),
    ("[" * 100_000, "JSON"),
    ('{"delta": [[0]]}', 'no "alphabet"'),
    ({"states": 2}, "but delta has 1 rows"),
    ({"delta": [[1]]}, "expected a state from 0 to 0"),
    ({"delta": [[None]]}, "leads on symbol 0 to null"),
    ({"delta": [[0], [0, 0]], "states": 2}, "state 1 has 2 transitions"),
    ({"delta": [[10**40]]}, "expected a state"),
    ({"delta": 3}, "list of rows"),
    ({"outputs": []}, "one output per state"),
    ({"outputs": [0, 0]}, "one per state"),
    ({"outputs": [-1]}, "outputs holds -1"),
    ({"outputs": [10**40]}, "past all bounds"),
    ({"outputs": [None]}, "mixes kinds"),
    ({"outputs": ["a"], "output_names": ["b"]}, "does not list"),
    ({"start": 7}, "start is 7"),
    ({"start": "0"}, "state number"),
    ({"alphabet": ["a", "b"]}, "alphabet has 2"),
    ({"alphabet": "a"}, "list of names"),
    ({"alphabet": [None]}, "list of names"),
    ({"output": [0]}, 'did you mean "outputs"'),
]


@pytest.mark.parametrize(("content", "message"), BAD_JSON)
def test_bad_json_gets_one_sentence(tmp_path, content, message):
    good = {"states": 1, "alphabet": ["a"], "start": 0, "delta": [[0]], "outputs": [0]}
    path = tmp_path / "bad.json"
    path.write_text(content if isinstance(content, str) else json.dumps(good | content))
    with pytest.raises(StatewiseError, match=re.escape(message)) as caught:
        read_machine(str(path))
    assert "\n" not in str(caught.value)


MDP = NondeterministicMachineError
BAD_DOT = [
    ("", MachineFileError, "not a DOT digraph"),
    ("graph { a -- b }", MachineFileError, "not a DOT digraph"),
    ("digraph {", MachineFileError, "the end"),
    ('digraph { "a }', MachineFileError, "check its quotes"),
    ("digraph { a [label= }", MachineFileError, "the value of"),
    ("digraph { a -> }", MachineFileError, "should lead"),
    ("digraph { a -> a [label=x]; }", MachineFileError, "marks no start"),
    ("digraph { __start0 -> a; }", MachineFileError, "no outputs"),
    ("digraph { __start0 -> a; a [shape=doublecircle]; }", MachineFileError, "no labelled edges"),
    ("digraph { __start0 -> a; __start0 -> b; a -> b [label=x]; b -> a [label=x]; }", MachineFileError, "marks 2"),
    ("digraph { subgraph c { a } }", MachineFileError, "subgraph"),
    ("digraph { a -> a [label=<<b>x</b>] }", MachineFileError, "never closed by >"),
    ('digraph { __start0 -> a; a -> a [label="x:0.9"]; a -> b [label="x:0.1"]; b -> b [label="x:1"]; }', MDP, "Markov"),
    (
        'digraph { __start0 -> a; a -> a [label="x/0:.5"]; a -> b [label="x/1:.5"]; b -> b [label="x/1:1.0"] }',
        MDP,
        'on "x" .5',
    ),
    ("digraph { a -> a [label=a/0] }", MachineFileError, "cannot read"),
    ("digraph { a -> a [label] }", MachineFileError, 'expected "="'),
    ("digraph { a -- b }", MachineFileError, "undirected"),
    ("digraph { /* a }", MachineFileError, "cannot read"),
    ('digraph { __start0 -> a; a -> a [label="a/0\\nb/1"]; }', MachineFileError, "several lines"),
    ("digraph { } digraph { }", MachineFileError, "second graph"),
    (
        "digraph { __start0 -> a; a [shape=doublecircle]; b; a -> b [label=x]; a -> a [label=x]; b -> b [label=x]; }",
        NondeterministicMachineError,
        'state "a" has two transitions on "x"',
    ),
    (
        "digraph { __start0 -> a; a [shape=doublecircle]; a -> b [label=x]; b -> b [label=y]; b -> b [label=x]; }",
        IncompleteMachineError,
        'state "a" has no transition on "y"',
    ),
    ('digraph { __start0 -> a; a [label="a|0"]; a -> a; }', MachineFileError, "has no label"),
]


@pytest.mark.parametrize(("content", "error", "message"), BAD_DOT)
def test_bad_dot_gets_one_sentence(tmp_path, content, error, message):
    path = tmp_path / "bad.dot"
    path.write_text(content)
    with pytest.raises(error, match=re.escape(message)) as caught:
        read_machine(str(path))
    assert "\n" not in str(caught.value)
    assert "bad.dot" in str(caught.value)


def test_missing_binary_and_huge_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(MachineFileError, match="no such file"):
        machine(str(tmp_path / "none.dot"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MachineFileError, match="not UTF-8"):
        machine(str(tmp_path / "binary.json"))
    with pytest.raises(MachineFileError, match=r"not a \.json"):
        read_machine(str(tmp_path / "machine.txt"))
    with pytest.raises(FileError, match="cannot write"):
        write_machine(machine("parity"), "/dev/null/m.json")
    (tmp_path / "folder.dot").mkdir()
    with pytest.raises(MachineFileError, match="directory"):
        machine(str(tmp_path / "folder.dot"))
    monkeypatch.setattr("statewise.machines.machine_files.MAX_FILE_BYTES", 10)
    write_machine(machine("parity"), tmp_path / "large.json")
    with pytest.raises(TooLargeError, match="at most 10"):
        machine(str(tmp_path / "large.json"))


def test_a_huge_machine_in_a_small_file_is_refused():
    nodes = "".join(f'n{q} [label="n{q}|0"]; n{q} -> n0 [label="a{q}"];' for q in range(5000))
    with pytest.raises(TooLargeError, match="5000 states and 5000 symbols"):
        from_dot(f"digraph {{ __start0 -> n0; {nodes} }}")


SEEDS_DOT = [to_dot(machine("tomita(3)")), AUTOMATA_LIB, to_dot(machine("modular_arithmetic(2)"))]
SEEDS_JSON = [to_json(machine("tomita(3)")), to_json(machine("flip_flop"))]


def mutations(seeds, alphabet):
    """Texts made from good ones by cutting, doubling and replacing pieces."""
    edit = st.tuples(st.integers(0, 10_000), st.integers(0, 12), st.text(alphabet, max_size=4))
    return st.tuples(st.sampled_from(seeds), st.lists(edit, min_size=1, max_size=6))


def mutate(seed, edits):
    for where, cut, put in edits:
        where %= len(seed) + 1
        seed = seed[:where] + put + seed[where + cut :]
    return seed


@given(mutations(SEEDS_DOT, '{}[]"\\;,=->|/ \nas01_é#*'))
@settings(max_examples=10_000)
def test_any_dot_is_read_or_refused(drawn):
    try:
        from_dot(mutate(*drawn))
    except StatewiseError as error:
        assert "\n" not in str(error)


@given(mutations(SEEDS_JSON, '{}[]"\\,:-0123456789.eE nulltrue'))
@settings(max_examples=8_000)
def test_any_json_is_read_or_refused(drawn):
    try:
        from_json(mutate(*drawn))
    except StatewiseError as error:
        assert "\n" not in str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=2),
)


@given(st.fixed_dictionaries(dict.fromkeys(["states", "alphabet", "start", "delta", "outputs"], json_values)))
@settings(max_examples=2000)
def test_any_values_under_the_right_keys_are_read_or_refused(data):
    try:
        from_json(json.dumps(data))
    except StatewiseError as error:
        assert "\n" not in str(error)


def test_drawings_need_graphviz(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ToolMissingError, match="package graphviz"):
        draw_svg(machine("parity"))


def test_too_many_edges_are_refused():
    with pytest.raises(TooLargeError, match="edges"):
        draw_svg(machine("symmetric(5)"))


@pytest.mark.parametrize("expression", [*MACHINES, 'regex("<a>&")'])
def test_machines_are_drawn(expression):
    needs.program("dot", "graphviz")
    m = machine(expression)
    edges = sum(len(set(row)) for row in m.delta.tolist())
    if edges > 300:
        with pytest.raises(TooLargeError, match=f"{edges} edges"):
            draw_svg(m)
        return
    svg = draw_svg(m)
    # the states, and the dot that points at the start
    assert svg.count('class="node"') == m.states + 1
    assert svg.count('class="edge"') == edges + 1
