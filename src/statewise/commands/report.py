"""`statewise report`: one page about all runs of a store."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.commands.inputs import PathLike, path_of, torch_threads
from statewise.errors import RunError, shorten
from statewise.wording import Lines, Result, counted

if TYPE_CHECKING:
    from statewise.store import Store


@dataclass(frozen=True)
class WrittenReport(Result):
    """A page that was written.

    Args:
        path: of the page.
        runs: how many it is about.
        folder: where figures were written; None if none were asked for.
        figures: their files.
    """

    path: Path
    runs: int
    folder: Path | None = None
    figures: tuple[Path, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the files, and the number of runs."""
        return {"report": str(self.path), "runs": self.runs, "figures": [str(file) for file in self.figures]}

    def lines(self) -> Lines:
        """Return the files, and the number of runs, for a reader."""
        lines = [("report", str(self.path)), ("runs", f"{self.runs:,}")]
        if self.folder is not None:
            lines.append(("figures", f"{counted(len(self.figures), 'file')} in {self.folder}"))
        return lines


def report(store: PathLike, out: PathLike, preset: str = "quick", figures: PathLike | None = None) -> WrittenReport:
    """Write one self-contained page about all runs of a store.

    Args:
        store: the directory of a store
        out: write the page to this .html file
        preset: fill the paper's tables with the runs of this preset
        figures: write tables and figures as CSV, LaTeX, PNG and SVG there
    """
    page, folder = Path(out), path_of(figures)
    if page.suffix not in (".html", ".htm"):
        raise RunError(f'"{shorten(page)}" is not an .html file; choose this ending')
    if folder is not None and folder.exists() and not folder.is_dir():
        raise RunError(f'"{shorten(folder)}" is a file, and figures need a directory; give another --figures')

    from statewise.report.many import is_large, write_many
    from statewise.store import Store

    with Store.open(Path(store)) as opened:
        runs = sum(opened.counts().values())
        files = write_many(opened, page, folder) if is_large(opened) else _write_all(opened, page, preset, folder)
    return WrittenReport(page, runs, folder, tuple(files))


def _write_all(store: "Store", page: Path, preset: str, folder: Path | None) -> list[Path]:
    """Write the page that shows every run, and all figures."""
    from statewise.report.page import write_page
    from statewise.report.paper_files import write_figures
    from statewise.report.result_files import write_results

    # what a page computes is small, and more threads would wait for each other beside a sweep
    with torch_threads(1):
        write_page(store, page, preset)
        return [] if folder is None else [*write_results(store, folder), *write_figures(store, preset, folder)]
