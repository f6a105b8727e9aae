"""What every engine owes: the same tests for worker processes and for a real Ray."""

import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from statewise.runs import PlannedRun, execute_one
from statewise.store import Store
from statewise.sweep import Limits, make_jobs
from statewise.sweep.cluster import RayEngine
from statewise.sweep.local import LocalEngine
from statewise.sweep.schedule import not_done
from statewise.training.options import resolve
from tests.command import ROOT, started
from tests.command import until as wait_for

from .fakes import fake_work
from .jobs import SMALL, by_key, fake_jobs, job, killed_jobs, numbers, sweep_all, training_jobs
from .processes import COORDINATOR, finished, recorded

pytestmark = [
    pytest.mark.timeout(1200),
    # Ray leaves files and sockets to its own processes
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@contextmanager
def _ray_head(folder):
    """Start the head of a cluster, which ends with the test."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).with_name("ray"), "start", "--head", f"--port={port}", "--num-cpus=2"]
    command += ["--include-dashboard=false", "--disable-usage-stats", "--block", f"--temp-dir={folder}"]
    command += ["--node-ip-address=127.0.0.1", "--object-store-memory=100000000"]
    log = Path(folder) / "start.log"
    # workers import the fakes, and the code under test, by their names, and are not to starve beside other processes
    given = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "RAY_worker_niceness": "0"}
    with log.open("w") as stream, subprocess.Popen(command, stdout=stream, stderr=stream, env=given) as process:
        try:
            wait_for(lambda: "Ray runtime started" in log.read_text() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def cluster():
    """A real Ray on this machine, joined by its address, as one on several machines would be."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    # it asks for a token; both sides have it from their environment
    with _ray_head(folder) as address:
        yield address
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["local", "ray"])
def engine_of(request, tmp_path):
    """A function that starts an engine with given limits, whose workers do what fakes ask for."""
    if request.param == "local":
        return lambda limits: LocalEngine(2, tmp_path / "work", limits, fake_work)
    address = request.getfixturevalue("cluster")
    return lambda limits: RayEngine(2, address, secrets.token_hex(8), limits, fake_work)


def _sweep(engine_of, directory, jobs, limits=None):
    return sweep_all(directory, jobs, engine_of(limits or Limits()))


def test_each_run_is_recorded_as_if_it_had_run_alone(engine_of, tmp_path):
    jobs = training_jobs()
    wrong, wild = job("modular_addition(3)", "block(3)"), job("parity", "full", lr=1e30, readout="plain")
    records = _sweep(engine_of, tmp_path / "store", [*jobs, wrong, wild])
    assert records.keys() == {job.key for job in [*jobs, wrong, wild]}
    # what cannot be built fails at once with its sentence; a divergence is an outcome like any other
    assert records[wrong.key].status == "failed"
    assert "block" in records[wrong.key].reason
    assert (records[wild.key].status, records[wild.key].scores) == ("diverged", ())
    for index in (0, len(jobs) - 2, len(jobs) - 1):
        options = jobs[index].options
        plan = PlannedRun(options, tmp_path / f"alone-{index}")
        alone = execute_one(plan, lambda member, metrics, steps: None).record
        ours = records[jobs[index].key]
        assert ours.config == options
        assert ours.loss == pytest.approx(alone.loss, rel=1e-4)
        assert [score.correct for score in ours.scores] == [score.correct for score in alone.scores]
    # an ensemble shares its seconds
    assert [records[jobs[index].key].shared for index in (0, -1)] == [4, 1]
    with Store.open(tmp_path / "store") as store:
        kept = store.weights(jobs[0].key)
        assert kept is not None
        assert kept["readout"].shape == (2, 4)


NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, symbols, classes, hidden, layers=1):
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)

    def forward(self, tokens):
        return self.read(self.embed(tokens).cumsum(dim=1).tanh())
"""


@pytest.mark.parametrize("then", ["gone", "changed"])
def test_a_class_of_ones_own_goes_to_workers_as_its_text(engine_of, tmp_path, monkeypatch, then):
    """A node may not have the file, and a file may change while a sweep goes on."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "net.py"
    file.write_text(NET)
    specs = ["net.py:Net(layers=2)", "net.py:Net", "examples.own_model:RunningMean"]
    options = [resolve({"task": "parity", "model": spec, **SMALL}) for spec in specs]
    jobs = make_jobs(options)
    alone = execute_one(PlannedRun(jobs[0].options, own=jobs[0].own), lambda member, metrics, steps: None).record
    file.unlink() if then == "gone" else file.write_text(NET.replace("tanh", "sin"))
    monkeypatch.chdir(tmp_path.parent)
    records = _sweep(engine_of, tmp_path / "store", jobs)
    assert [(records[job.key].status, records[job.key].reason) for job in jobs] == [("done", None)] * 3
    # the recorded name is the one that was written, and the recorded numbers are those of the text that was read
    assert [records[job.key].config.model for job in jobs] == specs
    assert records[jobs[0].key].loss == alone.loss
    source = records[jobs[0].key].config.source
    assert source == hashlib.sha256(NET.encode()).hexdigest()
    with Store.open(tmp_path / "store") as store:
        assert store.text(source) == NET.encode()


def test_a_run_that_takes_its_worker_down_fails_alone(engine_of, tmp_path):
    jobs = [*fake_jobs(7), job("fake: crash", seed=3), *fake_jobs(4, first=20)]
    records = _sweep(engine_of, tmp_path / "store", jobs)
    statuses = {record.status for key, record in records.items() if key != jobs[7].key}
    assert len(records) == len(jobs)
    assert statuses == {"done"}
    assert records[jobs[7].key].status == "failed"
    assert "4 times" in records[jobs[7].key].reason


# a run that does nothing is attempted up to four times, and each time it has this long
_SECONDS = 5.0


def test_a_pack_past_its_time_is_ended(engine_of, tmp_path):
    jobs = [*fake_jobs(3), job("fake: hang", seed=9)]
    records = _sweep(engine_of, tmp_path / "store", jobs, Limits(seconds=_SECONDS))
    assert records[jobs[3].key].status == "failed"
    assert f"longer than {_SECONDS:g} s" in records[jobs[3].key].reason
    assert [records[job.key].status for job in jobs[:3]] == ["done"] * 3


def test_a_pack_past_its_memory_is_ended(engine_of, tmp_path):
    jobs = [*fake_jobs(3), job("fake: allocate 1500", seed=9)]
    records = _sweep(engine_of, tmp_path / "store", jobs, Limits(gigabytes=1.0))
    assert records[jobs[3].key].status == "failed"
    assert "emory" in records[jobs[3].key].reason
    assert [records[job.key].status for job in jobs[:3]] == ["done"] * 3


def test_an_extended_grid_runs_nothing_twice(engine_of, tmp_path):
    directory = tmp_path / "store"
    first = _sweep(engine_of, directory, fake_jobs(5))
    with Store.open(directory) as store:
        left = not_done(store, fake_jobs(8))
    assert len(left) == 3
    both = _sweep(engine_of, directory, left)
    assert len(both) == 8
    assert {key: both[key] for key in first} == first


def test_a_killed_coordinator_of_a_cluster_records_each_run_once(cluster, tmp_path):
    directory, gate = tmp_path / "store", tmp_path / "gate"
    for _ in range(2):
        before = recorded(directory)
        with started([*COORDINATOR, directory, gate, cluster]) as process:
            wait_for(lambda before=before: recorded(directory) > min(before, 198), process)
            process.kill()
            process.communicate()
    assert 0 < recorded(directory) < 200
    gate.touch()
    done = finished([*COORDINATOR, directory, gate, cluster])
    assert done.returncode == 0, done.stderr
    jobs = killed_jobs(gate)
    theirs = sweep_all(tmp_path / "untouched", jobs, LocalEngine(1, tmp_path / "work", Limits(), fake_work))
    with Store.open(directory) as store:
        ours = by_key(store)
    assert len(ours) == 200
    assert {key: numbers(record) for key, record in ours.items()} == {
        key: numbers(record) for key, record in theirs.items()
    }
