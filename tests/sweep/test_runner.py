"""A grid through the library: what is left, what is run, how it stands, and what is refused before anything begins."""

from pathlib import Path

import pytest

from statewise.errors import GridError, StatewiseError, UnknownNameError
from statewise.machines import machine, write_machine
from statewise.runs import PlannedRun, Record, execute_one
from statewise.store import Store, read_run
from statewise.sweep import EngineOptions, GridOutcome, GridPlan, Limits, make_jobs, plan_grid, run_grid
from statewise.sweep.jobs import check_jobs
from statewise.sweep.local import LocalEngine
from statewise.sweep.runner import run_jobs
from statewise.sweep.schedule import work_folder

from .fakes import fake_work
from .jobs import fake_jobs, job, sweep_all

pytestmark = pytest.mark.timeout(1200)
ONE = EngineOptions(workers=1)


def _options(count, **given):
    return [job("parity", seed=seed, **given).options for seed in range(count)]


def _start(store, workers):
    return LocalEngine(workers, work_folder(store.directory), Limits(), fake_work)


def test_a_grid_is_planned_run_and_not_run_again(tmp_path):
    runs, directory = _options(3), tmp_path / "store"
    plan = plan_grid(directory, [*runs, runs[0]], ONE)
    assert (plan.standing.total, plan.to_run, plan.packs, plan.measured) == (3, 3, 1, False)
    assert not directory.exists()
    seen = []
    outcome = run_grid(directory, runs, ONE, show=lambda progress: seen.append((progress.done, progress.total)))
    assert seen[-1] == (3, 3)
    assert outcome.to_dict() == {
        "total": 3,
        "done": 3,
        "failed": 0,
        "diverged": 0,
        "ran": 3,
        "packs": 1,
        "seconds": outcome.seconds,
    }
    assert not outcome.failed
    more = plan_grid(directory, _options(5), ONE)
    assert (more.standing.done, more.to_run, more.measured) == (3, 2, True)
    again = run_grid(directory, runs, ONE)
    assert (again.ran, again.packs, again.seconds) == (0, 0, 0.0)


def test_runs_that_failed_are_tried_again_when_asked(tmp_path):
    (options,) = _options(1)
    with Store.open(tmp_path, write=True) as store:
        store.add([Record(key=options.key(), status="failed", config=options, reason="no memory")])
    kept = run_grid(tmp_path, [options], ONE)
    assert kept.failed
    assert "--retry-failed" in str(kept)
    assert plan_grid(tmp_path, [options], ONE).to_run == 0
    assert plan_grid(tmp_path, [options], ONE, retry_failed=True).to_run == 1
    assert run_grid(tmp_path, [options], ONE, retry_failed=True).standing.done == 1


def test_a_plan_and_an_outcome_print_as_the_command_does():
    standing = plan_grid(None, _options(2), ONE).standing
    plan = GridPlan(standing, to_run=2, packs=1, workers=1, estimate_s=90.0, measured=False)
    assert str(plan).splitlines() == [
        "runs      2",
        "recorded  0",
        "to run    2 in 1 pack",
        "about     1 min 30 s on 1 worker, guessed: runs like these have not been measured in this store",
    ]
    outcome = GridOutcome(store=Path("runs"), standing=standing, ran=2, packs=1, seconds=1.25)
    assert str(outcome).splitlines()[-1] == "took      1.2 s for 2 runs in 1 pack"


def test_a_machine_from_a_file_goes_along_with_its_job(tmp_path):
    file = tmp_path / "turn.json"
    write_machine(machine("cyclic(3)"), file)
    (one,) = make_jobs([job(str(file), "rnn").options])
    assert one.key == one.options.key(one.machine)
    execute_one(PlannedRun(one.options, tmp_path / "alone"), lambda member, metrics, steps: None)
    file.unlink()
    records = sweep_all(tmp_path / "store", [one], LocalEngine(1, tmp_path / "work", Limits()))
    assert records[one.key].status == "done"
    # a single run of the same options is the same run
    assert read_run(tmp_path / "alone").key == one.key


def test_no_more_workers_are_started_than_there_are_packs(tmp_path):
    started = []

    def start(store, workers):
        started.append(workers)
        return _start(store, workers)

    with Store.open(tmp_path, write=True) as store:
        outcome = run_jobs(store, fake_jobs(20), 8, start)
    assert outcome.standing.done == 20
    assert started == [outcome.packs] == [2]


def test_what_no_engine_or_grid_can_be_is_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="ray"):
        EngineOptions("rey")
    with pytest.raises(GridError, match="expected at least 1"):
        EngineOptions(workers=0)
    with pytest.raises(GridError, match="expected 0 or more"):
        Limits(seconds=-1.0)
    with pytest.raises(GridError, match="the grid is empty"):
        run_grid(tmp_path / "store", [], ONE)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("task", "model", "given", "sentence"),
    [
        ("modular_additon(5)", "full", {}, "modular_addition"),
        ("parity", "block(3)", {"hidden": 16}, "16"),
        ("parity", "transformer(1)", {"test_lengths": (10, 2000)}, "at most 1024"),
        ("parity", "full", {"lr": -1.0}, "lr"),
        ("parity", "full", {"steps": 0}, "steps"),
    ],
)
def test_what_cannot_be_built_is_refused_before_any_run_is_begun(task, model, given, sentence):
    with pytest.raises(StatewiseError, match=sentence):
        check_jobs([job("parity"), job(task, model, **given)])


COUNTED = """
from torch import nn

def note(mark):
    with open({counter!r}, "a") as stream:
        stream.write(mark)

note("i")

class Net(nn.Module):
    def __init__(self, symbols, classes, hidden, layers=1):
        super().__init__()
        note("b")
        self.read = nn.Embedding(symbols, classes)

    def forward(self, tokens):
        return self.read(tokens)
"""


def test_many_models_of_one_class_are_imported_once_and_tried_a_few_times(tmp_path):
    file, counter = tmp_path / "net.py", tmp_path / "counted"
    file.write_text(COUNTED.format(counter=str(counter)))
    runs = [job("parity", f"{file}:Net(layers={n})").options for n in range(5_000)]
    plan = plan_grid(None, runs, ONE)
    assert plan.to_run == 5_000
    counted = counter.read_text()
    assert counted.count("i") == 1
    # to be checked, and timed for the plan
    assert 0 < counted.count("b") <= 150


def test_a_bad_class_refuses_its_grid_before_any_run_is_begun(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(COUNTED.format(counter="/dev/null").replace("self.read(tokens)", "self.read(tokens).flip(1)"))
    runs = [job("parity", "full").options, job("parity", f"{file}:Net").options]
    with pytest.raises(StatewiseError, match="Net reads ahead"):
        run_grid(tmp_path / "store", runs, ONE)
    assert not (tmp_path / "store").exists()
    with pytest.raises(StatewiseError, match="is no file"):
        plan_grid(None, [job("parity", f"{tmp_path}/none.py:Net").options], ONE)
    with pytest.raises(StatewiseError, match="cannot import"):
        plan_grid(None, [job("parity", "no.such.module:Net").options], ONE)


def test_names_of_files_with_parentheses_and_options_are_kept_apart(tmp_path):
    file = tmp_path / "net (copy).py"
    file.write_text(COUNTED.format(counter="/dev/null"))
    one, other = make_jobs(job("parity", f"{file}:Net{given}").options for given in ("", "(layers=2)"))
    assert one.source is other.source
    assert one.key != other.key
    assert one.source.place == str(file)
