"""The front door: every command is a function, with the same name, parameters and defaults, and a typed result."""

import inspect
import json
import subprocess
import sys

import pytest
import torch
import typer
from torch import nn

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
    "check",
    "check_model",
    "check_store",
    "compare",
    "compile",
    "demo",
    "demo_parity",
    "describe",
    "doctor",
    "evaluate",
    "export",
    "extract",
    "ladder",
    "learn",
    "load",
    "machine",
    "machines",
    "merge",
    "models",
    "polish",
    "report",
    "reproduce",
    "runs",
    "sample",
    "snap",
    "sweep",
    "track",
    "train",
]
# what the command line calls otherwise, as flags are given once for each value
RENAMED = {"compare": {"tasks": "task", "models": "model"}, "ladder": {"models": "model"}}
# the command line keeps what it makes in a directory; Python may have it in memory
REQUIRED = {
    "compare": ["models"],
    "train": ["out"],
    "compile": ["out"],
    "extract": ["out"],
    "snap": ["out"],
    "learn": ["out"],
    "polish": ["out"],
}


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


@pytest.mark.parametrize("name", ["bench", "export", "machines", "models", "report", "runs", "sweep"])
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

    shown = {"machine": "describe", "demo-parity": "demo_parity", "check-model": "check_model"}
    names = [info.name for info in app.registered_commands if not info.hidden]
    return [(name, shown.get(name, name)) for name in names]


@pytest.mark.parametrize(("command", "function"), commands())
def test_commands_and_functions_have_the_same_parameters_and_defaults(command, function):
    from statewise.cli import app

    options = {
        p.name: p for p in typer.main.get_command(app).commands[command].params if p.name not in ("help", "json")
    }
    parameters = inspect.signature(getattr(sw, function)).parameters
    taken = {name: p for name, p in parameters.items() if name not in ("show", "write")}
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
    at_ten = sw.evaluate(tmp_path / "own", lengths=[10], model=RunningMean)
    assert at_ten.scores == sw.evaluate(kept, lengths=[10]).scores
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


def test_machines_without_a_name_of_their_own_are_different_runs(tmp_path):
    flip, stay = sw.Machine([[0, 1], [1, 0]]), sw.Machine([[0, 1], [0, 1]])
    named = sw.machine("parity").replace(name="traffic light, v2!")
    runs = [sw.train(m, "full", steps=2, hidden=4, out=tmp_path / str(n)) for n, m in enumerate([flip, stay, named])]
    keys = {run.options.key() for run in runs}
    assert len(keys) == 3
    merged = sw.merge(tmp_path / "store", [run.path for run in runs])
    assert merged.to_dict()["total"] == 3
    assert sw.train(sw.machine("parity"), "full", steps=2, hidden=4).options.machine is None


def test_a_run_is_found_from_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sw.train("parity", "full", steps=2, hidden=4, out="here")
    run = sw.load("here")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.model is not None
    assert run.to_dict()["run"] == "here"


class Tied(nn.Module):
    """Shares one weight between its embedding and its readout, counts in whole numbers, and drops out."""

    def __init__(self, symbols, classes, hidden):
        super().__init__()
        self.register_buffer("places", torch.arange(8))
        self.embed, self.read = nn.Embedding(symbols, hidden), nn.Linear(hidden, classes, bias=False)
        self.read.weight = self.embed.weight
        self.drop = nn.Dropout(0.5)

    def forward(self, tokens):
        return self.read(self.drop(self.embed(tokens).cumsum(dim=1)))


def test_models_with_tied_weights_buffers_and_dropout_are_kept_and_repeatable(tmp_path):
    first, second = (sw.train("parity", Tied, steps=20, hidden=4, out=tmp_path / name) for name in ("a", "b"))
    assert first.record.loss == second.record.loss
    again = sw.load(tmp_path / "a", model=Tied)
    assert sw.evaluate(again, lengths=[10]).scores == sw.evaluate(first, lengths=[10]).scores


def test_a_model_that_cannot_be_trained_leaves_nothing_behind(tmp_path):
    class Crash(Tied):
        def forward(self, tokens):
            raise KeyError("typo")

    class Lies(Tied):
        def init_state(self, batch):
            return torch.zeros(batch)

        def advance(self, tokens, state):
            return torch.randn(len(tokens), 2), state

    class Whole(Lies):
        def advance(self, tokens, state):
            return self(tokens), state

    for made, message in ((Crash, "KeyError"), (Lies, "disagree"), (Whole, "after the last token|advance")):
        with pytest.raises(StatewiseError, match=message):
            sw.train("parity", made, steps=2, hidden=4, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_network_that_diverged_is_not_evaluated():
    run = sw.train("parity", "full", steps=50, hidden=8, lr=1e30, readout="plain")
    assert run.failed
    with pytest.raises(StatewiseError, match="diverged"):
        sw.evaluate(run, lengths=[10])


def test_comparisons_show_what_diverged_and_what_cannot_be_read(tmp_path):
    class Explodes(Tied):
        """Finite as it is built, and infinite once a weight has moved."""

        def __init__(self, symbols, classes, hidden):
            super().__init__(symbols, classes, hidden)
            self.register_buffer("first", self.read.weight.detach().clone())

        def forward(self, tokens):
            return super().forward(tokens) * torch.exp(1e9 * (self.read.weight - self.first).abs().max())

    table = sw.compare("parity", ["diagonal", "transformer", Explodes], seeds=1, steps=5, lengths=[10, 2_000], hidden=8)
    by_model = {cell.model.rpartition(":")[2]: cell for cell in table.cells}
    assert by_model["Explodes"].diverged == 1
    assert "1 diverged" in str(table)
    assert list(by_model["transformer"].scores) == [10]
    with pytest.raises(StatewiseError, match="unknown model"):
        sw.compare(["parity"], ["diagonal", "nope"], steps=5, store=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "call",
    [
        lambda: sw.evaluate("none", lengths=[20.5, "x"]),
        lambda: sw.certify("none", seconds=None),
        lambda: sw.describe(5),
        lambda: sw.load(3),
        lambda: sw.compare(["parity"], ["full"], seeds=[0, 1]),
        lambda: sw.runs("none", limit=None),
        lambda: sw.train("parity", "full", steps=-5),
    ],
)
def test_arguments_of_the_wrong_kind_get_one_sentence(call):
    """As a user calls them: the checks of shapes and types that tests install would answer first."""
    import inspect as source
    import textwrap

    text = textwrap.dedent(source.getsource(call)).strip().rstrip(",").partition("lambda: ")[2]
    program = f"import statewise as sw\ntry: {text}\nexcept sw.StatewiseError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().splitlines()) == 1
