"""Stores and records that are not what they should be: one sentence from every command, and nothing left behind."""

import json

import pytest

from statewise.commands.report import report
from statewise.commands.runs import merge, runs
from statewise.commands.sweep import sweep
from statewise.errors import StatewiseError
from statewise.papers import read_paper
from statewise.runs import Record, RecordedScore
from statewise.store import DATABASE, FORMAT, Store
from statewise.store.export import exporter
from tests.command import statewise

from .records import change_database, record, record_dict

GRID = '[[grid]]\ntask = "parity"\nmodel = "full"\n'


def refused(call):
    """Return the sentence of the error that a call ends with; the command line exits with 2 then."""
    with pytest.raises(StatewiseError) as error:
        call()
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add([record()])
    return tmp_path


def commands(place):
    store = place / "runs"
    yield lambda: runs(store)
    yield lambda: runs(store, out=place / "runs.csv")
    yield lambda: sweep(place / "grid.toml", store)
    yield lambda: sweep(place / "grid.toml", store, dry_run=True)
    yield lambda: report(store, place / "page.html")
    yield lambda: merge(place / "new", [store])


def test_a_store_of_a_newer_format_is_refused_by_every_command(place):
    change_database(place / "runs", "UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT + 1))
    for call in commands(place):
        assert "update statewise" in refused(call)
    assert not any((place / name).exists() for name in ("new", "runs.csv", "page.html"))


def test_a_corrupt_database_is_reported_by_every_command(place):
    (place / "runs" / DATABASE).write_bytes(b"not a database" * 1000)
    for call in commands(place):
        assert "is damaged (" in refused(call)
    assert not any((place / name).exists() for name in ("new", "runs.csv", "page.html"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scores": [{"score": 0.5}]}, "has no scores[0].length"),
        ({"scores": 5}, "has scores 5; expected a"),
        ({"shared": 0}, "has shared 0; expected greater than or equal to 1"),
        ({"shared": "x"}, "has shared 'x'"),
        ({"note": "\ud800"}, "is no JSON"),
    ],
)
def test_a_refused_merge_leaves_nothing_behind_and_changes_nothing(place, change, sentence):
    (place / "wrong.jsonl").write_text(f"{json.dumps(record_dict(1))}\n{json.dumps(record_dict() | change)}\n")
    assert sentence in refused(lambda: merge(place / "deep" / "new", [place / "wrong.jsonl"]))
    assert not (place / "deep").exists()
    refused(lambda: merge(place / "runs", [place / "wrong.jsonl"]))
    with Store.open(place / "runs") as store:
        assert list(store.records()) == [record()]


def test_what_cannot_be_merged_is_one_sentence(place):
    for sources, sentence in (
        ([place / "none"], "does not exist"),
        ([place / "new"], "both taken from and into"),
        ([place], "holds no store"),
    ):
        assert sentence in refused(lambda sources=sources: merge(place / "new", sources))
    assert not (place / "new").exists()


def test_a_time_that_no_clock_shows_is_left_out_of_the_list(place):
    change_database(place / "runs", "UPDATE runs SET finished = 1e300, checksum = NULL")
    assert "  -  " in str(runs(place / "runs")).splitlines()[-1]


def test_a_seed_that_no_run_can_have_is_one_sentence(place):
    assert "cannot hold" in refused(lambda: runs(place / "runs", seed=2**70))


def test_a_record_that_cannot_be_read_leaves_the_file_of_an_export_as_it_was(place):
    change_database(place / "runs", "UPDATE runs SET record = x'00', checksum = NULL")
    (place / "runs.csv").write_text("mine")
    with Store.open(place / "runs") as store:
        assert "a record cannot be read" in refused(lambda: exporter(place / "runs.csv")(store.records))
    assert (place / "runs.csv").read_text() == "mine"


def test_damaged_weights_cost_a_page_and_figure4_their_picture_only(tmp_path):
    records = []
    for options in read_paper().runs("figure4", "quick"):
        scores = tuple(RecordedScore(length=length, score=1.0) for length in options.test_lengths)
        tracked = {"scores": scores, "in_distribution": scores[0], "loss": 0.0, "steps": options.steps}
        records.append(Record(key=options.key(), status="done", config=options, **tracked))
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add(records, {records[0].key: b"no tensors"})
    done = statewise("report", tmp_path / "runs", "--out", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert "Figure 4: the angles" not in (tmp_path / "page.html").read_text()
    again = statewise("reproduce", "figure4", "--store", tmp_path / "runs")
    assert again.returncode == 0, again.stderr
    for printed in (done.stderr, again.stderr):
        (sentence,) = set(printed.splitlines())
        assert sentence.startswith('statewise: "')
        assert f"is damaged (the weights of run {records[0].key[:8]} cannot be read)" in sentence
