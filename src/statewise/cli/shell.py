"""Commands from functions: flags, defaults and help are those of the function's signature and docstring."""

import inspect
import json as json_module
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from statewise.commands.inputs import (
    MachineLike,
    PathLike,
    SharesLike,
    SymbolsLike,
    SystemLike,
    WordsLike,
    numbers_of,
)
from statewise.errors import StoppedError
from statewise.interruption import Interrupted
from statewise.runs.run import RunLike
from statewise.theory.learning.labelled import LabelledWords
from statewise.wording import Result, visible

# what a function takes, and what the command line has instead: a type, and how a reader calls it
_TYPES: list[tuple[Any, Any, str | None]] = [
    (MachineLike, str, "MACHINE"),
    (RunLike, Path, "RUN"),
    (PathLike, Path, None),
    (int | PathLike, str, "N|FILE"),
    (int | WordsLike, str, "N|FILE"),
    (WordsLike, Path, "FILE"),
    (SharesLike, str, "X,X,X"),
    (SystemLike, str, "CMD"),
    (SymbolsLike, str, "A,B,..."),
    (str | type, str, "NAME"),
    (Sequence[int], str, "N,N,..."),
    (PathLike | LabelledWords | Sequence[tuple], Path, "FILE"),
    (Sequence[MachineLike], list[str], "MACHINE"),
    (Sequence[str | type], list[str], "NAME"),
    (Sequence[PathLike], list[Path], None),
]
_METAVARS = {str: "TEXT", int: "N", float: "X", Path: "PATH", list[str]: "TEXT", list[Path]: "PATH"}
_NOT_OPTIONS = ("show", "write")


def command(
    function: Callable[..., Result],
    arguments: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    required: Sequence[str] = (),
) -> Callable[..., None]:
    """Make a command of a function: call it, print its result as a table or as JSON, exit with 1 if it failed.

    Args:
        function: its docstring's `Args` are the help of its flags; a parameter without a default is required.
        arguments: parameters that are positional on the command line; all others are flags.
        names: of flags that are called otherwise than their parameters.
        required: parameters that Python may leave out, since it has the result in memory, and a command may not.
    """
    signature = inspect.signature(function)
    summary, helps = _documented(function)
    parameters = [p for p in signature.parameters.values() if p.name not in _NOT_OPTIONS]
    parameters = [p.replace(default=p.empty) if p.name in required else p for p in parameters]
    made = [_parameter(p, helps.get(p.name, ""), p.name in arguments, (names or {}).get(p.name)) for p in parameters]
    as_json = inspect.Parameter(
        "json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="print one JSON object")],
    )

    def run(**given: Any) -> None:
        show_json = given.pop("json")
        # what is written as it comes is the result
        streams = "write" in signature.parameters
        if streams and not show_json:
            given["write"] = _write_now
        for p in parameters:
            if _kind(p.annotation)[0] == Sequence[int] and isinstance(given[p.name], str):
                given[p.name] = numbers_of(p.name, given[p.name])
        try:
            if streams:
                result = function(**given)
            else:
                from statewise.cli.progress import progress_of

                with progress_of(function.__name__) as show:
                    result = function(**given, **({"show": show} if "show" in signature.parameters else {}))
        except KeyboardInterrupt as stop:
            # the parser of the command line would end in silence
            stopped = stop if isinstance(stop, Interrupted) else Interrupted()
            raise StoppedError(str(stopped), stopped.exit_code) from None
        if show_json or not streams:
            # the escapes are those of JSON, too
            print(visible(json_module.dumps(result.to_dict(), ensure_ascii=False) if show_json else str(result)))
        if result.failed:
            raise typer.Exit(1)

    # a signature has parameters without a default first
    ordered = sorted(made, key=lambda p: p.default is not inspect.Parameter.empty)
    run.__signature__ = signature.replace(  # pyright: ignore[reportFunctionMemberAccess]
        parameters=[*ordered, as_json], return_annotation=None
    )
    run.__doc__, run.__name__ = summary, function.__name__
    return run


def _parameter(p: inspect.Parameter, text: str, positional: bool, name: str | None) -> inspect.Parameter:
    _, shown, metavar = _kind(p.annotation)
    has_default = p.default is not inspect.Parameter.empty
    default = p.default
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    elif isinstance(default, str) and shown is Path:
        default = Path(default)
    kwargs: dict[str, Any] = {"help": text}
    if shown is not bool:
        kwargs["metavar"] = metavar or (p.name.upper() if positional else _METAVARS[shown])
    if positional:
        info: Any = typer.Argument(**kwargs)
    else:
        flag = f"--{(name or p.name).replace('_', '-')}"
        # a switch has no second flag that turns it off
        info = typer.Option(flag, **kwargs)
    annotation = shown | None if has_default and default is None else shown
    return inspect.Parameter(
        p.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default if has_default else inspect.Parameter.empty,
        annotation=Annotated[annotation, info],
    )


def _kind(annotation: Any) -> tuple[Any, Any, str | None]:
    """Return what a parameter is without None, and what the command line has for it."""
    parts = _parts(annotation) - {type(None)}
    for known, shown, metavar in _TYPES:
        if parts == _parts(known):
            return known, shown, metavar
    # a path may be given in place of a value that only Python has
    for known, shown, metavar in _TYPES:
        if len(_parts(known)) > 1 and _parts(known) <= parts:
            return known, shown, metavar
    (bare,) = parts
    return bare, bare, None


def _parts(annotation: Any) -> set[Any]:
    """Return the members of a union; anything else is its only member."""
    union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    return set(typing.get_args(annotation)) if union else {annotation}


def _documented(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Read the first paragraph of a docstring, and the sentences of its arguments."""
    text = inspect.getdoc(function) or ""
    head, _, rest = text.partition("\nArgs:\n")
    helps: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if not line.strip():
            break
        begun = re.match(r"    (\w+): (.*)", line)
        if begun:
            name = begun[1]
            helps[name] = begun[2].strip()
        elif name:
            helps[name] += " " + line.strip()
    return " ".join(head.split("\n\n")[0].split()), helps


def _write_now(text: str) -> None:
    sys.stdout.write(visible(text))
    sys.stdout.flush()


def fail(message: str, code: int) -> int:
    """Print a mistake as one line on stderr, and return the exit code."""
    line = visible(" ".join(message.split()))
    print(f"statewise: {line}" if line else "statewise: see statewise --help", file=sys.stderr)
    return code
