"""The command line: a thin shell around the functions of `statewise.commands`.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 a run or check failed, 2 the call was wrong, 130
interrupted by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. Modules that need torch are
imported only by the commands that use them.
"""

import logging
import sys
from typing import Annotated

import typer

from statewise import __version__
from statewise.cli.groups import Entry, Grouped
from statewise.cli.shell import command, fail
from statewise.cli.streams import guard_streams
from statewise.commands.bench import bench
from statewise.commands.certify import certify
from statewise.commands.check import check
from statewise.commands.check_model import check_model
from statewise.commands.check_store import check_store
from statewise.commands.compare import compare
from statewise.commands.compile import compile as compile_machine
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
from statewise.errors import StatewiseError, TorchMissingError, shorten
from statewise.files import FULL, reason_of
from statewise.interruption import Interrupted, listen
from statewise.rooms import torch_missing
from statewise.wording import visible

app = typer.Typer(
    name="statewise",
    help="Bilinear recurrent networks, and the finite-state machines that they track.",
    cls=Grouped,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for group, entries in {
    "Start": [
        Entry("demo", demo),
        Entry("demo-parity", demo_parity),
        Entry("machines", machines),
        Entry("models", models),
        Entry("machine", describe, ["machine"]),
        Entry("doctor", doctor),
    ],
    "Train and evaluate": [
        Entry("train", train, required=["out"]),
        Entry("evaluate", evaluate, ["run"]),
        Entry("sample", sample, ["machine"]),
    ],
    "Compare architectures": [
        Entry("compare", compare, names={"tasks": "task", "models": "model"}, required=["models"]),
        Entry("ladder", ladder, names={"models": "model"}),
        Entry("check-model", check_model, ["model"]),
    ],
    "Exact networks and proofs": [
        Entry("compile", compile_machine, ["machine"], required=["out"]),
        Entry("certify", certify, ["run"]),
        Entry("check", check, ["cert", "run"]),
        Entry("polish", polish, ["run"], required=["out"]),
        Entry("extract", extract, ["run"], required=["out"]),
        Entry("snap", snap, ["run"], required=["out"]),
        Entry("learn", learn, ["words"], required=["out"]),
    ],
    "Use elsewhere": [
        Entry("export", export, ["run"]),
        Entry("track", track, ["run"]),
    ],
    "Many runs": [
        Entry("sweep", sweep, ["file"]),
        Entry("runs", runs, ["store"]),
        Entry("report", report, ["store"]),
        Entry("reproduce", reproduce, ["name"]),
        Entry("bench", bench, ["name"]),
    ],
}.items():
    for entry in entries:
        app.command(entry.name, rich_help_panel=group)(entry.made)
app.command("eval", hidden=True)(command(evaluate, ["run"]))
store = typer.Typer(help="Merge stores, or check one.", cls=Grouped, no_args_is_help=True, rich_markup_mode=None)
store.command("merge")(command(merge, ["into", "sources"]))
store.command("check")(command(check_store, ["store"]))
app.add_typer(store, name="store", rich_help_panel="Many runs")


@store.callback()
def _store() -> None:
    """Merge stores, or check one."""


@app.callback(invoke_without_command=True)
def _group(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


class _Visible(logging.Formatter):
    """Messages as a terminal may be sent them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def main() -> None:
    """Run the command line; a caller's mistake becomes one line on stderr and its exit code."""
    guard_streams()
    listen()
    # what takes a while without progress is said on stderr
    said = logging.StreamHandler(sys.stderr)
    said.setFormatter(_Visible("%(message)s"))
    logging.basicConfig(handlers=[said])
    logging.getLogger("statewise").setLevel(logging.INFO)
    # a user's own package is found beside the user, as with python -m
    sys.path.insert(0, "")
    try:
        code = app(standalone_mode=False, prog_name="statewise")
        sys.stdout.flush()
    except StatewiseError as error:
        code = fail(str(error), error.exit_code)
    except typer.exceptions.TyperException as error:
        code = fail(error.format_message(), error.exit_code)
    except (typer.Abort, KeyboardInterrupt) as error:
        stop = error if isinstance(error, Interrupted) else Interrupted()
        code = fail(str(stop), stop.exit_code)
    except MemoryError:
        code = fail("there is not enough memory for this; use smaller sizes", 1)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        code = fail("there is not enough memory for this; use smaller sizes", 1)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        code = fail(torch_missing("this command"), TorchMissingError.exit_code)
    except BrokenPipeError:
        # the reader went away
        code = 1
    except OSError as error:
        if error.errno not in FULL:
            raise
        where = "" if error.filename is None else f' "{shorten(error.filename)}"'
        code = fail(f"cannot write{where}: {reason_of(error)}; what is there stays; make room", 1)
    sys.exit(code if isinstance(code, int) else 0)
