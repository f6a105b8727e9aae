"""A store keeps what it was given, once, through merges, damage and full disks."""

import os
import sqlite3
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from statewise.errors import StoreError, StoreWriteError
from statewise.store import DATABASE, FORMAT, LARGEST_WEIGHTS, Store, key_of

HOSTILE = ["../../etc", "'; DROP TABLE runs; --", '"quoted"', "<script>alert(1)</script>", "é" * 300, "a\nb\0c"]


def record(seed=0, status="done", task="parity", **more):
    config = {"task": task, "model": "full", "recipe": "stated", "lr": 1e-3, "seed": seed, "hidden": 4}
    return {"key": key_of(config), "status": status, "config": config, "steps": 10, "seconds": 2.0, **more}


def test_a_record_comes_back_as_it_was(tmp_path):
    scores = [{"length": n, "score": n / 1000} for n in (10, 500, 10_000)]
    given = [record(0, scores=scores, in_distribution={"score": 0.5}, shared=4), record(1, "failed", reason="why")]
    with Store.open(tmp_path, write=True) as store:
        assert store.add(given) == 2
    with Store.open(tmp_path) as store:
        assert list(store.records()) == given
        assert store.record(given[0]["key"]) == given[0]
        assert store.counts() == {"done": 1, "failed": 1}
        row = store.rows(status="done")[0]
        assert (row["score_id"], row["score_ood"], row["cost"]) == (0.5, 0.5, 0.5)
        assert store.costs() == [("full", "stated", 4, 0.05)]


def test_a_run_stands_once_and_only_a_failure_is_replaced(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(0, "failed"), record(1)])
        assert store.add([record(0, loss=1.0), record(1, loss=2.0), record(1, "failed")]) == 1
        assert store.record(record(0)["key"]) == record(0, loss=1.0)
        assert store.record(record(1)["key"]) == record(1)
        assert store.keys(failed=False) == store.keys() == {record(0)["key"], record(1)["key"]}


@pytest.mark.parametrize("task", HOSTILE)
def test_hostile_names_are_only_text(tmp_path, task):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(task=task)])
        assert [found["config"]["task"] for found in store.records(task=task)] == [task]
        assert store.rows(task="other") == []


def test_merging_takes_what_is_new_and_its_weights(tmp_path):
    small = save({"w": np.arange(3.0)})
    with Store.open(tmp_path / "a", write=True) as a, Store.open(tmp_path / "b", write=True) as b:
        a.add([record(0), record(1, "failed")])
        b.add([record(1), record(2)], {record(2)["key"]: small, record(1)["key"]: b"x" * (LARGEST_WEIGHTS + 1)})
        assert a.merge(b) == 2
        assert a.merge(b) == 0
        assert a.counts() == {"done": 3}
        np.testing.assert_array_equal(a.weights(record(2)["key"])["w"], np.arange(3.0))
        assert a.weights(record(1)["key"]) is None


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
            assert ab.keys() == ba.keys() == {record(seed)["key"] for seed, _ in added}
            assert ab.keys(failed=False) == ba.keys(failed=False)


def test_keys_do_not_depend_on_the_order_of_options_but_on_the_machine():
    assert key_of({"a": 1, "b": 2.5}) == key_of({"b": 2.5, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 1}, "x")
    assert len(key_of({})) == 32


def test_a_newer_format_is_refused(tmp_path):
    Store.open(tmp_path, write=True).close()
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", [str(FORMAT + 1)])
    connection.close()
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        record() | {"key": "zz"},
        record() | {"config": 3},
        record() | {"status": {}},
        record() | {"config": {"seed": 2**70}},
        record() | {"scores": [3]},
        record() | {"steps": "many"},
    ],
)
def test_what_is_no_record_is_refused_and_adds_nothing(tmp_path, wrong):
    with Store.open(tmp_path, write=True) as store:
        with pytest.raises(StoreError, match="leave it out"):
            store.add([record(1), wrong])
        assert store.counts() == {}


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
