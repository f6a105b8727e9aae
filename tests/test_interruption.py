"""Ctrl-C, SIGTERM and SIGHUP save and end alike; twice means at once; going on is as never having stopped."""

import json
import signal
import sys

import pytest

from statewise.interruption import SIGNALS, Interrupted, _Process, deferred, listen
from statewise.runs import PlannedRun, execute, execute_one
from statewise.store import Store
from statewise.sweep import Limits
from statewise.sweep.local import LocalEngine
from statewise.sweep.runner import run_jobs
from statewise.training.state import Training
from tests.command import STATEWISE, hear, started
from tests.command import until as wait_for
from tests.sweep.jobs import fake_jobs, job, numbers

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SAID = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


@pytest.fixture(autouse=True)
def hearing():
    """Hear signals, whatever started the tests."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    hear()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    _Process.asked = None


@pytest.fixture
def listening(hearing):
    """Hear signals as the command line does."""
    listen()


def _interrupt_at(monkeypatch, step, number):
    """Send a signal while the first batch is drawn for a step."""
    real, sent = Training.batch, []

    def batch(training):
        if training.step == step and not sent:
            sent.append(number)
            signal.raise_signal(number)
        return real(training)

    monkeypatch.setattr(Training, "batch", batch)


def _quiet(member, metrics, steps):
    pass


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("model", ["diagonal", "rnn"])
def test_a_run_is_saved_at_the_step_where_it_was_and_goes_on_from_there(
    model, number, tmp_path, monkeypatch, listening
):
    options = job("parity", model).options
    with monkeypatch.context() as patch:
        _interrupt_at(patch, 13, number)
        with pytest.raises(Interrupted) as stopped:
            execute_one(PlannedRun(options, tmp_path / "run"), _quiet)
    # the step under way was finished
    where = f'"{tmp_path / "run"}"'[-40:]
    assert str(stopped.value).startswith(f"interrupted by {SAID[number]}; ")
    assert str(stopped.value).endswith("is saved at step 14 of 20; the same command goes on from there")
    assert where.endswith('run"')
    assert stopped.value.exit_code == CODES[number]
    assert [file.name for file in (tmp_path / "run").glob("step-*")] == ["step-14-0"]
    assert not (tmp_path / "run" / "lock").exists()
    ours = execute_one(PlannedRun(options, tmp_path / "run"), _quiet).record
    assert numbers(ours) == numbers(execute_one(PlannedRun(options), _quiet).record)


def test_an_ensemble_is_saved_whole(tmp_path, monkeypatch):
    jobs = [job("parity", "full", seed=seed) for seed in range(3)]
    plans = [PlannedRun(one.options, tmp_path / str(seed)) for seed, one in enumerate(jobs)]
    with monkeypatch.context() as patch:
        _interrupt_at(patch, 3, signal.SIGINT)
        # Python's own Ctrl-C, as in a notebook
        with pytest.raises(KeyboardInterrupt, match="is saved at step 4 of 20, with the others; the same command goes"):
            list(execute(plans, _quiet))
    assert [file.name for file in sorted(tmp_path.glob("*/step-*"))] == ["step-4-0"] * 3
    ours = {member: numbers(run.record) for member, run in execute(plans, _quiet)}
    alone = {member: numbers(run.record) for member, run in execute([PlannedRun(j.options) for j in jobs], _quiet)}
    assert ours == alone


def test_without_a_directory_it_says_that_nothing_is_kept(monkeypatch):
    _interrupt_at(monkeypatch, 3, signal.SIGINT)
    with pytest.raises(Interrupted, match="without a directory nothing is kept; the same command begins anew"):
        execute_one(PlannedRun(job("parity").options), _quiet)


_COMMANDS = """
import importlib, io, json, signal, sys
from statewise import cli
from statewise.interruption import SIGNALS, _Process

def interrupted(number):
    return lambda *given: signal.raise_signal(number)

found = []
for line in ("certify RUN", "polish RUN --out NEW", "extract RUN --out NEW", "learn FILE --out NEW"):
    for number in SIGNALS:
        module = importlib.import_module(f"statewise.commands.{line.split()[0]}")
        setattr(module, "read_words" if line.startswith("learn") else "load", interrupted(number))
        sys.argv, sys.stderr, _Process.asked = ["statewise", *line.split()], io.StringIO(), None
        try:
            cli.main()
        except SystemExit as ended:
            found.append([number, ended.code, sys.stderr.getvalue()])
print(json.dumps(found), file=sys.__stdout__)
"""


def test_commands_that_keep_nothing_end_alike_and_write_nothing(tmp_path):
    with started([sys.executable, "-c", _COMMANDS], cwd=tmp_path) as process:
        out, said = process.communicate()
    found = json.loads(out)
    assert len(found) == 4 * len(SIGNALS), said
    for number, code, line in found:
        assert code == CODES[number]
        ends = "all files are whole, and the same command begins anew"
        assert line == f"statewise: interrupted by {SAID[number]}; {ends}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_lets_its_workers_save_and_says_how_to_go_on(number, tmp_path, listening):
    note = tmp_path / "note"
    jobs = [*fake_jobs(2), job(f"fake: save {note}", steps=1, every=1)]

    def start(store, workers):
        from tests.sweep.fakes import fake_work

        return LocalEngine(workers, tmp_path / "work", Limits(), fake_work)

    def interrupt(progress):
        if progress.done == 2 and note.exists() and _Process.asked is None:
            signal.raise_signal(number)

    with Store.open(tmp_path / "store", write=True) as store:
        with pytest.raises(Interrupted) as stopped:
            run_jobs(store, jobs, 1, start, show=interrupt)
        assert store.counts() == {"done": 2}
    assert "2 runs recorded in " in str(stopped.value)
    assert str(stopped.value).endswith("those under way saved; the same command goes on from there")
    assert stopped.value.exit_code == CODES[number]
    assert note.read_text() == "saved"


def test_a_command_that_trains_is_ended_by_a_batch_system(tmp_path):
    config = tmp_path / "run.toml"
    config.write_text('task = "parity"\nmodel = "diagonal"\nhidden = 4\nsteps = 100000000\nevery = 20\nlate = 0\n')
    with started([*STATEWISE, "train", "--config", config, "--out", tmp_path / "run"]) as process:
        wait_for(lambda: list((tmp_path / "run").glob("step-*")), process)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        assert process.returncode == 143, said
    assert "interrupted by SIGTERM; " in said
    assert "is saved at step" in said
    assert "Traceback" not in said


_SLEEPER = """
import signal, sys, time
from statewise.interruption import deferred, listen
if len(sys.argv) > 1:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
listen()
assert len(sys.argv) < 2 or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
with deferred() as request:
    print("begun", flush=True)
    while not request.asked():
        time.sleep(0.01)
    print("asked", flush=True)
    while True:
        time.sleep(0.01)
"""


def test_twice_means_at_once():
    with started([sys.executable, "-c", _SLEEPER]) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT


def test_a_hangup_that_is_ignored_stays_ignored():
    with started([sys.executable, "-c", _SLEEPER, "nohup"]) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"


def test_signals_of_others_are_left_to_them():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with deferred() as request:
            signal.raise_signal(signal.SIGTERM)
        assert (heard, request.asked()) == ([signal.SIGTERM], False)
    finally:
        signal.signal(signal.SIGTERM, before)
