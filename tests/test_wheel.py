"""The wheel: it holds all that the package reads, and runs without a compiler and without this checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "statewise"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree, built as pip builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(build, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("statewise-*.whl")
    return made


def test_it_holds_every_file_of_the_package(wheel):
    held = {name.removeprefix("statewise/") for name in zipfile.ZipFile(wheel).namelist()}
    files = [file for file in SOURCE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    missing = [name for file in files if (name := file.relative_to(SOURCE).as_posix()) not in held]
    assert not missing
    assert {"py.typed", "kernels/cpp/kernels.cpp"} <= held


def test_it_runs_from_an_empty_folder_without_a_compiler(wheel, tmp_path):
    site, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    environment = {
        "PYTHONPATH": str(site),
        "PATH": "/nowhere",
        "HOME": str(tmp_path),
        "STATEWISE_CACHE": str(tmp_path / "cache"),
    }
    program = "import statewise, pathlib; print(pathlib.Path(statewise.__file__).parent)"
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=600
    )
    assert found.stdout.strip() == str(site / "statewise"), found.stderr
    demo = [sys.executable, "-m", "statewise", "demo"]
    done = subprocess.run(demo, env=environment, cwd=work, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "equal on all words" in done.stdout
    assert not os.listdir(work)
