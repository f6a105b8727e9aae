"""Verdicts as theorems: Coq accepts them without axioms, and they say what the network and the machine are."""

import re
from pathlib import Path

import numpy as np
import pytest

import statewise as sw
from statewise.errors import NetworkError
from statewise.machines import machine
from statewise.theory.certify import Counterexample, Verdict, Word, certify, replay
from statewise.theory.coq import coq_file
from statewise.theory.coq.files import library_text
from statewise.theory.coq.growth import growth_table
from statewise.theory.coq.tables import orbit_table, series_table
from statewise.theory.network import Network, network_of
from statewise.theory.statement import statement_of
from tests.coq import CLOSED, coqc, proves

PROTOCOL = Path(__file__).parents[1] / "data" / "tcp_server_ubuntu_trans.dot"
EVERYTHING = ("Networks", "Tables", "Orbit", "Words", "Horizon")


def compiled(expression):
    m = machine(str(expression))
    return network_of(sw.compile(m, run=10).model), m


@pytest.fixture(scope="module")
def trained():
    """A network that was trained for a second: nearly addition modulo 3."""
    return sw.train("modular_addition(3)", "full", hidden=8, steps=600, late=0)


def hidden_beside(m):
    """One-hot states, and beside them two numbers that grow for ever and no logit reads, in other coordinates."""
    rng = np.random.default_rng(0)
    states = m.states
    matrices = np.zeros((m.symbols, states + 2, states + 2))
    for a in range(m.symbols):
        matrices[a, m.delta[:, a], np.arange(states)] = 1
    matrices[:, states:] = rng.integers(-2, 3, (m.symbols, 2, states + 2))
    turned = np.triu(rng.integers(-1, 2, (states + 2, states + 2)), 1) + np.eye(states + 2)
    back = np.rint(np.linalg.inv(turned))
    readout = np.zeros((m.classes, states + 2))
    readout[m.outputs, np.arange(states)] = 1
    initial = np.zeros(states + 2)
    initial[[m.start, states, states + 1]] = 1
    return Network(turned @ matrices @ back, turned @ initial, readout @ back)


def drifting(angle):
    """Parity with a rotation by a small angle at each symbol: wrong after about pi / angle symbols."""
    turn = np.array([[1.0, -angle], [angle, 1.0]])
    return Network(np.stack([turn, turn @ np.diag([1.0, -1.0])]), np.array([1.0, 0.125]), np.array([[1.0, 1], [1, -1]]))


def test_the_library_has_no_axioms(tmp_path):
    # each names what it rests on, all lemmas included
    theorems = ["checked_right", "checked_right_on_all", "checked_wrong", "checked_horizon", "checked_horizon_on_all"]
    asked = "\n".join(f"Print Assumptions {name}." for name in theorems)
    done = coqc(f"{library_text(*EVERYTHING)}\n{asked}\n", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [CLOSED] * len(theorems)


@pytest.mark.parametrize("name", EVERYTHING)
def test_nothing_is_admitted_and_every_lemma_has_a_comment(name):
    text = library_text(name)
    assert not re.search(r"\b(Axiom|Admitted|admit|Parameter|Hypothesis|Conjecture|Variable)\b", text)
    lines = text.splitlines()
    lemmas = [n for n, line in enumerate(lines) if re.match(r"(Lemma|Theorem|Corollary) ", line)]
    assert [lines[n] for n in lemmas if not lines[n - 1].endswith("*)")] == []
    # what is defined is explained too, several definitions at once perhaps
    for paragraph in text.split("\n\n"):
        if re.search(r"^(Definition|Record|Fixpoint|Inductive)", paragraph, re.MULTILINE):
            assert re.search(r"\*\)\n", paragraph), paragraph[:200]


@pytest.mark.parametrize("expression", ["symmetric(5)", PROTOCOL, "tomita(4)", "modular_arithmetic(3)"], ids=str)
def test_compiled_networks_are_proved(expression, tmp_path):
    network, m = compiled(expression)
    verdict = certify(network, m)
    assert (verdict.status, verdict.method) == ("proven", "orbit")
    text = coq_file(network, m, verdict)
    words = "legal the_language w" if "arithmetic" in str(expression) else f"over {m.symbols} w"
    assert f"Theorem verdict : forall w, {words} -> (0 <= size w)%N ->\n  (answer the_machine w <" in text
    assert proves(text, tmp_path)


def test_a_trained_network_is_refuted_and_snapped_it_is_proved(trained, tmp_path):
    found = sw.certify(trained, work=1_000_000, coq=tmp_path / "wrong.v")
    assert found.status == "refuted"
    assert len(found.counterexample.word) > 10
    text = (tmp_path / "wrong.v").read_text()
    assert f"size the_word = {len(found.counterexample.word)}%N" in text
    assert "~ right the_network the_machine the_word" in text
    assert proves(text, tmp_path)
    snapped = sw.snap(trained, out=tmp_path / "snapped")
    proved = sw.certify(snapped, shortest=2, coq=tmp_path / "right.v")
    assert proved.status == "proven"
    text = (tmp_path / "right.v").read_text()
    assert re.search(r"weights: SHA-256 [0-9a-f]{64} of its tensors", text)
    assert proves(text, tmp_path)


def test_a_polished_network_has_its_horizon_proved(trained, tmp_path):
    polished = sw.polish(trained, out=tmp_path / "polished")
    found = sw.certify(polished, seconds=0.0, coq=tmp_path / "horizon.v")
    assert found.status == "horizon"
    assert found.horizon > 10**10
    text = (tmp_path / "horizon.v").read_text()
    assert f"(size w <= {found.horizon})%N" in text
    assert proves(text, tmp_path)


def test_a_polished_network_in_whole_numbers_is_proved(trained, tmp_path):
    exact = sw.polish(trained, exact=True, out=tmp_path / "exact")
    found = sw.certify(exact, seconds=0.0, coq=tmp_path / "right.v")
    assert found.status == "proven"
    text = (tmp_path / "right.v").read_text()
    least = found.verdict.shortest
    assert f"Theorem verdict : forall w, over 3 w -> ({least} <= size w)%N ->" in text
    assert proves(text, tmp_path)
    # the machine with another arrow is not what this network is
    moved = text.replace("[1; 2; 0]%N;", "[1; 2; 1]%N;", 1)
    assert moved != text
    assert not proves(moved, tmp_path)


def test_logits_that_are_a_function_of_the_state_are_proved_by_spaces(tmp_path):
    m = machine("modular_addition(3)")
    network = hidden_beside(m)
    verdict = certify(network, m, 1)
    assert (verdict.status, verdict.method) == ("proven", "series")
    statement = statement_of(network, m, 1, False)
    assert orbit_table(statement) is None
    table = series_table(statement)
    assert table is not None
    assert max(len(entry.free) for entry in table) == 2
    assert proves(coq_file(network, m, verdict), tmp_path)


def test_a_wrong_power_is_read_symbol_by_symbol(tmp_path):
    network, m = drifting(2.0**-11), machine("parity")
    word = Word((0,), (0, 0), 4_000, (0,))
    replayed = replay(network, m, word)
    assert replayed is not None
    assert replayed.given != replayed.right
    text = coq_file(network, m, Verdict("refuted", "powers", "", 0, None, Counterexample(word, replayed, "powers")))
    assert "word [0]%N [0; 0]%N 4000 [0]%N" in text
    assert proves(text, tmp_path)


@pytest.mark.slow
def test_a_hundred_thousand_symbols(tmp_path):
    network, m = drifting(2.0**-15), machine("parity")
    word = Word((), (0,), 110_000)
    replayed = replay(network, m, word)
    assert replayed is not None
    assert replayed.given != replayed.right
    text = coq_file(network, m, Verdict("refuted", "powers", "", 0, None, Counterexample(word, replayed, "powers")))
    assert "size the_word = 110000%N" in text
    assert proves(text, tmp_path)


def read_back(text, name):
    """Read a matrix of a file, row by row, with zeros where it has no weight."""
    (body,) = re.findall(rf"(?:Definition {name} : matrix|  {name}) := \[\n(.*?)\](?:\.| \|}})", text, re.DOTALL)
    rows = []
    for line in body.split(";\n"):
        if line.strip().startswith("dense"):
            rows.append(dict(enumerate(int(x) for x in re.findall(r"-?\d+", line))))
        else:
            rows.append({int(j): int(x) for j, x in re.findall(r"weight (\d+) \(?(-?\d+)", line)})
    return rows


def test_the_file_holds_the_weights_and_the_machine():
    network, m = compiled("modular_arithmetic(5)")
    text = coq_file(network, m, certify(network, m))
    matrices, initial, readout = network.integers
    for name, matrix in [*((f"A{a}", matrix) for a, matrix in enumerate(matrices)), ("readout", readout)]:
        rows = read_back(text, name)
        assert len(rows) == len(matrix)
        assert [[row.get(j, 0) for j in range(network.hidden)] for row in rows] == matrix.tolist()
    (begun,) = re.findall(r"initial := \[(.*?)\];", text)
    assert [int(x.strip("()")) for x in begun.split("; ")] == initial.tolist()
    (moves,) = re.findall(r"moves := \[\n(.*?)\];\n", text, re.DOTALL)
    assert [[int(x) for x in re.findall(r"\d+", row)] for row in moves.split(";\n")] == m.delta.tolist()
    (outputs,) = re.findall(r"outputs := \[(.*?)\]%N", text)
    assert [int(x) for x in outputs.split("; ")] == m.outputs.tolist()


def test_what_coq_defines_is_what_the_network_computes(trained, tmp_path):
    network, m = network_of(trained.model), trained.machine
    verdict = sw.certify(trained, work=1_000_000).verdict
    text, words = coq_file(network, m, verdict), [(), (1,), (2, 0, 1), (0, 2, 2, 1, 1, 0, 2)]
    asked = []
    for word in words:
        written = f"[{'; '.join(map(str, word))}]%N"
        asked.append(
            f"Compute (map (fun k => logit the_network k {written}) [0; 1; 2]%N, answer the_machine {written})."
        )
    done = coqc(text + "\n".join(asked), tmp_path)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"= \(\[(.*?)\],\s*(\d+)%N\)", done.stdout.split(CLOSED)[1], re.DOTALL)
    matrices, initial, readout = network.integers
    for word, (logits, answer) in zip(words, shown, strict=True):
        h = initial
        for symbol in word:
            h = matrices[symbol] @ h
        assert [int(x.strip().strip("()")) for x in logits.split(";")] == (readout @ h).tolist()
        assert int(answer) == m.answer(word)


def test_the_documentation_shows_the_theorem_of_its_file():
    network, m = compiled("modular_addition(3)")
    text = coq_file(network, m, certify(network, m, 2))
    page = (Path(__file__).parents[2] / "docs" / "verified.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(Theorem .*?)```", page, re.DOTALL)
    assert shown in text
    defined = [line for line in library_text("Networks").splitlines() if line and not line.startswith(("(*", "   "))]
    assert len(defined) < 70


def test_names_cannot_end_a_comment(tmp_path):
    m = machine("parity").replace(alphabet=["*) Admitted. (*", 'a "quote'], output_names=["(*", "even\nodd"])
    network = network_of(sw.compile(m, run=10).model)
    assert proves(coq_file(network, m, certify(network, m)), tmp_path)


def test_what_no_file_can_say_is_one_sentence():
    network, m = compiled("modular_addition(3)")
    by_counts = Verdict("proven", "counts", "", 0)
    unknown = Verdict("unknown", "search", "", 0)
    can = "proofs by orbit and by series, counterexamples, and horizons by growth of errors are"
    grown = drifting(0.125)
    for given, verdict in ((grown, by_counts), (grown, unknown), (network, unknown)):
        with pytest.raises(NetworkError, match=can):
            coq_file(given, machine("parity") if given is grown else m, verdict)
    # a word too long to be computed
    far = Verdict("refuted", "", "", 0, None, Counterexample(Word((), (0,), 10**9), replay(network, m, Word((1,))), ""))
    with pytest.raises(NetworkError, match=r"1,000,000,000 symbols, which takes Coq too long"):
        coq_file(network, m, far)


def test_tables_are_refused_where_the_network_is_wrong():
    network, m = compiled("modular_addition(3)")
    other = m.replace(outputs=[0, 2, 1])
    for build in (orbit_table, series_table):
        assert build(statement_of(network, m, 0, False)) is not None
        assert build(statement_of(network, other, 0, False)) is None
    assert growth_table(statement_of(network, other, 0, False), network) is None
