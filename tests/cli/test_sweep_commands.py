"""`sweep`, `runs` and `store merge` from the command line: what they print, and how they refuse."""

import csv
import json

import pytest
from pyarrow import parquet

from statewise.runs import Record
from statewise.store import Store
from statewise.training.options import resolve
from tests.command import statewise

GRID = """
name = "small"
[[grid]]
task = "parity"
model = ["full", "rnn"]
hidden = 4
steps = 20
every = 10
late = 0
words = 50
probe_words = 20
test_lengths = [10, 20]
lr = [1e-3, 1e-2]
seed = { count = 3 }
"""
# it can be built for two symbols, as a grid is checked, and takes its worker down on a task of three
OWN_MODEL = """
import os
from torch import nn

class Net(nn.Module):
    def __init__(self, symbols, classes, hidden):
        super().__init__()
        if symbols > 2:
            os._exit(9)
        self.embedding, self.readout = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)

    def forward(self, tokens):
        return self.readout(self.embedding(tokens).cumsum(dim=1))
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    (folder / "grid.toml").write_text(GRID)
    done = statewise("sweep", folder / "grid.toml", "--store", folder / "runs", "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_a_sweep_reports_how_its_runs_stand(swept):
    folder, result = swept
    assert list(result) == ["name", "store", "total", "done", "failed", "diverged", "ran", "packs", "seconds"]
    assert {key: result[key] for key in ("total", "done", "failed", "diverged", "ran")} == {
        "total": 12,
        "done": 12,
        "failed": 0,
        "diverged": 0,
        "ran": 12,
    }
    again = json.loads(statewise("sweep", folder / "grid.toml", "--store", folder / "runs", "--json").stdout)
    assert (again["done"], again["ran"]) == (12, 0)
    shown = statewise("sweep", folder / "grid.toml", "--store", folder / "runs").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["runs", "done", "diverged", "failed", "took"]


def test_a_dry_run_counts_and_begins_nothing(swept, tmp_path):
    folder, _ = swept
    more = GRID.replace("count = 3", "count = 5").replace('"parity"', '["parity", "modular_addition(3)"]')
    (tmp_path / "more.toml").write_text(more.replace('"rnn"]', '"lstm"]'))
    # 6 of the runs of full are recorded
    for store, left in ((folder / "runs", 34), (tmp_path / "new", 40)):
        result = json.loads(statewise("sweep", tmp_path / "more.toml", "--store", store, "--dry-run", "--json").stdout)
        assert (result["total"], result["to_run"]) == (40, left)
        assert result["estimate_s"] > 0
        assert (result["measured"], result["timed"]) == (False, True)
    assert not (tmp_path / "new").exists()


def test_a_dry_run_after_like_runs_is_their_cost(tmp_path):
    (tmp_path / "grid.toml").write_text(
        '[[grid]]\ntask = "parity"\nmodel = "rnn"\nsteps = 1000\nseed = { count = 4 }\n'
    )
    options = resolve({"task": "parity", "model": "rnn", "steps": 1000})
    with Store.open(tmp_path / "runs", write=True) as store:
        store.add([Record(key=options.key(), status="diverged", config=options, steps=500, seconds=50.0)])
    asked = ("sweep", tmp_path / "grid.toml", "--store", tmp_path / "runs", "--workers", 1, "--dry-run", "--json")
    result = json.loads(statewise(*asked).stdout)
    assert (result["to_run"], result["measured"]) == (3, True)
    # a tenth of a second a step; the rest is for workers to start
    assert 300 <= result["estimate_s"] < 330


def test_runs_are_listed_filtered_and_written(swept, tmp_path):
    folder, _ = swept
    listed = json.loads(statewise("runs", folder / "runs", "--model", "rnn", "--limit", 0, "--json").stdout)
    assert listed["counts"] == {"done": 12}
    assert [row["model"] for row in listed["runs"]] == ["rnn"] * 6
    assert {row["loss"] for row in listed["runs"]} == {"squared"}
    for name in ("runs.csv", "runs.parquet", "runs.jsonl", "runs.jsonl.gz"):
        done = statewise("runs", folder / "runs", "--seed", 1, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["seed"] for row in rows] == ["1"] * 4
    assert parquet.read_table(tmp_path / "runs.parquet").column("key").to_pylist() == [row["key"] for row in rows]
    chosen = ["--key", rows[0]["key"][:10], "--out", tmp_path / "one.jsonl"]
    one = json.loads(statewise("runs", folder / "runs", *chosen).stdout)
    assert json.loads(statewise("runs", folder / "runs", *chosen, "--json").stdout) == one
    assert resolve(one["config"]).key() == rows[0]["key"] == one["key"]
    assert json.loads((tmp_path / "one.jsonl").read_text()) == one
    shown = statewise("runs", folder / "runs", "--limit", 2).stdout.splitlines()
    assert "12 of 12 runs, the last 2 of them here" in shown[1]
    assert shown[2].split()[:6] == ["key", "status", "train", "constant", "long", "constant"]
    assert len(shown) == 5
    assert all("squared" in line or "cross-entropy" in line for line in shown[3:])
    assert "0 of 12 runs" in statewise("runs", folder / "runs", "--model", "none").stdout


def test_stores_runs_and_files_are_merged(swept, tmp_path):
    folder, _ = swept
    statewise("runs", folder / "runs", "--out", tmp_path / "runs.jsonl.gz")
    options = ["--hidden", 4, "--steps", 5, "--late", 0]
    trained = statewise("train", "--task", "parity", "--model", "full", *options, "--out", tmp_path / "run")
    assert trained.returncode == 0, trained.stderr
    done = statewise(
        "store", "merge", tmp_path / "all", tmp_path / "runs.jsonl.gz", folder / "runs", tmp_path / "run", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["added"].values()) == [12, 0, 1]
    assert json.loads(done.stdout)["total"] == 13
    with Store.open(folder / "runs") as one, Store.open(tmp_path / "all") as all_runs:
        assert one.keys() < all_runs.keys()
        assert next(one.records()) in list(all_runs.records())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[grid]]\ntask = "parity"\nmodel = "full"\nlr = [1e-3, nan]', "lr"),
        ('[[grid]]\ntask = "parity"\nmodel = "full"\ncolour = 3', "colour"),
        ('[[grid]]\ntask = "parity"\nmodel = "full"\nseed = { count = 1000000001 }', "at most"),
        ('[[grid]]\ntask = "parity"', "no model"),
        ('[[grid]]\ntask = "parity"\nmodle = "full"', 'did you mean "model"'),
        ('[[grid]]\ntask = ["parity", "modular_additon(5)"]\nmodel = "full"', 'did you mean "modular_addition"'),
        ('[[grid]]\ntask = "parity"\nmodel = ["full", "fulll"]', 'did you mean "full"'),
        ('[[grid]]\ntask = "parity"\nmodel = "nowhere.py:Net"', "nowhere.py"),
        ('[[grid]]\ntask = "parity"\nmodel = "block(3)"\nhidden = 16', "16"),
        ('[[grid]]\ntask = "parity"\nmodel = "full"\nlr = -1.0', "lr"),
        ('[[grid]]\ntask = "parity"\nmodel = "full"\nsteps = 0', "steps"),
        ('[[grid]]\ntask = ["parity", "modular_addition(1)"]\nmodel = "full"', "at least 2"),
        ('[[grid]]\ntask = "parity"\nmodel = ["full", "transformer(1)"]\ntest_lengths = [10, 2000]', "at most 1024"),
        ("", "nothing to run"),
        ('name = "it\'s \\"quoted\\""\n[[grid]]\ntask = "parity"\nmodel = "full"', "rename it"),
        ('[[grid]]\ntask = "nowhere.dot"\nmodel = "full"', "nowhere.dot"),
    ],
)
def test_a_wrong_grid_is_one_sentence_and_begins_no_store(tmp_path, text, sentence):
    (tmp_path / "grid.toml").write_text(text)
    done = statewise("sweep", tmp_path / "grid.toml", "--store", tmp_path / "runs")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_other_mistakes_are_one_sentence(swept, tmp_path):
    folder, _ = swept
    grid, runs = folder / "grid.toml", folder / "runs"
    (tmp_path / "bad.jsonl").write_text('{"a": 1}\n')
    with Store.open(runs) as store:
        record = next(store.records()).to_dict()
    for name, change in (
        ("forged", {"key": "0" * 32}),
        ("status", {"status": "<b>x"}),
        ("score", {"scores": [{"length": 10, "score": 99}], "in_distribution": None, "loss": None}),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record | change) + "\n")
    for arguments, sentence in (
        (["sweep", grid, "--store", runs, "--engine", "rey"], 'did you mean "ray"'),
        (["sweep", grid, "--store", runs, "--engine", "rey", "--dry-run"], 'did you mean "ray"'),
        (["sweep", grid, "--store", runs, "--workers", 0], "at least 1"),
        (["sweep", grid, "--store", runs, "--memory", -1], "0 or more"),
        (["runs", tmp_path / "none"], "holds no store"),
        (["runs", runs, "--out", tmp_path / "runs.txt"], "choose one of these endings"),
        (["runs", runs, "--key", "zz"], "begins with"),
        (["runs", runs, "--status", "donee"], 'did you mean "done"'),
        (["runs", runs, "--limit", -1], "at least 0"),
        (["store", "merge", tmp_path / "new", tmp_path / "bad.jsonl"], "has no status"),
        (["store", "merge", tmp_path / "new", tmp_path / "forged.jsonl"], "is not that of its config"),
        (["store", "merge", tmp_path / "new", tmp_path / "status.jsonl"], "has status '<b>x'; expected 'done'"),
        (["store", "merge", tmp_path / "new", tmp_path / "score.jsonl"], "score 99; expected less than or equal to 1"),
        (["store", "merge", runs, runs], "both taken from and into"),
        (["store", "merge", runs, tmp_path / "none"], "does not exist"),
        (["store", "merge", runs, tmp_path / "bad.jsonl"], "has no status"),
        (["reproduce", "table-adition", "--store", runs], 'did you mean "table-addition"'),
    ):
        done = statewise(*arguments)
        assert done.returncode == 2, arguments
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
    # what cannot be read begins no store
    assert not (tmp_path / "new").exists()


def test_a_failed_run_is_shown_by_the_exit_code_and_with_its_reason(tmp_path):
    (tmp_path / "my_models.py").write_text(OWN_MODEL)
    model = f'"{tmp_path / "my_models.py"}:Net"'
    grid = GRID.replace('["full", "rnn"]', model).replace("[1e-3, 1e-2]", "1e-3").replace("count = 3", "count = 1")
    (tmp_path / "grid.toml").write_text(grid.replace('"parity"', '["parity", "modular_addition(3)"]'))
    done = statewise("sweep", tmp_path / "grid.toml", "--store", tmp_path / "runs", "--json")
    assert done.returncode == 1, done.stderr
    assert {name: json.loads(done.stdout)[name] for name in ("total", "done", "failed")} == {
        "total": 2,
        "done": 1,
        "failed": 1,
    }
    row = json.loads(statewise("runs", tmp_path / "runs", "--status", "failed", "--json").stdout)["runs"][0]
    assert (row["status"], row["task"], row["steps"]) == ("failed", "modular_addition(3)", None)
    assert "exit code 9, 4 times" in row["reason"]
    assert row["reason"] in statewise("runs", tmp_path / "runs", "--status", "failed").stdout
    statewise("runs", tmp_path / "runs", "--out", tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open() as file:
        written = list(csv.DictReader(file))
    assert {row["status"]: row["reason"] for row in written} == {"done": "", "failed": row["reason"]}
    # the source of a user's own model is part of a run's identity
    assert len({row["source"] for row in written} - {""}) == 1
    again = statewise("sweep", tmp_path / "grid.toml", "--store", tmp_path / "runs")
    assert again.returncode == 1
    assert "--status failed" in again.stdout
    assert "--retry-failed" in again.stdout


def test_a_dry_run_needs_no_store():
    done = statewise("reproduce", "figure4", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"]["to_run"] == 5


def test_what_is_computed_has_nothing_to_dry_run():
    done = statewise("reproduce", "parity", "--dry-run")
    assert done.returncode == 0
    assert "nothing to train" in done.stdout


def test_ray_is_started_on_the_spot(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    done = statewise("sweep", tmp_path / "grid.toml", "--store", tmp_path / "runs", "--engine", "ray", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["done"] == 12
