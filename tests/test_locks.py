"""Two processes never train in one directory, and a file system without locks is told from a busy one."""

import errno
import fcntl
import logging
import os
import signal
import sys

import pytest

from statewise.errors import BusyError, RunError, StoreError
from statewise.locks import HeldError, NoLocksError, remove_lock, take_lock
from statewise.runs import PlannedRun, execute_one
from statewise.store import Store
from statewise.training import write_checkpoint
from statewise.training.options import resolve
from tests.command import started
from tests.command import until as wait_for

GIVEN = {"task": "parity", "model": "diagonal", "hidden": 4, "late": 0, "words": 50, "probe_words": 20}
OPTIONS = resolve({**GIVEN, "steps": 20, "every": 10, "test_lengths": (10, 20)})
TRAIN = """
import sys
import statewise as sw
sw.train("parity", "diagonal", config={"steps": 100_000_000, "every": 10, "hidden": 4, "late": 0}, out=sys.argv[1])
"""


def _train(directory):
    return execute_one(PlannedRun(OPTIONS, directory), lambda member, metrics, steps: None)


def _checkpoints(directory):
    return list(directory.glob("step-*"))


def test_a_directory_in_use_is_refused_with_its_holder_and_a_killed_one_is_taken(tmp_path):
    directory = tmp_path / "run"
    with started([sys.executable, "-c", TRAIN, directory]) as process:
        wait_for(lambda: _checkpoints(directory), process)
        with pytest.raises(BusyError, match=rf"is being trained in by process {process.pid} on .*; wait"):
            _train(directory)
        process.send_signal(signal.SIGKILL)
        process.wait()
    # now it is known for what it is: another run
    with pytest.raises(RunError, match="holds a run with"):
        _train(directory)
    assert not (directory / "lock").exists()


def test_a_run_that_has_ended_leaves_no_lock_and_is_read_without_one(tmp_path, monkeypatch):
    _train(tmp_path / "run")
    assert not (tmp_path / "run" / "lock").exists()
    monkeypatch.setattr(fcntl, "flock", _no_locks)
    assert _train(tmp_path / "run").record.status == "done"


def test_what_a_kill_left_in_a_run_directory_goes_with_the_next_start(tmp_path):
    # killed before its options were written
    (tmp_path / "run").mkdir()
    for name in ("lock", "machine.json", ".config.json.0123456789ab.aside"):
        (tmp_path / "run" / name).write_text("half")
    assert _train(tmp_path / "run").record.status == "done"
    # killed while it wrote a checkpoint
    (tmp_path / "run" / "record.json").unlink()
    before = {file.name for file in (tmp_path / "run").iterdir()}
    (tmp_path / "run" / "step-30-0").mkdir()
    (tmp_path / "run" / "step-notes").mkdir()
    (tmp_path / "run" / ".manifest.json.0123456789ab.aside").write_text("half")
    assert _train(tmp_path / "run").record.status == "done"
    assert {file.name for file in (tmp_path / "run").iterdir()} == before | {"record.json", "step-notes"}


def test_a_folder_of_somebody_elses_is_left_as_it_is(tmp_path):
    (tmp_path / "machine.json").write_text("mine")
    write_checkpoint(tmp_path, "step-1", {}, {})
    before = {file.name for file in tmp_path.iterdir()}
    with pytest.raises(RunError, match="is not empty and holds no run"):
        _train(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == before


def _no_locks(descriptor, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_file_system_without_locks_is_told_from_a_busy_one(tmp_path, monkeypatch, caplog):
    lock = take_lock(tmp_path / "lock")
    with pytest.raises(HeldError, match=f"process {os.getpid()} on "):
        take_lock(tmp_path / "lock")
    remove_lock(tmp_path / "lock", lock)
    monkeypatch.setattr(fcntl, "flock", _no_locks)
    with pytest.raises(NoLocksError, match="no locks available"):
        take_lock(tmp_path / "lock")
    with pytest.raises(StoreError, match=r"has no locks \(no locks available\).*put the store on another disk"):
        Store.open(tmp_path / "store", write=True)
    # a single run goes on, and says what to mind
    with caplog.at_level(logging.WARNING, "statewise"):
        assert _train(tmp_path / "run").record.status == "done"
    assert "has no locks" in caplog.text


def test_a_lock_that_was_removed_is_taken_anew(tmp_path):
    first = take_lock(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    second = take_lock(tmp_path / "lock")
    # the first holder leaves the lock of the second
    remove_lock(tmp_path / "lock", first)
    with pytest.raises(HeldError):
        take_lock(tmp_path / "lock")
    remove_lock(tmp_path / "lock", second)
    assert not (tmp_path / "lock").exists()
