"""`certify --out` and `check` as a person uses them, and the single file that does not need the rest."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import statewise as sw
from statewise.theory import checker
from tests.command import statewise


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("certificates")
    for name, task in (("z3", "modular_addition(3)"), ("flip", "flip_flop")):
        assert statewise("compile", task, "--run", "0", "--out", made / name).returncode == 0
        done = statewise("certify", made / name, "--out", made / f"{name}.cert")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"{name}.cert: the network (level" in done.stdout
    return made


def test_a_certificate_is_checked(folder):
    done = statewise("check", folder / "z3.cert", folder / "z3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["valid"], found["reason"], found["task"], found["judged"]) == (True, None, True, "all words")
    assert "right on all words of 0 or more symbols" in found["statement"]
    shown = statewise("check", folder / "z3.cert", folder / "z3").stdout
    assert shown.splitlines()[0].startswith("valid")


def test_certificates_of_another_run_are_rejected_in_one_sentence(folder):
    done = statewise("check", folder / "z3.cert", folder / "flip")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "invalid  the weights are not those of the certificate\n"
    found = json.loads(statewise("check", folder / "z3.cert", folder / "flip", "--json").stdout)
    assert (found["valid"], found["statement"]) == (False, None)


def test_the_single_file_runs_alone(folder, tmp_path):
    """With neither site-packages nor the environment: -I and -S leave Python itself."""
    script = tmp_path / "checker.py"
    script.write_text(Path(checker.__file__).read_text())
    weights = next((folder / "z3").glob("step-*/tensors.safetensors"))
    for cert, code, says in (("z3", 0, "valid: the network"), ("flip", 1, "invalid: the weights")):
        files = [folder / f"{cert}.cert", weights, folder / "z3" / "network.json"]
        command = [sys.executable, "-I", "-S", script, *files]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=tmp_path, timeout=600)
        assert (done.returncode, done.stderr) == (code, "")
        assert done.stdout.startswith(says)


def test_files_that_are_no_certificates_get_one_sentence(folder, tmp_path):
    good = (folder / "z3.cert").read_bytes()
    files = {
        "truncated": (good[:200], "is no certificate"),
        "other.json": ((folder / "z3" / "network.json").read_bytes(), 'not of the format "statewise certificate 1"'),
        "later": (good.replace(b"certificate 1", b"certificate 7"), "not of the format"),
        "deep": (b"[" * 200_000, "is no certificate"),
        "nan": (good.replace(b'"length":0', b'"length":NaN'), "is no certificate"),
        "twice": (good.replace(b'"length":0', b'"length":0,"length":1'), "a key occurs twice"),
        "empty": (b"", "is no certificate"),
    }
    for name, (content, says) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(sw.StatewiseError) as raised:
            sw.check(tmp_path / name, folder / "z3")
        assert says in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1
    for cert, run, says in (
        (tmp_path / "absent", folder / "z3", "no such file"),
        (tmp_path, folder / "z3", "cannot read"),
        (folder / "z3.cert", tmp_path, "not the directory of a run"),
    ):
        with pytest.raises(sw.StatewiseError, match=says):
            sw.check(cert, run)
    # a gigabyte that takes no room on the disk, and is never read
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10**9)
    for name, says in (("huge", "1,000,000,000 bytes"), ("truncated", "is no certificate")):
        done = statewise("check", tmp_path / name, folder / "z3")
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_the_run_in_floats_is_judged(folder):
    done = statewise("certify", folder / "z3", "--dtype", "float64", "--seconds", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "in a run in float64" in done.stdout
    refused = statewise("certify", folder / "z3", "--dtype", "float16")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "float32" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_unknown_verdicts_have_none(tmp_path):
    small = ["--hidden", "8", "--steps", "5", "--out", tmp_path / "run"]
    assert statewise("train", "--task", "modular_addition(3)", "--model", "full", *small).returncode == 0
    done = statewise("certify", tmp_path / "run", "--seconds", "0", "--out", tmp_path / "run.cert")
    assert (done.returncode, done.stderr) == (1, "")
    assert "none: the verdict is unknown" in done.stdout
    assert not (tmp_path / "run.cert").exists()
