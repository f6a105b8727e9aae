"""Names from files of others: no control character reaches a terminal, a page or a CSV file, no cell is a formula."""

import csv
import json
import re

import pytest

import statewise as sw
from statewise.errors import TaskError
from statewise.machines import Machine, write_machine
from statewise.report.table_files import latex_text, write_csv
from statewise.store import Store
from statewise.wording import aligned, defused, visible
from tests.command import statewise
from tests.store.records import record

ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\x7f"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A machine all of whose names carry escape sequences."""
    file = tmp_path_factory.mktemp("machines") / "m.json"
    m = Machine(
        [[0, 1], [1, 0]], alphabet=[f"a{ESCAPES}", "=cmd|' /C calc'!A0"], output_names=[f"x{ESCAPES}", "@SUM(A1)"]
    )
    write_machine(m.replace(name=f"m{ESCAPES}", state_names=[f"q{ESCAPES}", "r"]), file)
    return file


@pytest.mark.parametrize("command", ["machine", "compile", "train"])
def test_no_control_character_reaches_a_terminal(command, hostile, tmp_path):
    arguments = {
        "machine": ["machine", hostile],
        "compile": ["compile", hostile, "--out", tmp_path / "run"],
        "train": [*f"train --model full --hidden 2 --steps 2 --out {tmp_path}/run --task".split(), hostile],
    }[command]
    done = statewise(*arguments)
    assert done.returncode == 0, done.stderr
    assert not RAW.search(done.stdout + done.stderr)


def test_json_says_the_same_in_escapes(hostile):
    done = statewise("machine", hostile, "--json")
    assert not RAW.search(done.stdout)
    assert json.loads(done.stdout)["name"] == sw.machine(hostile).name


def test_an_error_that_repeats_what_was_typed_has_no_control_character(tmp_path):
    done = statewise("machine", f"cyclic{ESCAPES}(3)")
    assert done.returncode == 2
    assert not RAW.search(done.stderr)


def test_pages_and_tables_show_control_characters(tmp_path):
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add([record(0, "failed", reason=f"why{ESCAPES}"), record(1, "failed", reason="=1+1")])
    sw.report(tmp_path / "runs", tmp_path / "page.html")
    assert not RAW.search((tmp_path / "page.html").read_text())
    sw.runs(tmp_path / "runs", out=tmp_path / "runs.csv")
    text = (tmp_path / "runs.csv").read_text()
    assert not RAW.search(text.replace("\r\n", "\n"))
    reasons = [row["reason"] for row in csv.DictReader(text.splitlines())]
    assert reasons == ["why" + visible(ESCAPES), "'=1+1"]
    assert not RAW.search(latex_text(ESCAPES))
    assert not RAW.search(str(sw.runs(tmp_path / "runs")))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@A1", "\tx", "=cmd|' /C calc'!A0"])
def test_cells_are_no_formulas_and_numbers_stay_numbers(text, tmp_path):
    assert defused({"a": text, "b": -0.5, "c": None}) == {"a": f"'{text}", "b": -0.5, "c": None}
    write_csv(tmp_path / "t.csv", [{"model": text, "score": -0.5}])
    ((shown, number),) = list(csv.reader((tmp_path / "t.csv").read_text().splitlines()))[1:]
    assert (shown, number) == (f"'{text}", "-0.5")


def test_samples_that_a_spreadsheet_would_run_are_no_csv(tmp_path):
    for symbols in (["=cmd|'/C", "x"], ["a", "=HYPERLINK(1)"]):
        m = Machine([[0, 1], [1, 0]], alphabet=symbols)
        with pytest.raises(TaskError, match="formula"):
            sw.sample(m, tmp_path / "s.csv", count=50, length=3)
    # operators as symbols run nothing, and are read back as they are
    sw.sample("modular_arithmetic(3)", tmp_path / "s.csv", count=50, length=5)
    assert "'" not in (tmp_path / "s.csv").read_text()


def test_text_keeps_its_lines():
    assert visible("a\tb\nc\r\nd") == "a\tb\nc\r\nd"
    assert visible("a\rb\x1b") == "a\\u000db\\u001b"
    assert aligned([("a\x1b", "b")]) == "a\\u001b  b"
