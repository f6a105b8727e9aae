"""`statewise learn` as a person or a script uses it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import statewise as sw
from statewise.cli.shell import command
from statewise.errors import StatewiseError
from statewise.machines import machine, read_machine


def call(function, *given, **shape):
    """Run a command in this process; a caller's mistake comes back as its error."""
    app = typer.Typer()
    app.command()(command(function, **shape))
    done = CliRunner().invoke(app, list(map(str, given)), standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, StatewiseError):
        raise done.exception
    return done


def learn(*given):
    return call(sw.learn, *given, arguments=["words"], required=["out"])


def write_words(file, truth, count=400, noise=0.0, seed=0):
    generator = np.random.default_rng(seed)
    rows = []
    for length in generator.integers(2, 11, count):
        word = generator.integers(0, truth.symbols, length)
        wrong = generator.random() < noise
        right = int(generator.integers(truth.classes) if wrong else truth.answer(word))
        rows.append(([truth.alphabet[a] for a in word], truth.output_names[right]))
    if file.suffix == ".csv":
        file.write_text("word,label\n" + "".join(f"{' '.join(word)},{label}\n" for word, label in rows))
    else:
        file.write_text("".join(json.dumps({"word": word, "label": label}) + "\n" for word, label in rows))


@pytest.mark.parametrize(("ending", "method"), [("csv", "auto"), ("jsonl", "rpni"), ("txt", "least-squares")])
def test_words_become_a_machine_and_its_network(tmp_path, ending, method):
    truth = machine("modular_addition(5)")
    write_words(tmp_path / f"words.{ending}", truth)
    done = learn(tmp_path / f"words.{ending}", "--method", method, "--out", tmp_path / "run", "--json")
    result = json.loads(done.stdout)
    expected = {"states": 5, "status": "exact", "words": 400, "consistent": 400, "verified": True}
    assert result.items() >= (expected | {"helpful_word": None, "run": str(tmp_path / "run")}).items()
    assert read_machine(str(tmp_path / "run" / "machine.json")) == truth
    manifest = json.loads((tmp_path / "run" / "network.json").read_text())
    assert (manifest["origin"], manifest["facts"]) == ("learned", result)


def test_the_network_is_read_by_other_commands(tmp_path):
    write_words(tmp_path / "words.csv", machine("modular_addition(5)"))
    learn(tmp_path / "words.csv", "--out", tmp_path / "run")
    done = call(sw.evaluate, tmp_path / "run", "--lengths", "10,2000", "--words", "50", "--json", arguments=["run"])
    assert json.loads(done.stdout)["score"] == [1.0, 1.0]


def test_noise_is_reported(tmp_path):
    truth = machine("modular_addition(5)")
    write_words(tmp_path / "words.jsonl", truth, 1_600, noise=0.2)
    result = json.loads(learn(tmp_path / "words.jsonl", "--out", tmp_path / "run", "--json").stdout)
    assert (result["status"], result["method"], result["states"]) == ("noisy", "least-squares", 5)
    assert 1_200 < result["consistent"] < 1_500
    assert read_machine(str(tmp_path / "run" / "machine.json")) == truth


def test_what_is_open_is_reported_and_its_label_settles_it(tmp_path):
    file = tmp_path / "words.csv"
    file.write_text("word,label\n,even\na,odd\naa,even\nb,even\n")
    result = json.loads(learn(file, "--out", tmp_path / "one", "--json").stdout)
    assert result["status"] == "undetermined"
    assert result["helpful_word"] == ["a", "b"]
    assert [1, "b"] in result["undetermined"]
    file.write_text(file.read_text() + "ab,odd\n")
    result = json.loads(learn(file, "--out", tmp_path / "two", "--json").stdout)
    assert (result["status"], result["unique"], result["states"]) == ("exact", True, 2)


def test_spaces_anywhere_mean_symbols_between_spaces(tmp_path):
    file = tmp_path / "words.csv"
    file.write_text("word,label\n,off\nset,on\nhold,off\nset hold,on\nset set,on\n")
    learn(file, "--out", tmp_path / "run")
    assert read_machine(str(tmp_path / "run" / "machine.json")).alphabet == ("hold", "set")


def test_numbers_and_truth_values_are_labels_and_symbols(tmp_path):
    file = tmp_path / "words.jsonl"
    rows = [([], False), ([10], True), ([9], False), ([10, 9], True), ([10, 10], False)]
    file.write_text("\n".join(json.dumps({"word": word, "label": label}) for word, label in rows))
    assert json.loads(learn(file, "--out", tmp_path / "run", "--json").stdout)["status"] == "exact"
    learned = read_machine(str(tmp_path / "run" / "machine.json"))
    assert (learned.alphabet, learned.output_names) == (("9", "10"), ("false", "true"))


ONE, TWO = '{"word": "ab", "label": "x"}\n', '{"word": "b", "label": "y"}\n'
BAD_FILES = [
    ("w.jsonl", "", "is empty"),
    ("w.csv", " \n\n", "is empty"),
    ("w.csv", "word,label\n", "no labelled words"),
    ("w.jsonl", "hello\n", "line 1 is not JSON"),
    ("w.jsonl", ONE + "{", "line 2 is not JSON"),
    ("w.jsonl", "[1, 2]", "holds a list"),
    ("w.jsonl", "[" * 100_000, "nests more than 100 deep"),
    ("w.jsonl", '{"label": "x"}', 'no "word"'),
    ("w.jsonl", '{"word": "ab"}', 'no "label"'),
    ("w.jsonl", ONE + '{"word": 5, "label": "x"}', "the word in line 2 is 5"),
    ("w.jsonl", '{"word": ["a", null], "label": "x"}', "symbol null"),
    ("w.jsonl", '{"word": ["a", ""], "label": "x"}', "without a name"),
    ("w.jsonl", '{"word": "a", "label": {"b": 1}}', "label {"),
    ("w.jsonl", ONE, 'all words have the label "x"'),
    ("w.jsonl", ONE + TWO + '{"word": "ab", "label": "y"}', 'labelled both "x" and "y"'),
    ("w.csv", "a,b\n1,2\n", 'no column "word"'),
    ("w.csv", "word\nab\n", 'no column "label"'),
    ("w.csv", "word,label\nab\n", "line 2 has no label"),
    ("w.csv", "word,label\nab,\n", "without a name"),
    ("w.csv", "word,label\n,x\n,y\n", "no word has a symbol"),
    ("w.csv", "word,label\n" + "a" * 200_000 + ",x\n", "not CSV"),
    ("w.jsonl", json.dumps({"word": ["a" * 300], "label": "x"}), "has 300 characters"),
    ("w.csv", f"word,label\nab,{'x' * 300}\nb,y\n", "has 300 characters"),
    ("w.jsonl", TWO + '{"word": ["\\ud800"], "label": "x"}', "surrogate"),
    ("w.csv", b"\xff\xfe\x00word", "not UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_files_get_one_sentence_and_leave_nothing(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = learn(file, "--method", "rpni", "--out", tmp_path / "run")
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)
    assert len(str(done.exception)) < 300
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "--out", "run"], "no such file"),
        (["a" * 300, "--out", "run"], "too long"),
        ([".", "--out", "run"], "is a directory"),
        (["w.jsonl", "--out", "o" * 300], "too long"),
        (["w.jsonl", "--out", "."], "not empty"),
        (["w.jsonl", "--out", "/dev/null/x"], "cannot write"),
        (["w.jsonl", "--out", "run", "--method", "rpn"], "expected auto, edsm, rpni"),
        (["w.jsonl", "--out", "run", "--method", "hankel"], "hankel needs the label of the word of no symbols"),
    ],
)
def test_bad_calls_get_one_sentence_and_leave_nothing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.jsonl").write_text(ONE + TWO)
    done = learn(*arguments)
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)
    assert [file.name for file in tmp_path.iterdir()] == ["w.jsonl"]


def test_the_command_speaks_before_torch_is_loaded(tmp_path):
    script = "import sys; from statewise.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    for arguments, code in ((["learn", "--help"], 0), (["learn", str(tmp_path / "none.csv"), "--out", "x"], 2)):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=600)
        assert done.returncode == code, done.stderr
        assert len(done.stderr.strip().splitlines()) == (code != 0)
