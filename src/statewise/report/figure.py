"""One way to make a figure: the same size and type everywhere, no window, PNG or SVG."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewise.errors import RunError, ToolMissingError, shorten
from statewise.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# letters of a name that a legend or a title has room for
_LONGEST_NAME = 60


def check_figure_file(file: Path) -> None:
    """Refuse a file that is no picture, or that nothing can draw, before any work is done for it."""
    if file.suffix not in (".png", ".svg"):
        raise RunError(f'"{shorten(file)}" is not a .png or .svg file; choose one of these endings')
    pyplot_for_files()


def plain_text(name: str) -> str:
    """Return a name as a figure shows it: in one line, short, and neither formula nor hidden from the legend."""
    shown = shorten(name, _LONGEST_NAME).replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


@contextmanager
def figure_of(file: Path) -> "Iterator[Axes]":
    """Yield axes to draw on, and write them to the file at the end."""
    with panels_of(file, 1) as (axes,):
        yield axes


@contextmanager
def picture_of(file: Path, size: tuple[float, float]) -> "Iterator[Axes]":
    """Yield one pair of axes that fills a picture of a size in inches, and write it to the file at the end."""
    with _figure_of([file], 1, 1, size) as (axes,):
        yield axes


@contextmanager
def panels_of(
    file: Path, count: int, rows: int = 1, also: Path | None = None, shared: bool = True
) -> "Iterator[list[Axes]]":
    """Yield axes side by side, in one row or several, and write them to the file at the end.

    Args:
        file: a .png or .svg file.
        count: how many there are.
        rows: in how many rows; places that are left over stay empty.
        also: a second such file with the same picture.
        shared: whether all have one vertical scale.
    """
    across = math.ceil(count / rows)
    files = [file] if also is None else [file, also]
    size = (6.4 if count == 1 else 4.2 * across, 3.6 * rows)
    with _figure_of(files, count, rows, size, shared) as panels:
        yield panels


def pyplot_for_files() -> Any:
    """Import what draws, for files only."""
    try:
        import matplotlib
    except ImportError:
        raise ToolMissingError(
            "figures need the package matplotlib, which is not installed; install statewise[plots]"
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


@contextmanager
def _figure_of(
    files: Sequence[Path], count: int, rows: int, size: tuple[float, float], shared: bool = True
) -> "Iterator[list[Axes]]":
    for one in files:
        check_figure_file(one)
    pyplot = pyplot_for_files()

    across = math.ceil(count / rows)
    figure, grid = pyplot.subplots(rows, across, figsize=size, layout="constrained", sharey=shared, squeeze=False)
    panels = list(grid.flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[count:]:
        axes.set_axis_off()
    file = files[0]
    try:
        yield panels[:count]
        for file in files:
            # without a time and random names, the same numbers give the same file
            dated = {"Date": None} if file.suffix == ".svg" else None
            with whole_file(file) as stream, pyplot.rc_context({"svg.hashsalt": "statewise"}):
                figure.savefig(stream, format=file.suffix[1:], dpi=150, metadata=dated)
            # the next file has the same picture, which is laid out already
            figure.set_layout_engine("none")
    finally:
        pyplot.close(figure)
