"""The front door: every command is a function, with the same name, parameters and defaults, and a typed result."""

import inspect
import json
import subprocess
import sys

import pytest
import typer

import statewise as sw
from statewise.errors import StatewiseError
from statewise.wording import Result
from tests.command import statewise

SURFACE = [
    "BilinearRNN",
    "LabelledWords",
    "Lengths",
    "LinearTransition",
    "Machine",
    "Record",
    "Run",
    "SequenceModel",
    "StateTracker",
    "StatewiseError",
    "Task",
    "Transition",
    "__version__",
    "bench",
    "certify",
    "compare",
    "compile",
    "demo",
    "demo_parity",
    "describe",
    "evaluate",
    "extract",
    "learn",
    "load",
    "machine",
    "merge",
    "report",
    "reproduce",
    "runs",
    "snap",
    "sweep",
    "train",
]
# what the command line calls otherwise, as flags are given once for each value
RENAMED = {"compare": {"tasks": "task", "models": "model"}}
# the command line keeps what it makes in a directory; Python may have it in memory
REQUIRED = {"train": ["out"], "compile": ["out"], "extract": ["out"], "snap": ["out"], "learn": ["out"]}


def test_the_surface_is_pinned():
    assert sorted(sw.__all__) == sorted(SURFACE)
    for name in SURFACE:
        assert getattr(sw, name) is not None
    assert set(SURFACE) <= set(dir(sw))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = sw.trian


@pytest.mark.parametrize("room", ["theory", "theory.certify", "models", "tasks", "training", "runs", "machines"])
def test_rooms_export_their_public_names(room):
    program = f"import statewise.{room} as room\nfor name in room.__all__: getattr(room, name)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_import_needs_no_torch_and_machines_work_without_it():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import statewise as sw\n"
        "assert sw.machine('parity').answer([1, 1, 0, 1]) == 1\n"
        "assert 'parity' in str(sw.describe('parity'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_python_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "statewise", "--version"], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == sw.__version__


@pytest.mark.parametrize("name", ["bench", "report", "runs", "sweep"])
def test_rooms_that_are_commands_can_be_called(name):
    """Importing the package must not hide the command."""
    program = (
        f"import inspect, statewise.{name}, statewise as sw\n"
        f"assert callable(sw.{name}) and inspect.ismodule(sw.{name})\n"
        f"print(list(inspect.signature(sw.{name}).parameters))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    command = getattr(__import__(f"statewise.commands.{name}", fromlist=[name]), name)
    assert done.stdout.strip() == str(list(inspect.signature(command).parameters))


def commands():
    """Every command of the command line, and the function behind it."""
    from statewise.cli import app

    shown = {"machine": "describe", "demo-parity": "demo_parity"}
    names = [info.name for info in app.registered_commands if not info.hidden]
    return [(name, shown.get(name, name)) for name in names]


@pytest.mark.parametrize(("command", "function"), commands())
def test_commands_and_functions_have_the_same_parameters_and_defaults(command, function):
    from statewise.cli import app

    options = {
        p.name: p for p in typer.main.get_command(app).commands[command].params if p.name not in ("help", "json")
    }
    parameters = inspect.signature(getattr(sw, function)).parameters
    taken = {name: p for name, p in parameters.items() if name != "show"}
    assert options.keys() == taken.keys()
    for name, p in taken.items():
        required = p.default is p.empty or name in REQUIRED.get(command, ())
        assert options[name].required == required, name
        flag = RENAMED.get(command, {}).get(name, name).replace("_", "-")
        assert options[name].param_type_name == "argument" or options[name].opts == [f"--{flag}"]
        assert getattr(options[name], "help", None), f"--{flag} has no help"
        if not required:
            given = options[name].default
            default = ",".join(map(str, p.default)) if isinstance(p.default, tuple) else p.default
            assert given == default or str(given) == str(default), name


def test_results_print_as_the_command_and_are_its_json(tmp_path):
    for arguments, result in [
        (["machine", "tomita(3)"], sw.describe("tomita(3)")),
        (["compile", "symmetric(3)", "--run", "100", "--out", tmp_path / "a"], None),
    ]:
        if result is None:
            result = sw.compile("symmetric(3)", run=100, out=tmp_path / "b")
            shown = str(result).replace(str(tmp_path / "b"), str(tmp_path / "a"))
            written = result.to_dict() | {"run": str(tmp_path / "a")}
        else:
            shown, written = str(result), result.to_dict()
        assert isinstance(result, Result)
        assert statewise(*arguments).stdout.rstrip("\n") == shown
        again = [str(a).replace(str(tmp_path / "a"), str(tmp_path / "c")) for a in arguments]
        json_written = json.loads(statewise(*again, "--json").stdout)
        assert json_written | {"run": 0} == json.loads(json.dumps(written)) | {"run": 0}


def test_results_cannot_be_changed():
    facts = sw.describe("parity")
    with pytest.raises(AttributeError):
        facts.machine = None


def test_runs_machines_and_models_are_values_names_classes_or_paths(tmp_path):
    from examples.own_model import RunningMean

    m = sw.machine("parity")
    small = {"steps": 20, "hidden": 8, "late": 0}
    for task, model in [
        (m, "full"),
        ("parity", "full"),
        (m, RunningMean),
        ("parity", "examples/own_model.py:RunningMean"),
    ]:
        run = sw.train(task, model, **small, config={"words": 20})
        assert [score.count for score in sw.evaluate(run, lengths=[10], words=20).scores] == [20]
    kept = sw.train(m, RunningMean, out=tmp_path / "own", **small)
    with pytest.raises(StatewiseError, match="give that class as model"):
        sw.evaluate(tmp_path / "own", lengths=[10])
    loaded = sw.load(tmp_path / "own", model=RunningMean)
    assert sw.evaluate(loaded, lengths=[10]).scores == sw.evaluate(kept, lengths=[10]).scores
    assert loaded.record == kept.record
    assert sw.certify(sw.compile("parity", run=10), "parity").status == "proven"


def test_bad_classes_get_one_sentence():
    from torch import nn

    class Wrong(nn.Module):
        def __init__(self, symbols, classes, hidden):
            super().__init__()
            self.read = nn.Embedding(symbols, classes)

        def forward(self, tokens):
            return self.read(tokens)[:, -1]

    class Sizeless(nn.Module):
        pass

    with pytest.raises(StatewiseError, match="expected logits \\[batch, time, classes\\]"):
        sw.train("parity", Wrong, steps=2)
    with pytest.raises(StatewiseError, match="__init__\\(symbols, classes, hidden"):
        sw.train("parity", Sizeless, steps=2)
    with pytest.raises(StatewiseError, match=r"no class derived from torch\.nn\.Module"):
        sw.train("parity", int, steps=2)
    with pytest.raises(StatewiseError, match="is no file"):
        sw.train("parity", "none.py:Net", steps=2)
