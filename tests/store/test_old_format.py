"""A store of the first format opens as it is, and everything that is read from it is what it was."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import pytest

from statewise.runs import Record
from statewise.store import COLUMNS, FORMAT, Store, exporter, read_records

OLD = Path(__file__).parents[1] / "golden" / "format1"


@pytest.fixture
def old_store(tmp_path):
    """A copy, since opening a database leaves files beside it."""
    shutil.copytree(OLD / "store", tmp_path / "store")
    return tmp_path / "store"


def read_csv(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def old_lines():
    return [json.loads(line) for line in gzip.decompress((OLD / "records.jsonl.gz").read_bytes()).splitlines()]


def test_the_layout_of_the_database_has_not_changed():
    assert FORMAT == 1


def test_the_same_table_is_exported_with_constant_answers_beside_the_scores(old_store, tmp_path):
    with Store.open(old_store) as store:
        exporter(tmp_path / "records.csv")(store.records)
    old, new = read_csv(OLD / "records.csv"), read_csv(tmp_path / "records.csv")
    assert [{name: row[name] for name in old[0]} for row in new] == old
    names = list(new[0])
    assert [name for name in names if not name.startswith("constant_")] == list(old[0])
    for name in (name for name in old[0] if name.startswith("score_")):
        assert names[names.index(name) + 1] == name.replace("score", "constant")


def test_the_same_records_are_exported(old_store, tmp_path):
    with Store.open(old_store) as store:
        exporter(tmp_path / "records.jsonl.gz")(store.records)
    written = [json.loads(line) for line in gzip.decompress((tmp_path / "records.jsonl.gz").read_bytes()).splitlines()]
    assert written == old_lines()


def test_rows_are_those_of_the_old_table(old_store):
    with Store.open(old_store) as store:
        rows = [row.to_dict() for row in store.rows()]
    shown = [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    assert shown == [{name: row[name] for name in ("key", *COLUMNS)} for row in read_csv(OLD / "records.csv")]


def test_keys_are_those_of_the_options(old_store):
    with Store.open(old_store) as store:
        assert all(record.key == record.config.key() for record in store.records())
        assert list(read_records(OLD / "records.jsonl.gz")) == list(store.records())


def test_weights_are_kept_and_new_runs_are_added(old_store):
    with Store.open(old_store, write=True) as store:
        before = [record.to_dict() for record in store.records()]
        kept = [row.key for row in store.rows() if store.weights(row.key) is not None]
        options = next(store.records()).config.change(seed=99)
        assert store.add([Record(key=options.key(), status="done", config=options)]) == 1
        assert [record.to_dict() for record in store.records()][:-1] == before
    assert kept
