"""One way to make a figure: the same size and type everywhere, no window, PNG or SVG."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from statewise.errors import RunError, shorten
from statewise.files import cannot_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check_figure_file(file: Path) -> None:
    """Refuse a file that is no picture before any work is done for it."""
    if file.suffix not in (".png", ".svg"):
        raise RunError(f'"{shorten(file)}" is not a .png or .svg file; choose one of these endings')


@contextmanager
def figure_of(file: Path) -> "Iterator[Axes]":
    """Yield axes to draw on, and write them to the file at the end."""
    with panels_of(file, 1) as (axes,):
        yield axes


@contextmanager
def panels_of(file: Path, count: int) -> "Iterator[list[Axes]]":
    """Yield axes side by side, which share their height, and write them to the file at the end."""
    check_figure_file(file)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    width = 6.4 if count == 1 else 4.2 * count
    figure, grid = pyplot.subplots(1, count, figsize=(width, 3.6), layout="constrained", sharey=True, squeeze=False)
    panels = list(grid[0])
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    try:
        yield panels
        file.parent.mkdir(parents=True, exist_ok=True)
        # without a time and random names, the same numbers give the same file
        dated = {"Date": None} if file.suffix == ".svg" else None
        with pyplot.rc_context({"svg.hashsalt": "statewise"}):
            figure.savefig(file, dpi=150, metadata=dated)
    except OSError as error:
        raise cannot_write(file, error) from None
    finally:
        pyplot.close(figure)
