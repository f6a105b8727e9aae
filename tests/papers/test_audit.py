"""The audit: what tests and proofs say of the same networks, on made records and on the committed ones."""

import json
import math
from pathlib import Path

import pytest

from statewise.commands.reproduce import reproduce
from statewise.papers import read_paper, table_of
from statewise.papers.audit import (
    ALL_LEVELS,
    FAR,
    PAPERS,
    TESTED,
    TRAININGS,
    audit_rows,
    audited,
    headings,
    proven_text,
)
from statewise.runs.record import RecordedVerdict
from statewise.store import Store, read_records
from tests.papers.synthetic import record

PAPER = read_paper()
RECORDS = Path(__file__).parents[2] / "results" / "reproduction" / "audit.jsonl.gz"
REFUTED = {"status": "refuted", "length": 44, "horizon": 11, "method": "powers of a word"}
PROVEN = {"status": "proven", "method": "orbit"}
POLISHED = {
    "status": "converged",
    "scores": [{"length": length, "score": 1.0} for length in TESTED],
    "verdict": {"status": "horizon", "length": 10**13, "horizon": 10**13, "method": "growth of errors"},
    "exact": PROVEN,
}


def runs(reading="statewise", model="full"):
    rows = [row for row in PAPER.plan("audit", "quick") if (row.reading, row.model) == (reading, model)]
    return [run for row in rows for cell in row.cells for run in cell.runs]


def networks_of(records):
    table = table_of(PAPER, "audit", "quick", records)
    return table, audited(table, records)


def test_every_level_is_judged_on_every_task_with_five_seeds_that_no_other_table_has() -> None:
    for preset in ("quick", "paper"):
        rows = PAPER.plan("audit", preset)
        levels = {"full", "cp(64)", "block(2)", "block(8)", "rotation", "diagonal"}
        assert {(row.model, row.reading) for row in rows} == {(m, r) for m in levels for r in ("stated", "statewise")}
        assert len({tuple(cell.column for cell in row.cells) for row in rows}) == 1
        found = PAPER.runs("audit", preset)
        assert all(len(cell.runs) == len({run.seed for run in cell.runs}) == 5 for row in rows for cell in row.cells)
        assert all(run.certify and set(TESTED) <= set(run.test_lengths) for run in found)
        others = {run.seed for name in PAPER.grids if name != "audit" for run in PAPER.runs(name, preset)}
        assert not others & {run.seed for run in found}


def test_the_audited_protocol_is_the_paper_s_and_ours_is_the_recipe_s() -> None:
    for run in PAPER.runs("audit", "quick"):
        if run.recipe == "stated":
            expected = (64, 2, 10, "constant", "plain", "cross-entropy", False)
        else:
            expected = (64, 2, 10, "cosine", "normalised", run.loss, True)
        assert (run.batch, run.shortest, run.longest, run.schedule, run.readout, run.loss, run.polish) == expected


def test_a_network_that_is_right_in_tests_and_refuted_counts_as_both() -> None:
    planned = runs()
    records = [record(run, 1.0 if n < 3 else 0.5, verdict=REFUTED) for n, run in enumerate(planned)]
    table, networks = networks_of(records)
    row = audit_rows(table, networks, "statewise")[0]
    assert (row.runs, row.networks, row.right[PAPERS], row.refuted_right[PAPERS]) == (len(planned), len(planned), 3, 3)
    assert (row.refuted, row.wrong_at, row.proven_to, row.proven) == (len(planned), 44, 11, 0)
    assert audit_rows(table, networks, "statewise")[-1].model == ALL_LEVELS
    assert all(len(row.texts()) == len(headings(t)) for t in TRAININGS for row in audit_rows(table, networks, t))


def test_medians_of_proven_lengths_count_networks_without_a_proof_and_those_proven_for_all() -> None:
    none = {"status": "refuted", "length": 2, "method": "all words"}
    for verdicts, median in (([none, none, REFUTED], 0), ([PROVEN, PROVEN, none], math.inf), ([PROVEN, REFUTED], 11)):
        records = [record(run, 0.0, verdict=verdict) for run, verdict in zip(runs(), verdicts, strict=False)]
        table, networks = networks_of(records)
        assert audit_rows(table, networks, "statewise")[0].proven_to == median
    assert (proven_text(0), proven_text(math.inf), proven_text(11)) == ("–", "all lengths", "11")


def test_a_polish_that_did_not_converge_leaves_no_polished_network() -> None:
    first, second, *_ = runs()
    refused = {"status": "refused", "reason": "training diverged"}
    records = [
        record(first, 1.0, verdict=REFUTED, polished=POLISHED),
        record(second, 1.0, verdict=REFUTED, polished=refused),
    ]
    table, networks = networks_of(records)
    row = audit_rows(table, networks, "polished")[0]
    assert (row.networks, row.exact, row.refuted, row.proven_to) == (1, 1, 0, 10**13)
    assert row.right == {10: 1, PAPERS: 1, FAR: 1}


def test_a_run_that_diverged_has_no_network() -> None:
    table, networks = networks_of([record(runs()[0], 0.0, status="diverged", scores=[])])
    assert networks == []
    assert audit_rows(table, networks, "statewise")[0].texts()[1] == f"0 of {len(runs())}"


def test_a_test_that_contradicts_a_proof_fails_the_command(tmp_path: Path) -> None:
    planned = PAPER.runs("audit", "quick")
    for name, verdict, failed in (("held", REFUTED, False), ("broken", PROVEN, True)):
        more = [{"verdict": verdict} | ({"polished": POLISHED} if run.polish else {}) for run in planned]
        with Store.open(tmp_path / name, write=True) as store:
            store.add([record(run, 0.5, **each) for run, each in zip(planned, more, strict=True)], {})
        result = reproduce("audit", store=tmp_path / name, out=tmp_path / f"{name}-out")
        assert result.failed == failed
        assert len(result.to_dict()["parts"]) == len(planned) + len(planned) // 2
        json.dumps(result.to_dict(), allow_nan=False)
    text = str(result)
    assert "as trained by the paper's protocol" in text
    assert "in whole numbers" in text
    files = {file.name for file in (tmp_path / "held-out").iterdir()}
    assert {"audit.png", "audit.svg", "audit-networks.csv", "audit.jsonl.gz"} <= files
    assert "all lengths" in (tmp_path / "held-out" / "audit.svg").read_text()


@pytest.fixture(scope="module")
def committed():
    records = list(read_records(RECORDS))
    return networks_of(records)


def test_no_committed_test_contradicts_a_proof(committed) -> None:
    _, networks = committed
    assert not [network.key for network in networks if network.contradicted]


def test_no_committed_wrong_sequence_is_as_short_as_what_is_proven(committed) -> None:
    _, networks = committed
    verdicts = [v for network in networks for v in (network.verdict, network.exact) if v is not None]
    assert all(v.wrong_at > v.proven_to for v in verdicts if v.wrong_at is not None)


def test_every_committed_run_is_a_planned_one_with_a_verdict(committed) -> None:
    _, networks = committed
    keys = [one.key for one in read_records(RECORDS)]
    assert len(keys) == len(set(keys))
    assert set(keys) <= {run.key() for run in PAPER.runs("audit", "quick")}
    assert {network.key for network in networks} == set(keys)
    assert {network.training for network in networks} == set(TRAININGS)


def test_what_a_verdict_proves_and_refutes_follows_from_its_status() -> None:
    found = [RecordedVerdict(**verdict) for verdict in (PROVEN, REFUTED, POLISHED["verdict"], {"status": "unknown"})]
    assert [verdict.proven_to for verdict in found] == [math.inf, 11, 10**13, 0]
    assert [verdict.wrong_at for verdict in found] == [None, 44, None, None]
