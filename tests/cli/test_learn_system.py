"""`statewise learn --system`: a program of the user's is asked, and whatever it does is one sentence or a machine."""

import itertools
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

import statewise as sw
from statewise.errors import StatewiseError
from statewise.theory.learning.program import Program
from tests.cli.test_learn_command import learn
from tests.command import STATEWISE, started, until

TURNSTILE = shlex.join([sys.executable, str(Path(__file__).parents[2] / "examples" / "turnstile_system.py")])


def program(folder, body):
    """Write a program that reads words as `word`, a list of symbols, and return its command."""
    lines = ["import os, sys, time", f"open({str(folder / 'pids')!r}, 'a').write(str(os.getpid()) + '\\n')"]
    lines += ["for count, line in enumerate(sys.stdin):", "    word = line.split()", *(f"    {part}" for part in body)]
    (folder / "system.py").write_text("\n".join(lines) + "\n")
    return shlex.join([sys.executable, str(folder / "system.py")])


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pids(folder):
    return [int(line) for line in (folder / "pids").read_text().splitlines()]


def test_the_turnstile_is_learned_and_its_network_answers_as_it_does(tmp_path):
    done = learn("--system", TURNSTILE, "--symbols", "coin,push", "--out", tmp_path / "run", "--json")
    result = json.loads(done.stdout)
    expected = {"states": 6, "mealy_states": 3, "status": "tested", "suite": "mixed", "extra": 1, "verified": True}
    assert result.items() >= expected.items()
    assert 0 < result["queries"] < 1_000
    learned = sw.load(tmp_path / "run").machine
    assert learned.alphabet == ("coin", "push")
    word = ["push", "coin", "coin", "coin", "push", "push", "push"]
    outputs = [learned.output_names[learned.answer(learned.encode(word[:end]))] for end in range(1, 8)]
    assert outputs == ["locked", "paid", "paid", "full", "go", "go", "locked"]
    assert sw.certify(tmp_path / "run", seconds=0.0).status == "proven"


def test_the_table_says_what_the_equality_rests_on():
    text = str(sw.learn(system=TURNSTILE, symbols="coin,push"))
    assert "tested: the system answers all" in text
    assert "at most 4 states as a Mealy machine" in text
    assert "proven" not in text


def test_a_function_and_a_program_give_the_same_machine():
    def turnstile(word):
        credit, output = 0, ""
        for symbol in word:
            coin = symbol == "coin"
            output = ("paid" if credit < 2 else "full") if coin else ("go" if credit else "locked")
            credit = min(credit + 1, 2) if coin else max(credit - 1, 0)
        return output

    asked = sw.learn(system=turnstile, symbols=["coin", "push"])
    assert asked.machine == sw.learn(system=TURNSTILE, symbols=["coin", "push"]).machine


def test_answers_after_the_last_symbol_do_as_well(tmp_path):
    command = program(tmp_path, ["print(len(word) % 3, flush=True)"])
    assert sw.learn(system=command, symbols="a").to_dict()["mealy_states"] == 3
    assert not any(map(alive, pids(tmp_path)))


BAD = [
    (["sys.exit(3) if count == 5 else print('x', flush=True)"], "ended with exit code 3 at the word"),
    (["1 / 0"], "ZeroDivisionError: division by zero"),
    (["print(flush=True)"], "with a blank line"),
    (["print('x y z', flush=True)"], "with 3 outputs"),
    (["print('x', flush=True)", "print('again', flush=True)"], "not asked for|differently"),
    (["print(count, flush=True)"], "differently when it is asked again"),
    (["print('x')", "time.sleep(600)"], r"does not answer the word .* within 0\.2 s.*flush"),
    (["sys.stdout.buffer.write(b'\\xff\\n')", "sys.stdout.flush()"], "not UTF-8"),
    (["sys.stdout.write('x' * 3_000_000)", "sys.stdout.flush()"], "more than 1,048,576 bytes"),
    (["os.close(1)", "time.sleep(600)"], "closed its output"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_bad_programs_get_one_sentence_leave_nothing_and_are_ended(tmp_path, body, message):
    command = program(tmp_path, body)
    seconds = "0.2" if "within" in message else "60"
    done = learn("--system", command, "--symbols", "a,b", "--answer-seconds", seconds, "--out", tmp_path / "run")
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    with pytest.raises(StatewiseError, match=message):
        raise done.exception
    assert len(str(done.exception)) < 400
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "run").exists()
    assert not any(map(alive, pids(tmp_path)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "no-such-program", "--symbols", "a"], "cannot be started"),
        (["--system", "", "--symbols", "a"], "is empty"),
        (["--system", "'a", "--symbols", "a"], "cannot be read"),
        (["--system", "cat"], "symbols are left out"),
        (["--system", "cat", "--symbols", "a,a"], 'symbols are "a,a"'),
        (["--system", "cat", "--symbols", "a,,b"], "expected different names"),
        (["--system", "cat", "--symbols", "a b,c"], "has a space"),
        (["--system", "cat", "--symbols", "a,b", "--queries", "3"], "expected at least 4"),
        (["--system", "cat", "--symbols", "a,b", "--suite", "w"], "unknown suite"),
        (["--system", "cat", "--symbols", "a,b", "--answer-seconds", "0"], "answer_seconds is"),
        (["--system", "cat", "--symbols", "a,b", "--method", "rpni"], "leave --method out"),
        (["w.csv", "--system", "cat", "--symbols", "a,b"], "both of words and --system"),
        (["w.csv", "--symbols", "a,b"], "without --system"),
        ([], "neither of words and --system"),
    ],
)
def test_bad_calls_get_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = learn(*arguments, "--out", "run")
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_budget_that_is_too_small_gives_what_was_found(tmp_path):
    done = learn(
        "--system", TURNSTILE, "--symbols", "coin,push", "--queries", "10", "--out", tmp_path / "run", "--json"
    )
    result = json.loads(done.stdout)
    assert (result["status"], result["queries"]) == ("undetermined", 10)
    assert "budget of 10 queries ended" in result["reason"]


def test_ctrl_c_ends_the_program_too(tmp_path):
    command = program(tmp_path, ["time.sleep(600)"])
    with started(
        [
            *STATEWISE,
            "learn",
            "--system",
            command,
            "--symbols",
            "a",
            "--answer-seconds",
            "600",
            "--out",
            tmp_path / "run",
        ]
    ) as process:
        until(lambda: (tmp_path / "pids").exists() and pids(tmp_path), process)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode == 130
    assert not any(map(alive, pids(tmp_path)))
    assert not (tmp_path / "run").exists()


def test_a_program_that_ignores_the_end_of_its_input_is_ended(tmp_path):
    body = ["print('x', flush=True)"]
    command = program(tmp_path, body)
    with (tmp_path / "system.py").open("a") as file:
        file.write("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n    time.sleep(1)\n")
    assert sw.learn(system=command, symbols="a").machine.states == 1
    assert not any(map(alive, pids(tmp_path)))


def test_words_of_the_examples_are_independent():
    """The protocol: a word is answered alike whatever came before."""
    words = [word for n in range(1, 5) for word in itertools.product(("coin", "push"), repeat=n)]

    with Program(TURNSTILE, 60.0) as asked:
        once = [asked(word) for word in words]
        assert [asked(word) for word in reversed(words)] == once[::-1]
