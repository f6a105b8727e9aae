"""A sweep that is killed again and again ends as if it had never been."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from statewise.cli.sweep import run_grid
from statewise.errors import StoreWriteError
from statewise.runs.run import run
from statewise.store import Store
from statewise.sweep import Costs, make_packs, sweep
from statewise.sweep.engine import Limits
from statewise.sweep.local import LocalEngine
from statewise.sweep.schedule import clean, work_folder
from statewise.training.assemble import build_plan, build_training
from tests.command import STATEWISE

from .jobs import SMALL, job, null_jobs, numbers, sweep_all, training_jobs

_SMALL = "hidden = 4\nsteps = 400\nevery = 40\nlate = 0\nwords = 50\nprobe_words = 20\ntest_lengths = [10, 20]\n"
GRID = """
name = "killed"
[[grid]]
task = "null(seconds=0.01)"
model = "full"
seed = { count = 180 }
[[grid]]
task = "parity"
model = ["full", "diagonal", "rnn"]
{small}lr = [1e-3, 1e-2]
seed = { count = 3 }
[[grid]]
task = "modular_addition(3)"
model = "cp(4)"
{small}seed = { count = 2 }
""".replace("{small}", _SMALL)


def _start(file, store):
    command = [*STATEWISE, "sweep", str(file), "--store", str(store), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.timeout(600)
def test_a_coordinator_killed_twenty_times_records_each_run_once(tmp_path):
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    chance = random.Random(7)
    for _ in range(20):
        process = _start(file, tmp_path / "store")
        # some moments after the process began, or after its workers did
        if chance.random() < 0.5:
            _until(lambda: any((tmp_path / "store" / "work").glob("*")), process)
        time.sleep(chance.uniform(0.1, 1.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = _start(file, tmp_path / "store")
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert '"total": 200' in out
    whole = _start(file, tmp_path / "whole")
    assert whole.wait(timeout=300) == 0
    whole.communicate()
    with Store.open(tmp_path / "store") as killed_store, Store.open(tmp_path / "whole") as whole_store:
        ours = {record["key"]: numbers(record) for record in killed_store.records()}
        theirs = {record["key"]: numbers(record) for record in whole_store.records()}
        assert sum(killed_store.counts().values()) == 200
    assert len(ours) == 200
    assert ours == theirs
    assert not list((tmp_path / "store" / "work").iterdir())


@pytest.mark.timeout(300)
def test_killed_workers_cost_no_run(tmp_path):
    jobs = [*null_jobs(60, "null(seconds=0.02)"), *training_jobs()]
    engine = LocalEngine(2, tmp_path / "work", Limits())
    chance = random.Random(3)
    kills = 0

    def kill_now_and_then(progress):
        nonlocal kills
        if kills < 3 and chance.random() < 0.5:
            worker = chance.choice([w for w in engine._workers if w.process.is_alive()])
            os.kill(worker.process.pid, signal.SIGKILL)
            kills += 1

    try:
        with Store.open(tmp_path / "store", write=True) as store:
            summary = sweep(store, make_packs(jobs, Costs(), 2), engine, kill_now_and_then)
            counts = store.counts()
            ours = {record["key"]: numbers(record) for record in store.records()}
    finally:
        engine.close()
    untouched = LocalEngine(1, tmp_path / "other", Limits())
    try:
        theirs = sweep_all(tmp_path / "untouched", jobs, untouched)
    finally:
        untouched.close()
    assert ours == {key: numbers(record) for key, record in theirs.items()}
    assert kills
    assert counts == {"done": len(jobs)}
    assert summary.statuses == {"done": len(jobs)}


def test_workers_end_with_their_coordinator(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from statewise.sweep.engine import Limits;"
        "from statewise.sweep.local import LocalEngine; engine = LocalEngine(2, Path(sys.argv[1]), Limits());"
        "print(*[w.process.pid for w in engine._workers], flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_alive(pid) for pid in workers)


def _until(condition, process, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_coordinator_is_refused_and_a_dead_ones_lock_is_taken(tmp_path):
    config = null_jobs(1)[0].config
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").write_text("process 999999 on nowhere\n")
    assert run_grid(tmp_path / "store", [config])["done"] == 1
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    with Store.open(tmp_path / "store", write=True):
        process = _start(file, tmp_path / "store")
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"being written by process {os.getpid()}" in errors
    assert errors.count("\n") == 1


def test_ctrl_c_ends_a_sweep_with_130_and_loses_nothing(tmp_path):
    file = tmp_path / "grid.toml"
    options = "".join(f"{key} = {list(v) if isinstance(v, tuple) else v}\n" for key, v in SMALL.items())
    file.write_text(f'[[grid]]\ntask = "null(seconds=0.2)"\nmodel = "full"\n{options}seed = {{ count = 400 }}\n')
    process = _start(file, tmp_path / "store")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.5)
        if (tmp_path / "store" / "runs.sqlite").exists() and _recorded(tmp_path / "store"):
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert 0 < _recorded(tmp_path / "store") < 400


def _recorded(directory):
    with Store.open(directory) as store:
        return sum(store.counts().values())


def test_a_worker_that_dies_as_it_starts_costs_nothing(tmp_path):
    engine = LocalEngine(1, tmp_path / "work", Limits())
    jobs = null_jobs(1000)
    engine._workers[0].process.kill()
    try:
        assert len(sweep_all(tmp_path / "store", jobs, engine)) == 1000
    finally:
        engine.close()


def test_a_damaged_checkpoint_is_begun_anew(tmp_path):
    one = job("parity", "rnn")
    directory = tmp_path / "work" / one.key
    config = one.config
    run(build_training(config), build_plan(config), config, directory, lambda look, steps: None)
    (directory / "record.json").unlink()
    (directory / "manifest.json").write_text("{")
    engine = LocalEngine(1, tmp_path / "work", Limits())
    try:
        assert sweep_all(tmp_path / "store", [one], engine)[one.key]["status"] == "done"
    finally:
        engine.close()


def test_a_disk_that_takes_no_more_ends_a_sweep_and_blames_no_run(tmp_path):
    (tmp_path / "work").write_text("a file where a folder should be")
    engine = LocalEngine(1, tmp_path / "work", Limits())
    with Store.open(tmp_path / "store", write=True) as store:
        try:
            with pytest.raises(StoreWriteError, match="start again"):
                sweep(store, make_packs([job("parity")], Costs(), 1), engine, lambda progress: None)
        finally:
            engine.close()
        assert store.counts() == {}


def test_what_a_recorded_run_left_is_cleaned_away(tmp_path):
    done, open_one = null_jobs(2)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([{"key": done.key, "status": "done", "config": done.config}])
        for one in (done, open_one):
            (work_folder(store.directory) / one.key).mkdir(parents=True)
        clean(store)
        assert [left.name for left in work_folder(store.directory).iterdir()] == [open_one.key]
