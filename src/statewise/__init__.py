"""statewise: recurrent networks bilinear in input and hidden state, and the finite-state machines that they track.

    m = sw.machine("modular_addition(5)")                # a machine: by name, or a .dot or .json file
    run = sw.train(m, "full", out="run1")                # a network that was trained to track it
    print(sw.evaluate(run, lengths=[10, 500, 10_000]))   # accuracy and score per length
    print(sw.certify(run))                               # proven, refuted by a word, or right up to a horizon
    fine = sw.polish(run, out="run2")                    # the same network, solved to machine precision
    exact = sw.snap(run, out="run3")                     # its machine put into the weights: proven at every length
    net = sw.compile("symmetric(5)")                     # exact weights, no training

Every command of the command line is a function here, with the same parameters and defaults; what it returns prints as
the command does, and its `to_dict()` is the command's `--json`. Whatever takes a machine takes its name too; whatever
takes a run takes its directory too, or `STORE#KEY`; a model is a name or a class. `BilinearRNN` is the layer, with
nn.LSTM's conventions. Names that need torch are imported when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from statewise.errors import StatewiseError
from statewise.machines import Machine, machine
from statewise.rooms import lazy_names, need_torch

if TYPE_CHECKING:
    from statewise.commands.bench import bench
    from statewise.commands.certify import certify
    from statewise.commands.check import check
    from statewise.commands.check_model import check_model
    from statewise.commands.check_store import check_store
    from statewise.commands.compare import compare
    from statewise.commands.compile import compile
    from statewise.commands.demo import demo
    from statewise.commands.demo_parity import demo_parity
    from statewise.commands.describe import describe
    from statewise.commands.doctor import doctor
    from statewise.commands.export import export
    from statewise.commands.extract import extract, snap
    from statewise.commands.ladder import ladder
    from statewise.commands.learn import learn
    from statewise.commands.machines import machines
    from statewise.commands.models import models
    from statewise.commands.polish import polish
    from statewise.commands.report import report
    from statewise.commands.reproduce import reproduce
    from statewise.commands.runs import merge, runs
    from statewise.commands.sample import sample
    from statewise.commands.sweep import sweep
    from statewise.commands.track import track
    from statewise.commands.train import evaluate, train
    from statewise.models import BilinearRNN, SequenceModel, StateTracker
    from statewise.runs import Record, Run
    from statewise.store import load
    from statewise.tasks import Lengths, Task
    from statewise.theory.learning.labelled import LabelledWords
    from statewise.transitions import LinearTransition, Transition

__version__ = "0.1.0"

_HOMES = {
    "commands.check_model": ("check_model",),
    "commands.check_store": ("check_store",),
    "commands.compare": ("compare",),
    "commands.compile": ("compile",),
    "commands.demo": ("demo",),
    "commands.demo_parity": ("demo_parity",),
    "commands.describe": ("describe",),
    "commands.doctor": ("doctor",),
    "commands.certify": ("certify",),
    "commands.check": ("check",),
    "commands.extract": ("extract", "snap"),
    "commands.ladder": ("ladder",),
    "commands.learn": ("learn",),
    "commands.polish": ("polish",),
    "commands.reproduce": ("reproduce",),
    "commands.runs": ("merge",),
    "commands.sample": ("sample",),
    "commands.track": ("track",),
    "commands.train": ("evaluate", "train"),
    "models": ("BilinearRNN", "SequenceModel", "StateTracker"),
    "runs.record": ("Record",),
    "runs.run": ("Run",),
    "store.stored_runs": ("load",),
    "tasks": ("Lengths", "Task"),
    "theory.learning.labelled": ("LabelledWords",),
    "transitions": ("LinearTransition", "Transition"),
}
# rooms of the package whose names are commands too: the room itself can be called
_ROOMS = ("bench", "export", "machines", "models", "report", "runs", "sweep")
_find, _ = lazy_names(__name__, _HOMES)

__all__ = [
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


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"statewise.{name}")
    if name in __all__:
        need_torch(name)
    return _find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
