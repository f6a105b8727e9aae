"""Whatever the store takes, all who read it can show: one check stands for every reader."""

import copy
import json
import math

import pytest

from statewise.cli.runs import runs
from statewise.errors import StoreError
from statewise.papers import read_paper, table_of
from statewise.report.page import write_page
from statewise.store import Store, check_record, key_of
from statewise.store.export import exporter
from tests.report.synthetic import record_of

ODD = [None, True, 0, -1, 2**63, 10**400, 0.5, 1e300, math.nan, math.inf, "abc", "", [], [3], {}, {"a": 1}, [[[1]]]]
GONE = object()


def places(value, path=()):
    """Gives the way to every part of a record, of lists to the first."""
    yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*path, name))
    if isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def changed(record, path, value):
    made = copy.deepcopy(record)
    *way, last = path
    inner = made
    for step in way:
        inner = inner[step]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    return made


def odd_records():
    """Gives records with one thing changed that are taken all the same, each of another run of the paper's table."""
    made = map(record_of, read_paper().runs("table-addition", "quick"))
    whole = [record | {"shared": 2, "reason": "none"} for record in made if record["status"] == "done"]
    wanted = [(path, value) for path in places(whole[0]) if path for value in (*ODD, GONE)]
    for path, value in wanted:
        # a run is used up once one of its records is taken
        record = changed(whole[-1], path, value)
        if accepted(record):
            yield path, record | {"key": key_of(record["config"], f"{path} {value}")}
            whole = whole[:-1] or whole


def accepted(record):
    try:
        check_record(record)
    except StoreError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300
        return False
    return True


@pytest.mark.filterwarnings("error")
def test_what_the_store_takes_every_reader_can_read(tmp_path, capsys):
    taken = list(odd_records())
    assert {path[0] for path, _ in taken} >= {"config", "steps", "seconds", "loss", "scores", "history", "finished"}
    with Store.open(tmp_path / "store", write=True) as store:
        added = store.add([record for _, record in taken])
        assert added > 100
        write_page(store, tmp_path / "page.html", "quick")
        table_of(read_paper(), "table-addition", "quick", store.records())
        for name in ("runs.csv", "runs.parquet", "runs.jsonl"):
            exporter(tmp_path / name)(store.records)
    runs(tmp_path / "store", limit=0)
    assert len(capsys.readouterr().out.splitlines()) == added + 2
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == added
    for line in (tmp_path / "runs.jsonl").read_text().splitlines():
        check_record(json.loads(line))
