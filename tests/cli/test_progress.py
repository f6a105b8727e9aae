"""Progress: a bar on a terminal, a line every half minute elsewhere, and a time left that does not jump up."""

import os
import pty
import subprocess
import sys

from statewise.cli.progress import Countdown, Log, Update, of_sweep, of_training
from statewise.sweep.schedule import Progress
from statewise.training.metrics import Metrics


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_log_has_a_line_every_half_minute_and_none_before():
    clock, lines = Clock(), []
    log = Log(lines.append, clock=clock)
    for second in range(0, 91):
        clock.now = 100.0 + second
        log.show(Update("sweep", second / 100, 100.0 - second, f"{second} of 100 runs"))
    assert all(f"{second}%  {second} of 100 runs" in line for second, line in zip((30, 60, 90), lines, strict=True))
    assert lines[0].endswith("about 1 min 10 s left")


def test_the_time_left_does_not_jump_up_for_small_changes():
    clock = Clock()
    countdown, shown = Countdown(clock), []
    for estimate in (100.0, 120.0, 90.0, 95.0, 60.0, 70.0):
        shown.append(countdown.show(estimate))
        clock.now += 1
    assert shown == sorted(shown, reverse=True)


def test_the_time_left_grows_where_work_takes_far_longer_than_expected():
    clock = Clock()
    countdown = Countdown(clock)
    assert countdown.show(10.0) == 10.0
    clock.now += 5
    assert countdown.show(300.0) == 300.0


def test_the_time_left_is_not_negative():
    clock = Clock()
    countdown = Countdown(clock)
    countdown.show(10.0)
    clock.now += 10.5
    assert countdown.show(0.2) == 0.0


def test_scores_stand_beside_their_lengths():
    update = of_training(Metrics(500, 0.25, (1.0, 0.5), seconds=2.0), 2_000, (10, 500))
    assert update.share == 0.25
    assert update.left == 6.0
    assert "score 1.000 at 10, 0.500 at 500" in update.detail
    assert "250 steps/s" in update.detail


def test_a_sweep_names_what_did_not_end_well():
    progress = Progress(10, 0.0)
    progress.statuses.update({"done": 4, "failed": 1})
    update = of_sweep("sweep", progress)
    assert update.share == 0.5
    assert update.detail.startswith("5 of 10 runs  1 failed")


def test_a_terminal_keeps_each_evaluation(tmp_path):
    primary, secondary = pty.openpty()
    train = ["train", "--task", "parity", "--model", "full", "--hidden", "4", "--steps", "30"]
    command = [sys.executable, "-m", "statewise", *train, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, stderr=secondary, stdout=subprocess.PIPE, timeout=600)
    os.close(secondary)
    shown = b""
    try:
        while part := os.read(primary, 65_536):
            shown += part
    except OSError:
        # the other end is closed, and all was read
        pass
    os.close(primary)
    assert done.returncode == 0
    assert b"step 30 of 30" in shown
    assert b"training" in shown
    assert b"\x1b" not in done.stdout
