"""Every file of a run directory is what was written, or the directory is refused."""

import json
import random
import shutil

import pytest
import torch

import statewise as sw
from statewise.errors import RunError, StatewiseError
from statewise.runs import PlannedRun, execute_one
from statewise.store import run_files
from statewise.training.checkpoints import read_checkpoint, write_checkpoint
from statewise.training.manifest import MANIFEST, read_manifest
from tests.golden.test_format1 import FILES


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "trained"
    sw.train("parity", "full", hidden=2, steps=5, out=place)
    return place


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "compiled"
    sw.compile("parity", out=place)
    return place


def files_of(place):
    return sorted(file.relative_to(place) for file in place.rglob("*") if file.is_file())


def shown(place):
    """Return what commands show of a run: its record, how it came to be, its machine, its scores."""
    run = sw.load(place)
    scores = sw.evaluate(run, lengths=[7], words=16).scores
    record = None if run.record is None else run.record.to_dict()
    return record, run.manifest, run.machine, run.options, scores


def test_the_manifest_lists_every_file(trained, compiled):
    for place in (trained, compiled):
        listed = read_manifest(place)
        named = {*listed.files, *(f"{listed.folder}/{name}" for name in listed.sha256), MANIFEST}
        assert named == {str(file) for file in files_of(place)}


@pytest.mark.parametrize("kind", ["trained", "compiled"])
def test_flipped_bits_are_noticed_in_every_file(kind, request, tmp_path):
    place, rng = request.getfixturevalue(kind), random.Random(7)
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    for file in files_of(place):
        content = (place / file).read_bytes()
        for _ in range(12):
            bit = rng.randrange(8 * len(content))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << (bit % 8)
            (copy / file).write_bytes(flipped)
            with pytest.raises(StatewiseError) as error:
                shown(copy)
            assert error.value.exit_code == 2, (file, bit)
        (copy / file).write_bytes(content)
    assert shown(copy) == shown(place)


def test_a_file_that_is_missing_is_noticed_and_a_record_may_be_deleted(trained, tmp_path):
    for name in ("config.json", "machine.json"):
        copy = tmp_path / name
        shutil.copytree(trained, copy)
        (copy / name).unlink()
        with pytest.raises(RunError):
            sw.load(copy)
    copy = tmp_path / "again"
    shutil.copytree(trained, copy)
    options, record = sw.load(copy).options, sw.load(copy).record
    (copy / "record.json").write_text("{}")
    with pytest.raises(RunError, match="delete it, and the run tests its model again"):
        execute_one(PlannedRun(options, copy), lambda *anything: None)
    (copy / "record.json").unlink()
    again = execute_one(PlannedRun(options, copy), lambda *anything: None)
    assert again.record.scores == record.scores
    assert sw.load(copy).record == again.record


def test_a_record_of_a_kill_before_the_manifest_does_not_count(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    listed = json.loads((tmp_path / "run" / MANIFEST).read_text())
    del listed["files"]["record.json"]
    (tmp_path / "run" / MANIFEST).write_text(json.dumps(listed))
    assert sw.load(tmp_path / "run").record is None


def test_directories_of_earlier_versions_have_no_hashes_and_get_them_with_a_record(tmp_path):
    shutil.copytree(FILES / "halfway-full", tmp_path / "run")
    assert read_manifest(tmp_path / "run").files is None
    options = sw.load(tmp_path / "run").options
    execute_one(PlannedRun(options, tmp_path / "run"), lambda *anything: None)
    assert {"config.json", "machine.json", "record.json"} == read_manifest(tmp_path / "run").files.keys()
    sw.load(tmp_path / "run")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", ["trained", "compiled"])
def test_weights_that_are_not_finite_are_refused_by_every_command(kind, value, request, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(request.getfixturevalue(kind), place)
    tensors, values = read_checkpoint(place)
    name = next(name for name in tensors if name.startswith("model.") and tensors[name].is_floating_point())
    tensors[name].flatten()[0] = value
    write_checkpoint(place, "step-9", tensors, values)
    (tmp_path / "cert").write_text("{}")
    calls = [
        lambda: sw.evaluate(place, lengths=[5]),
        lambda: sw.certify(place),
        lambda: sw.check(tmp_path / "cert", place),
        lambda: sw.extract(place, out=tmp_path / "machine.json"),
        lambda: sw.polish(place, out=tmp_path / "polished"),
        lambda: sw.snap(place, out=tmp_path / "snapped"),
        lambda: sw.export(place, to="c", out=tmp_path / "net.h"),
        lambda: sw.track(place),
    ]
    for call in calls:
        with pytest.raises(RunError, match="not finite"):
            call()


def test_a_checkpoint_that_is_not_finite_is_not_resumed(tmp_path):
    shutil.copytree(FILES / "halfway-full", tmp_path / "run")
    tensors, values = read_checkpoint(tmp_path / "run")
    tensors[next(iter(n for n in tensors if n.startswith("model.")))].fill_(torch.inf)
    write_checkpoint(tmp_path / "run", "step-9", tensors, values)
    with pytest.raises(RunError, match="not finite"):
        execute_one(PlannedRun(sw.load(tmp_path / "run").options, tmp_path / "run"), lambda *anything: None)


def test_a_store_takes_nothing_from_a_damaged_directory(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    text = (tmp_path / "run" / "record.json").read_text()
    (tmp_path / "run" / "record.json").write_text(text.replace('"score": ', '"score":  ', 1))
    with pytest.raises(StatewiseError, match="damaged"):
        run_files(tmp_path / "run")
