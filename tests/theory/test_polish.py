"""Polish: trained on sequences of ten symbols, exact to machine precision, and proven to ten billion."""

import json
import math
from functools import cache

import numpy as np
import pytest
import torch

import statewise as sw
from statewise.errors import NetworkError, StatewiseError
from statewise.machines import machine
from statewise.runs.directory import read_record
from statewise.store import Store
from statewise.sweep import EngineOptions, run_grid
from statewise.tasks import Task
from statewise.theory.polish import OwnSequences, polish_tracker
from statewise.theory.polish.automaton import TrainedAutomaton
from statewise.training.options import resolve
from statewise.transitions import CP, Block, Diagonal, Full, Rotation
from tests.command import statewise

# rounds bound the work, whatever the computer
ALWAYS = 1e9
MAP = "random_machine(5, seed=3, kind=map)"
KINDS = {"full": Full, "cp": CP, "block": Block, "rotation": Rotation, "diagonal": Diagonal}
# a machine, a level, and the steps in which it is learned at length 10
POLISHABLE = [
    ("parity", "full", 300),
    ("modular_addition(5)", "full", 600),
    (MAP, "full", 600),
    ("modular_arithmetic(3)", "full", 1_000),
    ("modular_addition(3)", "cp(64)", 600),
    ("modular_addition(3)", "block(2)", 600),
    ("modular_addition(5)", "block(2)", 600),
    (MAP, "block(8)", 800),
    ("modular_addition(5)", "rotation", 600),
    ("parity", "diagonal", 300),
]
PLAN = {"hidden": 32, "probe": [10], "test_lengths": [10, 10_000], "words": 50}


@cache
def trained(task, model, steps):
    return sw.train(config=PLAN | {"task": task, "model": model, "steps": steps, "seed": 1})


@pytest.mark.parametrize("supervision", ["final", "aligned"])
def test_a_fixed_training_set_is_all_that_polish_sees(monkeypatch, supervision):
    seen = []

    def record_source(model, source, *rest, **options):
        seen.append(source)
        return polish_tracker(model, source, *rest, **options)

    monkeypatch.setattr("statewise.theory.polish.recording.polish_tracker", record_source)
    plan = {"task": "modular_addition(3)", "model": "full", "hidden": 8, "steps": 5, "samples": 50, "shortest": 4}
    run = sw.train(config=plan | {"longest": 4, "supervision": supervision, "probe": [4], "test_lengths": [4]})
    sw.polish(run, seconds=ALWAYS)
    known = seen[0]._known
    whole = {word for word in known if len(word) == 4}
    assert len(whole) == 50
    assert set(known) == whole | ({w[:t] for w in whole for t in (1, 2, 3)} if supervision == "aligned" else set())
    assert all(sum(word) % 3 == answer for word, answer in known.items())


def check_structure(model, result, spec):
    """A network is of its level still, and a block that was reduced has zeros where nothing is left."""
    name = spec.split("(")[0]
    assert type(model.transition) is KINDS[name]
    assert result["level"] == spec
    hidden = len(model.initial_state)
    assert (model.transition.hidden_size, result["rank"]) == (hidden, hidden)
    assert all(parameter.dtype == torch.float64 for parameter in model.parameters())
    if name == "cp":
        assert f"cp({model.transition.rank})" == spec
    if name == "block":
        size = model.transition.size
        assert spec == f"block({size})"
        assert hidden % size == 0
        kept = int(result["reason"].split()[0])
        matrices = TrainedAutomaton(model).matrices
        used = matrices.abs().sum(dim=0)
        alive = (used.sum(dim=0) > 0) & (used.sum(dim=1) > 0)
        assert int(alive.sum()) == kept < hidden
        for dead in torch.arange(hidden)[~alive].tolist():
            assert not matrices[:, dead].any()
            assert not matrices[:, :, dead].any()
            assert model.initial_state[dead] == 0


@pytest.mark.parametrize(("task", "spec", "steps"), POLISHABLE)
def test_every_level_is_right_at_ten_thousand_and_proven_far_beyond(task, spec, steps):
    run = trained(task, spec, steps)
    assert run.record.scores[0].score == 1.0
    fine = sw.polish(run, seconds=ALWAYS)
    result = fine.to_dict()
    assert (result["status"], result["objective"]) == ("converged", "closure")
    assert "functionals" in result["reason"]
    assert "take one value for each label" in result["reason"]
    assert result["residual"] < 1e-24
    assert result["horizon"] >= 10**10
    assert not fine.failed
    check_structure(fine.model, result, spec)
    assert [score.score for score in sw.evaluate(fine, lengths=[1, 10, 10_000], words=50).scores] == [1.0] * 3
    assert json.loads(json.dumps(result)) == result
    assert fine.shortest == 1
    verdict = sw.certify(fine, work=0)
    assert verdict.status in ("proven", "horizon")
    assert verdict.verdict.shortest == 1
    assert verdict.horizon is None or verdict.horizon >= 10**10


def test_polish_is_what_makes_trained_networks_right_at_ten_thousand():
    short = [trained(*case).record.scores[-1].score for case in POLISHABLE]
    assert sum(score < 0.7 for score in short) >= 4


def test_a_polished_network_is_kept_opened_and_polished_again(tmp_path):
    run = trained("modular_addition(5)", "full", 600)
    seen = []
    fine = sw.polish(run, out=tmp_path / "fine", seconds=ALWAYS, show=seen.append)
    rounds = fine.to_dict()["rounds"]
    assert len(seen) == rounds
    assert all("residual" in line for line in seen)
    again = sw.load(tmp_path / "fine")
    assert (again.manifest.origin, again.name, again.shortest) == ("polished", "full", 1)
    assert again.manifest.facts["horizon"] == fine.to_dict()["horizon"]
    assert sw.evaluate(again, lengths=[10_000], words=30).scores[0].score == 1.0
    twice = sw.polish(again, seconds=ALWAYS).to_dict()
    assert (twice["status"], twice["rank"]) == ("converged", fine.to_dict()["rank"])
    assert twice["rounds"] <= rounds


@pytest.mark.parametrize(
    ("task", "rank", "steps"), [("modular_addition(5)", 5, 600), ("modular_arithmetic(3)", 8, 1_000), (MAP, 5, 600)]
)
def test_values_are_solved_for_at_the_hankel_rank(task, rank, steps):
    run = trained(task, "full", steps)
    found = polish_tracker(run.model, run.task, seconds=ALWAYS, objective="values")
    assert (found.outcome, found.objective, found.rank) == ("converged", "values", rank)
    assert found.reason == f"the Hankel rank of the answers on short sequences is {rank}"
    # values are one-hot, and stay so
    polished, batch = TrainedAutomaton(found.model), run.task.test(0, 2_000, 20)
    h = polished.initial.expand(20, -1)
    for symbols in batch.tokens.T:
        h = (polished.matrices[symbols] @ h.unsqueeze(2)).squeeze(2)
    one_hot = torch.eye(run.machine.classes, dtype=torch.float64)[batch.finals]
    torch.testing.assert_close(h @ polished.readout.T, one_hot, rtol=0, atol=1e-6)


def words_with_prefixes(m, count, longest, seed=0):
    """Labelled sequences drawn by hand, and all their prefixes, the empty one included."""
    random, found = np.random.default_rng(seed), {}
    for _ in range(count):
        word = tuple(random.integers(0, m.symbols, int(random.integers(1, longest + 1))).tolist())
        for end in range(len(word) + 1):
            found[word[:end]] = m.answer(np.array(word[:end], dtype=np.int64))
    return found


@pytest.mark.parametrize(
    ("task", "spec", "steps"),
    [
        case
        for case in POLISHABLE
        if case[:2] in [("modular_addition(5)", "full"), (MAP, "block(8)"), ("modular_addition(5)", "rotation")]
    ],
)
def test_labelled_sequences_suffice_and_no_machine_is_used(task, spec, steps):
    run = trained(task, spec, steps)
    labelled = words_with_prefixes(run.machine, 600, 6)
    source = OwnSequences(list(labelled), list(labelled.values()), run.machine.classes)
    found = polish_tracker(run.model, source, seconds=ALWAYS)
    drawn = polish_tracker(run.model, run.task, seconds=ALWAYS)
    assert (found.outcome, found.objective, found.rank) == (drawn.outcome, drawn.objective, drawn.rank)
    assert found.outcome == "converged"
    polished = sw.Run(run.machine, held=found.model)
    assert sw.evaluate(polished, lengths=[10, 10_000], words=50).scores[1].score == 1.0
    assert sw.certify(polished, shortest=1, work=0).horizon >= 10**10


def test_own_sequences_know_the_labels_of_prefixes_that_were_given():
    source = OwnSequences([(0, 1, 1), (0, 1), (1,), ()], [2, 1, 0, 1], 3)
    data = source.draw(0, 10)
    rows = {
        tuple(tokens[:n]): row for row, (tokens, n) in enumerate(zip(data.tokens.tolist(), data.lengths, strict=True))
    }
    assert data.path[rows[0, 1, 1]].tolist() == [-1, 1, 2]
    assert data.path[rows[1,]].tolist()[:1] == [0]
    assert sorted(data.answers.tolist()) == [0, 1, 2]
    assert (source.start, source.answer_of.tolist(), source.hankel_rank()) == (1, [0, 1, 2], None)
    assert OwnSequences([(0,)], [0], 2).start == -1
    assert source.draw(0, 1).tokens.shape[0] == 1
    assert source.draw(0, 10, longest=1).lengths.tolist() == [1]
    with pytest.raises(NetworkError, match="no labelled sequences"):
        OwnSequences([()], [0], 2)


def write_words(file, m, labelled):
    """Write labelled sequences by the names of the machine."""
    pairs = [(list(m.decode(word)), m.output_names[answer]) for word, answer in labelled.items()]
    if file.suffix == ".csv":
        file.write_text("word,label\n" + "".join(f"{' '.join(word)},{label}\n" for word, label in pairs))
    else:
        file.write_text("".join(json.dumps({"word": word, "label": label}) + "\n" for word, label in pairs))


def test_the_command_polishes_with_a_file_of_labelled_sequences(tmp_path):
    m = machine("modular_addition(5)")
    run = sw.train(config=PLAN | {"task": m.name, "model": "full", "steps": 600}, out=tmp_path / "run")
    labelled, files = words_with_prefixes(m, 600, 6), [tmp_path / "words.jsonl", tmp_path / "words.csv"]
    for file in files:
        write_words(file, m, labelled)
    ended = statewise("polish", run.path, "--data", files[0], "--out", tmp_path / "fine", "--seconds", ALWAYS, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)
    assert (result["status"], result["run"]) == ("converged", str(tmp_path / "fine"))
    assert result["horizon"] >= 10**10
    assert sw.evaluate(tmp_path / "fine", lengths=[10_000], words=50).scores[0].score == 1.0
    # the other format holds the same sequences
    same = sw.polish(run, data=files[1], seconds=ALWAYS).to_dict()
    changing = {"run", "seconds"}
    assert {k: v for k, v in same.items() if k not in changing} == {
        k: v for k, v in result.items() if k not in changing
    }


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_strange_names_in_a_file_are_one_sentence(ending, tmp_path):
    run, file = trained("parity", "full", 300), tmp_path / f"words.{ending}"
    for symbol, label, message in [("2", "even", 'symbol "2"'), ("1", "strange", 'label "strange"')]:
        write_words(file, machine("parity"), words_with_prefixes(machine("parity"), 20, 4))
        line = f"{symbol} 1,{label}\n" if ending == "csv" else json.dumps({"word": [symbol], "label": label}) + "\n"
        file.write_text(file.read_text() + line.replace("even", machine("parity").output_names[0]))
        with pytest.raises(NetworkError, match=message) as raised:
            sw.polish(run, data=file)
        assert "\n" not in str(raised.value)
        assert "expected" in str(raised.value)


@pytest.mark.parametrize(
    ("task", "spec", "hidden", "outcome", "objective"),
    [
        ("modular_addition(3)", "block(2)", 8, "rank not found", "closure"),
        ("modular_addition(3)", "rotation", 8, "rank not found", "closure"),
        ("parity", "block(2)", 8, "rank not found", "closure"),
        # six states do not fit into four dimensions
        ("symmetric(3)", "full", 4, "rank not found", "closure"),
    ],
)
def test_what_was_not_learned_is_an_outcome(task, spec, hidden, outcome, objective):
    run = sw.train(task, spec, steps=1, hidden=hidden)
    fine = sw.polish(run, seconds=ALWAYS)
    result = fine.to_dict()
    assert (result["status"], result["objective"], result["horizon"]) == (outcome, objective, None)
    assert fine.failed
    assert result["reason"]
    if outcome == "rank not found":
        before, after = (sw.evaluate(network, lengths=[3], words=200).scores[0].correct for network in (run, fine))
        assert before == after


def test_a_rank_that_is_given_is_kept():
    run = trained("modular_addition(5)", "full", 600)
    # two dimensions hold one character of Z_5, which separates the answers
    for rank in (2, 5, 7):
        result = sw.polish(run, rank=rank, seconds=ALWAYS).to_dict()
        assert (result["status"], result["rank"]) == ("converged", rank)
    small = sw.polish(run, rank=1, seconds=ALWAYS).to_dict()
    assert (small["status"], small["reason"], small["horizon"]) == ("not converged", "as given", None)
    assert small["residual"] > 1e-3


def test_what_cannot_be_polished_gets_one_sentence():
    small = {"steps": 2, "hidden": 8}
    for task, model, options, rank, message in [
        ("parity", "lstm", {}, None, "not bilinear"),
        ("parity", "full", {"additive": "input"}, None, "additive"),
        ("parity", "positive", {}, None, "positive networks cannot be polished; use full, cp, block"),
        ("parity", "full", {"supervision": "chain"}, None, "chains of thought"),
        ("parity", "full", {"supervision": "closed"}, None, "one more token"),
        ("parity", "full", {}, 9, "rank is 9; expected 1 to 8"),
        ("parity", "full", {}, 0, "rank is 0; expected 1 to 8"),
        ("parity", "block(2)", {}, 2, "take no rank"),
        ("parity", "rotation", {}, 2, "take no rank"),
        ("parity", "full", {"lr": 1e30, "readout": "plain", "steps": 50}, None, "diverged"),
    ]:
        run = sw.train(task, model, **small | options)
        with pytest.raises(StatewiseError, match=message) as raised:
            sw.polish(run, rank=rank)
        assert "\n" not in str(raised.value)
    with pytest.raises(NetworkError, match="full and cp networks only"):
        polish_tracker(trained("parity", "diagonal", 300).model, Task(machine("parity")), objective="values")
    broken = sw.train("parity", "full", **small).model
    with torch.no_grad():
        broken.readout[0, 0] = math.nan
    with pytest.raises(NetworkError, match="not finite"):
        polish_tracker(broken, Task(machine("parity")))


SMALL = PLAN | {"task": "modular_addition(3)", "model": "full", "steps": 300, "polish": True}


def test_a_polish_that_was_interrupted_is_done_again_and_nothing_else(tmp_path, monkeypatch):
    def interrupt(*anything):
        raise KeyboardInterrupt

    def refuse(*anything):
        raise AssertionError("it was done again")

    with monkeypatch.context() as patch:
        patch.setattr("statewise.theory.polish.recording.polish_network", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sw.train(config=SMALL, out=tmp_path / "run")
    half = read_record(tmp_path / "run")
    assert half.polished is None
    assert not (tmp_path / "run" / "polished").exists()
    with monkeypatch.context() as patch:
        patch.setattr("statewise.training.loop.advance", refuse)
        whole = sw.train(config=SMALL, out=tmp_path / "run").record
    assert whole.model_copy(update={"polished": None}) == half
    assert whole.polished.status == "converged"
    assert whole == read_record(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr("statewise.training.loop.advance", refuse)
        patch.setattr("statewise.theory.polish.recording.polish_network", refuse)
        assert sw.train(config=SMALL, out=tmp_path / "run").record == whole


def test_a_run_records_what_polish_reached_beside_its_own_scores(tmp_path):
    run = sw.train(config=SMALL, out=tmp_path / "run")
    reached = run.record.polished
    assert reached.horizon >= 10**10
    assert [(score.length, score.count) for score in reached.scores] == [(10, 50), (10_000, 50)]
    assert all(score.score == 1.0 for score in reached.scores)
    assert run.to_dict()["polished"]["horizon"] == reached.horizon
    assert any(label == "polished" for label, _ in run.lines())
    fine = sw.load(tmp_path / "run" / "polished")
    assert (fine.manifest.origin, fine.shortest) == ("polished", 1)
    assert sw.evaluate(fine, lengths=[10_000], words=20).scores[0].score == 1.0
    plain = sw.train(config=SMALL | {"polish": False}, out=tmp_path / "plain").record
    assert plain.polished is None
    assert plain.scores == run.record.scores
    assert plain.config.key() != run.record.config.key()
    # a level that cannot be polished is a run like any other, with the reason on record
    positive = sw.train(config=SMALL | {"task": "flip_flop", "model": "positive", "steps": 2}).record
    assert positive.polished.status == "refused"
    assert positive.polished.reason.startswith("positive networks cannot be polished")
    assert (positive.polished.residual, positive.polished.scores) == (None, ())


def test_a_sweep_records_polished_scores_and_horizons(tmp_path):
    given = {"task": "modular_addition(3)", "hidden": 16, "steps": 400, "polish": True, "words": 40}
    runs = [
        resolve(given | {"model": model, "test_lengths": [10, 2_000], "probe": [10]}) for model in ("full", "rotation")
    ]
    outcome = run_grid(tmp_path / "store", runs, EngineOptions(workers=1))
    assert (outcome.ran, outcome.failed) == (2, False)
    with Store.open(tmp_path / "store") as store:
        records = {record.config.model: record for record in store.records()}
    assert records.keys() == {"full", "rotation"}
    for record in records.values():
        assert record.polished.status == "converged"
        assert record.polished.horizon >= 10**10
        assert [(score.length, score.score) for score in record.polished.scores] == [(10, 1.0), (2_000, 1.0)]
