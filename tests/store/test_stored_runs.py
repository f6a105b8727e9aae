"""Runs of a store by key: the same networks as in their directories, and never an import of what a store holds."""

import itertools
import json
import shutil

import pytest
import torch
from safetensors.torch import save

import statewise as sw
from statewise.errors import StatewiseError
from statewise.machines import machine, write_machine
from statewise.machines.machine_files import to_json
from statewise.store import Store, merge_into, read_run, small_weights
from tests.command import statewise

from .records import change_database, record

SMALL = {"steps": 60, "hidden": 6, "late": 0, "config": {"words": 50, "every": 60}}
NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, symbols, classes, hidden, layers=1):
        super().__init__()
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes)

    def forward(self, tokens):
        return self.read(self.embed(tokens).cumsum(dim=1).tanh())
"""


def kept(directory, *runs, weights=True, texts=()):
    """Put finished runs into a store, as a sweep does; return their keys."""
    found = {run: read_run(run.path) for run in runs}
    small = {found[run].key: small_weights(run.path) for run in runs} if weights else {}
    with Store.open(directory, write=True) as store:
        store.add(found.values(), small, texts)
    return [made.key for made in found.values()]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a level and a model of one's own, beside their directories."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "net.py").write_text(NET)
    level = sw.train("parity", "diagonal", out=folder / "level", **SMALL | {"steps": 200})
    own = sw.train("parity", f"{folder}/net.py:Net(layers=2)", out=folder / "own", **SMALL)
    keys = kept(folder / "store", level, own, texts=[NET.encode()])
    return folder, *keys


def test_a_run_of_a_store_is_the_run_of_its_directory(made):
    folder, level, own = made
    spec = f"{folder}/net.py:Net"
    for key, name, model in [(level, "level", None), (own, "own", spec)]:
        stored, there = sw.load(f"{folder}/store#{key[:10]}", model), sw.load(folder / name, model)
        assert stored.options == there.options
        assert stored.record == there.record.with_key(key)
        assert stored.where == f"{folder}/store#{key[:8]}"
        for stream in ([10, 30], [7]):
            ours = sw.evaluate(f"{folder}/store#{key}", lengths=stream, model=model, words=40)
            assert ours.scores == sw.evaluate(there, lengths=stream, words=40).scores


def test_certify_extract_polish_and_snap_take_a_run_by_its_key(made, tmp_path):
    folder, level, _ = made
    place = folder / f"store#{level[:6]}"
    verdict = sw.certify(place, work=10_000)
    assert verdict.verdict == sw.certify(folder / "level", work=10_000).verdict
    assert verdict.run == f"{folder}/store#{level[:8]}"
    assert sw.extract(place).machine == sw.extract(folder / "level").machine == machine("parity")
    assert sw.polish(place, out=tmp_path / "polished").summary.polished.outcome == "converged"
    assert sw.snap(place, out=tmp_path / "snapped").summary.certification.status == "proven"


def test_a_store_never_imports_a_class_and_asks_for_it(made):
    folder, _, own = made
    stored = sw.load(f"{folder}/store#{own[:8]}")
    assert stored.record.status == "done"
    with pytest.raises(StatewiseError, match=r"give that class as model \(--model\), since a store never"):
        sw.evaluate(stored, lengths=[10])


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("", 'there is no run of ".*" with a key that begins with ""'),
        ("%", "there is no run"),
        ("_", "there is no run"),
        ("0" * 33, "there is no run"),
        ("ffffffffffff", "there is no run"),
    ],
)
def test_keys_that_no_run_has_are_one_sentence(made, key, sentence):
    with pytest.raises(StatewiseError, match=sentence):
        sw.load(f"{made[0]}/store#{key}")


def test_a_beginning_that_several_runs_have_is_one_sentence(tmp_path):
    with Store.open(tmp_path, write=True) as store:
        store.add([record(seed) for seed in range(40)])
        keys = sorted(store.keys())
    first = next(key[0] for key, after in itertools.pairwise(keys) if key[0] == after[0])
    with pytest.raises(StatewiseError, match=f'there are .* runs of .* begins with "{first}"; give the key of one'):
        sw.load(f"{tmp_path}#{first}")
    assert sw.load(f"{tmp_path}#{keys[0]}").record.key == keys[0]


def test_a_store_without_a_key_is_told_from_a_run(made):
    with pytest.raises(StatewiseError, match=r"is a store of many runs; name one as"):
        sw.evaluate(made[0] / "store")
    with pytest.raises(StatewiseError, match="holds no store"):
        sw.load(f"{made[0]}/none#ab")


def test_a_directory_with_the_mark_in_its_name_is_a_directory(made, tmp_path):
    shutil.copytree(made[0] / "level", tmp_path / "run#1")
    assert sw.load(tmp_path / "run#1").path == tmp_path / "run#1"


def test_weights_that_were_not_kept_are_one_sentence_that_says_how_to_get_them(made, tmp_path):
    folder, level, _ = made
    kept(tmp_path / "store", sw.load(folder / "level"), weights=False)
    place = f"{tmp_path}/store#{level[:8]}"
    for call in (lambda: sw.evaluate(place), lambda: sw.runs(tmp_path / "store", key=level, out=tmp_path / "out")):
        with pytest.raises(StatewiseError, match="were not kept: a store has those of small networks only") as error:
            call()
        assert "sw.train(config=" in str(error.value)
    assert not (tmp_path / "out").exists()
    again = sw.train(config=sw.load(place).options.to_dict(), out=tmp_path / "again")
    assert again.record.scores == sw.load(folder / "level").record.scores


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_run_without_a_network_is_one_sentence(tmp_path, status):
    ended = record(1, status, **({"reason": "its worker died"} if status == "failed" else {}))
    with Store.open(tmp_path, write=True) as store:
        store.add([ended])
    run = sw.load(f"{tmp_path}#{ended.key[:8]}")
    assert status in str(run)
    with pytest.raises(StatewiseError, match=f"{status}, so that there is no network"):
        sw.evaluate(run)


def test_weights_of_another_network_or_damaged_are_one_sentence(made, tmp_path):
    shutil.copytree(made[0] / "store", tmp_path / "store")
    place = f"{tmp_path}/store#{made[1][:8]}"
    for tensors, sentence in [(save({"x": torch.ones(1)}), "fit no network"), (b"\x00" * 40, "are damaged")]:
        change_database(tmp_path / "store", "UPDATE weights SET tensors = ?, checksum = NULL", tensors)
        with pytest.raises(StatewiseError, match=sentence):
            sw.evaluate(place)


def test_an_exported_run_is_the_run_and_no_code_is_imported_for_it(made, tmp_path):
    folder, level, own = made
    for key, name in [(level, "level"), (own, "own")]:
        out = tmp_path / name
        shown = sw.runs(folder / "store", key=key[:8], out=out)
        assert shown.path == out
        model = f"{folder}/net.py:Net" if name == "own" else None
        ours, theirs = sw.load(out, model), sw.load(folder / name, model)
        assert ours.record.scores == theirs.record.scores
        assert ours.options == theirs.options
        for (place, a), (_, b) in zip(ours.model.state_dict().items(), theirs.model.state_dict().items(), strict=True):
            assert torch.equal(a, b), place
        assert read_run(out).key == key
        # a run that has ended is not trained again, and one that lost its record is tested again
        (out / "record.json").unlink()
        again = sw.train(config=ours.options.to_dict(), model=model and f"{model}(layers=2)", out=out)
        assert again.record.scores == theirs.record.scores
    assert (tmp_path / "own" / "model.py").read_text() == NET == (folder / "own" / "model.py").read_text()
    assert not (tmp_path / "level" / "model.py").exists()
    with pytest.raises(StatewiseError, match="there already and not empty"):
        sw.runs(folder / "store", key=level, out=tmp_path / "level")


def test_the_source_of_a_run_is_shown(made):
    folder, level, own = made
    shown = sw.runs(folder / "store", key=own, source=True)
    assert str(shown) == NET
    assert shown.to_dict()["sha256"] == sw.load(folder / "own").options.source
    with pytest.raises(StatewiseError, match="is none of a user's own"):
        sw.runs(folder / "store", key=level, source=True)
    with pytest.raises(StatewiseError, match="give its key too"):
        sw.runs(folder / "store", source=True)


def test_what_was_changed_in_a_store_is_not_shown_as_the_source(made, tmp_path):
    shutil.copytree(made[0] / "store", tmp_path / "store")
    change_database(tmp_path / "store", "UPDATE texts SET text = ?", b"import os")
    with pytest.raises(StatewiseError, match="is not what its hash says"):
        sw.runs(tmp_path / "store", key=made[2], source=True)


def test_a_source_that_is_too_long_is_kept_as_its_hash_alone(tmp_path):
    file = tmp_path / "long.py"
    file.write_text(NET + "#" * 300_000 + "\n")
    run = sw.train("parity", f"{file}:Net", out=tmp_path / "run", **SMALL)
    assert run.options.source is not None
    assert not (tmp_path / "run" / "model.py").exists()
    (key,) = kept(tmp_path / "store", run, texts=[file.read_bytes()])
    with pytest.raises(StatewiseError, match="too long to be kept"):
        sw.runs(tmp_path / "store", key=key, source=True)


def test_machines_from_files_are_found_again_or_missed_in_one_sentence(tmp_path):
    file = tmp_path / "light.json"
    write_machine(machine("modular_addition(3)"), file)
    run = sw.train(file, "full", out=tmp_path / "run", **SMALL)
    text = to_json(run.machine).encode()
    (key,) = kept(tmp_path / "with", run, texts=[NET.encode(), text])
    kept(tmp_path / "without", run)
    scores = sw.evaluate(run, lengths=[10]).scores
    assert sw.evaluate(f"{tmp_path}/without#{key}", lengths=[10]).scores == scores
    write_machine(machine("modular_addition(4)"), file)
    with pytest.raises(StatewiseError, match="in a file that has changed since"):
        sw.load(f"{tmp_path}/without#{key}")
    file.unlink()
    with pytest.raises(StatewiseError, match="in a file that cannot be read"):
        sw.load(f"{tmp_path}/without#{key}")
    assert sw.evaluate(f"{tmp_path}/with#{key}", lengths=[10]).scores == scores


def test_machines_given_as_values_are_found_by_their_hash(tmp_path):
    run = sw.train(sw.Machine([[0, 1], [1, 0]]), "full", out=tmp_path / "run", **SMALL)
    (key,) = kept(tmp_path / "with", run, texts=[to_json(run.machine).encode()])
    kept(tmp_path / "without", run)
    assert sw.load(f"{tmp_path}/with#{key}").machine == run.machine
    with pytest.raises(StatewiseError, match="was given as a value and is not kept"):
        sw.load(f"{tmp_path}/without#{key}")


def test_stores_that_were_begun_before_texts_were_kept_are_read_and_extended(made, tmp_path):
    folder, level, own = made
    shutil.copytree(folder / "store", tmp_path / "store")
    change_database(tmp_path / "store", "DROP TABLE texts")
    assert sw.evaluate(f"{tmp_path}/store#{level}", lengths=[10], words=20).scores
    with pytest.raises(StatewiseError, match="kept"):
        sw.runs(tmp_path / "store", key=own, source=True)
    with Store.open(folder / "store") as other:
        merge_into(tmp_path / "store", [other])
    assert str(sw.runs(tmp_path / "store", key=own, source=True)) == NET


def test_a_run_directory_that_is_merged_brings_what_its_run_needs(made, tmp_path):
    folder, level, own = made
    file = tmp_path / "light.json"
    write_machine(machine("modular_addition(3)"), file)
    from_file = sw.train(file, "full", out=tmp_path / "run", **SMALL)
    file.unlink()
    sw.merge(tmp_path / "store", [folder / "level", folder / "own", tmp_path / "run"])
    spec = f"{folder}/net.py:Net"
    for run, key, model in [
        (folder / "level", level, None),
        (folder / "own", own, spec),
        (tmp_path / "run", read_run(from_file.path).key, None),
    ]:
        place = f"{tmp_path}/store#{key[:8]}"
        assert sw.evaluate(place, lengths=[10], model=model).scores == sw.evaluate(run, [10], model).scores
    assert str(sw.runs(tmp_path / "store", key=own, source=True)) == NET


def test_the_command_line_takes_store_and_key(made, tmp_path):
    folder, level, own = made
    done = statewise("evaluate", f"store#{own[:8]}", "--lengths", "10", "--words", 20, "--json", cwd=folder)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    spec = f"{folder}/net.py:Net"
    done = statewise(
        "evaluate", f"store#{own[:8]}", "--lengths", "10", "--words", 20, "--model", spec, "--json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == f"store#{own[:8]}"
    assert statewise("runs", "store", "--key", own[:8], "--source", cwd=folder).stdout == NET + "\n"
    done = statewise("runs", "store", "--key", level[:8], "--out", tmp_path / "out", "--json", cwd=folder)
    assert json.loads(done.stdout)["run"] == str(tmp_path / "out")
