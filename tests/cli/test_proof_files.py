"""`certify --coq` and `--smt` as a person uses them."""

import json
import re

import pytest

import statewise as sw
from statewise.machines import machine
from statewise.theory.coq.tables import orbit_table
from statewise.theory.network import network_of
from statewise.theory.statement import statement_of
from tests.command import statewise
from tests.coq import proves


@pytest.fixture(scope="module")
def parity(tmp_path_factory):
    """A compiled network of parity, in a directory."""
    folder = tmp_path_factory.mktemp("parity") / "network"
    sw.compile("parity", run=100, out=folder)
    return folder


def test_files_are_written_beside_the_verdict(parity, tmp_path):
    files = {"--coq": tmp_path / "verdict.v", "--smt": tmp_path / "deep" / "short.smt2"}
    asked = [str(part) for pair in files.items() for part in pair]
    done = statewise("certify", parity, "--out", tmp_path / "verdict.json", *asked, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said = json.loads(done.stdout)
    assert said["status"] == "proven"
    assert (said["coq"], said["smt"]) == tuple(map(str, files.values()))
    held = {re.search(r"SHA-256 ([0-9a-f]{64})", file.read_text())[1] for file in files.values()}
    assert len(held) == 1
    assert "(check-sat)" in files["--smt"].read_text()
    assert proves(files["--coq"].read_text(), tmp_path)
    shown = statewise("certify", parity, "--coq", files["--coq"])
    assert shown.stdout.splitlines()[1].split() == ["coq", str(files["--coq"])]


def test_a_verdict_that_coq_cannot_be_given_is_one_line(tmp_path):
    folder = tmp_path / "counted"
    sw.compile('regex("(a|b)*b(a|b)*b(a|b)*")', level="positive", run=100, out=folder)
    done = statewise("certify", folder, "--coq", tmp_path / "verdict.v")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "leave --coq" in done.stderr
    assert not (tmp_path / "verdict.v").exists()


def test_legal_words_have_an_automaton_of_their_own():
    m = machine("modular_arithmetic(3)")
    network = network_of(sw.compile(m, run=10).model)
    judged = statement_of(network, m, 2, True)
    assert judged.restricted
    # a number or an operator may follow, and nothing else counts
    assert len(judged.language) == 2
    table = orbit_table(judged)
    assert table is not None
    assert len(table) > m.states
    every = statement_of(network, m, 2, False)
    assert (every.language, every.restricted) == (((0,) * m.symbols,), False)
