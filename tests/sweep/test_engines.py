"""What every engine owes: the same tests for worker processes and for a real Ray."""

import contextlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from statewise.errors import StoreError
from statewise.runs.run import run
from statewise.store import Store
from statewise.sweep.cluster import RayEngine
from statewise.sweep.engine import Limits
from statewise.sweep.local import LocalEngine
from statewise.sweep.packs import Job
from statewise.sweep.schedule import not_done
from statewise.training.assemble import build_plan, build_training
from tests.command import STATEWISE

from .jobs import SMALL, job, null_jobs, numbers, sweep_all, training_jobs

pytestmark = [
    pytest.mark.timeout(600),
    # Ray leaves files and sockets to its own processes
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """A real Ray on this machine, joined by its address, as one on several machines would be."""
    # the cluster asks for a token; both sides have it from their environment, which Ray reads when it is imported
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "token")
    patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = Path(sys.executable).with_name("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    start = [ray, "start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false"]
    start += ["--disable-usage-stats", "--block", f"--temp-dir={folder}", "--node-ip-address=127.0.0.1"]
    start += ["--object-store-memory=100000000"]
    with (Path(folder) / "start.log").open("w") as log:
        process = subprocess.Popen(start, stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while "Ray runtime started" not in (Path(folder) / "start.log").read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=60)
    patch.undo()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["local", "ray"])
def engine_of(request, tmp_path):
    """Gives a function that builds an engine with given limits."""
    if request.param == "local":
        return lambda limits: LocalEngine(2, tmp_path / "work", limits)
    address = request.getfixturevalue("cluster")
    return lambda limits: RayEngine(2, address, secrets.token_hex(8), limits)


def _sweep(engine_of, directory, jobs, limits=None):
    engine = engine_of(limits or Limits())
    try:
        return sweep_all(directory, jobs, engine)
    finally:
        engine.close()


def test_each_run_is_recorded_as_if_it_had_run_alone(engine_of, tmp_path):
    jobs = training_jobs()
    wrong, wild = job("modular_addition(3)", "block(3)"), job("parity", "full", lr=1e30, readout="plain")
    records = _sweep(engine_of, tmp_path / "store", [*jobs, wrong, wild])
    assert records.keys() == {job.key for job in [*jobs, wrong, wild]}
    # what cannot be built fails at once with its sentence; a divergence is an outcome like any other
    assert records[wrong.key]["status"] == "failed"
    assert "block" in records[wrong.key]["reason"]
    assert numbers(records[wild.key])[:2] == ("diverged", [])
    for index in (0, len(jobs) - 2, len(jobs) - 1):
        config = jobs[index].config
        directory = tmp_path / f"alone-{index}"
        alone = run(build_training(config), build_plan(config), config, directory, lambda look, steps: None)
        ours = records[jobs[index].key]
        assert ours["config"] == config
        assert ours["loss"] == pytest.approx(alone["loss"], rel=1e-4)
        assert [score["correct"] for score in ours["scores"]] == [score["correct"] for score in alone["scores"]]
    with Store.open(tmp_path / "store") as store:
        kept = store.weights(jobs[0].key)
        assert kept is not None
        assert kept["readout"].shape == (2, 4)


def test_a_run_that_takes_its_worker_down_fails_alone(engine_of, tmp_path):
    jobs = [*null_jobs(7), job("null(crash=true)", seed=3), *null_jobs(4, first=20)]
    records = _sweep(engine_of, tmp_path / "store", jobs)
    statuses = {record["status"] for key, record in records.items() if key != jobs[7].key}
    assert len(records) == len(jobs)
    assert statuses == {"done"}
    assert records[jobs[7].key]["status"] == "failed"
    assert "4 times" in records[jobs[7].key]["reason"]


def test_a_pack_past_its_time_is_ended(engine_of, tmp_path):
    jobs = [*null_jobs(3), job("null(seconds=60)", seed=9)]
    records = _sweep(engine_of, tmp_path / "store", jobs, Limits(seconds=2.0))
    assert records[jobs[3].key]["status"] == "failed"
    assert "longer than 2 s" in records[jobs[3].key]["reason"]
    assert [records[job.key]["status"] for job in jobs[:3]] == ["done"] * 3


def test_a_pack_past_its_memory_is_ended(engine_of, tmp_path):
    jobs = [*null_jobs(3), job("null(megabytes=3000, seconds=3)", seed=9)]
    records = _sweep(engine_of, tmp_path / "store", jobs, Limits(gigabytes=1.0))
    assert records[jobs[3].key]["status"] == "failed"
    assert "emory" in records[jobs[3].key]["reason"]
    assert [records[job.key]["status"] for job in jobs[:3]] == ["done"] * 3


def test_an_extended_grid_runs_nothing_twice(engine_of, tmp_path):
    directory = tmp_path / "store"
    first = _sweep(engine_of, directory, null_jobs(5))
    with Store.open(directory) as store:
        left = not_done(store, null_jobs(8))
    assert len(left) == 3
    both = _sweep(engine_of, directory, left)
    assert len(both) == 8
    assert {key: both[key] for key in first} == first


def test_a_killed_coordinator_of_a_cluster_records_each_run_once(cluster, tmp_path):
    file, directory = tmp_path / "grid.toml", tmp_path / "store"
    options = "".join(f"{key} = {list(v) if isinstance(v, tuple) else v}\n" for key, v in SMALL.items())
    file.write_text(
        f'[[grid]]\ntask = "null(seconds=0.1)"\nmodel = "full"\n{options}seed = {{ count = 60 }}\n'
        f'[[grid]]\ntask = "parity"\nmodel = ["full", "rnn"]\n{options}seed = {{ count = 2 }}\n'
    )
    asked = [*STATEWISE, "sweep", str(file), "--store", str(directory), "--json"]
    asked += ["--engine", "ray", "--ray-address", cluster]
    recorded = 0
    for _ in range(2):
        process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline, before = time.monotonic() + 120, recorded
        while recorded == before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
            if (directory / "runs.sqlite").exists():
                with contextlib.suppress(StoreError), Store.open(directory) as store:
                    recorded = sum(store.counts().values())
        process.kill()
        process.communicate()
        assert before < recorded < 64
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    alone = LocalEngine(1, tmp_path / "work", Limits())
    with Store.open(directory) as store:
        ours = {record["key"]: numbers(record) for record in store.records()}
        jobs = [Job(record["key"], record["config"]) for record in store.records()]
    assert len(ours) == 64
    try:
        theirs = sweep_all(tmp_path / "untouched", jobs, alone)
    finally:
        alone.close()
    assert ours == {key: numbers(record) for key, record in theirs.items()}
