"""The command line: one file per group of commands, each command an ordinary typed function.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 a run or check failed, 2 the call was wrong,
130 interrupted. Modules that need torch are imported only by the commands that use them.
"""

import os
import sys
from typing import Annotated

import typer

from statewise import __version__
from statewise.cli.bench import bench
from statewise.cli.compile import compile_command
from statewise.cli.demo import demo
from statewise.cli.exact import certify, extract, snap
from statewise.cli.learn import learn_command
from statewise.cli.machine import machine
from statewise.cli.parity import demo_parity
from statewise.cli.report import report
from statewise.cli.reproduce import reproduce
from statewise.cli.runs import runs, store_app
from statewise.cli.sweep import sweep_command
from statewise.cli.train import evaluate, train
from statewise.errors import StatewiseError

app = typer.Typer(
    name="statewise",
    help="Bilinear recurrent networks, and the finite-state machines that they track.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command("demo-parity")(demo_parity)
app.command()(machine)
app.command()(train)
app.command("eval")(evaluate)
app.command("compile")(compile_command)
app.command("learn")(learn_command)
app.command()(extract)
app.command()(certify)
app.command()(snap)
app.command("sweep")(sweep_command)
app.command()(reproduce)
app.command()(report)
app.command()(runs)
app.add_typer(store_app, name="store")
app.command()(bench)


@app.callback(invoke_without_command=True)
def _group(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Runs the command line; a caller's mistake becomes one line on stderr and its exit code."""
    # a terminal that cannot show a character shows a question mark
    sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        code = app(standalone_mode=False)
    except StatewiseError as error:
        code = _fail(str(error), error.exit_code)
    except typer.exceptions.TyperException as error:
        code = _fail(error.format_message(), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except MemoryError:
        code = _fail("there is not enough memory for this; use smaller sizes", 1)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        code = _fail("there is not enough memory for this; use smaller sizes", 1)
    except BrokenPipeError:
        # the reader went away; nothing more can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"statewise: {line}" if line else "statewise: see statewise --help", file=sys.stderr)
    return code
