"""Networks too large for a store are judged before their weights are dropped."""

import pytest

import statewise as sw
from statewise.report.certified import RunVerdict, verdicts_of
from statewise.report.entries import read_entries
from statewise.report.results import results_of
from statewise.runs.record import Record, RecordedVerdict
from statewise.store import Store
from statewise.sweep import EngineOptions, run_grid
from statewise.sweep.judging import judged
from statewise.theory import network_of
from statewise.theory.certify import certify
from statewise.training import resolve

LARGE = {"hidden": 64, "seeds": 1, "steps": 3, "lengths": [10], "test_sequences": 20}


def test_a_large_network_has_a_verdict_though_its_weights_are_not_kept(tmp_path):
    # 24 matrices of 64 x 64 are 384 KiB
    found = sw.compare(["symmetric(4)"], ["full", "lstm"], store=tmp_path / "runs", **LARGE)
    assert [cell.verdict for cell in found.cells] == ["refuted", None]
    with Store.open(tmp_path / "runs") as store:
        records = list(store.records())
        assert all(store.weights(record.key) is None for record in records if record.config.model == "full")
    verdicts = {record.config.model: record.verdict for record in records}
    assert verdicts["full"].status == "refuted"
    assert verdicts["full"].length >= 2
    assert verdicts["lstm"] is None


def test_a_verdict_is_part_of_the_record_and_of_the_page(tmp_path):
    run = sw.train("parity", "full", hidden=4, steps=300)
    record = judged(run.record.with_key(run.record.config.key()), run)
    assert record.verdict.status in ("horizon", "refuted")
    assert Record.model_validate_json(record.to_json()) == record
    assert "verdict" not in run.record.to_dict()
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add([record])
        entries = read_entries(store.records())
        decided = verdicts_of(store, entries, results_of(entries))
    assert run.record.score_id == 1
    assert decided[record.key] == RunVerdict(record.verdict.status, record.verdict.length, decided[record.key].wrong)


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_what_is_no_product_of_matrices_has_no_verdict(model):
    run = sw.train("parity", model, hidden=4, steps=2)
    assert judged(run.record, run).verdict is None


def test_sequences_without_a_machine_have_no_verdict():
    pairs = [(f"{n:05b}", f"{n:b}".count("1") % 2) for n in range(32)]
    run = sw.train(words=pairs, model="full", hidden=4, steps=2, shares=(0.6, 0.2, 0.2))
    assert judged(run.record, run).verdict is None


def test_verdicts_of_records_are_checked():
    with pytest.raises(ValueError, match="status"):
        RecordedVerdict(status="perhaps")


AUDITED = {"task": "modular_addition(3)", "model": "full", "hidden": 8, "steps": 300, "every": 300, "words": 20}
AUDITED |= {"test_lengths": (10,), "polish": True, "certify": 5_000}


def test_verdicts_that_nobody_asks_for_leave_a_run_s_identity_as_it_was():
    asked = resolve(AUDITED)
    plain = asked.change(certify=0)
    assert "certify" not in plain.to_dict()
    assert plain.key() == resolve({name: value for name, value in AUDITED.items() if name != "certify"}).key()
    assert len({plain.key(), asked.key(), asked.change(certify=6_000).key()}) == 3


def test_a_run_that_asks_for_verdicts_has_them_alone_and_in_a_sweep(tmp_path):
    alone = sw.train(config=AUDITED, out=tmp_path / "run")
    run_grid(tmp_path / "store", [resolve(AUDITED)], EngineOptions(workers=1))
    with Store.open(tmp_path / "store") as store:
        (swept,) = store.records()
    for record in (alone.record, swept, sw.load(tmp_path / "run").record):
        same = certify(network_of(alone.model), alone.machine, alone.shortest, work=5_000)
        assert (record.verdict.status, record.verdict.method) == (same.status, same.method)
        assert record.verdict.horizon == same.horizon
        polished = record.polished
        assert polished.status == "converged"
        assert polished.verdict.proven_to >= polished.horizon > 10**9
        assert polished.exact.status == "proven"
    assert "refuted" in str(alone)
    # what has a verdict is not judged again
    again = sw.train(config=AUDITED, out=tmp_path / "run")
    assert again.record == alone.record
