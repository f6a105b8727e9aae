"""Without torch machines work, and without the package of an extra one sentence names it."""

import json
import os
import subprocess
import sys

import pytest

import statewise as sw

# a finder that finds nothing of these packages, as if they were not installed
HIDE = """
import importlib.abc, os, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ["HIDDEN"].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
EXTRAS = {
    "plots": "matplotlib",
    "learn": "aalpy",
    "ray": "ray",
    "export": "onnx",
    "tensorboard": "tensorboard",
    "parquet": "pyarrow",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Runs Python without some packages."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(HIDE)

    def run(hidden, *arguments):
        source = os.path.dirname(os.path.dirname(sw.__file__))
        environment = os.environ | {"HIDDEN": ",".join(hidden), "PYTHONPATH": f"{folder}{os.pathsep}{source}"}
        return subprocess.run(
            [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=300
        )

    return run


def statewise(python, hidden, *arguments):
    return python(hidden, "-m", "statewise", *arguments)


PROGRAM = """
import json, sys
import statewise as sw

machine = sw.machine("symmetric(3)")
facts = sw.describe(machine).to_dict()
found = {"states": facts["states"], "level": facts["level"], "listed": len(sw.machines().to_dict()["machines"])}
found["models"] = len(sw.models().to_dict()["models"])
said = {}
for name in sorted(set(sw.__all__) - {"__version__"}):
    try:
        thing = getattr(sw, name)
        if name in ("bench", "export", "sweep"):
            thing()
    except sw.StatewiseError as error:
        said[name] = str(error)
assert "torch" not in sys.modules
print(json.dumps(found | {"said": said}))
"""


def test_without_torch_machines_work_and_the_rest_says_what_to_install(python):
    done = python(["torch"], "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["states"], found["level"]) == (6, "block(2)")
    assert found["listed"] > 10
    assert found["models"] > 10
    assert {"train", "compile", "certify", "BilinearRNN", "StateTracker", "sweep"} <= found["said"].keys()
    for name, sentence in found["said"].items():
        assert sentence.startswith(f"{name} needs torch, which is not installed; install torch")
    assert not {"machine", "Machine", "describe", "sample", "runs"} & found["said"].keys()


def test_without_torch_commands_on_machines_work_and_others_are_one_sentence(python, tmp_path):
    done = statewise(python, ["torch"], "machine", "parity", "--json")
    assert (done.returncode, json.loads(done.stdout)["states"]) == (0, 2)
    done = statewise(python, ["torch"], "train", "--task", "parity", "--model", "full", "--out", tmp_path / "run")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "statewise: this command needs torch, which is not installed; install torch 2.13 or later with pip; machines "
        "work without it"
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one run, its directory, labelled words and a grid."""
    folder = tmp_path_factory.mktemp("extras")
    sw.compare(["parity"], ["diagonal"], seeds=1, steps=8, hidden=4, lengths=[5], store=folder / "store")
    sw.train("parity", "full", steps=8, hidden=4, out=folder / "run")
    (folder / "words.csv").write_text("word,label\na,1\nb,0\n")
    (folder / "grid.toml").write_text('[[grid]]\ntask = "parity"\nmodel = "diagonal"\nsteps = 4\n')
    return folder


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_absence_of_an_extra_is_one_sentence_that_names_it(python, store, tmp_path, extra):
    commands = {
        "plots": ["evaluate", store / "run", "--lengths", "5", "--plot", tmp_path / "scores.png"],
        "learn": ["learn", store / "words.csv", "--method", "rpni", "--out", tmp_path / "net"],
        "ray": ["sweep", store / "grid.toml", "--store", tmp_path / "new", "--engine", "ray"],
        "export": ["export", store / "run", "--to", "onnx", "--out", tmp_path / "net.onnx"],
        "tensorboard": ["train", "--task", "parity", "--model", "full", "--tensorboard", "--out", tmp_path / "new"],
        "parquet": ["runs", store / "store", "--out", tmp_path / "runs.parquet"],
    }
    done = statewise(python, [EXTRAS[extra]], *commands[extra])
    assert done.returncode in (1, 2), done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("statewise: ")
    assert f"install statewise[{extra}]" in line


def test_without_flint_a_search_says_what_it_left_out(python):
    program = """
import torch
import statewise as sw
from statewise.theory.certify.drift import search_by_drift
from statewise.theory import network_of

run = sw.compile("parity", run=10)
print(search_by_drift(network_of(run.model), run.machine).skipped)
"""
    done = python(["flint"], "-c", program)
    assert "statewise[certify]" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("plots", ["evaluate", "run", "--lengths", "5", "--plot", "scores.png"]),
        ("learn", ["learn", "words.csv", "--method", "rpni"]),
        ("parquet", ["runs", "store", "--out", "runs.parquet"]),
        ("tensorboard", ["train", "--task", "parity", "--model", "full", "--steps", "4", "--tensorboard"]),
    ],
)
def test_an_extra_works_without_the_others(python, store, tmp_path, extra, command):
    others = [package for name, package in EXTRAS.items() if name != extra] + ["flint"]
    given = [store / part if (store / part).exists() else part for part in command]
    given = [tmp_path / part if str(part).endswith((".png", ".parquet")) else part for part in given]
    out = ["--out", tmp_path / "out"] if command[0] in ("learn", "train") else []
    done = statewise(python, others, *given, *out)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir())
