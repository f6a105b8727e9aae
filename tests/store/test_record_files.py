"""Records from outside: what is read from files and run directories, and what is refused in one sentence."""

import gzip
import json
from pathlib import Path

import pytest

from statewise.errors import StoreError
from statewise.store import Store, exporter, merge_into, read_records, read_run

from .records import record, record_dict

RESULTS = Path(__file__).parents[2] / "results"
RUNS = Path(__file__).parents[1] / "golden" / "format1"


def write_lines(file, *records):
    file.write_text("".join(json.dumps(one) + "\n" for one in records))
    return file


def test_every_record_that_was_ever_published_is_read_and_keeps_its_key(tmp_path):
    for file in sorted((RESULTS / "reproduction").glob("*.jsonl.gz")):
        written = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        records = list(read_records(file))
        assert [one.to_dict() for one in records] == written
        assert [one.config.key() for one in records] == [one["key"] for one in written]
        with Store.open(tmp_path / file.stem, write=True) as store:
            assert store.add(records) == len({one.key for one in records})
            assert {one.key: one.to_dict() for one in store.records()} == {one["key"]: one for one in written}


@pytest.mark.parametrize("name", ["recipes.jsonl"])
def test_records_of_single_runs_have_no_key_and_are_refused_until_they_get_one(tmp_path, name):
    lines = [json.loads(line) for line in (RESULTS / name).read_text().splitlines()]
    with pytest.raises(StoreError, match=r"line 1 of .* a record has no key; expected 32 hexadecimal digits"):
        list(read_records(RESULTS / name))
    keyed = [{"key": "0" * 32, **line} for line in lines]
    with pytest.raises(StoreError, match="is not that of its config"):
        list(read_records(write_lines(tmp_path / "keyed.jsonl", *keyed)))


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz"])
def test_what_is_exported_is_read_back(tmp_path, name):
    given = [record(0, note="é"), record(1, "failed", reason="a\u2028line"), record(2, finished=1.5)]
    exporter(tmp_path / name)(lambda: given)
    assert list(read_records(tmp_path / name)) == given


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "done"},
        record_dict(key="zz"),
        record_dict(config=3),
        record_dict(status={}),
        record_dict(config={"seed": 2**70}),
        record_dict(scores=[3]),
        record_dict(scores=5),
        record_dict(scores=[{"score": 0.5}]),
        record_dict(scores=[{"length": "abc", "score": 0.5}]),
        record_dict(scores=[{"length": 500, "score": 99}]),
        record_dict(scores=[{"length": 500, "score": 0.5, "classes": 1}]),
        record_dict(in_distribution={"length": 10}),
        record_dict(steps="many"),
        record_dict(seconds=float("nan")),
        record_dict(shared=0),
        record_dict(shared="x"),
        record_dict(history=7),
        record_dict(history=[3]),
        record_dict(history=[{"step": 1, "loss": 0.1}]),
        record_dict(history=[{"step": 1, "loss": 0.1, "scores": [0.5]}], probe=[10, 500]),
        record_dict(probe=[[10]]),
        record_dict(versions="abc"),
        record_dict(finished=1e300),
        record_dict(finished=float("nan")),
        record_dict(reason={"a": 1}),
        record_dict(note="\ud800"),
        record_dict(config=record_dict()["config"] | {"batch": 2**63}),
        record_dict(config=record_dict()["config"] | {"extra": [[1]]}),
        record_dict(config={name: value for name, value in record_dict()["config"].items() if name != "hidden"}),
    ],
)
def test_what_is_no_record_is_refused_with_its_line(tmp_path, wrong):
    file = write_lines(tmp_path / "wrong.jsonl", record_dict(1), wrong)
    with pytest.raises(StoreError, match=r"line 2 of .*expected .*; leave it out"):
        list(read_records(file))


def test_a_fault_is_reported_with_its_place_its_value_and_what_was_expected(tmp_path):
    history = [{"step": 1, "loss": 0.1, "scores": [0.5]}, {"step": 2, "loss": 0.1, "scores": [7]}]
    for wrong, sentence in (
        (record_dict(history=history), "has history[1].scores[0] 7; expected less than or equal to 1"),
        (record_dict(scores=[{"length": 10}]), "has no scores[0].score; expected it"),
        (record_dict(status="x" * 500), "has status 'xxxx"),
        (record_dict(versions=[1] * 500), "has versions with 500 parts; expected an object"),
        ([], "a record is no object"),
    ):
        with pytest.raises(StoreError) as error:
            list(read_records(write_lines(tmp_path / "wrong.jsonl", wrong)))
        assert sentence in str(error.value)
        assert len(str(error.value)) < 350


def test_files_that_cannot_be_read_are_one_sentence(tmp_path):
    packed = gzip.compress(json.dumps(record_dict()).encode())
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:40] + b"\xff" * 40 + packed[80:])
    (tmp_path / "short.jsonl.gz").write_bytes(packed[:60])
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    for name in ("cut.jsonl.gz", "short.jsonl.gz", "binary.jsonl", "none.jsonl"):
        with pytest.raises(StoreError, match=r"cannot read .*; give a \.jsonl file"):
            list(read_records(tmp_path / name))
    (tmp_path / "deep.jsonl").write_text('{"config": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    with pytest.raises(StoreError, match=r"line 1 of .*recursion limit"):
        list(read_records(tmp_path / "deep.jsonl"))


def test_a_forged_key_is_refused_with_its_line(tmp_path):
    file = write_lines(tmp_path / "forged.jsonl", record_dict(), record_dict(1, key=record(2).key))
    with pytest.raises(StoreError, match=r"line 2 of .* is not that of its config"):
        list(read_records(file))


def test_a_record_on_a_machine_file_keeps_its_key(tmp_path):
    given = record_dict(task="elsewhere.json", key="1" * 32)
    assert [one.key for one in read_records(write_lines(tmp_path / "one.jsonl", given))] == ["1" * 32]


@pytest.mark.parametrize("name", ["trained-full", "trained-lstm", "trained-embedded", "trained-file"])
def test_a_run_directory_has_the_key_that_a_sweep_gives_it(tmp_path, name):
    read = read_run(RUNS / name)
    text = (RUNS / name / "machine.json").read_text() if name == "trained-file" else None
    assert read.key == read.config.key(text)
    assert read.finished == round((RUNS / name / "record.json").stat().st_mtime, 1)
    assert merge_into(tmp_path / "store", [[read]]) == ([1], 1)


def test_what_is_no_run_directory_is_one_sentence(tmp_path):
    with pytest.raises(StoreError, match="is no record of a run; give the directory of a finished run"):
        read_run(tmp_path)
    (tmp_path / "record.json").write_text(json.dumps({"config": {"task": 5}, "status": "done"}))
    with pytest.raises(StoreError, match=r"a record has config\.task 5"):
        read_run(tmp_path)
