"""Progress: a bar on a terminal, a line every half minute elsewhere, and a time left that never grows."""

import os
import pty
import subprocess
import sys

import pytest

import statewise as sw
from statewise.cli.progress import Bar, Countdown, Log, Pace, Reporter, Sink, Update, of_sweep, of_training
from statewise.stages import Stage, heard_by
from statewise.sweep.schedule import Progress as GridProgress
from statewise.training.metrics import Metrics


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_log_has_a_line_every_half_minute_and_none_before():
    clock, lines = Clock(), []
    log = Log("sweep", lines.append, clock=clock)
    for second in range(0, 91):
        clock.now = 100.0 + second
        log.show(Update("sweep", second / 100, 100.0 - second, f"{second} of 100 runs"))
    assert all(f"{second}%  {second} of 100 runs" in line for second, line in zip((30, 60, 90), lines, strict=True))
    assert lines[0].endswith("30 s so far  about 1 min 10 s left")


def test_a_log_has_its_lines_while_nothing_is_said():
    clock, lines = Clock(), []
    log = Log("certify", lines.append, clock=clock)
    for second in range(0, 61):
        clock.now = 100.0 + second
        log.tick()
    assert [line.split("  ", 1)[1] for line in lines] == ["certify  30 s so far", "certify  1 min 00 s so far"]
    log.end()
    clock.now += 100
    log.tick()
    assert len(lines) == 2


def test_the_time_left_in_a_log_runs_down_while_nothing_is_said():
    clock, lines = Clock(), []
    log = Log("train", lines.append, clock=clock)
    log.show(Update("training", 0.1, 90.0, "step 1 of 10"))
    clock.now += 30
    log.tick()
    assert lines[0].endswith("about 1 min 00 s left")


def shown(estimates, clock):
    """What a countdown has written after each estimate, a second apart."""
    countdown = Countdown(clock)
    for estimate in estimates:
        countdown.hear(estimate)
        yield countdown.text
        clock.now += 1


def test_the_time_left_does_not_grow_for_small_changes():
    texts = list(shown((50.0, 55.0, 45.0, 48.0, 30.0, 35.0), Clock()))
    assert texts == [f"about {seconds} s left" for seconds in (50, 49, 45, 44, 30, 29)]


def test_the_time_left_stands_still_where_work_takes_far_longer_than_expected():
    texts = list(shown((20.0, 18.0, 50.0, 60.0, 40.0, 20.0, 11.0), Clock()))
    held = ["over 17 s left"] * 3
    assert texts == ["about 20 s left", "about 18 s left", *held, "about 17 s left", "about 11 s left"]


def test_the_time_left_is_not_negative():
    assert list(shown((1.0, 0.5, 0.1, 30.0), Clock()))[2:] == ["about 0 s left", "longer than expected"]


def test_a_stage_is_timed_by_its_own_pace():
    clock = Clock()
    pace = Pace(clock)
    assert pace.left(Stage("testing", 0.0)) is None
    clock.now += 10
    assert pace.left(Stage("testing", 0.25)) == 30.0
    # what was resumed had a share already when it began
    assert pace.left(Stage("training", 0.5)) is None
    clock.now += 10
    assert pace.left(Stage("training", 0.75)) == 10.0


def test_a_comparison_has_one_progress_for_all_its_rounds():
    seen = []
    found = sw.compare(
        ["parity"],
        ["diagonal"],
        seeds=2,
        steps=8,
        hidden=4,
        lengths=[5],
        workers=1,
        show=lambda progress: seen.append((progress.done, progress.total)),
    )
    # four settings and one more seed at most; nothing is perfect after eight steps
    assert seen[0][1] == 5
    assert seen[-1] == (found.ran, found.ran)
    assert [total for _, total in seen] == sorted((total for _, total in seen), reverse=True)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_share_of_a_grid_does_not_fall():
    kept = Kept()
    reporter = Reporter("compare", kept)
    for cost in (10.0, 40.0):
        progress = GridProgress(10, cost, done_cost=5.0)
        reporter.show(progress)
    assert [text.split()[1] for text in kept.texts] == ["50%", "50%"]


def test_a_bar_is_drawn_a_few_times_a_second_and_at_once_where_it_shows_something_else():
    clock = Clock()
    bar = Bar("certify", clock)
    shown = []
    for what, detail in (("searching", "1"), ("searching", "2"), ("bounding", "3"), ("bounding", "4")):
        bar.show(Update(what, None, None, detail))
        (task,) = bar._progress.tasks
        shown.append((task.description, task.fields["detail"]))
    clock.now += 1
    bar.show(Update("bounding", None, None, "5"))
    bar.end()
    assert shown == [("searching", "1"), ("searching", "1"), ("bounding", "3"), ("bounding", "3")]
    assert task.fields["detail"] == "5"


class Kept(Sink):
    """Keeps what is shown."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def _changed(self, update):
        self.texts.append(update.text)

    def end(self):
        pass


def test_between_evaluations_the_last_scores_stay():
    kept = Kept()
    reporter = Reporter("train", kept)
    reporter.show(Metrics(500, 0.25, (1.0, 0.5), seconds=2.0), 2_000, (10, 500))
    reporter.hear(Stage("training", 0.3, "step 600 of 2,000"))
    assert kept.texts[-1].startswith("training   30%  step 600 of 2,000  loss 0.2500  score 1.000 at 10, 0.500 at 500")


def test_runs_of_a_grid_in_this_process_stand_beside_the_whole():
    kept = Kept()
    reporter = Reporter("compare", kept)
    progress = GridProgress(10, 0.0)
    progress.statuses.update({"done": 4})
    reporter.show(progress)
    reporter.hear(Stage("training", 0.5, "step 50 of 100"))
    assert kept.texts[-1].startswith("compare   40%  4 of 10 runs")
    assert kept.texts[-1].endswith("training   50%  step 50 of 100")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (lambda run: sw.evaluate(run, lengths=[5], test_sequences=2), {"testing"}),
        (lambda run: sw.certify(run, work=50), {"deciding all words by orbit", "searching for a wrong word"}),
        (sw.extract, {"reading the machine out by votes"}),
        (sw.polish, {"finding what the network tracks"}),
        (lambda run: sw.compile("parity", run=10), {"writing the network", "running one word"}),
        (lambda run: sw.learn([("a", "1"), ("b", "0")]), {"learning", "merging states by evidence"}),
    ],
    ids=["evaluate", "certify", "extract", "polish", "compile", "learn"],
)
def test_long_commands_say_what_they_do(command, said, run):
    stages = []
    with heard_by(stages.append):
        command(run)
    assert said <= {stage.what for stage in stages}
    assert all(stage.share is None or 0 <= stage.share <= 1 for stage in stages)


@pytest.fixture(scope="module")
def run():
    stages = []
    with heard_by(stages.append):
        trained = sw.train("parity", "full", hidden=4, steps=20)
    steps = [stage.detail for stage in stages if stage.what == "training"]
    assert steps == [f"step {n} of 20" for n in range(1, 21)]
    assert "testing" in {stage.what for stage in stages}
    return trained


def test_scores_stand_beside_their_lengths():
    update = of_training(Metrics(500, 0.25, (1.0, 0.5), seconds=2.0), 2_000, (10, 500))
    assert update.share == 0.25
    assert update.left == 6.0
    assert "score 1.000 at 10, 0.500 at 500" in update.detail
    assert "250 steps/s" in update.detail


def test_a_grid_that_has_hardly_begun_has_no_time_left():
    progress = GridProgress(1_000, 1_000.0, done_cost=1.0)
    assert of_sweep("sweep", progress).left is None
    progress.done_cost = 20.0
    assert of_sweep("sweep", progress).left > 0


def test_a_sweep_names_what_did_not_end_well():
    progress = GridProgress(10, 0.0)
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
    # the bar names the command, then what it is at
    assert b" train" in shown
    assert b"\x1b" not in done.stdout
