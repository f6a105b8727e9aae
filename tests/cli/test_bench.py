import json

import pytest

from statewise.bench import BENCHMARKS, find_benchmark
from statewise.bench.sweep_overhead import measure
from statewise.bench.timing import Row, best_times
from statewise.commands.bench import bench
from statewise.errors import RunError
from tests.command import statewise


def test_a_benchmark_prints_its_rows_and_keeps_them(tmp_path):
    file = tmp_path / "sampling.json"
    done = statewise("bench", "sampling", "--out", file, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["name"] == "sampling"
    for row in result["rows"]:
        assert row.keys() == {"case", "rival", "ours_s", "rival_s", "ratio", "target"}
        assert row["ratio"] == pytest.approx(row["rival_s"] / row["ours_s"])
    assert json.loads(file.read_text()) == result


def test_benchmarks_are_listed_and_unknown_ones_refused():
    assert "sampling" in json.loads(statewise("bench", "--json").stdout)["benchmarks"]
    done = statewise("bench", "samplin")
    assert done.returncode == 2
    assert 'did you mean "sampling"' in done.stderr


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_function(name):
    assert callable(find_benchmark(name))


def test_times_are_the_best_of_turns():
    calls = []
    times = best_times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, least_s=1e-9)
    assert set(times) == {"a", "b"}
    assert calls == ["a", "a", "b", "b"] + 3 * ["a", "b"]
    assert Row("x", "y", 0.5, 2.0).ratio == 4.0


def test_the_cost_of_a_sweep_is_taken_once_all_runs_are_recorded():
    swept, kept, listed = measure(runs=40)
    assert swept.case.startswith("40 null runs")
    assert 0 < kept.ours_s < kept.rival_s
    assert " GB, the aim 0.2 GB: " in kept.sentence()
    assert " ms, the aim 1e+03 ms: " in listed.sentence()


def test_a_directory_in_place_of_a_file_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("statewise.commands.bench.find_benchmark", lambda name: lambda: pytest.fail("it was measured"))
    with pytest.raises(RunError, match="is a directory; give the name of a file"):
        bench("polish", out=tmp_path)
