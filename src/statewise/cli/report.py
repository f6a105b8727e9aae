"""`statewise report`: one page about all runs of a store."""

from pathlib import Path
from typing import Annotated

import typer

from statewise.cli.show import show
from statewise.errors import RunError, shorten


def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The directory of a store.")],
    out: Annotated[Path, typer.Option(help="Write the page to this .html file.")],
    preset: Annotated[str, typer.Option(help="Fill the paper's tables with the runs of this preset.")] = "quick",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write one self-contained page about all runs of a store."""
    if out.suffix not in (".html", ".htm"):
        raise RunError(f'"{shorten(out)}" is not an .html file; choose this ending')

    import torch

    from statewise.report.page import write_page
    from statewise.store import Store

    # what a page computes is small, and more threads would wait for each other beside a sweep
    torch.set_num_threads(1)
    with Store.open(store) as opened:
        write_page(opened, out, preset)
        runs = sum(opened.counts().values())
    show({"report": str(out), "runs": runs}, json, [("report", str(out)), ("runs", f"{runs:,}")])
