"""Golden results: scores, losses, first weights, identities and verdicts stay what they were.

Rounding differs between processors, and a single run of a stackable level goes through another kernel than it did:
losses are compared to six digits, counts of correct answers to two sequences in a hundred.
"""

import json
from pathlib import Path

import pytest
import torch

from statewise.machines import machine
from statewise.runs import PlannedRun, execute_one
from statewise.theory import compile_machine, extract, network_of
from statewise.theory.certify import certify
from statewise.training import advance, build_training, evaluate_model, resolve

GOLDEN = json.loads((Path(__file__).parent / "results.json").read_text())


# how sequences were drawn when the results were recorded
UNIFORM = {"tests": "uniform", "draws": "uniform"}


def sample(tensor):
    flat = tensor.detach().double().flatten()
    return {
        "shape": list(tensor.shape),
        "first": flat[:3].tolist(),
        "sum": float(flat.sum()),
        "square": float(flat.square().sum()),
    }


def assert_sampled(tensor, expected):
    found = sample(tensor)
    assert found["shape"] == expected["shape"]
    for name in ("first", "sum", "square"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize(
    "golden", GOLDEN["runs"], ids=lambda golden: f"{golden['config']['model']}-{golden['key'][:6]}"
)
def test_runs(golden, tmp_path):
    options = resolve(golden["given"] | UNIFORM)
    assert options.to_dict() == golden["config"]
    assert options.key() == golden["key"]
    for name, value in build_training(options).model.state_dict().items():
        assert_sampled(value, golden["first"][name])
    record = execute_one(PlannedRun(options, tmp_path), lambda *anything: None).record.to_dict()
    expected = golden["record"]
    assert record["status"] == expected["status"]
    assert record["loss"] == pytest.approx(expected["loss"], rel=1e-6)
    assert (record["steps"], record["parameters"], record["probe"]) == (
        expected["steps"],
        expected["parameters"],
        expected["probe"],
    )
    for found, known in zip(record["history"], expected["history"], strict=True):
        assert found["step"] == known["step"]
        assert found["loss"] == pytest.approx(known["loss"], rel=1e-6)
        assert found["scores"] == pytest.approx(known["scores"], abs=0.1)
    for found, known in zip(record["scores"], expected["scores"], strict=True):
        assert found.keys() == known.keys()
        assert (found["length"], found["count"], found["majority"]) == (
            known["length"],
            known["count"],
            known["majority"],
        )
        assert abs(found["correct"] - known["correct"]) <= 2


@pytest.mark.parametrize("golden", GOLDEN["ensembles"], ids=lambda golden: golden["given"][0]["model"])
def test_ensembles(golden):
    members = [build_training(resolve(given | UNIFORM)) for given in golden["given"]]
    advance(members, 40)
    assert [member.loss for member in members] == pytest.approx(golden["losses"], rel=1e-6)
    for member, readout, correct in zip(members, golden["readout"], golden["correct"], strict=True):
        assert_sampled(member.model.readout, readout)
        scores = evaluate_model(member.model.eval(), member.task, [10, 40], 100, 0)
        assert all(abs(score.correct - known) <= 2 for score, known in zip(scores, correct, strict=True))


@pytest.mark.parametrize("golden", GOLDEN["verdicts"], ids=lambda golden: f"{golden['machine']}-{golden['level']}")
def test_verdicts(golden):
    torch.set_num_threads(1)
    built = machine(golden["machine"])
    compiled = compile_machine(built, golden["level"])
    assert (compiled.level, len(compiled.model.initial_state)) == (golden["compiled"], golden["hidden"])
    network = network_of(compiled.model)
    verdict = certify(network, built, seconds=0.0)
    assert (verdict.status, verdict.method, verdict.horizon) == tuple(
        golden[name] for name in ("status", "method", "horizon")
    )
    shifted = built.replace(delta=built.delta[:, [*range(1, built.symbols), 0]])
    other = certify(network, shifted, seconds=0.0)
    length = None if other.counterexample is None else len(other.counterexample.word)
    assert [other.status, other.method, length] == golden["other"]
    found = extract(network, 0, 8, alphabet=built.alphabet)
    assert found.machine.states == golden["extracted"]
    assert (found.machine == built) == golden["same"]
