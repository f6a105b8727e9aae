"""Networks from traces of Mealy machines are judged by the Mealy file: before the first symbol there is no output."""

import itertools
import json

import pytest

import statewise as sw
from statewise.errors import MachineError
from statewise.machines import read_machine

# a turnstile that counts to two before it locks again
EDGES = [("a", "coin", "ok", "b"), ("a", "push", "no", "a"), ("b", "coin", "ok", "b"), ("b", "push", "go", "c")]
EDGES += [("c", "coin", "ok", "b"), ("c", "push", "no", "a")]


def write_mealy(file, edges):
    lines = [f'{p} -> {q} [label="{symbol}/{output}"];' for p, symbol, output, q in edges]
    file.write_text("digraph g {\n__start0 [shape=none];\n__start0 -> a;\n" + "\n".join(lines) + "\n}\n")
    return file


@pytest.fixture
def learned(tmp_path):
    """The network of all traces of one to six symbols."""
    truth = read_machine(str(write_mealy(tmp_path / "turnstile.dot", EDGES)))
    words = [word for n in range(1, 7) for word in itertools.product(truth.alphabet, repeat=n)]
    rows = [{"word": word, "label": truth.output_names[truth.answer(truth.encode(word))]} for word in words]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return sw.learn(tmp_path / "traces.jsonl", out=tmp_path / "run")


def test_a_network_from_traces_is_proven_equal_to_the_mealy_machine(tmp_path, learned):
    assert "start" not in learned.machine.output_names
    found = sw.certify(tmp_path / "run", machine=tmp_path / "turnstile.dot", seconds=0.0)
    assert (found.status, found.verdict.shortest) == ("proven", 1)
    assert sw.certify(learned, machine=tmp_path / "turnstile.dot", shortest=3, seconds=0.0).verdict.shortest == 3


def test_another_mealy_machine_is_refuted(tmp_path, learned):
    other = [edge if edge[:2] != ("c", "push") else ("c", "push", "go", "a") for edge in EDGES]
    found = sw.certify(learned, machine=write_mealy(tmp_path / "other.dot", other), seconds=0.0)
    assert found.status == "refuted"
    assert found.counterexample.word.symbols() == tuple(learned.machine.encode(["coin", "push", "push"]))


def test_outputs_that_words_do_show_are_still_missed(tmp_path, learned):
    other = [edge if edge[:2] != ("c", "push") else ("c", "push", "alarm", "a") for edge in EDGES]
    with pytest.raises(MachineError, match='output "alarm"'):
        sw.certify(learned, machine=write_mealy(tmp_path / "other.dot", other), seconds=0.0)
