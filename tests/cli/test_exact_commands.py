"""`compile`, `certify`, `extract` and `snap` as a person uses them."""

import json

import numpy as np
import pytest

import statewise as sw
from statewise.machines import machine, write_machine
from statewise.theory.certify.exact_replay import Word, replay
from statewise.theory.network import network_of
from tests.command import statewise


def run_json(*arguments, code=0):
    done = statewise(*map(str, arguments), "--json")
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A network that is right at 10 symbols and wrong at 500."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    options = ["--hidden", "24", "--steps", "800", "--late", "0"]
    done = statewise("train", "--task", "modular_addition(3)", "--model", "full", *options, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_from_training_to_proof(trained, tmp_path):
    certificate = tmp_path / "verdict.cert"
    verdict = run_json("certify", trained, "--work", "3000000", "--out", certificate, code=1)
    assert verdict["status"] == "refuted"
    assert verdict["shortest"] == 2
    assert json.loads(certificate.read_text())["statement"] == verdict["statement"]
    assert run_json("check", certificate, trained)["valid"] is True
    # the word replays from what was written alone
    found, m = verdict["counterexample"], machine("modular_addition(3)")
    word = Word(
        *(
            tuple(m.encode(found[part]).tolist()) if part != "times" else found[part]
            for part in ("prefix", "loop", "times", "suffix")
        )
    )
    assert [m.alphabet[a] for a in word.symbols()] == found["word"]
    replayed = replay(network_of(sw.load(trained).model), m, word)
    assert (m.output_names[replayed.right], m.output_names[replayed.given]) == (found["right"], found["given"])
    assert replayed.right != replayed.given
    read = run_json("extract", trained, "--out", tmp_path / "machine.json")
    assert (read["states"], read["equals_task"]) == (3, True)
    assert machine(str(tmp_path / "machine.json")) == m
    snapped = run_json("snap", trained, "--out", tmp_path / "snapped")
    assert snapped["status"] == "proven"
    assert run_json("certify", tmp_path / "snapped")["status"] == "proven"
    assert run_json("eval", tmp_path / "snapped", "--lengths", "500,20000", "--words", "20")["score"] == [1.0, 1.0]
    projected = run_json("snap", trained, "--mode", "project", "--out", tmp_path / "projected")
    assert projected["status"] == "horizon"
    assert projected["horizon"] > 10**6
    assert run_json("eval", trained, "--lengths", "3000", "--words", "20", "--reembed", "5")["score"] == [1.0]


def test_compiled_networks_are_runs(tmp_path):
    result = run_json("compile", "symmetric(4)", "--out", tmp_path / "s4", "--run", "20000")
    assert (result["level"], result["hidden"], result["verified"], result["exact"]) == ("block(3)", 3, True, True)
    assert result["ran_right"]
    assert run_json("eval", tmp_path / "s4", "--lengths", "10,5000", "--words", "20")["accuracy"] == [1.0, 1.0]
    verdict = run_json("certify", tmp_path / "s4")
    assert (verdict["status"], verdict["method"], verdict["shortest"]) == ("proven", "orbit", 0)
    rotation = run_json(
        "compile", "modular_addition(7)", "--level", "rotation", "--out", tmp_path / "r", "--run", "5000"
    )
    assert (rotation["status"], rotation["verified"], rotation["exact"]) == ("horizon", False, False)
    assert rotation["horizon"] > 10**5
    # a second one never lands on the first
    again = statewise("compile", "parity", "--out", str(tmp_path / "s4"))
    assert (again.returncode, again.stdout) == (2, "")
    assert "there already" in again.stderr


def test_a_wrong_machine_gives_a_shortest_word(tmp_path):
    run_json("compile", "modular_addition(4)", "--out", tmp_path / "z4", "--run", "100")
    sums = machine("modular_addition(4)")
    delta = sums.delta.copy()
    delta[3, 3] = 3
    write_machine(sums.replace(delta=delta), tmp_path / "other.json")
    verdict = run_json("certify", tmp_path / "z4", "--machine", tmp_path / "other.json", code=1)
    assert verdict["status"] == "refuted"
    assert verdict["counterexample"]["length"] <= 2


BAD = [
    (["compile", "parity", "--level", "lstm", "--out", "X"], "unknown level"),
    (["compile", "modular_addition(3)", "--level", "diagonal", "--out", "X"], "a period of 3"),
    (["compile", "tomita(3)", "--level", "block(2)", "--out", "X"], "no blocks of 2"),
    (["compile", "parity", "--dtype", "int8", "--out", "X"], "float32 or float64"),
    (["compile", "parity", "--out", "/dev/null/x"], "cannot write"),
    (["certify", "X"], "not the directory of a run"),
    (["extract", "X", "--out", "Y.json"], "not the directory of a run"),
    (["snap", "X", "--mode", "round", "--out", "Y"], "exact or project"),
    (["certify", "RUN", "--machine", "modular_addition(4)"], "reads 3 symbols and the machine 4"),
    (["certify", "RUN", "--machine", "nowhere.json"], "nowhere.json"),
    (["snap", "RUN", "--machine", "parity", "--out", "Y"], "reads 3 symbols"),
    (["certify", "RUN", "--machine", 'regex("[abc]*")'], 'reads "a", which the network does not'),
    (["eval", "RUN", "--sign-rule"], "no sign is wrong"),
    (["extract", "RUN", "--out", "Y.txt"], "Y.txt"),
    (["eval", "RUN", "--sign-rule", "--reembed", "-1"], "reembed"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD)
def test_bad_calls_get_one_sentence(trained, tmp_path, arguments, says):
    given = [str(trained) if argument == "RUN" else argument for argument in arguments]
    done = statewise(*given, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("model", "options"), [("lstm", []), ("full", ["--additive", "constant"])])
def test_networks_that_are_no_products_of_matrices(tmp_path, model, options):
    small = ["--hidden", "8", "--steps", "5", *options]
    assert (
        statewise("train", "--task", "parity", "--model", model, *small, "--out", str(tmp_path / "r")).returncode == 0
    )
    for command in (["certify", "r"], ["extract", "r", "--out", "m.json"], ["snap", "r", "--out", "s"]):
        done = statewise(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert "no product of matrices" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]


def test_more_classes_than_the_readout(tmp_path):
    m = machine("modular_addition(3)")
    write_machine(m.replace(outputs=np.array([0, 1, 5]), output_names=None), tmp_path / "many.json")
    run_json("compile", "modular_addition(3)", "--out", tmp_path / "z3", "--run", "0")
    done = statewise("certify", str(tmp_path / "z3"), "--machine", str(tmp_path / "many.json"))
    assert done.returncode == 2
    assert 'the output "5", which the network does not' in done.stderr


def test_symbols_and_outputs_are_matched_by_name(tmp_path):
    """The same machine, written in another order, is the same machine."""
    run_json("compile", "modular_addition(3)", "--out", tmp_path / "z3", "--run", "0")
    m = machine("modular_addition(3)")
    turned = m.replace(
        delta=m.delta[:, [2, 0, 1]], alphabet=("2", "0", "1"), outputs=np.array([1, 2, 0]), output_names=("2", "0", "1")
    )
    assert turned == m
    write_machine(turned, tmp_path / "turned.json")
    assert run_json("certify", tmp_path / "z3", "--machine", tmp_path / "turned.json")["status"] == "proven"
    assert run_json("snap", tmp_path / "z3", "--machine", tmp_path / "turned.json", "--out", tmp_path / "s")[
        "equals_task"
    ]
    assert run_json("certify", tmp_path / "s", "--machine", "modular_addition(3)")["status"] == "proven"


def test_machines_of_one_state_and_networks_that_are_none(tmp_path):
    run_json("compile", "cyclic(1)", "--out", tmp_path / "one", "--run", "100")
    assert run_json("certify", tmp_path / "one")["status"] == "proven"
    small = ["--hidden", "8", "--steps", "5"]
    for name, extra in (("raw", []), ("chain", ["--supervision", "chain"]), ("closed", ["--supervision", "closed"])):
        statewise(
            "train", "--task", "modular_addition(3)", "--model", "full", *small, *extra, "--out", str(tmp_path / name)
        )
    done = statewise("snap", str(tmp_path / "raw"), "--out", str(tmp_path / "snapped"))
    assert done.returncode == 2
    assert "no machine that could be read out" in done.stderr
    assert not (tmp_path / "snapped").exists()
    done = statewise("certify", str(tmp_path / "chain"))
    assert (done.returncode, "chains of thought" in done.stderr) == (2, True)
    done = statewise("certify", str(tmp_path / "closed"))
    assert (done.returncode, "one more token" in done.stderr) == (2, True)
