"""Stores and records that are not what they should be: one sentence, exit code 2, and nothing left behind."""

import gzip
import json

import pytest

from statewise.store import DATABASE, FORMAT, Store, key_of
from tests.command import statewise
from tests.report.synthetic import fill, record_of
from tests.report.test_page import config_of
from tests.test_store import told

GRID = '[[grid]]\ntask = "null"\nmodel = "full"\n'


def refused(done):
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("statewise: ")
    return done.stderr


@pytest.fixture
def record():
    return record_of(config_of()) | {"status": "done", "shared": 1}


@pytest.fixture
def place(tmp_path, record):
    (tmp_path / "grid.toml").write_text(GRID)
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add([record])
    return tmp_path


def commands(place):
    store = place / "runs"
    yield "runs", store
    yield "sweep", place / "grid.toml", "--store", store
    yield "sweep", place / "grid.toml", "--store", store, "--dry-run"
    yield "report", store, "--out", place / "page.html"
    yield "store", "merge", place / "new", store


def test_a_store_of_a_newer_format_is_refused_by_every_command(place):
    told(place / "runs", "UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT + 1))
    for arguments in commands(place):
        assert "update statewise" in refused(statewise(*arguments))
    assert not (place / "page.html").exists()
    assert not (place / "new").exists()


def test_a_corrupt_database_is_told_by_every_command(place):
    (place / "runs" / DATABASE).write_bytes(b"not a database" * 1000)
    for arguments in commands(place):
        assert "is damaged (" in refused(statewise(*arguments))
    assert not (place / "page.html").exists()
    assert not (place / "new").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scores": [{"score": 0.5}]}, "has no scores[0].length"),
        ({"scores": 5}, "has scores 5; expected a list"),
        ({"shared": 0}, "has shared 0; expected a whole number from 1 on"),
        ({"shared": "x"}, 'has shared "x"'),
        ({"note": "\ud800"}, "half a character"),
    ],
)
def test_a_refused_merge_leaves_nothing_behind_and_changes_nothing(place, record, change, sentence):
    other = record_of(config_of(seed=1))
    (place / "wrong.jsonl").write_text(f"{json.dumps(other)}\n{json.dumps(record | change)}\n")
    assert sentence in refused(statewise("store", "merge", place / "deep" / "new", place / "wrong.jsonl"))
    assert not (place / "deep").exists()
    refused(statewise("store", "merge", place / "runs", place / "wrong.jsonl"))
    with Store.open(place / "runs") as store:
        assert list(store.records()) == [record]


def test_a_file_that_is_cut_or_nests_too_deep_is_one_sentence(place, record):
    whole = gzip.compress(json.dumps(record).encode())
    (place / "cut.jsonl.gz").write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    (place / "deep.jsonl").write_text('{"config": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    for name, sentence in (("cut.jsonl.gz", "give a .jsonl file"), ("deep.jsonl", "nests too deep")):
        assert sentence in refused(statewise("store", "merge", place / "new", place / name))
    (place / "run").mkdir()
    (place / "run" / "record.json").write_text(json.dumps({"config": {"task": 5}, "status": "done"}))
    assert "is no record of a run" in refused(statewise("store", "merge", place / "new", place / "run"))
    assert not (place / "new").exists()


def test_a_time_that_no_clock_shows_is_left_out_of_the_list(place):
    told(place / "runs", "UPDATE runs SET finished = 1e300")
    done = statewise("runs", place / "runs")
    assert done.returncode == 0, done.stderr
    assert "  -  " in done.stdout.splitlines()[-1]


def test_a_seed_that_no_run_can_have_is_one_sentence(place):
    assert "cannot hold" in refused(statewise("runs", place / "runs", "--seed", 2**70))


def test_damaged_weights_cost_a_page_and_figure4_their_picture_only(tmp_path):
    fill(tmp_path / "runs", names=("figure4",))
    told(tmp_path / "runs", "UPDATE weights SET tensors = substr(tensors, 1, 50)")
    done = statewise("report", tmp_path / "runs", "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert "Figure 4: the angles" not in (tmp_path / "page.html").read_text()
    again = statewise("reproduce", "figure4", "--store", tmp_path / "runs")
    assert again.returncode == 0, again.stderr
    for told_so in (done.stderr, again.stderr):
        assert told_so.startswith('statewise: "')
        assert "is damaged (the weights of run " in told_so
        assert told_so.count("\n") == 1


def test_a_key_that_is_forged_is_told_with_its_line(place, record):
    lines = [json.dumps(record), json.dumps(record | {"key": key_of({})})]
    (place / "forged.jsonl").write_text("\n".join(lines) + "\n")
    assert "line 2 of" in refused(statewise("store", "merge", place / "new", place / "forged.jsonl"))
