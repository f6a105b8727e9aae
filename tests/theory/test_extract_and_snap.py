"""Machines out of trained networks, and trained networks put right by them."""

import numpy as np
import pytest
import torch

from statewise.errors import NetworkError
from statewise.machines import Machine, equivalent, machine, minimise
from statewise.theory import (
    Corrected,
    Network,
    compile_machine,
    extract,
    network_of,
    prototypes,
    snap_exact,
    snap_project,
)
from statewise.theory.certify import certify, prove_horizon
from statewise.training.evaluation import evaluate_model
from statewise.training.options import resolve
from statewise.training.state import build_training
from statewise.training.step import advance

TASKS = {
    "sums": "modular_addition(5)",
    "maps": "random_machine(5, seed=1, kind=map)",
    "permutations": "symmetric(3)",
}


@pytest.fixture(scope="module")
def trained():
    """Networks that are right at their training lengths and lost at 500."""
    torch.set_num_threads(1)
    made = {}
    for name, task in TASKS.items():
        given = {"task": task, "model": "full", "hidden": 32, "steps": 1_000, "late": 0, "seed": 1}
        # cross-entropy without decay: what the recipe sets instead is often right at 500 too
        plain = {"loss": "cross-entropy", "lr": 1e-3, "weight_decay": 0.0, "length_power": 1.0}
        made[name] = build_training(resolve(given | plain))
        advance([made[name]], 1_000)
        made[name].model.eval()
    return made


@pytest.mark.parametrize("name", TASKS)
def test_a_network_that_fails_at_500_still_shows_its_machine(trained, name):
    training = trained[name]
    near, far = evaluate_model(training.model, training.task, [10, 500], 200, 0)
    assert near.accuracy == 1
    assert far.accuracy < 1
    m = training.task.machine
    found = extract(network_of(training.model), 2, 10, 0, m.alphabet, m.output_names)
    assert equivalent(minimise(found.machine), m)
    assert found.method == "votes"
    assert found.agreement > 0.999
    assert found.faithful == ("tested" if found.agreement == 1 else "no")
    assert "words of 2 to 10" in found.reason


@pytest.mark.parametrize("name", TASKS)
def test_trained_weights_are_refuted_and_snapped_ones_proven(trained, name):
    training = trained[name]
    network, m = network_of(training.model), training.task.machine
    verdict = certify(network, m, 2, work=10_000_000)
    assert verdict.status == "refuted"
    found = prototypes(network, m, 2, 10)
    made = snap_exact(network, found)
    assert made.how == "one-hot states, trained margins"
    assert certify(network_of(made.model), m, seconds=0.0).status == "proven"
    assert all(s.accuracy == 1 for s in evaluate_model(made.model, training.task, [10, 500, 10_000], 50, 0))
    kept = snap_project(network, found)
    assert len(kept.model.initial_state) == 32
    horizon = prove_horizon(network_of(kept.model), found.machine)
    assert horizon is not None
    assert horizon.length is None or horizon.length > 10**6
    assert evaluate_model(kept.model, training.task, [10_000], 50, 0)[0].accuracy == 1


@pytest.mark.parametrize("name", TASKS)
def test_re_embedding_keeps_trained_weights_right(trained, name):
    training = trained[name]
    found = prototypes(network_of(training.model), training.task.machine, 2, 10)
    for every in (1, 4):
        corrected = Corrected(training.model, found, every=every)
        assert evaluate_model(corrected, training.task, [10, 2_000], 50, 0)[1].accuracy == 1
    # pieces of any size are one run
    words = torch.from_numpy(training.task.test(0, 50, 8).tokens)
    whole = corrected.advance(words, corrected.init_state(8))[0]
    state = corrected.init_state(8)
    for piece in words.split([1, 2, 30, 17], dim=1):
        logits, state = corrected.advance(piece, state)
    torch.testing.assert_close(logits, whole, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(corrected(words)[:, -1], whole, rtol=1e-3, atol=1e-3)


def test_the_sign_rule_helps_maps_and_is_refused_for_groups(trained):
    training = trained["maps"]
    found = prototypes(network_of(training.model), training.task.machine, 2, 10)
    plain, ruled = (
        evaluate_model(model, training.task, [500], 200, 0)[0].accuracy
        for model in (training.model, Corrected(training.model, found, sign_rule=True))
    )
    assert ruled > plain
    group = machine("modular_addition(5)")
    made = compile_machine(group).model
    with pytest.raises(NetworkError, match="no sign is wrong"):
        Corrected(made, prototypes(network_of(made), group), sign_rule=True)


@pytest.mark.parametrize("expression", ["tomita(3)", "tomita(5)", "even_pairs", 'regex("(ab)*")', "tomita(7)"])
@pytest.mark.parametrize("shortest", [0, 2])
def test_outputs_coarser_than_states_are_learned_from_rows(expression, shortest):
    m = machine(expression)
    found = extract(network_of(compile_machine(m).model), shortest, 9, 0, m.alphabet, m.output_names)
    assert found.faithful == "proven"
    assert found.machine == m
    assert "proven equal on all words" in found.reason


def test_exact_decisions_cover_words_that_no_test_contains():
    """A counter to 14 looks like one state to words of up to 9 symbols."""
    count = np.arange(14)
    m = Machine(np.minimum(count + 1, 13)[:, None], 0, (count == 13).astype(np.int64))
    found = extract(network_of(compile_machine(m, "full").model), 0, 9, 0, m.alphabet, m.output_names)
    assert found.machine == m
    assert "proven equal" in found.reason


def test_what_is_not_faithful_is_not_called_so():
    """Random weights are no machine of few states; where one is returned at all, the reason names a differing word."""
    random = np.random.default_rng(0)
    network = Network(random.standard_normal((3, 8, 8)), np.ones(8), random.standard_normal((4, 8)))
    try:
        found = extract(network, 0, 8)
    except NetworkError as error:
        assert "no machine" in str(error)
    else:
        assert found.faithful == "no"
        assert "differ on" in found.reason


@pytest.mark.parametrize("shortest", [0, 2])
def test_prototypes_of_states_that_random_words_do_not_reach(shortest):
    """Of a chain that one symbol breaks, words of two symbols reach the beginning only."""
    m = Machine([[1, 0], [2, 0], [3, 0], [4, 0], [5, 0], [5, 0]])
    network = network_of(compile_machine(m, "full").model)
    found = prototypes(network, m, shortest, 2)
    assert np.array_equal(found.vectors, np.eye(6))
    kept = snap_project(network, found)
    assert certify(network_of(kept.model), m, seconds=0.0).status in ("proven", "horizon")


def test_a_start_that_is_never_entered_again_has_a_prototype():
    m = Machine([[1, 2], [1, 2], [2, 1]], 0, [0, 1, 2])
    found = prototypes(network_of(compile_machine(m, "full").model), m, 2, 6)
    assert np.array_equal(found.vectors, np.eye(3))


def test_a_state_without_a_direction_is_named():
    m = Machine([[1], [2], [2]])
    matrices = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 0, 0]]])
    with pytest.raises(NetworkError, match="no direction"):
        prototypes(Network(matrices, np.eye(3)[0], np.eye(3)), m)
