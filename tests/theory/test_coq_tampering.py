"""A file that was tampered with does not compile: neither a witness, nor a network, nor a machine, nor a statement."""

import re

import numpy as np
import pytest

import statewise as sw
from statewise.machines import machine
from statewise.theory.certify import certify
from statewise.theory.coq import coq_file
from statewise.theory.network import Network, network_of
from tests.coq import proves


def once(text, old, new):
    """Change the first place that matches; there has to be one, and it has to change."""
    assert re.search(old, text), old
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    return changed


@pytest.fixture(scope="module")
def right():
    """Addition modulo 3 in blocks of whole numbers, judged from two symbols on."""
    m = machine("modular_addition(3)")
    network = network_of(sw.compile(m, run=10).model)
    return coq_file(network, m, certify(network, m, 2))


RIGHT = {
    "a direction": (r"point := dense \[1; 0\]", "point := dense [1; 1]"),
    "an arrow of the machine": (r"\[1; 2; 0\]%N", "[1; 2; 1]%N"),
    "an answer": (r"outputs := \[0; 1; 2\]%N", "outputs := [0; 2; 1]%N"),
    "a weight": (
        r"Definition A1 : matrix := \[\n  dense \[0; \(-1\)\]",
        r"Definition A1 : matrix := [\n  dense [0; 1]",
    ),
    "a weight of the readout": (r"(readout := \[\n.*?)2", r"\g<1>(-2)"),
    "the initial state": (r"initial := \[1; 0\]", "initial := [2; 1]"),
    "a step of the table": (r"plain \[(\d); (\d); (\d)\]", r"plain [\2; \1; \3]"),
    "a state of the table": (
        r"of_state := 1; of_language := 0; of_length := 2",
        "of_state := 2; of_language := 0; of_length := 2",
    ),
    "an entry too few": (r"; e(\d+)\]\.", "]."),
    "shorter words, which the table does not judge": (r"\(2 <= size w\)%N", "(1 <= size w)%N"),
    "another alphabet": (r"over 3 w", "over 4 w"),
    "a class more": (r"k <> answer the_machine w ->", "True ->"),
}


def test_what_is_not_tampered_with_compiles(right, tmp_path):
    assert proves(right, tmp_path)


@pytest.mark.parametrize("what", RIGHT)
def test_a_proof_of_all_words(right, what, tmp_path):
    assert not proves(once(right, *RIGHT[what]), tmp_path)


@pytest.fixture(scope="module")
def wrong():
    """A network whose two last answers are swapped."""
    m = machine("modular_addition(3)")
    network = network_of(sw.compile(m, run=10).model)
    return coq_file(network, m.replace(outputs=[0, 2, 1]), certify(network, m.replace(outputs=[0, 2, 1])))


WRONG = {
    "the word": (r"word \[(\d)\]%N", "word [0]%N"),
    "the answer": (r"answer the_machine the_word = 2%N", "answer the_machine the_word = 1%N"),
    "the length": (r"size the_word = 1%N", "size the_word = 2%N"),
    "the machine": (r"outputs := \[0; 2; 1\]%N", "outputs := [0; 1; 2]%N"),
}


def test_a_counterexample_that_is_not_tampered_with_compiles(wrong, tmp_path):
    assert proves(wrong, tmp_path)


@pytest.mark.parametrize("what", WRONG)
def test_a_counterexample(wrong, what, tmp_path):
    changed = once(wrong, *WRONG[what])
    if what == "the word":
        # the proof names it too
        changed = once(changed, r"\d+ \[\d\]%N \[\] 0 \[\] (\d) (\d)\)", r"64 [0]%N [] 0 [] \1 \2)")
    assert not proves(changed, tmp_path)


@pytest.fixture(scope="module")
def near():
    """Parity by a sign that is not quite one: right for a while."""
    off = 2.0**-20
    matrices = np.array([[[1.0, 0.0], [off, 1.0]], [[1.0, 0.0], [0.0, -1.0 + off]]])
    network, m = Network(matrices, np.array([1.0, 1.0]), np.array([[1.0, 1.0], [1.0, -1.0]])), machine("parity")
    verdict = certify(network, m, 1, 0.0)
    assert verdict.status == "horizon"
    assert 10**5 < verdict.horizon < 10**7
    return coq_file(network, m, verdict)


NEAR = {
    "the horizon": (
        r"(\(size w <= \d+)(\)%N.*Proof\. apply \(checked_horizon_on_all the_network the_machine 2 1 \d+)",
        r"\g<1>00\g<2>00",
    ),
    "what a symbol adds": (r"added := \d", "added := "),
    "by what it multiplies": (r"grown := [1-9]", "grown := 0"),
    "a prototype": (r"(in_room := 1;\n  prototype := dense \[)(\d)", r"\g<1>9\2"),
    "a share": (r"shares := \[\n  \[(\d)", r"shares := [\n  [9\1"),
}


def test_a_horizon_that_is_not_tampered_with_compiles(near, tmp_path):
    assert proves(near, tmp_path)


@pytest.mark.parametrize("what", NEAR)
def test_a_horizon(near, what, tmp_path):
    old, new = NEAR[what]
    changed = re.sub(old, new, near, count=1, flags=re.DOTALL)
    assert changed != near
    assert not proves(changed, tmp_path)
