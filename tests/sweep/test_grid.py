"""Grids list their runs and refuse what nobody can run; packs are made of runs by shape and cost."""

import pytest

from statewise.errors import GridError
from statewise.sweep import Costs, Pack, make_packs, read_grid

from .jobs import fake_jobs, job


def _grid(tmp_path, text):
    file = tmp_path / "grid.toml"
    file.write_text(text)
    return read_grid(file)


def test_a_grid_is_every_combination_of_its_lists(tmp_path):
    text = """
    name = "rates 1"
    [[grid]]
    task = "random_machine(3, seed={seed}, kind=map)"
    model = ["full", "rotation"]
    test_lengths = [10, 20]
    seed = { first = 4, count = 2 }
    [[grid]]
    task = "parity"
    model = "rnn"
    test_lengths = [[10], [20, 30]]
    """
    grid = _grid(tmp_path, text)
    points = list(grid.points())
    assert grid.size == len(points) == 6
    assert points[1]["task"] == "random_machine(3, seed=5, kind=map)"
    assert points[0]["test_lengths"] == [10, 20]
    assert [point["test_lengths"] for point in points[4:]] == [[10], [20, 30]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "nothing to run"),
        ("[[grid]]\ntask = []\nmodel = 'full'", "no values"),
        ("[[grid]]\nseed = { count = 0 }", "no values"),
        ("[[grid]]\nseed = { count = 1000 }\nlr = { count = 1000 }\nhidden = { count = 1000 }", "1,000,000,000 runs"),
        ("[[grid]]\nseed = { count = 1000000000 }", "at most"),
        ("[[grid]]\n" + "".join(f"a{i} = {{ count = 1000 }}\n" for i in range(9)), "at most"),
        ("[[grid]]\na = " + "[" * 5000 + "]" * 5000, "deep"),
        ("[[grid]]\nseed = { start = 1 }", "a range such as"),
        ("grid = 3", "no [[grid]]"),
        ("extra = 3\n[[grid]]\ntask = 'parity'", "name and [[grid]] only"),
        ("name = '../../etc'\n[[grid]]\ntask = 'parity'", "name"),
        ("name = '<script>'\n[[grid]]\ntask = 'parity'", "name"),
        ("name = \"it's\"\n[[grid]]\ntask = 'parity'", "rename it"),
        ("name = 'say \"rates\"'\n[[grid]]\ntask = 'parity'", "rename it"),
        (f"name = '{'a' * 300}'\n[[grid]]\ntask = 'parity'", "name"),
        ("name = 3\n[[grid]]\ntask = 'parity'", "no string"),
        ("[[grid\n", "not TOML"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(GridError) as error:
        _grid(tmp_path, text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(GridError, match="cannot read"):
        read_grid(tmp_path / "none.toml")


def test_packs_hold_each_run_once_and_stack_what_has_one_shape():
    jobs = [job("parity", model, lr=lr, seed=s) for model in ("full", "rnn") for lr in (1e-3, 1e-2) for s in range(5)]
    jobs += [job("modular_addition(3)", "full", seed=s) for s in range(3)]
    jobs += [job("parity", "my_models.py:Net", seed=s) for s in range(2)]
    packs = make_packs(jobs, Costs(), 2)
    assert sorted(job.key for pack in packs for job in pack.jobs) == sorted(job.key for job in jobs)
    assert [pack.seconds for pack in packs] == sorted((pack.seconds for pack in packs), reverse=True)
    sizes = sorted(len(pack.jobs) for pack in packs)
    # ten runs of rnn alone, and a user's own; parity and sums mod 3 have other alphabets
    assert sizes == [1] * 12 + [3, 10]
    assert {job.stacked for job in jobs if job.options.model == "full"} == {True}


def test_packs_are_sized_by_what_runs_have_cost():
    jobs = [job("parity", "full", seed=s, steps=1000) for s in range(12)]
    cheap = make_packs(jobs, Costs([("full", "statewise", 4, "parity", 1e-4, 1)]), 2)
    dear = make_packs(jobs, Costs([("full", "statewise", 4, "modular_addition(3)", 5.0, 10)]), 2)
    assert len(cheap) == 1
    assert len(dear) == 12
    assert dear[0].seconds == pytest.approx(500.0)


def test_costs_are_those_of_the_same_task_then_of_others_then_guesses():
    drawn = "random_machine(3, seed={}, kind=map)"
    rows = [("full", "statewise", 4, drawn.format(0), 2.0, 100), ("full", "statewise", 4, "parity", 6.0, 100)]
    costs = Costs(rows)
    assert costs.seconds(job(drawn.format(7), steps=10).options) == pytest.approx(0.2)
    assert costs.seconds(job("parity", steps=10).options) == pytest.approx(0.6)
    assert costs.seconds(job("cyclic(4)", steps=10).options) == pytest.approx(0.4)
    assert costs.known(job("cyclic(4)").options)
    assert not costs.known(job("parity", "rnn").options)
    assert costs.seconds(job("parity", "rnn", steps=10).options) == Costs().seconds(
        job("parity", "rnn", steps=10).options
    )


@pytest.mark.parametrize("count", [1, 2, 3, 16, 1000])
def test_a_pack_that_died_is_split_until_runs_are_alone(count):
    pack = Pack(tuple(fake_jobs(count)), 10.0)
    seen = [pack]
    while len(seen[-1].jobs) > 1 or seen[-1].attempt == 0:
        parts = seen[-1].split({job.key for job in seen[-1].jobs})
        assert sorted(j.key for p in parts for j in p.jobs) == sorted(j.key for j in seen[-1].jobs)
        assert all(part.attempt == seen[-1].attempt + 1 for part in parts)
        seen.append(parts[0])
    assert seen[-1].attempt <= 2
