"""A page of very many runs shows groups: it reads rows, not records, and its size follows the groups."""

import csv
import re
import statistics

import pytest

from statewise.commands.report import report
from statewise.report import many
from statewise.runs import Record, RecordedScore
from statewise.store import Store, constants_of
from statewise.training.options import resolve


def _score(length, correct):
    shares = {"length": length, "count": 100, "correct": correct, "classes": 2, "majority": 0.6}
    accuracy = correct / 100
    return RecordedScore(**shares, accuracy=accuracy, score=2 * accuracy - 1, score_majority=2 * accuracy - 1)


def _records(count, task="parity", **given):
    options = resolve({"task": task, "model": "full", "hidden": 4} | given)
    for seed in range(count):
        record = Record(
            key=f"{hash((task, str(given))) & (1 << 64) - 1:016x}{seed:016x}",
            status=("done", "done", "diverged", "failed")[seed % 4],
            config=options.model_copy(update={"seed": seed}),
            finished=1.7e9 + seed,
            reason="<b>broke</b>" if seed % 4 == 3 else None,
        )
        if seed % 4 < 2:
            record = record.model_copy(
                update={
                    "scores": (_score(500, 50 + seed % 50),),
                    "in_distribution": _score(10, 100),
                    "steps": 10,
                    "seconds": 1.0,
                }
            )
        yield record


def _write(directory, count):
    with Store.open(directory, write=True) as store:
        store.add(_records(count))
        store.add(_records(count, "random_machine(5, seed=1)"))
        store.add(_records(count, "random_machine(5, seed=2)", lr=0.5))


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Write the page of a store with so many runs of each of three tasks, and return how many records it read."""
    monkeypatch.setattr(many, "MANY", 20)
    real, read = Store.record, []

    def record(store, key):
        read.append(key)
        return real(store, key)

    def no_records(store, **equal):
        raise AssertionError("a page of many runs reads all records")

    def write(count):
        directory = tmp_path / str(count)
        _write(directory, count)
        read.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Store, "record", record)
            patch.setattr(Store, "records", no_records)
            made = report(directory, tmp_path / f"{count}.html", figures=tmp_path / f"figures-{count}")
        return made, len(read)

    return write


def test_the_page_grows_with_groups_and_not_with_runs(page):
    (small, few), (large, most) = page(100), page(400)
    assert (small.runs, large.runs) == (300, 1200)
    # one record of each group has its constant answer, and of failed ones some are named
    assert (few, most) == (3 + many.MOST_FAILED, 3 + many.MOST_FAILED)
    assert abs(large.path.stat().st_size - small.path.stat().st_size) < 1000


def test_means_are_those_of_the_runs(page):
    made, _ = page(40)
    with made.figures[0].open() as stream:
        rows = {row["task"]: row for row in csv.DictReader(stream)}
    assert rows.keys() == {"parity", "random_machine(5)"} | {row for row in rows if "random" in row}
    row = rows["parity"]
    scores = [0.0 if seed % 4 == 2 else 2 * (50 + seed % 50) / 100 - 1 for seed in range(40) if seed % 4 < 3]
    assert float(row["score_ood"]) == pytest.approx(statistics.fmean(scores))
    assert float(row["std_ood"]) == pytest.approx(statistics.pstdev(scores))
    assert float(row["score_id"]) == pytest.approx(2 / 3)
    assert [row[name] for name in ("runs", "done", "diverged", "failed")] == ["40", "20", "10", "10"]
    expected = constants_of(next(_records(1)))
    assert float(row["constant_ood"]) == expected["score_ood"] > 0
    text = made.path.read_text()
    assert re.search(r"<dt>runs</dt><dd>120</dd>", text)
    # what a store holds is never part of the page
    assert "<b>broke</b>" not in text
    assert "&lt;b&gt;broke" in text


def test_a_store_of_some_runs_has_the_page_that_shows_each(tmp_path, monkeypatch):
    monkeypatch.setattr(many, "MANY", 12)
    _write(tmp_path / "store", 4)
    report(tmp_path / "store", tmp_path / "page.html")
    assert 'id="list"' in (tmp_path / "page.html").read_text()
