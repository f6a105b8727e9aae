"""A sweep that is killed again and again ends as if it had never been."""

import json
import os
import random
import signal
import sys
import time
from contextlib import closing
from functools import partial

import pytest

from statewise.commands.sweep import sweep
from statewise.errors import StoreError, StoreWriteError
from statewise.runs import PlannedRun, Record, execute_one
from statewise.store import Store
from statewise.sweep import Costs, EngineOptions, Limits, make_packs, run_grid, run_packs
from statewise.sweep.local import LocalEngine
from statewise.sweep.schedule import clean, work_folder
from tests.command import STATEWISE as COMMAND
from tests.command import started
from tests.command import until as wait_for

from .fakes import fake_work
from .jobs import SMALL, by_key, fake_jobs, job, killed_jobs, numbers, sweep_all, training_jobs
from .processes import COORDINATOR, checkpoints, finished, is_alive, recorded

pytestmark = pytest.mark.timeout(1200)

_OPTIONS = "".join(f"{key} = {list(value) if isinstance(value, tuple) else value}\n" for key, value in SMALL.items())
_LONGER = _OPTIONS.replace("steps = 20", "steps = 400").replace("every = 10", "every = 40")
GRID = f"""
name = "killed"
[[grid]]
task = "parity"
model = ["diagonal", "rnn"]
{_LONGER}lr = [1e-3, 1e-2]
seed = {{ count = 2 }}
[[grid]]
task = "modular_addition(3)"
model = "cp(4)"
{_LONGER}
"""
# it costs the most, so it is begun first, and no coordinator lives to see its end
ENDLESS = f"""
[[grid]]
task = "parity"
model = "gru"
{_OPTIONS.replace("steps = 20", "steps = 100000000")}
"""


def _comes_so_far(stage, directory, pid, before):
    """Return whether a coordinator holds the store, has written a checkpoint, or has recorded a run."""
    runs, saved = before
    # the last run waits at the gate: nothing else happens once all others are recorded
    if stage == 0 or recorded(directory) == 199:
        lock = directory / "lock"
        return lock.exists() and f"process {pid} " in lock.read_text()
    return bool(checkpoints(directory) - saved) if stage == 1 else recorded(directory) > runs


def test_a_coordinator_killed_twenty_times_records_each_run_once(tmp_path):
    directory, gate = tmp_path / "store", tmp_path / "gate"
    chance = random.Random(7)
    for number in range(20):
        before = recorded(directory), checkpoints(directory)
        with started([*COORDINATOR, directory, gate]) as process:
            wait_for(partial(_comes_so_far, number % 3, directory, process.pid, before), process)
            # some moment later: no outcome depends on which
            time.sleep(chance.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
    assert recorded(directory) < 200
    gate.touch()
    for into in (directory, tmp_path / "whole"):
        done = finished([*COORDINATOR, into, gate])
        assert done.returncode == 0, done.stderr
    with Store.open(directory) as killed, Store.open(tmp_path / "whole") as whole:
        ours, theirs = by_key(killed), by_key(whole)
        assert killed.counts() == whole.counts() == {"done": 200}
    assert ours.keys() == theirs.keys() == {job.key for job in killed_jobs(gate)}
    assert {key: numbers(record) for key, record in ours.items()} == {
        key: numbers(record) for key, record in theirs.items()
    }
    assert not list((directory / "work").iterdir())


def test_the_command_killed_again_and_again_records_each_run_once(tmp_path):
    file, endless, directory = tmp_path / "grid.toml", tmp_path / "endless.toml", tmp_path / "store"
    file.write_text(GRID)
    endless.write_text(GRID + ENDLESS)
    for number in range(4):
        before = recorded(directory), checkpoints(directory)
        with started([*COMMAND, "sweep", endless, "--store", directory]) as process:
            wait_for(lambda before=before: checkpoints(directory) - before[1], process)
            if number % 2:
                wait_for(lambda before=before: recorded(directory) > min(before[0], 8), process)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
    done = finished([*COMMAND, "sweep", file, "--store", directory, "--json"])
    assert done.returncode == 0, done.stderr
    assert {name: json.loads(done.stdout)[name] for name in ("total", "done", "failed")} == {
        "total": 9,
        "done": 9,
        "failed": 0,
    }
    sweep(file, tmp_path / "whole")
    with Store.open(directory) as killed, Store.open(tmp_path / "whole") as whole:
        ours, theirs = by_key(killed), by_key(whole)
    assert len(theirs) == 9
    assert {key: numbers(ours[key]) for key in theirs} == {key: numbers(record) for key, record in theirs.items()}


def test_ctrl_c_ends_a_sweep_with_130_and_loses_nothing(tmp_path):
    file, directory = tmp_path / "grid.toml", tmp_path / "store"
    file.write_text(GRID + ENDLESS)
    with started([*COMMAND, "sweep", file, "--store", directory]) as process:
        wait_for(lambda: recorded(directory), process)
        before = recorded(directory)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        assert process.returncode == 130
    assert before <= recorded(directory) <= 9


def test_killed_workers_cost_no_run(tmp_path):
    jobs = [*fake_jobs(60, "sleep 0.02"), *training_jobs()]
    engine = LocalEngine(2, tmp_path / "work", Limits(), fake_work)
    # fewer kills than attempts, so that no run can be lost to them
    kill_at = [1, 10, 30]

    def kill_now_and_then(progress):
        if kill_at and progress.done >= kill_at[0]:
            worker = engine._workers[len(kill_at) % 2]
            if worker.process.is_alive():
                os.kill(worker.process.pid, signal.SIGKILL)
                kill_at.pop(0)

    with closing(engine), Store.open(tmp_path / "store", write=True) as store:
        summary = run_packs(store, make_packs(jobs, Costs(), 2), engine, kill_now_and_then)
        counts, ours = store.counts(), by_key(store)
    theirs = sweep_all(tmp_path / "untouched", jobs, LocalEngine(1, tmp_path / "other", Limits(), fake_work))
    assert {key: numbers(record) for key, record in ours.items()} == {
        key: numbers(record) for key, record in theirs.items()
    }
    assert not kill_at
    assert counts == {"done": len(jobs)}
    assert summary.statuses == {"done": len(jobs)}


def test_workers_end_with_their_coordinator(tmp_path):
    program = (
        "import sys; from pathlib import Path; from statewise.sweep.engine import Limits;"
        "from statewise.sweep.local import LocalEngine; engine = LocalEngine(2, Path(sys.argv[1]), Limits());"
        "print(*[w.process.pid for w in engine._workers], flush=True); sys.stdin.read()"
    )
    with started([sys.executable, "-c", program, tmp_path]) as process:
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        process.kill()
        process.communicate()
    wait_for(lambda: not any(map(is_alive, workers)))


def test_a_second_coordinator_is_refused_and_a_dead_ones_lock_is_taken(tmp_path):
    options = job("parity").options
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").write_text("process 999999 on nowhere\n")
    assert run_grid(tmp_path / "store", [options], EngineOptions()).standing.done == 1
    (tmp_path / "grid.toml").write_text(GRID)
    with (
        Store.open(tmp_path / "store", write=True),
        pytest.raises(StoreError, match=f"being written by process {os.getpid()}"),
    ):
        sweep(tmp_path / "grid.toml", tmp_path / "store")


def test_a_worker_that_dies_as_it_starts_costs_nothing(tmp_path):
    engine = LocalEngine(1, tmp_path / "work", Limits(), fake_work)
    engine._workers[0].process.kill()
    assert len(sweep_all(tmp_path / "store", fake_jobs(1000), engine)) == 1000


def test_a_damaged_checkpoint_is_begun_anew(tmp_path):
    one = job("parity", "rnn")
    directory = tmp_path / "work" / one.key
    execute_one(PlannedRun(one.options, directory), lambda member, metrics, steps: None)
    (directory / "record.json").unlink()
    (directory / "manifest.json").write_text("{")
    records = sweep_all(tmp_path / "store", [one], LocalEngine(1, tmp_path / "work", Limits()))
    assert records[one.key].status == "done"


def test_a_disk_that_takes_no_more_ends_a_sweep_and_blames_no_run(tmp_path):
    (tmp_path / "work").write_text("a file where a folder should be")
    with (
        Store.open(tmp_path / "store", write=True) as store,
        closing(LocalEngine(1, tmp_path / "work", Limits())) as engine,
    ):
        with pytest.raises(StoreWriteError, match="start again"):
            run_packs(store, make_packs([job("parity")], Costs(), 1), engine, lambda progress: None)
        assert store.counts() == {}


def test_what_a_recorded_run_left_is_cleaned_away(tmp_path):
    done, open_one = fake_jobs(2)
    with Store.open(tmp_path / "store", write=True) as store:
        store.add([Record(key=done.key, status="done", config=done.options)])
        for one in (done, open_one):
            (work_folder(store.directory) / one.key).mkdir(parents=True)
        clean(store)
        assert [left.name for left in work_folder(store.directory).iterdir()] == [open_one.key]
