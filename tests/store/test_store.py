"""A store keeps what it was given, once, through merges, damage and full disks."""

import os
import sqlite3
import stat
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from statewise.errors import StoreError, StoreWriteError
from statewise.runs import Record
from statewise.store import DATABASE, FORMAT, LARGEST_WEIGHTS, Store, merge_into

from .records import change_database, record

HOSTILE = ["../../etc", "'; DROP TABLE runs; --", '"quoted"', "<script>alert(1)</script>", "é" * 300, "a\nb\0c"]


def read_all(directory):
    with Store.open(directory) as store:
        return store.name, list(store.records()), list(map(store.weights, store.keys()))


def test_a_record_comes_back_as_it_was(tmp_path):
    scores = [{"length": n, "score": score} for n, score in ((10, 1.0), (500, 0.5), (10_000, -0.25))]
    inside = {"length": 10, "score": 0.5}
    history = [{"step": 5, "loss": None, "scores": [0.5]}, {"step": 10, "loss": 0.25, "scores": [1.0]}]
    given = [
        record(0, scores=scores, in_distribution=inside, shared=4, history=history, probe=[10], note={"a": [1]}),
        record(1, "failed", reason="why"),
    ]
    with Store.open(tmp_path, write=True) as store:
        assert store.add(given) == 2
    with Store.open(tmp_path) as store:
        assert list(store.records()) == given
        assert [found.to_dict() for found in store.records()] == [one.to_dict() for one in given]
        assert store.record(given[0].key) == given[0]
        assert store.counts() == {"done": 1, "failed": 1}
        row = store.rows(status="done")[0]
        assert (row.score_id, row.score_ood, row.cost) == (0.5, 0.5, 0.5)
        assert store.costs() == [("full", "stated", 4, "parity", 0.5, 10)]


def test_a_loss_that_is_no_number_stays_one(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(history=[{"step": 1, "loss": float("nan"), "scores": []}])])
        (found,) = store.records()
    assert str(found.history[0].loss) == "nan"


def test_rows_are_listed_without_reading_records(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(seed) for seed in range(3)])
    change_database(tmp_path, "UPDATE runs SET record = x'00'")
    with Store.open(tmp_path) as store:
        assert [row.seed for row in store.rows()] == [0, 1, 2]
        assert [row.seed for row in store.rows(2)] == [1, 2]


def test_a_row_is_what_json_shows_of_a_run(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(3, finished=17.5), record(4, "failed", reason="why", steps=0)])
        done, failed = (row.to_dict() for row in store.rows())
    assert done == {
        "key": record(3).key,
        "status": "done",
        "task": "parity",
        "model": "full",
        "recipe": "stated",
        "lr": 1e-3,
        "seed": 3,
        "hidden": 4,
        "steps": 10,
        "seconds": 2.0,
        "cost": 2.0,
        "score_id": None,
        "score_ood": None,
        "finished": 17.5,
    }
    assert list(failed) == list(done)


def test_a_run_is_recorded_once_and_only_a_failure_is_replaced(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(0, "failed"), record(1)])
        assert store.add([record(0, loss=1.0), record(1, loss=2.0), record(1, "failed")]) == 1
        assert store.record(record(0).key) == record(0, loss=1.0)
        assert store.record(record(1).key) == record(1)
        assert store.keys(failed=False) == store.keys() == {record(0).key, record(1).key}


@pytest.mark.parametrize("task", HOSTILE)
def test_hostile_names_are_only_text(tmp_path, task):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(task=task)])
        assert [found.config.task for found in store.records(task=task)] == [task]
        assert store.rows(task="other") == []


def test_merging_takes_what_is_new_and_its_weights(tmp_path):
    small = save({"w": np.arange(3.0)})
    with Store.open(tmp_path / "a", write=True) as a, Store.open(tmp_path / "b", write=True) as b:
        a.add([record(0), record(1, "failed")])
        b.add([record(1), record(2)], {record(2).key: small, record(1).key: b"x" * (LARGEST_WEIGHTS + 1)})
        assert a.merge(b) == 2
        assert a.merge(b) == 0
        assert a.counts() == {"done": 3}
        np.testing.assert_array_equal(a.weights(record(2).key)["w"], np.arange(3.0))
        assert a.weights(record(1).key) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["done", "stopped", "failed"])), max_size=12))
def test_merging_in_any_order_keeps_the_same_runs(tmp_path_factory, added):
    folder = tmp_path_factory.mktemp("stores")
    halves = added[: len(added) // 2], added[len(added) // 2 :]
    with Store.open(folder / "a", write=True) as a, Store.open(folder / "b", write=True) as b:
        for store, half in zip((a, b), halves, strict=True):
            for seed, status in half:
                store.add([record(seed, status)])
        with Store.open(folder / "ab", write=True) as ab, Store.open(folder / "ba", write=True) as ba:
            for whole, order in ((ab, (a, b)), (ba, (b, a))):
                for part in order:
                    whole.merge(part)
            assert ab.keys() == ba.keys() == {record(seed).key for seed, _ in added}
            assert ab.keys(failed=False) == ba.keys(failed=False)


def test_a_newer_format_is_refused(tmp_path):
    Store.open(tmp_path, write=True).close()
    change_database(tmp_path, "UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT + 1))
    with pytest.raises(StoreError, match="update statewise"):
        Store.open(tmp_path)


def test_a_store_whose_beginning_was_cut_short_is_begun_anew(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert (tmp_path / DATABASE).stat().st_size > 0
    with pytest.raises(StoreError, match="no store yet"):
        Store.open(tmp_path)
    with Store.open(tmp_path, write=True) as store:
        assert store.add([record()]) == 1


def test_what_cannot_be_kept_is_refused_and_adds_nothing(tmp_path):
    without_key = Record(status="done", config=record().config)
    half_a_character = Record(key=record().key, status="failed", config=record().config, note="\ud800")
    with Store.open(tmp_path, write=True) as store:
        for wrong in (without_key, half_a_character):
            with pytest.raises(StoreError, match=r"expected .*; leave it out"):
                store.add([record(1), wrong])
        assert store.counts() == {}


@pytest.mark.parametrize("into", ["new", "deep/er", "old"])
def test_a_merge_that_is_refused_leaves_all_as_it_was(tmp_path, into):
    with Store.open(tmp_path / "good", write=True) as good, Store.open(tmp_path / "bad", write=True) as bad:
        good.add([record(5)], {record(5).key: b"weights"})
        bad.add([record(seed) for seed in range(3)])
    if into == "old":
        with Store.open(tmp_path / into, write=True) as old:
            old.add([record(9)])
    change_database(tmp_path / "bad", "UPDATE runs SET record = x'00' WHERE id = 3")
    with Store.open(tmp_path / "good") as good, Store.open(tmp_path / "bad") as bad:
        for wrong in (bad, [record(7), Record(status="done", config=record().config)]):
            with pytest.raises(StoreError):
                merge_into(tmp_path / into, [good, [record(6)], wrong])
            assert {file.name for file in tmp_path.iterdir()} == {"good", "bad", *(["old"] if into == "old" else [])}
    if into == "old":
        with Store.open(tmp_path / into) as old:
            assert list(old.records()) == [record(9)]
            assert old.weights_file(record(5).key) is None


def test_a_refused_merge_keeps_what_else_lies_there(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError):
        merge_into(tmp_path, [[Record(status="done", config=record().config)]])
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert merge_into(tmp_path, [[record(0)], [record(0), record(1)]]) == ([1, 1], 2)


@pytest.mark.parametrize("damage", ["garbage", "cut"])
def test_a_damaged_database_is_one_sentence(tmp_path, damage):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(seed) for seed in range(500)])
    file = tmp_path / DATABASE
    whole = file.read_bytes()
    other = {"garbage": b"not a database" * 1000, "cut": whole[: len(whole) // 3]}[damage]
    file.write_bytes(other)
    with pytest.raises(StoreError, match="damaged"), Store.open(tmp_path) as store:
        list(store.records())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = 'new' WHERE name = 'format'",
        "UPDATE meta SET value = 1.5 WHERE name = 'format'",
        "DELETE FROM meta WHERE name = 'format'",
        "DELETE FROM meta WHERE name = 'dictionary'",
        "UPDATE meta SET value = 'text' WHERE name = 'dictionary'",
        "DELETE FROM meta WHERE name = 'id'",
        "UPDATE runs SET record = x'00'",
        "UPDATE runs SET record = 'text'",
        f"UPDATE runs SET record = x'{zlib.compress(b'[1]').hex()}'",
        f"UPDATE runs SET record = x'{zlib.compress(b'{}').hex()}'",
        "UPDATE runs SET key = x'00'",
        "UPDATE runs SET key = 'text'",
        "UPDATE weights SET tensors = x'00'",
        "UPDATE weights SET tensors = 'text'",
        "UPDATE weights SET tensors = substr(tensors, 1, 70)",
        "DROP TABLE weights",
    ],
)
def test_a_store_that_was_tampered_with_is_damaged_in_one_sentence(tmp_path, change):
    with Store.open(tmp_path, write=True) as store:
        store.add([record()], {record().key: save({"w": np.arange(3.0)})})
    change_database(tmp_path, change)
    with pytest.raises(StoreError, match=r"is damaged .*; put a copy in its place"):
        read_all(tmp_path)


@pytest.mark.parametrize(
    "listed", [lambda s: s.keys(), lambda s: list(s.statuses()), lambda s: s.rows(), lambda s: s.begins_with("")]
)
def test_a_key_of_another_length_is_damage_wherever_it_is_listed(tmp_path, listed):
    with Store.open(tmp_path, write=True) as store:
        store.add([record()])
    change_database(tmp_path, "UPDATE runs SET key = x'00'")
    with Store.open(tmp_path) as store, pytest.raises(StoreError, match="a key is not of 16 bytes"):
        listed(store)


@pytest.mark.parametrize("equal", [{"seed": 2**70}, {"task": "\udcff"}])
def test_what_no_store_can_hold_is_one_sentence(tmp_path, equal):
    with Store.open(tmp_path, write=True) as store, pytest.raises(StoreError, match="cannot hold"):
        store.count(**equal)


def test_no_store_and_no_place_for_one(tmp_path):
    with pytest.raises(StoreError, match="holds no store"):
        Store.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        Store.open(tmp_path / "file", write=True)
    with pytest.raises(StoreError, match="no column"), Store.open(tmp_path / "new", write=True) as store:
        store.rows(colour="red")


def test_a_reader_needs_no_right_to_write(tmp_path):
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([record()])
    os.chmod(tmp_path / "store", stat.S_IRUSR | stat.S_IXUSR)
    try:
        with Store.open(tmp_path / "store") as store:
            assert len(store.rows()) == 1
            with pytest.raises(StoreError, match="read only"):
                store.add([record(1)])
    finally:
        os.chmod(tmp_path / "store", stat.S_IRWXU)


def test_a_full_disk_loses_nothing_that_was_recorded(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(0)])
        store._connection.execute("PRAGMA max_page_count = 12")
        noise = [record(seed, note=os.urandom(4000).hex()) for seed in range(1, 50)]
        with pytest.raises(StoreWriteError, match="what it holds stays"):
            store.add(noise)
        # all or none of what was added at once
        assert store.counts() == {"done": 1}
    with Store.open(tmp_path, write=True) as store:
        assert store.add(noise) == 49


def test_two_writers_are_one_too_many(tmp_path):
    with Store.open(tmp_path, write=True), pytest.raises(StoreError, match=f"being written by process {os.getpid()}"):
        Store.open(tmp_path, write=True)
    Store.open(tmp_path, write=True).close()


def test_a_store_can_be_read_and_copied_while_it_is_written(tmp_path):
    with Store.open(tmp_path / "a", write=True) as store:
        store.add([record(0)])
        with Store.open(tmp_path / "a") as reader:
            assert len(reader.rows()) == 1
            store.add([record(1)])
            assert len(reader.rows()) == 2
