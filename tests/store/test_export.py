"""Runs as files: every option and score has a column, with one type."""

import csv

import pytest
from pyarrow import parquet

from statewise.errors import FileError
from statewise.runs import Record, RecordedScore
from statewise.store import exporter
from statewise.training.options import resolve

SCORES = RecordedScore(length=500, score=0.25), RecordedScore(length=20, score=1.0)
REASON = 'a comma, a "quote"\nand a line'


def _options(**given):
    return resolve({"task": "parity", "model": "full", **given})


FIRST, SECOND = _options(lr=1, batch=16, test_lengths=[10, 20]), _options(lr=0.5, batch=32, samples=7)
RECORDS = [
    Record(key=FIRST.key(), status="done", config=FIRST, steps=5, scores=SCORES),
    Record(key=SECOND.key(), status="failed", config=SECOND, reason=REASON),
]


def test_a_table_has_every_option_score_and_reason(tmp_path):
    exporter(tmp_path / "runs.csv")(lambda: RECORDS)
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["batch"] for row in rows] == ["16", "32"]
    assert [row["score_20"] for row in rows] == ["1.0", ""]
    assert [row["test_lengths"] for row in rows] == ["[10, 20]", "[10, 500]"]
    assert [row["steps"] for row in rows] == ["5", ""]
    assert rows[1]["reason"] == REASON
    names = list(rows[0])
    assert names.index("score_20") < names.index("score_500") < names.index("batch")


def test_every_score_stands_beside_the_best_constant_answer(tmp_path):
    skewed = RecordedScore(length=500, score=1.0, count=200, correct=200, classes=2, majority=0.99, accuracy=1.0)
    record = Record(key=FIRST.key(), status="done", config=FIRST, scores=(skewed,), in_distribution=skewed)
    exporter(tmp_path / "runs.csv")(lambda: [record, *RECORDS[1:]])
    with (tmp_path / "runs.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert [round(float(first[name]), 2) for name in ("constant_id", "constant_ood", "constant_500")] == [0.98] * 3
    assert second["constant_500"] == ""
    names = list(first)
    for name in ("id", "ood", "500"):
        assert names.index(f"constant_{name}") == names.index(f"score_{name}") + 1


def test_a_constant_that_was_not_measured_is_not_called_chance(tmp_path):
    exporter(tmp_path / "runs.csv")(lambda: RECORDS)
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert [row["constant_500"] for row in csv.DictReader(file)] == ["", ""]


def test_columns_of_a_parquet_file_have_one_type(tmp_path):
    exporter(tmp_path / "runs.parquet")(lambda: RECORDS)
    table = parquet.read_table(tmp_path / "runs.parquet")
    types = {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)}
    assert (types["lr"], types["batch"], types["samples"], types["key"]) == ("double", "int64", "int64", "string")
    assert table.column("lr").to_pylist() == [1.0, 0.5]
    assert table.column("score_500").to_pylist() == [0.25, None]
    # without any value
    assert (types["finished"], table.column("finished").to_pylist()) == ("string", [None, None])


@pytest.mark.parametrize("name", ["runs.csv", "runs.parquet", "runs.jsonl", "runs.jsonl.gz"])
def test_no_runs_are_a_file_too(tmp_path, name):
    exporter(tmp_path / name)(list)
    assert (tmp_path / name).exists()


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(FileError, match="choose one of these endings"):
        exporter(tmp_path / "runs.txt")
