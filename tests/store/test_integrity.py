"""A store is what was written to it, or says that it is not: checksums, `store check`, a killed writer's log."""

import gzip
import json
import logging
import os
import random
import shutil
import sqlite3
import zlib

import pytest
from safetensors.numpy import save

import statewise as sw
from statewise.errors import StatewiseError, StoreError
from statewise.store import DATABASE, Store, exporter, merge_into
from tests.golden.test_format1 import FILES

from .records import change_database, record

LOG = f"{DATABASE}-wal"


@pytest.fixture
def place(tmp_path):
    import numpy as np

    with Store.open(tmp_path / "runs", write=True) as store:
        records = [record(seed) for seed in range(30)]
        weights = {one.key: save({"w": np.arange(4.0) + n}) for n, one in enumerate(records[:5])}
        store.add(records, weights, [b"a text"])
    return tmp_path / "runs"


def read_all(place):
    """Return all that commands show of a store, or the type of the error that they end with."""
    try:
        with Store.open(place) as store:
            exporter(place / "runs.csv")(store.records)
            rows = store.rows()
            weights = [store.weights_file(row.key) for row in rows]
            return (place / "runs.csv").read_bytes(), rows, weights, list(store.texts())
    except StatewiseError as error:
        assert error.exit_code == 2
        return "refused"


def test_a_sound_store_passes(place):
    found = sw.check_store(place)
    assert (found.runs, found.faults, found.failed) == (30, (), False)
    assert found.to_dict()["sound"]
    assert str(found).startswith("sound")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE runs SET lr = 0.5 WHERE id = 3", "is not what its checksum says"),
        ("UPDATE runs SET score_ood = 1.0 WHERE id = 3", "is not what its checksum says"),
        ("UPDATE runs SET key = x'00112233445566778899aabbccddeeff' WHERE id = 3", "is not what its checksum says"),
        ("UPDATE runs SET record = (SELECT record FROM runs WHERE id = 4) WHERE id = 3", "checksum"),
        (
            "UPDATE weights SET tensors = (SELECT max(tensors) FROM weights)",
            "weights of run",
        ),
        ("UPDATE weights SET checksum = x'00'", "weights of run"),
        ("UPDATE texts SET text = x'00'", "is not what its hash says"),
        ("UPDATE runs SET record = x'00'", "is not what its checksum says"),
    ],
)
def test_what_was_changed_is_listed_and_refused(place, change, fault):
    change_database(place, change)
    found = sw.check_store(place)
    assert found.failed
    assert any(fault in line for line in found.faults)
    if "runs SET" in change:
        for read in (lambda: sw.runs(place, limit=0), lambda: sw.runs(place, out=place / "runs.csv")):
            with pytest.raises(StoreError, match="is damaged"):
                read()


def test_every_flipped_bit_is_noticed_or_changes_nothing(place):
    whole, content = read_all(place), (place / DATABASE).read_bytes()
    rng = random.Random(3)
    noticed = 0
    for _ in range(60):
        bit = rng.randrange(8 * len(content))
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << (bit % 8)
        (place / DATABASE).write_bytes(flipped)
        found = read_all(place)
        noticed += found == "refused"
        assert found in ("refused", whole), f"bit {bit} went unnoticed"
    assert noticed


def test_a_store_of_an_earlier_version_opens_and_is_checked_where_it_can_be(tmp_path):
    shutil.copytree(FILES / "store", tmp_path / "old")
    assert not sw.check_store(tmp_path / "old").failed
    total = merge_into(tmp_path / "new", [Store.open(tmp_path / "old")])[1]
    assert total == sw.check_store(tmp_path / "new").runs
    change_database(tmp_path / "old", "UPDATE runs SET seed = seed + 1")
    assert "is not what its columns say" in sw.check_store(tmp_path / "old").faults[0]
    # writing to it keeps what it has, and adds checksums to what is new
    shutil.rmtree(tmp_path / "old")
    shutil.copytree(FILES / "store", tmp_path / "old")
    with Store.open(tmp_path / "old", write=True) as store:
        store.add([record(77, task="cyclic(9)")])
    with sqlite3.connect(tmp_path / "old" / DATABASE) as connection:
        sums = [found for (found,) in connection.execute("SELECT checksum FROM runs ORDER BY id")]
    connection.close()
    assert sums[0] is None
    assert sums[-1] is not None
    assert not sw.check_store(tmp_path / "old").failed


def test_a_file_that_is_no_database_is_a_fault_and_no_store_is_a_mistake(place, tmp_path):
    (place / DATABASE).write_bytes(b"not a database" * 1000)
    found = sw.check_store(place)
    assert (found.runs, found.failed) == (None, True)
    with pytest.raises(StoreError, match="holds no store"):
        sw.check_store(tmp_path / "none")


def test_a_log_that_was_removed_is_said(place, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "statewise")
    writer = Store.open(place, write=True)
    writer.add([record(100)])
    # what a kill leaves behind
    shutil.copytree(place, tmp_path / "killed")
    writer.close()
    assert (tmp_path / "killed" / LOG).exists()
    shutil.copytree(tmp_path / "killed", tmp_path / "cut")
    for name in (LOG, f"{DATABASE}-shm"):
        (tmp_path / "cut" / name).unlink()
    # the log that is there is read, and nothing is said
    with Store.open(tmp_path / "killed") as store:
        assert store.count(seed=100) == 1
    assert caplog.messages == []
    with Store.open(tmp_path / "cut") as store:
        assert store.count(seed=100) == 0
    assert "its log" in caplog.messages[0]
    found = sw.check_store(tmp_path / "cut")
    assert found.failed
    assert "runs.sqlite-wal" in found.faults[0]
    # a writer says so too, and closes the store properly
    caplog.clear()
    with Store.open(tmp_path / "cut", write=True):
        assert len(caplog.messages) == 1
    assert not sw.check_store(tmp_path / "cut").failed


def test_a_store_that_is_being_written_is_no_lost_log(place, caplog):
    with Store.open(place, write=True), Store.open(place) as reader:
        assert len(reader.keys()) == 30
        assert list(reader.database_faults()) == []
    assert caplog.messages == []
    assert not (place / LOG).exists()


def test_a_record_that_grows_without_end_is_refused(place):
    with sqlite3.connect(place / DATABASE) as connection:
        (dictionary,) = connection.execute("SELECT value FROM meta WHERE name = 'dictionary'").fetchone()
        made = zlib.compressobj(zdict=dictionary)
        bomb = made.compress(b" " * 70_000_000) + made.flush()
        connection.execute("UPDATE runs SET record = ?, checksum = NULL", [bomb])
    connection.close()
    with Store.open(place) as store, pytest.raises(StoreError, match="cannot be read"):
        list(store.records())


def test_a_packed_file_that_grows_without_end_is_refused(tmp_path):
    from statewise.store import read_records

    line = json.dumps(record().to_dict()).encode()
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(line + b" " * 70_000_000))
    with pytest.raises(StoreError, match="line 1"):
        list(read_records(tmp_path / "bomb.jsonl.gz"))


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
    ],
)
def test_a_store_with_statements_of_its_own_is_refused(place, change):
    change_database(place, change)
    for write in (False, True):
        with pytest.raises(StoreError, match="views or triggers"):
            Store.open(place, write)


def test_a_database_that_is_no_file_is_refused_at_once(tmp_path):
    for put in (os.mkfifo, os.mkdir, lambda file: os.symlink("/dev/zero", file)):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        put(folder / DATABASE)
        for write in (False, True):
            with pytest.raises(StoreError):
                Store.open(folder, write)
