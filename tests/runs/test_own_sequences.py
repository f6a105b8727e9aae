"""Runs on a user's own sequences: no machine, names kept, the data part of their identity."""

import json

import pytest

import statewise as sw
from statewise.errors import RunError, StatewiseError
from statewise.machines import machine
from statewise.training import resolve

QUICK = {"hidden": 8, "steps": 300, "lr": 0.01}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("own")
    sw.sample("parity", made / "parity.csv", count=600, length=8, shortest=1)
    sw.sample("parity", made / "long.jsonl", count=100, length=80, shortest=9, labels="aligned", seed=1)
    sw.sample("parity", made / "long.csv", count=60, length=60, shortest=9, seed=1)
    sw.sample("parity", made / "aligned.jsonl", count=600, length=8, shortest=1, labels="aligned")
    return made


@pytest.fixture(scope="module")
def trained(folder):
    return sw.train(words=folder / "parity.csv", model="full", out=folder / "run", **QUICK)


@pytest.fixture(scope="module")
def aligned(folder):
    return sw.train(words=folder / "aligned.jsonl", model="full", out=folder / "aligned", **QUICK)


def test_a_run_is_loaded_and_evaluated_on_its_own_test_set(folder, trained):
    again = sw.load(folder / "run")
    assert again.source.alphabet == ("0", "1")
    scores = sw.evaluate(again)
    recorded = trained.record.pooled
    assert [s.length for s in scores.scores] == [s.length for s in trained.record.scores]
    assert scores.to_dict()["pooled"]["accuracy"] == recorded.accuracy == 1
    assert scores.to_dict()["pooled"]["constant"] == recorded.constant
    assert recorded.constant < 0.3
    assert trained.to_dict()["score_test"] == 1


def test_a_run_is_resumed_and_done_only_once(folder, trained):
    again = sw.train(words=folder / "parity.csv", model="full", out=folder / "run", **QUICK)
    assert again.record == sw.load(folder / "run").record
    assert again.record.finished == trained.record.finished


def test_any_other_file_is_evaluated_by_name_of_its_symbols(folder, trained, aligned, tmp_path):
    for run in (trained, aligned):
        found = sw.evaluate(run, words=folder / "long.jsonl")
        assert sum(score.at_end.count for score in found.scores) == 100
        assert found.scores[0].count > found.scores[0].at_end.count
        assert found.to_dict()["pooled"]["accuracy"] > 0.9
        assert "accuracy_at_end" in found.to_dict()
    # names, not numbers, decide
    turned = tmp_path / "turned.jsonl"
    turned.write_text('{"word": ["1", "0"], "label": "1"}\n{"word": ["1", "1"], "label": "0"}\n')
    assert sw.evaluate(trained, words=turned).scores[0].accuracy == 1
    on_machine = sw.train("parity", "full", **QUICK)
    assert sw.evaluate(on_machine, words=turned).scores[0].accuracy == 1


def test_the_data_are_part_of_the_identity(folder, trained, tmp_path):
    options = trained.options
    assert len(options.sequences) == 64
    name = f'words("{folder / "parity.csv"}")'
    assert resolve({"task": name, "model": "full", **QUICK}).key() == options.key()
    other = resolve({"task": name.replace(")", ', shares="0.7,0.2,0.1")'), "model": "full", **QUICK})
    assert other.sequences != options.sequences
    assert "sequences" not in resolve({"task": "parity", "model": "full"}).to_dict()


def test_changed_files_are_refused(tmp_path):
    file = tmp_path / "w.csv"
    sw.sample("parity", file, count=200, length=6, shortest=1)
    run = tmp_path / "run"
    sw.train(words=file, model="full", out=run, hidden=4, steps=5)
    sw.sample("parity", file, count=200, length=6, shortest=1, seed=1)
    with pytest.raises(RunError, match="not those of the run"):
        sw.evaluate(run)
    with pytest.raises(RunError, match="holds a run with"):
        sw.train(words=file, model="full", out=run, hidden=4, steps=5)
    # the network is still there, and other sequences are
    assert sw.evaluate(run, words=file).scores


def test_what_needs_a_machine_asks_for_it(trained):
    with pytest.raises(RunError, match="give --machine"):
        sw.certify(trained)
    with pytest.raises(RunError, match="has no machine"):
        sw.evaluate(trained, suite="w-method")
    assert sw.certify(trained, "parity").status in ("horizon", "proven", "refuted")


def test_extract_snap_polish_and_learn_work_without_a_machine(folder, aligned, tmp_path):
    found = sw.extract(aligned, out=tmp_path / "m.json")
    assert found.machine == machine("parity")
    assert found.equals_task is None
    assert found.to_dict()["equals_task"] is None
    exact = sw.snap(aligned, out=tmp_path / "snapped")
    assert exact.summary.certification.status == "proven"
    fine = sw.polish(aligned, out=tmp_path / "fine")
    assert sw.certify(tmp_path / "fine", "parity").horizon > 10**6
    assert fine.summary.horizon is None
    assert sw.evaluate(tmp_path / "fine", words=folder / "long.jsonl").scores[-1].at_end.accuracy == 1
    assert sw.learn(folder / "aligned.jsonl").machine == machine("parity")


def test_a_polished_run_is_judged_from_its_shortest_sequence_on(tmp_path):
    sw.sample("parity", tmp_path / "w.csv", count=300, length=6, shortest=3)
    run = sw.train(words=tmp_path / "w.csv", model="full", out=tmp_path / "run", **QUICK)
    assert run.shortest == 3
    sw.polish(run, out=tmp_path / "fine")
    assert sw.load(tmp_path / "fine").shortest == 3


def test_pairs_in_memory_are_trained_on(tmp_path):
    generator = [(f"{number:07b}", str(f"{number:b}".count("1") % 2)) for number in range(128)]
    run = sw.train(words=generator, model="full", out=tmp_path / "run", shares=(0.5, 0.25, 0.25), **QUICK)
    assert run.record.pooled.count == len(run.task.sets[2])
    with pytest.raises(StatewiseError, match="cannot read"):
        _ = sw.load(tmp_path / "run").task
    assert sw.extract(tmp_path / "run").machine.alphabet == ("0", "1")


def test_every_kind_of_model_is_trained_on_labels_after_each_symbol(folder):
    for model in ("lstm", "transformer(1)", "rotation"):
        run = sw.train(words=folder / "aligned.jsonl", model=model, hidden=8, steps=5, longest=4)
        assert run.options.supervision == "aligned"
        assert run.record.in_distribution.at_end is not None


def test_the_shape_of_a_record_of_a_machine_stays(folder):
    run = sw.train("parity", "full", hidden=4, steps=5, out=folder / "machine")
    written = json.loads((folder / "machine" / "record.json").read_text())
    assert "at_end" not in written["scores"][0]
    assert "labels" not in written["scores"][0]
    assert "sequences" not in written["config"]
    assert "score_test" not in run.to_dict()


def test_lengths_are_shown_as_they_are(folder, trained):
    found = sw.evaluate(trained, words=folder / "long.jsonl")
    lengths = [len(json.loads(line)["word"]) for line in (folder / "long.jsonl").read_text().splitlines()]
    spans = found.to_dict()["spans"]
    assert [spans[0][0], spans[-1][1]] == [min(lengths), max(lengths)]
    for (low, high), bound in zip(spans, found.lengths, strict=True):
        assert bound / 2 < low <= high <= bound
    assert f"lengths {spans[0][0]} to {spans[0][1]}" in str(found)
    # few lengths stand for themselves
    assert "spans" not in sw.evaluate(trained).to_dict()
    recorded = sw.train(
        words=folder / "parity.csv", test_words=folder / "long.csv", model="full", hidden=4, steps=2
    ).record
    assert [score.span is not None for score in recorded.scores] == [True] * len(recorded.scores)
    assert type(recorded).model_validate_json(recorded.to_json()).scores == recorded.scores


def test_lengths_that_are_asked_for_are_those_of_the_sequences(folder, trained):
    lengths = [len(json.loads(line)["word"]) for line in (folder / "long.jsonl").read_text().splitlines()]
    asked = sorted(set(lengths))[:12]
    found = sw.evaluate(trained, lengths=asked, words=folder / "long.jsonl")
    assert found.lengths == asked
    assert [score.at_end.count for score in found.scores] == [lengths.count(length) for length in asked]
    assert sw.evaluate(trained, lengths=[8]).lengths == [8]
    with pytest.raises(StatewiseError, match=r"no test sequence has length 500; the sequences have lengths 9.* up to"):
        sw.evaluate(trained, lengths=[asked[0], 500], words=folder / "long.jsonl")
    with pytest.raises(StatewiseError, match="no test sequence has length 9"):
        sw.evaluate(trained, lengths=[9])


def test_contradictory_labels_are_refused_in_evaluation_too(trained, tmp_path):
    file = tmp_path / "twice.jsonl"
    file.write_text('{"word": ["1", "0"], "label": "1"}\n{"word": ["1", "0"], "label": "0"}\n')
    with pytest.raises(StatewiseError, match='"1 0" is labelled both "1" and "0"'):
        sw.evaluate(trained, words=file)


def test_a_number_of_sequences_has_a_name_of_its_own(trained):
    on_machine = sw.train("parity", "full", hidden=4, steps=2)
    for given in ({"test_sequences": 30}, {"words": 30}, {"words": "30"}):
        assert [score.count for score in sw.evaluate(on_machine, lengths=[10], **given).scores] == [30]
    with pytest.raises(StatewiseError, match="test_sequences is 0"):
        sw.evaluate(on_machine, test_sequences=0)
