"""`statewise sample`, and `train --words` and `evaluate --words`, as a person or a script uses them."""

import csv
import json

import pytest

import statewise as sw
from statewise.errors import StatewiseError
from statewise.machines import machine
from statewise.machines.conformance import transition_cover
from statewise.tasks import legal_moves
from tests.cli.test_learn_command import call

QUICK = ("--model", "full", "--hidden", "8", "--steps", "200", "--lr", "0.01")


def sample(*given):
    return call(sw.sample, *given, arguments=["machine"])


def train(*given):
    return call(sw.train, *given, required=["out"])


def evaluate(*given):
    return call(sw.evaluate, *given, arguments=["run"])


def rows_of(file):
    if file.suffix == ".csv":
        with file.open(newline="") as stream:
            return [(row["word"].split(), row.get("label") or row["labels"].split()) for row in csv.DictReader(stream)]
    held = map(json.loads, file.read_text().splitlines())
    return [(row["word"], row["label"] if "label" in row else row["labels"]) for row in held]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("labels", ["final", "aligned"])
def test_a_sample_has_the_labels_of_its_machine(tmp_path, ending, labels):
    truth, out = machine("modular_addition(12)"), tmp_path / f"w.{ending}"
    done = sample("modular_addition(12)", "--out", out, "--count", 50, "--length", 9, "--labels", labels, "--json")
    assert json.loads(done.stdout)["count"] == 50
    assert json.loads(done.stdout)["path"] == str(out)
    for word, given in rows_of(out):
        right = [truth.output_names[int(truth.answer(word[: t + 1]))] for t in range(len(word))]
        assert given == (right if labels == "aligned" else right[-1])
        assert len(word) == 9


def test_balanced_samples_have_every_label_as_often(tmp_path):
    sample("tomita(1)", "--out", tmp_path / "u.csv", "--count", 100, "--length", 12)
    done = sample(
        "tomita(1)", "--out", tmp_path / "w.csv", "--count", 100, "--length", 12, "--sampling", "balanced", "--json"
    )
    assert json.loads(done.stdout)["constant"] == 0.5
    assert [label for _, label in rows_of(tmp_path / "u.csv")].count("1") < 10


@pytest.mark.parametrize("name", ["tomita(3)", "modular_arithmetic(3)"])
def test_a_cover_walks_every_transition(tmp_path, name):
    truth, out = machine(name), tmp_path / "w.jsonl"
    legal = legal_moves(truth)
    sample(name, "--out", out, "--count", 80, "--length", 10, "--sampling", "cover")
    words = [[truth.alphabet.index(symbol) for symbol in word] for word, _ in rows_of(out)]
    begun = {tuple(word[:length]) for word in words for length in range(1, len(word) + 1)}
    assert set(transition_cover(truth, legal)) <= begun
    for word in words:
        state = truth.start
        for symbol in word:
            assert legal[state, symbol]
            state = truth.delta[state, symbol]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parity", "--out", "w.txt"], "ends in .csv or .jsonl"),
        (["parity", "--out", "w.csv", "--count", "0"], "count is 0"),
        (["parity", "--out", "w.csv", "--length", "0"], "length is 0"),
        (["parity", "--out", "w.csv", "--sampling", "balance"], "balanced"),
        (["parity", "--out", "w.csv", "--labels", "each"], "labels"),
        (["parity", "--out", "w.csv", "--shortest", "11"], "shorter first"),
        (["parity", "--out", "w.csv", "--count", "3", "--sampling", "cover"], "the transition cover has 4"),
        (["parity", "--out", "w.csv", "--length", "1", "--sampling", "cover"], "ask for longer"),
        (["parity", "--out", "w.csv", "--length", "1000000000"], "ask for fewer"),
        (["modular_addition(12)", "--out", "w.csv", "--length", "1"], "use a name that ends in .jsonl"),
    ],
)
def test_samples_that_cannot_be_are_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = sample(*arguments)
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_sequences_are_trained_on_and_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, seed in (("train.csv", 0), ("validation.csv", 1), ("test.csv", 2)):
        sample("parity", "--out", file, "--count", 300, "--length", 7, "--shortest", 1, "--seed", seed)
    files = ("--words", "train.csv", "--validation-words", "validation.csv", "--test-words", "test.csv")
    done = train(*files, *QUICK, "--out", "run", "--json")
    found = json.loads(done.stdout)
    assert found["score_test"] == 1
    assert found["constant"] < 0.3
    assert json.loads((tmp_path / "run/config.json").read_text())["options"]["words"] == 300
    shown = json.loads(evaluate("run", "--words", "test.csv", "--json").stdout)
    assert shown["pooled"]["accuracy"] == 1
    assert "all lengths" in evaluate("run").stdout


@pytest.mark.parametrize(
    ("lines", "arguments", "message"),
    [
        ([""], [], "is empty"),
        (["word,label", "a,x", "b,y", "a,y"], [], "line 2 of w.csv and line 4 of w.csv"),
        (["word,label", "a,x", "b,x"], [], "at least two different labels"),
        (["word,label", "a,x", "b,y"], [], "none of them is left for"),
        (["word,label", "a,x", "b,y"], ["--shares", "0.5,0.5,0.5"], "add up to 1"),
        (["word,label", "a,x", "b,y"], ["--test-words", "strange.csv"], 'has the symbol "c", which never occurs'),
        (["word,label", "a,x", "b,y"], ["--test-words", "labels.csv"], 'has the label "z", which never occurs'),
        (["word,label", "a,x", "b,y"], ["--test-words", "none.csv"], "no such file"),
        (["word,label", "a,x", "b,y"], ["--task", "parity"], "give one of --task and --words"),
        (["words,label", "a,x"], [], 'no column "word"'),
    ],
)
def test_bad_sequences_are_one_sentence_and_leave_nothing(tmp_path, monkeypatch, lines, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "strange.csv").write_text("word,label\nc,x\n")
    (tmp_path / "labels.csv").write_text("word,label\na b,z\n")
    done = train("--words", "w.csv", *QUICK, "--out", "run", *arguments)
    assert isinstance(done.exception, StatewiseError)
    assert done.exception.exit_code == 2
    assert message in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_flags_of_sets_need_words(tmp_path):
    done = train("--task", "parity", *QUICK, "--shares", "0.8,0.1,0.1", "--out", tmp_path / "run")
    assert "give them with --words" in str(done.exception)
