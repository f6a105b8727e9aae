"""`statewise report`: one page about all runs of a store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewise.cli.show import show
from statewise.errors import RunError, shorten
from statewise.wording import counted

if TYPE_CHECKING:
    from statewise.store import Store


def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The directory of a store.")],
    out: Annotated[Path, typer.Option(help="Write the page to this .html file.")],
    preset: Annotated[str, typer.Option(help="Fill the paper's tables with the runs of this preset.")] = "quick",
    figures: Annotated[Path | None, typer.Option(help="Write tables and figures as PNG, SVG and CSV there.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write one self-contained page about all runs of a store."""
    if out.suffix not in (".html", ".htm"):
        raise RunError(f'"{shorten(out)}" is not an .html file; choose this ending')
    if figures is not None and figures.exists() and not figures.is_dir():
        raise RunError(f'"{shorten(figures)}" is a file, and figures need a directory; give another --figures')

    import torch

    from statewise.report.page import write_page
    from statewise.store import Store

    # what a page computes is small, and more threads would wait for each other beside a sweep
    torch.set_num_threads(1)
    with Store.open(store) as opened:
        write_page(opened, out, preset)
        files = [] if figures is None else _write_figures(opened, preset, figures)
        runs = sum(opened.counts().values())
    lines = [("report", str(out)), ("runs", f"{runs:,}")]
    lines += [] if figures is None else [("figures", f"{counted(len(files), 'file')} in {figures}")]
    show({"report": str(out), "runs": runs, "figures": list(map(str, files))}, json, lines)


def _write_figures(store: "Store", preset: str, out: Path) -> list[Path]:
    """Writes what the store has runs for."""
    from statewise.papers import read_paper, table_of
    from statewise.papers.table import recorded
    from statewise.report.paper_files import parts_of, write_table

    paper, files = read_paper(), []
    names = [name for name in paper.names() if paper.trained(name)]
    wanted = {(config["task"], config["model"]) for name in names for config in paper.runs(name, preset)}
    # a store may hold many more, and each is unpacked anew when it is read
    records = [r for r in store.records() if (r["config"].get("task"), r["config"].get("model")) in wanted]
    for name in names:
        if recorded(paper, name, preset, records):
            table = table_of(paper, name, preset, records)
            files += write_table(table, parts_of(table, store), out)
    return files
