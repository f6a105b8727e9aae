"""The command line as a person or a script uses it: in a process of its own."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from statewise.errors import shorten_apart
from statewise.machines import Machine, identical, machine, write_machine
from statewise.models.table import LEVELS
from tests import needs
from tests.command import statewise


def test_machine_prints_one_json_object():
    done = statewise("machine", "symmetric(5)", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    expected = {"states": 120, "symbols": 120, "minimal_states": 120, "monoid": 120, "group": True, "abelian": False}
    assert result.items() >= expected.items()
    assert (result["level"], result["level_theorem"], result["level_hidden"]) == ("block(4)", "Theorem G", 4)


@pytest.mark.parametrize(
    ("expression", "level"),
    [
        ("tomita(1)", "positive"),
        ("parity", "diagonal"),
        ("tomita(5)", "diagonal"),
        ("modular_addition(5)", "rotation"),
        ("cyclic(4)*cyclic(6)", "rotation"),
        ('cyclic(3)*regex("a*", alphabet="ab")', "block(2)"),
        ("flip_flop", "full"),
        ("dihedral(3)", "block(2)"),
    ],
)
def test_machine_names_the_level(expression, level):
    assert json.loads(statewise("machine", expression, "--json").stdout)["level"] == level


def test_machine_shows_protocols(machine_files):
    done = statewise("machine", str(machine_files / "tcp_server_ubuntu_trans.dot"))
    assert done.returncode == 0
    assert "155, minimal 155" in done.stdout


def test_machine_says_where_states_of_a_mealy_machine_were_split(tmp_path):
    turnstile = tmp_path / "turnstile.dot"
    edges = [
        f's{p} -> s{q} [label="{label}"];'
        for p, label, q in ((0, "a/x", 1), (0, "b/y", 0), (1, "a/y", 1), (1, "b/x", 0))
    ]
    turnstile.write_text("\n".join(["digraph g {", *edges, "__start0 -> s0;", "}"]))
    shown = statewise("machine", str(turnstile)).stdout
    assert "5, minimal 5: Mealy, split into Moore states from 2" in shown
    assert json.loads(statewise("machine", str(turnstile), "--json").stdout)["mealy_states"] == 2
    assert "Mealy" not in statewise("machine", "parity").stdout


def test_machine_cuts_no_two_names_to_the_same_text(tmp_path):
    names = [f"waiting_for_acknowledgement_{end}" for end in ("of_data", "of_close", "")]
    symbols = ["TimeoutOfTheSender", "TimeoutOfTheReceiver"]
    moves = [[1, 2], [2, 0], [0, 1]]
    file = tmp_path / "m.json"
    write_machine(Machine(moves, 0, None, symbols, names, names), file)
    rows = [line.split() for line in statewise("machine", str(file)).stdout.splitlines()]
    start = next(place for place, row in enumerate(rows) if row and row[0] == "state")
    assert len(set(rows[start][1:3])) == 2
    states = [row[0].removesuffix("*") for row in rows[start + 1 : start + 4]]
    assert len(set(states)) == 3
    assert [states.index(row[1]) for row in rows[start + 1 : start + 4]] == [1, 2, 0]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["short", "a longer name"], ["short", "a longer na…"]),
        (["a long name of 1", "a long name of 2"], ["a lon…e of 1", "a lon…e of 2"]),
        (["abcdeXXXXfghijk", "abcdeXYXXfghijk"], ["abcdeXXXXfg…", "abcdeXYXXfg…"]),
        (["\x01", "\x02"], ["0:?", "1:?"]),
    ],
)
def test_names_are_cut_apart(names, shown):
    assert shorten_apart(names, 12) == shown


def test_machine_writes_files_and_pictures(tmp_path):
    out = tmp_path / "m.json"
    assert statewise("machine", "dihedral(3)", "--out", str(out)).returncode == 0
    assert identical(machine(str(out)), machine("dihedral(3)"))
    needs.program("dot", "graphviz")
    svg = tmp_path / "m.svg"
    assert statewise("machine", "tomita(3)", "--svg", str(svg)).returncode == 0
    assert ET.parse(svg).getroot().tag.endswith("svg")


def test_terminals_without_unicode_are_served():
    done = statewise("machine", "cyclic(20)", env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    assert (done.returncode, done.stderr) == (0, "")


def test_pictures_without_graphviz_get_a_clear_word(tmp_path):
    done = statewise("machine", "parity", "--svg", str(tmp_path / "m.svg"), env={"PATH": ""})
    assert done.returncode == 1
    assert "install the package graphviz" in done.stderr
    assert list(tmp_path.iterdir()) == []


BAD_CALLS = [
    (["machine", "symetric(5)"], 'did you mean "symmetric"'),
    (["machine", "none.dot"], "no such file"),
    (["machine"], "MACHINE"),
    (["machne", "parity"], "machine"),
    (["machine", "parity", "--jsn"], "--json"),
    (["machine", "parity", "--out", "x.txt"], ".json, .dot or .gv"),
    (["machine", "parity", "--out", "/dev/null/x.json"], "cannot write"),
    (["machine", "symmetric(5)", "--svg", "x.svg"], "edges"),
    (["machine", "parity", "--svg", "x.json", "--out", "x.json"], "file of its own"),
    (["demo", "--out", "/dev/null/x"], "cannot write"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_CALLS)
def test_bad_calls_get_one_line_and_code_2(arguments, message, tmp_path):
    done = statewise(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["machine", "--help"], ["demo", "--help"], ["--version"]])
def test_help_comes_without_torch(arguments):
    script = "import sys; from statewise.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_demo_trains_and_keeps_its_run(tmp_path):
    done = statewise("demo", "--json", "--out", str(tmp_path / "new" / "folder"))
    result = json.loads(done.stdout)
    assert result["score_ood"] > 0.99
    assert result["audit"]["status"] == "refuted"
    assert result["extracted_is_task"]
    assert result["certificate"]["status"] == "proven"
    assert "modular_addition(5)" in Path(result["report"]).read_text()
    again = statewise("eval", result["run"], "--lengths", "10", "--words", "50", "--json")
    assert json.loads(again.stdout)["score"] == [1.0]


@pytest.mark.parametrize("arguments", [["--help"], ["store", "--help"]])
def test_help_lists_commands_with_whole_sentences(arguments):
    done = statewise(*arguments)
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    # the usage line has three points, and no sentence does
    assert shown.count("...") == 1
    listed = re.findall(r"^  ([a-z-]+)  ", done.stdout, re.MULTILINE)
    assert set(listed) >= ({"merge"} if "store" in arguments else {"train", "machines", "models", "certify"})
    for command in (listed[0], listed[-1]):
        about = " ".join(statewise(*arguments[:-1], command, "--help").stdout.split("\n\n")[1].split())
        assert about in shown


def test_lists_name_what_can_be_built():
    machines = json.loads(statewise("machines", "--json").stdout)["machines"]
    assert {"parity", "symmetric", "regex"} <= {machine["name"] for machine in machines}
    assert all(machine["summary"] for machine in machines)
    models = json.loads(statewise("models", "--json").stdout)["models"]
    assert [model["name"] for model in models if model["level"]] == list(LEVELS)
    assert {"lstm", "mamba", "deltanet"} <= {model["name"] for model in models}
    shown = statewise("models").stdout
    assert all(model["example"] in shown for model in models)
