"""The benchmark of the drop-in layer: equal terms, records that are resumed, and the page that they make."""

from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return __import__("drop_in")


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return __import__("make_drop_in")


def test_the_page_is_that_of_the_records(made):
    assert made.page() == made.PAGE.read_text(encoding="utf-8")


def test_every_model_has_all_its_runs_and_about_the_same_size(benchmark, made):
    records = made.read_records()
    for task in made.TASKS:
        kept = made.standing([record for record in records if record["task"] == task])
        assert list(kept) == list(benchmark.MODELS)
        target = kept["lstm"][0]["parameters"]
        for runs in kept.values():
            assert sorted(run["seed"] for run in runs) == list(range(benchmark.SEEDS))
            assert 0.6 < runs[0]["parameters"] / target < 1.25


def test_every_model_reads_both_tasks_and_sees_no_later_character(benchmark):
    for model in benchmark.MODELS:
        network = benchmark.Network("text", model, 16).eval()
        tokens = torch.randint(benchmark.SYMBOLS, (2, 9), generator=torch.Generator().manual_seed(0))
        other = torch.cat([tokens[:, :5], 63 - tokens[:, 5:]], dim=1)
        torch.testing.assert_close(network(tokens)[:, :5], network(other)[:, :5])
        assert benchmark.Network("digits", model, 16)(torch.rand(3, 8, 8)).shape == (3, 10)


def test_runs_that_are_there_are_not_repeated(benchmark, monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "RECORDS", tmp_path / "records.jsonl")
    monkeypatch.setattr(benchmark, "MODELS", {"gru": torch.nn.GRU})
    monkeypatch.setattr(benchmark, "LSTM_WIDTH", {"text": 8})
    said = []
    # a slow machine changes nothing: the second call has nothing to do
    monkeypatch.setattr(benchmark, "width_of", lambda task, model: 8)
    for _ in range(2):
        benchmark.run_all({"text": 2}, said.append)
    assert len(said) == len(benchmark.RATES) + benchmark.SEEDS - 1
    records = benchmark.read_records()
    assert len(records) == len(said)
    assert {record["seed"] for record in records} == {0, 1, 2}


def test_images_are_split_once(benchmark):
    pytest.importorskip("sklearn", reason="needs scikit-learn; install the extra bench")
    parts = benchmark.digits()
    assert [len(parts[name][0]) for name in ("train", "validation", "test")] == [1000, 300, 497]
    assert all(0 <= x.min() <= x.max() <= 1 for x, _ in parts.values())
