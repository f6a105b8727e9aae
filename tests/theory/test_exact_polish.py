"""Polish --exact: networks that were trained on ten symbols, in whole numbers, proven at every length."""

import json
from functools import cache

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import StatewiseError
from statewise.machines import machine
from statewise.theory import network_of
from statewise.theory.certify import decide_by_orbit
from statewise.theory.polish import OwnSequences, Polished, TaskSequences, polish_tracker
from statewise.theory.polish.automaton import tracker_of
from statewise.theory.polish.exact import make_exact
from statewise.transitions import CP, Block, Diagonal, Full, Rotation
from tests.command import statewise

# rounds bound the work, whatever the computer
ALWAYS = 1e9
MAP = "random_machine(5, seed=3, kind=map)"
PERMUTATION = "random_machine(5, seed=3, kind=permutation)"
KINDS = {"full": Full, "cp": CP, "block": Block, "rotation": Rotation, "diagonal": Diagonal}
# a machine, a level, the steps in which it is learned at length 10, the exact level, and its states
CASES = [
    ("parity", "full", 300, "full", 2),
    ("modular_addition(5)", "full", 600, "full", 5),
    (MAP, "full", 600, "full", 5),
    ("modular_arithmetic(3)", "full", 1_000, "full", 12),
    # fewer outputs than states
    ("tomita(3)", "full", 1_000, "full", 5),
    ("modular_addition(5)", "cp(64)", 800, "cp(64)", 5),
    # blocks of two turn by thirds, sixths and quarters; by eighths up to a factor; by fifths never
    ("modular_addition(3)", "block(2)", 600, "block(2)", 3),
    ("modular_addition(8)", "block(2)", 1_000, "block(2)", 8),
    ("modular_addition(5)", "block(2)", 600, "full", 5),
    # the plane of the triangle, begun anywhere in it
    ("symmetric(3)", "block(2)", 800, "block(2)", 6),
    # cyclotomic blocks have phi(5) = 4 entries
    ("modular_addition(5)", "block(8)", 600, "block(8)", 5),
    ("modular_addition(5)", "rotation", 600, "full", 5),
    ("parity", "diagonal", 300, "diagonal", 2),
]
MORE = [
    (PERMUTATION, "full", 800, "full", 5),
    ("symmetric(3)", "full", 800, "full", 6),
    (PERMUTATION, "cp(64)", 800, "cp(64)", 5),
    ("modular_arithmetic(3)", "cp(64)", 1_500, "cp(64)", 12),
    ("modular_addition(6)", "block(2)", 1_000, "block(2)", 6),
    ("modular_addition(12)", "block(2)", 1_500, "block(2)", 12),
    ("modular_addition(5)", "block(4)", 800, "block(4)", 5),
    (MAP, "block(8)", 800, "block(8)", 5),
    ("tomita(5)", "diagonal", 600, "diagonal", 4),
    ("modular_addition(10)", "rotation", 1_000, "full", 10),
]
PLAN = {"hidden": 32, "probe": [10], "test_lengths": [10], "words": 50}


@cache
def trained(task, model, steps):
    return sw.train(config=PLAN | {"task": task, "model": model, "steps": steps, "seed": 1})


@pytest.mark.parametrize(
    ("task", "spec", "steps", "level", "states"), CASES + [pytest.param(*case, marks=pytest.mark.slow) for case in MORE]
)
def test_every_level_becomes_whole_numbers_that_are_proven_at_every_length(task, spec, steps, level, states, tmp_path):
    fine = sw.polish(trained(task, spec, steps), exact=True, seconds=ALWAYS, out=tmp_path / "exact")
    result = fine.to_dict()
    made = result["exact"]
    assert (result["status"], made["status"], made["task"]) == ("exact", "exact", "proven")
    assert (made["level"], made["level_kept"], made["states"]) == (level, level == spec, states)
    assert not fine.failed
    again = sw.load(tmp_path / "exact")
    assert type(again.model.transition) is KINDS[level.split("(")[0]]
    assert (again.name, again.manifest.hidden, again.shortest) == (level, made["hidden"], 1)
    network = network_of(again.model)
    for part in (network.matrices, network.initial, network.readout):
        assert (part == np.rint(part)).all()
        assert np.abs(part).max() <= made["largest"] <= 2**12
    verdict = sw.certify(again, work=0)
    assert (verdict.status, verdict.verdict.method) == ("proven", "orbit")
    # whole numbers are not rounded: in floats it is right at lengths that no training saw
    assert sw.evaluate(again, lengths=[1, 2_000], words=20).scores[-1].score == 1.0
    assert json.loads(json.dumps(result)) == result


def test_a_level_that_cannot_hold_whole_numbers_says_which_can():
    turned = sw.polish(trained("modular_addition(5)", "rotation", 600), exact=True, seconds=ALWAYS)
    assert "no stored angle but 0 is a rational part of a turn (Theorem X)" in turned.to_dict()["exact"]["reason"]
    assert "block(4) can hold them" in turned.to_dict()["exact"]["reason"]
    small = sw.polish(trained("modular_addition(5)", "block(2)", 600), exact=True, seconds=ALWAYS)
    reason = small.to_dict()["exact"]["reason"]
    assert reason.startswith("a block needs 4 entries to be whole numbers, and block(2) has 2 (Theorem X)")
    assert "full instead of block(2)" in str(small)


def test_a_stored_weight_that_is_one_off_is_not_proven():
    fine = sw.polish(trained("modular_addition(5)", "full", 600), exact=True, seconds=ALWAYS)
    made = fine.summary.exact
    assert made.machine == machine("modular_addition(5)")
    assert decide_by_orbit(network_of(made.model), made.machine, 1).equal
    with torch.no_grad():
        made.model.transition.matrices[1, 0, 0] += 1
    broken = decide_by_orbit(network_of(made.model), made.machine, 1)
    assert broken is None or not broken.equal


@pytest.mark.parametrize("spec", ["full", "rotation"])
def test_no_machine_is_used(spec):
    run = trained("modular_addition(5)", spec, 600)
    random, m = np.random.default_rng(0), run.machine
    words = {tuple(random.integers(0, 5, int(random.integers(1, 7))).tolist()) for _ in range(600)}
    words |= {word[:end] for word in words for end in range(len(word))}
    source = OwnSequences(list(words), [int(m.answer(np.array(w, dtype=np.int64))) for w in words], m.classes)
    found = polish_tracker(run.model, source, seconds=ALWAYS)
    made = make_exact(found, source, m.replace(delta=np.zeros_like(m.delta), name="names alone"))
    assert made.outcome == "exact"
    assert made.machine == m


def test_values_become_whole_numbers_too():
    run = trained("modular_addition(5)", "full", 600)
    for rank in (None, 7):
        found = polish_tracker(run.model, run.task, rank=rank, seconds=ALWAYS, objective="values")
        assert (found.outcome, found.objective) == ("converged", "values")
        made = make_exact(found, TaskSequences(run.task), run.machine)
        assert (made.outcome, made.machine) == ("exact", run.machine)


def test_one_plane_of_a_pentagon_becomes_its_cyclotomic_block():
    found = polish_tracker(
        trained("modular_addition(5)", "full", 600).model,
        trained("modular_addition(5)", "full", 600).task,
        rank=2,
        seconds=ALWAYS,
    )
    assert (found.outcome, found.rank) == ("converged", 2)
    made = make_exact(found, TaskSequences(trained("modular_addition(5)", "full", 600).task), machine("cyclic(5)"))
    assert (made.outcome, len(made.model.initial_state)) == ("exact", 4)
    assert "2 functionals became 4 whole numbers" in made.reason


def polished(matrices, initial=(1.0, 0.0), readout=((1.0, 0.0), (-1.0, 0.0)), outcome="converged"):
    """A full network that was polished, as far as its residual says."""
    weight = torch.tensor(matrices, dtype=torch.float64).permute(1, 2, 0)
    model = tracker_of(
        Full.from_dense(weight), torch.tensor(initial).double(), torch.tensor(readout, dtype=torch.float64)
    )
    return Polished(model, "full", "closure", len(initial), "by hand", 1e-30, outcome, 0, 0)


NAMES = machine("parity").replace(delta=[[0], [0]], alphabet=["a"])
WORDS = OwnSequences([(0,), (0, 0), (0, 0, 0)], [0, 1, 0], 2)


def test_what_does_not_come_back_is_an_outcome():
    # a turn by one radian: nothing returns, and no coordinate is a fraction
    c, s = np.cos(1.0), np.sin(1.0)
    turned = make_exact(polished([[[c, -s], [s, c]]]), WORDS, NAMES)
    assert turned.outcome == "not rational"
    assert turned.distance > 1e-9
    assert "do not come back" in turned.reason
    # a shear is rational, and nothing returns either
    sheared = make_exact(polished([[[1.0, 1.0], [0.0, 1.0]]], (0.0, 1.0), ((1.0, 0.0), (0.0, 1.5))), WORDS, NAMES)
    assert (sheared.outcome, sheared.model) == ("not proven", None)
    assert sheared.distance < 1e-9
    unsolved = make_exact(polished([[[1.0, 0.0], [0.0, 1.0]]], outcome="not converged"), WORDS, NAMES)
    assert unsolved.outcome == "not converged"
    # an error of 1e-6 for each symbol is neither rounding nor another state
    near = make_exact(polished([[[1e-6 - 1.0, 0.0], [0.0, 1.0]]]), WORDS, NAMES)
    assert near.outcome == "not rational"


def test_two_equal_logits_are_no_answer():
    tied = make_exact(polished([[[0.0, 1.0], [1.0, 0.0]]], readout=((1.0, 1.0), (1.0, 1.0))), WORDS, NAMES)
    assert tied.outcome != "exact"


def test_what_was_not_learned_stays_an_outcome_of_polish():
    for task, spec in (("modular_addition(5)", "diagonal"), ("modular_addition(3)", "block(2)")):
        fine = sw.polish(sw.train(task, spec, steps=1, hidden=8), exact=True, seconds=ALWAYS)
        result = fine.to_dict()
        assert (result["status"], result["exact"]["status"]) == ("rank not found", "not converged")
        assert fine.failed


def test_the_command_writes_an_exact_network(tmp_path):
    run = sw.train(config=PLAN | {"task": "parity", "model": "full", "steps": 300}, out=tmp_path / "run")
    ended = statewise("polish", run.path, "--exact", "--out", tmp_path / "exact", "--seconds", ALWAYS)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "2 states, read out of it: equal on all words (proven, orbit)" in ended.stdout
    assert "the same: equal on all words (proven)" in ended.stdout
    judged = statewise("certify", tmp_path / "exact", "--json")
    assert json.loads(judged.stdout)["status"] == "proven"


def test_what_cannot_be_polished_gets_one_sentence():
    for model, options, message in [
        ("lstm", {}, "not bilinear"),
        ("full", {"additive": "input"}, "additive"),
        ("positive", {}, "positive networks cannot be polished"),
        ("full", {"lr": 1e30, "readout": "plain", "steps": 50}, "diverged"),
    ]:
        run = sw.train("parity", model, **{"steps": 2, "hidden": 8} | options)
        with pytest.raises(StatewiseError, match=message) as raised:
            sw.polish(run, exact=True)
        assert "\n" not in str(raised.value)
