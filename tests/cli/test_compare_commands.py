"""`compare` and `ladder`: one table for any model, on a store, resumed by the same call."""

import csv
import json
import subprocess
import sys

import pytest
from torch import nn

import statewise as sw
from statewise.errors import RunError
from statewise.machines import Machine
from statewise.models import TABLE
from statewise.papers.rungs import RUNGS
from statewise.runs.record import RecordedScore, mean_beats_constant
from statewise.store import Store
from statewise.sweep.terms import SETTINGS, Terms
from statewise.tasks import build_source
from statewise.tasks.word_files import WordFile
from statewise.tasks.words import SHARES, split_words
from statewise.training.metrics import Score
from tests.command import ROOT, statewise

SMALL = ("--steps", 20, "--hidden", 8, "--words", 40, "--lengths", "10,30")
DELTANET = f"{ROOT / 'examples' / 'own_deltanet.py'}:DeltaNet"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two tasks, two models, two seeds, with every file that is written."""
    folder = tmp_path_factory.mktemp("compared")
    what = ("--task", "parity", "--task", "modular_addition(3)", "--model", "full", "--model", "rnn", "--seeds", 2)
    files = ("--plot", folder / "c.svg", "--csv", folder / "c.csv", "--latex", folder / "c.tex")
    call = ("compare", *what, *SMALL, "--store", folder / "runs", *files)
    done = statewise(*call, "--json")
    assert done.returncode == 0, done.stderr
    return folder, call, json.loads(done.stdout)


def test_each_row_names_its_terms_and_every_score_has_its_constant_answer(compared):
    _, _, result = compared
    assert [(row["task"], row["model"]) for row in result["rows"]] == [
        ("parity", "full"),
        ("parity", "rnn"),
        ("modular_addition(3)", "full"),
        ("modular_addition(3)", "rnn"),
    ]
    for row in result["rows"]:
        assert row["seeds"] == [0, 1]
        assert row["training_lengths"] == [2, 10]
        assert row["steps"] == 20
        assert (row["loss"], row["lr"]) in {(setting.loss, setting.lr) for setting in SETTINGS}
        assert row["parameters"] > 0
        assert row["seconds"] > 0
        assert set(row["scores"]) == set(row["constant"]) == set(row["beats_constant"]) == {"10", "30"}
        assert all(len(scores) == 2 for scores in (row["train"], *row["scores"].values()))
    assert {row["verdict"] for row in result["rows"] if row["model"] == "rnn"} == {None}
    assert all(row["verdict"] for row in result["rows"] if row["model"] == "full")


def test_models_are_compared_on_the_same_sequences_and_the_store_has_every_run(compared):
    folder, _, result = compared
    with Store.open(folder / "runs") as store:
        records = list(store.records())
    assert len(records) == result["ran"]
    by_seed = {}
    for record in records:
        terms = record.config.model_dump(exclude={"model", "lr", "loss", "weight_decay", "readout", "embedding"})
        by_seed.setdefault((record.config.task, record.config.seed), []).append(terms)
    assert all(found == alike[0] for alike in by_seed.values() for found in alike)


def test_the_same_call_again_runs_nothing_and_says_the_same(compared):
    _, call, result = compared
    again = json.loads(statewise(*call, "--json").stdout)
    assert result["ran"] > 0
    assert again["ran"] == 0
    assert again["rows"] == result["rows"]


def test_csv_latex_and_plot_are_written(compared):
    folder, _, result = compared
    with (folder / "c.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["task"], row["model"]) for row in rows] == [(row["task"], row["model"]) for row in result["rows"]]
    for row, known in zip(rows, result["rows"], strict=True):
        assert float(row["score_30"]) == pytest.approx(sum(known["scores"]["30"]) / 2)
        assert float(row["constant_30"]) == pytest.approx(known["constant"]["30"])
    latex = (folder / "c.tex").read_text()
    assert r"modular\_addition(3) & full" in latex
    assert latex.count(r"\\") == 5
    picture = (folder / "c.svg").read_text()
    assert all(f"<!-- {text} -->" in picture for text in ("full", "rnn", "constant answer", "modular_addition(3)"))
    assert result["files"] == [str(folder / name) for name in ("c.svg", "c.csv", "c.tex")]


def test_a_score_that_does_not_beat_the_constant_answer_is_marked(compared):
    _, call, result = compared
    shown = statewise(*call).stdout
    worse = [row for row in result["rows"] if not all(row["beats_constant"].values())]
    assert ("×" in shown) == bool(worse)
    for row in result["rows"]:
        for length, beats in row["beats_constant"].items():
            assert not beats or sum(row["scores"][length]) / 2 > row["constant"][length]


def test_the_mean_over_seeds_beats_a_constant_answer_by_two_standard_errors():
    def scored(correct):
        return RecordedScore.of(Score(500, 200, correct, 2, 0.5))

    assert not mean_beats_constant([scored(102), scored(104)])
    assert mean_beats_constant([scored(140), scored(150)])
    # a run that failed counts as chance, and pulls the mean down
    assert not mean_beats_constant([scored(110), None, None])
    assert not mean_beats_constant([None])


class Counter(nn.Module):
    """A module that other processes find by its name."""

    def __init__(self, symbols, classes, hidden):
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)

    def forward(self, tokens):
        return self.read(self.embed(tokens).cumsum(dim=1))


def test_machines_and_classes_that_only_python_has_are_compared_and_resumed(tmp_path):
    class Inner(Counter):
        """A class of a function, which no other process finds."""

    toggle = Machine([[1, 0], [0, 1]], outputs=[0, 1], name="parity")
    last = Machine([[0, 1], [0, 1]], outputs=[0, 1])
    given = {"seeds": 1, "steps": 5, "hidden": 8, "lengths": [10], "words": 20, "store": tmp_path / "runs"}
    first = sw.compare([toggle, last], [Counter, Inner], **given)
    assert [cell.model.rpartition(":")[2] for cell in first.cells] == ["Counter", "Inner"] * 2
    assert all(len(cell.scores[10]) == 1 and not cell.failed for cell in first.cells)
    assert first.ran > 0
    again = sw.compare([toggle, last], [Counter, Inner], **given)
    assert again.ran == 0
    assert again.to_dict()["rows"] == first.to_dict()["rows"]


def test_what_a_model_cannot_read_and_what_fails_is_in_the_table(tmp_path):
    class Short(Counter):
        longest = 20

    class Tiny(Counter):
        longest = 5

    class Fails(Counter):
        def forward(self, tokens):
            # more sequences than a check tries
            if len(tokens) > 32:
                raise ValueError("no such luck")
            return super().forward(tokens)

    class Bad(Counter):
        def forward(self, tokens):
            raise KeyError("at once")

    table = sw.compare(
        "parity", [Short, Tiny, Fails], seeds=1, steps=5, hidden=8, lengths=[10, 50], words=20, store=tmp_path / "runs"
    )
    short, tiny, fails = table.cells
    assert list(short.scores) == [10]
    assert tiny.scores == {}
    assert tiny.trial.records == ()
    assert fails.failed == 1
    assert fails.scores == {10: (0.0,), 50: (0.0,)}
    assert "no such luck" in str(fails.trial.reason)
    shown = str(table)
    assert "reads at most 20" in shown
    assert "reads at most 5" in shown
    assert "1 failed" in shown
    assert "no such luck" in shown
    with pytest.raises(sw.StatewiseError, match="at once"):
        sw.compare("parity", [Short, Bad], seeds=1, steps=5, hidden=8, store=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def parity_pairs(*lengths):
    """Words of these lengths, each with the parity of its ones after each symbol."""
    words = [f"{n:0{length}b}" for length in lengths for n in range(40)]
    return [(word, [word[:end].count("1") % 2 for end in range(1, len(word) + 1)]) for word in words]


def test_labelled_sequences_are_a_task_with_scores_of_their_own_lengths_and_resumed(tmp_path):
    for name, lengths in (("train", (6, 7)), ("long", (9, 12))):
        lines = [json.dumps({"word": word, "labels": labels}) for word, labels in parity_pairs(*lengths)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    what = ("--words", "train.jsonl", "--test-words", "long.jsonl", "--task", "parity", "--model", "diagonal")
    call = ("compare", *what, "--seeds", 2, "--steps", 10, "--hidden", 8, "--lengths", "10", "--store", "runs")
    done = statewise(*call, "--csv", "c.csv", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    machine, own = first["rows"]
    assert own["task"] == 'words("train.jsonl", test="long.jsonl")'
    assert own["training_lengths"] == [1, 7]
    assert set(own["scores"]) == set(own["constant"]) == {"9", "12"}
    assert set(machine["scores"]) == {"10"}
    assert own["verdict"] is None
    assert machine["verdict"] is not None
    with Store.open(tmp_path / "runs") as store:
        seeds = {r.config.seed: r.pooled for r in store.records() if (r.config.loss, r.config.lr) == _chosen(own, r)}
    assert own["pooled"] == [seeds[0].score, seeds[1].score]
    assert own["pooled_constant"] == seeds[0].constant
    again = json.loads(statewise(*call, "--json", cwd=tmp_path).stdout)
    assert (first["ran"] > 0, again["ran"]) == (True, 0)
    assert again["rows"] == first["rows"]
    with (tmp_path / "c.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["score_pooled"]) for row in rows] == [False, True]
    assert float(rows[1]["score_pooled"]) == pytest.approx(sum(own["pooled"]) / 2)


def _chosen(row, record):
    """The setting of a row, for the records of its task only."""
    return (row["loss"], row["lr"]) if record.config.task == row["task"] else None


def test_all_models_train_alike_on_a_task_without_a_machine_whatever_their_recipes():
    terms = Terms(steps=30, test_lengths=(10,), words=50)
    recipes = {"model", "weight_decay", "readout", "embedding"}
    for task in ("bracket_arithmetic(5)", 'words("unread.csv")'):
        pairs = WordFile.from_pairs(parity_pairs(6, 7))
        source = split_words(pairs, SHARES, task) if "words" in task else build_source(task)
        options = [
            terms.options(task, name, SETTINGS[0], 0, kept=source).model_dump(exclude=recipes)
            for kind in TABLE
            for name in kind.examples
        ]
        assert all(found == options[0] for found in options)


def test_pairs_in_memory_are_compared_by_what_each_model_reads_and_resumed(tmp_path):
    class Short(Counter):
        longest = 8

    class Tiny(Counter):
        longest = 3

    given = {"words": parity_pairs(6, 7, 12), "models": [Short, Tiny, "rnn"], "shares": (0.5, 0.2, 0.3)}
    given |= {"seeds": 1, "steps": 3, "hidden": 8, "store": tmp_path / "runs"}
    with pytest.raises(sw.StatewiseError, match="leave the files"):
        sw.compare(**given, test_words="long.csv")
    first = sw.compare(**given)
    short, tiny, rnn = first.cells
    assert short.trial.records == tiny.trial.records == ()
    assert list(rnn.scores) == [6, 7, 12]
    assert rnn.pooled is not None
    assert "reads at most 8" in str(first)
    again = sw.compare(**given)
    assert (first.ran > 0, again.ran) == (True, 0)
    assert again.to_dict()["rows"] == first.to_dict()["rows"]
    other = sw.compare(**(given | {"words": given["words"][1:]}))
    assert other.ran == first.ran


def test_a_test_set_that_a_model_reads_in_part_has_no_score_as_a_whole(tmp_path, monkeypatch):
    class Short(Counter):
        longest = 10

    monkeypatch.chdir(tmp_path)
    for name, lengths in (("train", (6, 7)), ("long", (9, 12))):
        lines = [json.dumps({"word": word, "labels": labels}) for word, labels in parity_pairs(*lengths)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    found = sw.compare(
        ['words("train.jsonl", test="long.jsonl")'], [Short, "transformer"], seeds=1, steps=2, hidden=8, plot="p.svg"
    )
    short, transformer = found.cells
    assert list(short.scores) == [9]
    assert short.pooled is None
    assert list(transformer.scores) == [9, 12]
    assert transformer.pooled is not None
    assert "reads at most 10" in str(found)
    assert "words" in (tmp_path / "p.svg").read_text()


@pytest.mark.parametrize("command", ["compare", "ladder"])
def test_too_many_models_are_one_sentence_at_once(command, tmp_path):
    models = [f"block({size})" for size in range(1, 100_001)]
    given = (["parity"], models) if command == "compare" else (models,)
    with pytest.raises(sw.StatewiseError, match=r"at most 20,000 are begun") as caught:
        getattr(sw, command)(*given, store=tmp_path / "runs")
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (("compare", "--task", "parity", "--model", "nope"), 'unknown model "nope"'),
        (("compare", "--task", "nope", "--model", "full"), 'unknown machine "nope"'),
        (("compare", "--task", "parity", "--model", "full", "--plot", "x.pdf"), "not a .png or .svg"),
        (("compare", "--task", "parity", "--model", "full", "--engine", "cloud"), 'unknown engine "cloud"'),
        (("compare", "--words", "none.csv", "--model", "full"), "no such file"),
        (("compare", "--task", "parity", "--model", "full", "--shares", "0.8,0.1,0.1"), "give them with --words"),
        (("compare", "--model", "full"), "nothing to compare"),
        (("ladder", "--model", "nope"), 'unknown model "nope"'),
        (("ladder", "--model", "full", "--card", "x.pdf"), "not an .html, .png or .svg"),
        (("ladder", "--model", "full", "--seeds", "0"), "seeds is 0"),
    ],
)
def test_bad_input_is_one_sentence_and_begins_no_store(call, match, tmp_path):
    done = statewise(*call, "--store", tmp_path / "runs")
    assert done.returncode == 2
    assert match in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_script_that_asks_for_no_main_is_not_begun_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import statewise as sw\nprint('begun')\n"
        "print(sw.compare(['parity'], ['diagonal'], seeds=1, steps=2, hidden=4, lengths=[10], words=10).ran)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "begun"
    assert done.stdout.count("begun") == 1


def test_a_strangers_class_stands_beside_ours_in_compare_and_on_the_ladder(tmp_path):
    own = f"{DELTANET}(negative=true)"
    done = statewise(
        "compare", "--task", "parity", "--model", "full", "--model", own, "--seeds", 1, *SMALL, "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert [row["model"] for row in json.loads(done.stdout)["rows"]] == ["full", own]
    terms, page = ("--seeds", 1, "--steps", 2, "--words", 10, "--store", tmp_path / "runs"), tmp_path / "cards.html"
    done = statewise("ladder", "--model", "full", "--model", own, *terms, "--card", page, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [card["model"] for card in result["models"]] == ["full", own]
    for card in result["models"]:
        assert [rung["task"] for rung in card["rungs"]] == [rung.task for rung in RUNGS]
        assert all(set(rung["scores"]) == {"10", "100", "500"} for rung in card["rungs"])
    written = page.read_text()
    assert "DeltaNet(negative=true)" in written
    assert "http" not in written
    one = statewise("ladder", "--model", own, *terms, "--json")
    alone = json.loads(one.stdout)
    assert alone["ran"] == 0
    assert alone["rungs"] == result["models"][1]["rungs"]
    assert {"reached", "failed", "terms"} <= set(alone)


@pytest.fixture(scope="module")
def climbed(tmp_path_factory):
    """The options of ladders whose runs are in a store already."""
    given = {"seeds": 1, "steps": 2, "words": 10, "store": tmp_path_factory.mktemp("climbed") / "runs"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("statewise.commands.ladder.RUNGS", RUNGS[:2])
        sw.ladder(["diagonal", "positive"], **given)
    return given


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
@pytest.mark.parametrize("models", [["diagonal"], ["diagonal", "positive"]])
def test_a_card_is_written_in_every_form(ending, models, climbed, tmp_path, monkeypatch):
    monkeypatch.setattr("statewise.commands.ladder.RUNGS", RUNGS[:2])
    made = sw.ladder(models, **climbed, card=tmp_path / f"card.{ending}")
    assert made.ran == 0
    assert (tmp_path / f"card.{ending}").stat().st_size > 1_000
    assert [card.model for card in made.cards] == models
    assert "flip-flop" in str(made)


def test_the_learner_stands_beside_networks_and_alone(climbed, monkeypatch):
    monkeypatch.setattr("statewise.commands.ladder.RUNGS", RUNGS[:2])
    made = sw.ladder(["diagonal", "learn"], **climbed)
    assert made.ran == 0
    assert [card.model for card in made.cards] == ["diagonal", "learn"]
    assert made.cards[1].count == 2
    alone = sw.ladder("learn", **climbed)
    assert [rung["scores"]["500"] for rung in alone.to_dict()["rungs"]] == [[1.0], [1.0]]
    assert "2 of 2 rungs reached" in str(alone)


def test_a_directory_in_place_of_a_file_is_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(RunError, match="is a directory"):
        sw.compare("parity", ["diagonal"], seeds=1, steps=2, lengths=[10], store=tmp_path / "store", csv=tmp_path)
    assert not (tmp_path / "store").exists()
