"""`track` as a person uses it: symbols in, an answer after each."""

import json
import os
import signal
import tracemalloc

import numpy as np
import pytest

import statewise as sw
from statewise.errors import NetworkError, RunError, StatewiseError
from statewise.machines import machine
from tests.command import STATEWISE, started, statewise, until

SMALL = {"hidden": 8, "steps": 5, "config": {"words": 20}}


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    return sw.compile("symmetric(3, generators=standard)", run=100, out=tmp_path_factory.mktemp("exact") / "run")


@pytest.fixture(scope="module")
def parity(tmp_path_factory):
    return sw.compile("parity", run=100, out=tmp_path_factory.mktemp("parity") / "run")


def expected(m, names):
    return [m.output_names[c] for c in m.outputs[m.track(list(names))].tolist()]


def test_answers_are_printed_as_symbols_are_read(parity):
    done = statewise("track", parity.path, input="0110 1\n1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == expected(parity.machine, "011011")
    done = statewise("track", parity.path, "--json", input="0110 1\n1")
    assert json.loads(done.stdout) == {"symbols": 6, "answer": "0", "by": "network", "reason": ""}
    assert json.loads(statewise("track", parity.path, "--json", input="").stdout)["answer"] is None


def test_a_table_says_on_what_it_rests(exact, tmp_path):
    word = tmp_path / "word.txt"
    word.write_text("(0 1)\n(0 1 2)\n(0 1)\n")
    done = statewise("track", exact.path, "--table", "--file", word)
    assert done.stdout.split() == expected(exact.machine, ["(0 1)", "(0 1 2)", "(0 1)"])
    assert done.returncode == 0
    assert "the answers are those of a table: the machine of its task, proven equal on all words" in done.stderr
    named = exact.machine.replace(state_names=[f"q{q}" for q in range(6)])
    shown = []
    sw.track(sw.compile(named, run=10), ["(0 1)", "(0 1 2)"], table=True, states=True, write=shown.append)
    assert "".join(shown).split() == [f"q{q}" for q in named.track(["(0 1)", "(0 1 2)"])]


def test_unknown_symbols_have_a_place(parity):
    done = statewise("track", parity.path, input="0 1 x 1")
    assert (done.returncode, done.stdout.split()) == (2, ["0", "1"])
    assert done.stderr == 'statewise: symbol 3 is "x"; expected one of 0, 1; correct it\n'


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("full", {}),
        ("cp(4)", {"readout": "plain"}),
        ("block(2)", {"embedding": 3}),
        ("rotation", {}),
        ("diagonal", {}),
        ("positive", {}),
        ("block(2)", {"additive": "input"}),
        ("lstm", {}),
        ("mamba", {}),
    ],
)
def test_networks_answer_as_they_do_over_whole_sequences(model, options):
    import torch

    run = sw.train("tomita(5)", model, **SMALL, **options)
    word = np.random.default_rng(0).integers(0, 2, 1_300)
    shown = []
    found = sw.track(run, [run.source.alphabet[a] for a in word], write=shown.append)
    with torch.no_grad():
        logits = run.model(torch.from_numpy(word[None, :100]))[0].double()
    # a tie between logits is no answer, and rounding decides it
    clear = (logits.topk(2).values.diff().abs().squeeze(-1) > 1e-4 * logits.abs().amax(dim=-1)).numpy()
    answers = np.array("".join(shown).split())
    assert found.symbols == len(answers) == 1_300
    assert clear.mean() > 0.5
    named = np.array(run.source.output_names)[logits.argmax(dim=-1).numpy()]
    assert (answers[:100] == named)[clear].all()


def test_networks_of_whole_numbers_are_exact_over_many_symbols(exact):
    m = exact.machine
    word = np.random.default_rng(1).integers(0, m.symbols, 20_000)
    names, shown = [m.alphabet[a] for a in word], []
    found = sw.track(exact, names, write=shown.append)
    assert "".join(shown).splitlines() == expected(m, names)
    assert (found.symbols, found.answer) == (20_000, expected(m, names)[-1])


def test_memory_does_not_grow_with_the_number_of_symbols(parity):
    def peak(count, table):
        tracemalloc.start()
        found = sw.track(parity, ("1" for _ in range(count)), table=table, write=lambda text: None)
        assert found.symbols == count
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    for table in (False, True):
        peak(1_000, table)
        # a hundred times as many symbols, at a generous bound: all of their names would take 3.2 MB
        assert peak(400_000, table) < peak(4_000, table) + 1_000_000


def test_a_closed_reader_ends_it_quietly(parity):
    with started([*STATEWISE, "track", parity.path]) as process:
        process.stdin.write("1 1 1 ")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        process.stdout.close()
        try:
            for _ in range(50):
                process.stdin.write("1 " * 200_000)
                process.stdin.flush()
        except BrokenPipeError:
            pass
        assert process.wait(600) == 1
        assert process.stderr.read() == ""


def test_a_file_is_followed_until_interrupted(parity, tmp_path):
    file, out = tmp_path / "growing.txt", tmp_path / "out.txt"
    file.write_text("1 ")
    with (
        out.open("w") as shown,
        started([*STATEWISE, "track", parity.path, "--file", file, "--follow"], stdout=shown) as process,
    ):
        until(lambda: out.read_text() == "1\n", process)
        with file.open("a") as more:
            more.write("1 1 ")
        until(lambda: out.read_text() == "1\n0\n1\n", process)
        os.kill(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=600)
    assert process.returncode == 130
    assert told == "statewise: interrupted after 3 symbols; the last answer is 1\n"


def test_wrong_calls_are_one_sentence(parity, tmp_path):
    with pytest.raises(RunError, match="give --table too"):
        sw.track(parity, "x.txt", states=True)
    with pytest.raises(RunError, match="only a file can be followed"):
        sw.track(parity, follow=True)
    with pytest.raises(StatewiseError, match=r'cannot read "none\.txt": no such file'):
        sw.track(parity, "none.txt")
    with pytest.raises(NetworkError, match="transformer keeps all that it has read"):
        sw.track(sw.train("parity", "transformer", **SMALL), ["1"])
    with pytest.raises(NetworkError, match="supervision closed and reads more than symbols"):
        sw.track(sw.train("parity", "full", supervision="closed", **SMALL), ["1"])
    assert sw.track(sw.train("parity", "transformer", **SMALL), ["1"], table=True).answer == "1"
    assert machine("parity") == parity.machine
