"""Whatever the store takes, every reader of it can show: one check stands for them all."""

import copy
import json
import math

import pytest

from statewise.commands.runs import runs
from statewise.errors import StoreError
from statewise.papers import read_paper, table_of
from statewise.report.page import write_page
from statewise.runs import parse_record
from statewise.store import Store, exporter
from tests.report.synthetic import written_record

ODD = [None, True, 0, -1, 2**63, 10**400, 0.5, 1e300, math.nan, math.inf, "abc", "", [], [3], {}, {"a": 1}, [[[1]]]]
GONE = object()


def places(value, path=()):
    """Yield the way to every part of a record, of lists to the first."""
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
    """Yield records with one thing changed that are taken all the same, each of another run of the paper's table."""
    made = map(written_record, read_paper().runs("table-addition", "quick"))
    whole = [record | {"shared": 2, "reason": "none"} for record in made if record["status"] == "done"]
    wanted = [(path, value) for path in places(whole[0]) if path for value in (*ODD, GONE)]
    for path, value in wanted:
        # a run is used up once one of its records is taken
        record = accepted(changed(whole[-1], path, value))
        if record is not None:
            yield path, record.with_key(record.config.key(f"{path} {value}"))
            whole = whole[:-1] or whole


def accepted(written):
    try:
        return parse_record(json.dumps(written))
    except StoreError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 300
        return None


@pytest.mark.filterwarnings("error")
def test_what_the_store_takes_every_reader_can_read(tmp_path):
    taken = list(odd_records())
    assert {path[0] for path, _ in taken} >= {"config", "steps", "seconds", "loss", "scores", "history", "finished"}
    with Store.open(tmp_path / "store", write=True) as store:
        added = store.add([record for _, record in taken])
        assert added > 100
        write_page(store, tmp_path / "page.html", "quick")
        table_of(read_paper(), "table-addition", "quick", store.records())
        for name in ("runs.csv", "runs.parquet", "runs.jsonl"):
            exporter(tmp_path / name)(store.records)
    assert len(str(runs(tmp_path / "store", limit=0)).splitlines()) == added + 2
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == added
    for line in (tmp_path / "runs.jsonl").read_text().splitlines():
        parse_record(line)
